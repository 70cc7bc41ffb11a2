"""Cases that need a server: sent to one real process, of which memory, liveness and attention are watched.

A case is bad when the process dies, when its memory grows by more than the limit, or when `/healthz` does not answer in
time although the server itself is what keeps it busy.
"""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from tests.faults.cost import answer_cases, body_cases, hostile
from tests.faults.cost.case import BYTES, SECONDS, Draw, Verdict
from tests.faults.cost.watch import processor_seconds
from tests.server import ROOT, ServerProcess
from tests.workspace.building import document

LIVE: Final = ("rest", "openai", "socket", "live-provider", "live-mcp")
_WAIT: Final = 30.0
"""For the answer of one request, and for the run behind it."""
_LOOK: Final = 0.1


def write_workspace(folder: Path, url: str) -> Path:
    """An echo, an agent on the hostile model, and one whose tool is on the hostile MCP server."""
    script = """
        provider: scripted
        model: s
        capabilities: {tools: true}
        script:
          rules:
            - {match: {afterTool: remote}, reply: {text: done}}
          default: {toolCalls: [{name: remote, args: {v: x}}]}
    """
    model = (
        f"provider: openai\nmodel: m\nbaseUrl: {url}/v1\nretry: {{attempts: 1}}\nbreaker: {{failures: 1000}}\n"
        "capabilities: {tools: true, parallelTools: true, structuredOutput: true}"
    )
    files = {
        "runtime.yaml": document("Runtime", "cost", "defaultAgent: echo\noutgoing: {private: ['127.0.0.1']}"),
        "models/hostile.yaml": document("Model", "hostile", model),
        "models/scripted.yaml": document("Model", "scripted", script),
        "agents/echo.yaml": document("Agent", "echo", "backend: echo"),
        "agents/hostile.yaml": document("Agent", "hostile", "model: hostile\nclientTools: true\nmaxTurns: 2"),
        "agents/remote.yaml": document("Agent", "remote", "model: scripted\ntools: [remote]\nmaxTurns: 2"),
        "tools/remote.yaml": document("Tool", "remote", "kind: mcp\neffect: readonly\nmcp: {server: bad, tool: t0}"),
        "mcp/bad.yaml": document("McpServer", "bad", f"url: {url}/mcp\nconnectSeconds: 5\ncallSeconds: 5"),
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@dataclass
class Attention:
    """How long `/healthz` took at worst, and how much of that the server was working."""

    slowest: float = 0.0
    busy: float = 0.0


@dataclass
class Place:
    server: ServerProcess
    client: aiohttp.ClientSession
    hostile: hostile.Hostile

    async def healthy(self, seconds: float = _WAIT) -> None:
        async with self.client.get(f"{self.server.url}/healthz", timeout=aiohttp.ClientTimeout(seconds)) as answer:
            assert answer.status == 200


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Place]:
    async with hostile.running() as bad:
        workspace = write_workspace(folder / "workspace", bad.url)
        server = await asyncio.to_thread(
            ServerProcess.start, folder / "data", None, workspace, {"HOLDFAST_RATE_PER_KEY": "0"}
        )
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_WAIT)) as client:
                place = Place(server, client, bad)
                await _run(place, "remote")  # the MCP package is imported at its first use, which is not a case
                yield place
        finally:
            if server.is_running:
                server.kill()


async def run_all(place: Place, cases: Iterable[tuple[str, int]]) -> list[Verdict]:
    """Until the server dies: nothing can be said about what comes after."""
    verdicts: list[Verdict] = []
    for name, seed in cases:
        verdicts.append(await _watched(place, name, seed))
        if not place.server.is_running:
            break
    return verdicts


async def _watched(place: Place, name: str, seed: int) -> Verdict:
    pid, attention = place.server.pid, Attention()
    before = _forget_peak(pid)
    looking = asyncio.create_task(_look(place, attention))
    try:
        attack, end = await _play(place, name, Draw(name, seed))
        await place.healthy()
    except (aiohttp.ClientError, TimeoutError) as error:
        attack, end = f"seed {seed}", f"no answer: {type(error).__name__}"
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError, aiohttp.ClientError, TimeoutError):
            await looking
    if not place.server.is_running:
        return Verdict(name, seed, attack, attention.slowest, 0, end, "the server died")
    peak = max(0, _memory(pid, "VmHWM:") - before)
    problem = ""
    if attention.slowest > SECONDS and attention.busy > SECONDS / 2:
        problem = f"/healthz took {attention.slowest:.1f} s"
    elif peak > BYTES:
        problem = f"took more than {BYTES >> 20} MB"
    return Verdict(name, seed, attack, attention.slowest, peak, end, problem)


async def _look(place: Place, attention: Attention) -> None:
    while True:
        started, used = time.monotonic(), processor_seconds(place.server.pid)
        await place.healthy()
        took = time.monotonic() - started
        if took > attention.slowest:
            attention.slowest, attention.busy = took, processor_seconds(place.server.pid) - used
        await asyncio.sleep(_LOOK)


def _forget_peak(pid: int) -> int:
    """The peak counts anew from here; answers what the process holds now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return _memory(pid, "VmRSS:")


def _memory(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


async def _play(place: Place, name: str, draw: Draw) -> tuple[str, str]:
    bad = place.hostile
    bad.answer, bad.encoding, bad.endless, bad.tools, bad.result = b"", None, False, [], {}
    match name:
        case "rest":
            return await _send(place, body_cases.rest(draw, body_cases.routes(ROOT)))
        case "openai":
            return await _send(place, body_cases.openai(draw))
        case "socket":
            return await _frames(place, draw)
        case "live-provider":
            attack, bad.answer = answer_cases.provider_bytes(draw, "openai")
            bad.encoding, bad.endless = draw.one((None, None, "gzip")), draw.chance(0.1)
            shown = f"{attack}{', gzip' if bad.encoding else ''}{', endless' if bad.endless else ''}"
            return shown, await _run(place, "hostile")
        case _:
            bad.tools = answer_cases.listing(draw)
            size = draw.count(10, 2_000_000)
            bad.result = draw.one(
                (
                    {"content": [{"type": "text", "text": "x" * size}]},
                    {"content": [{"type": "text", "text": "x"}] * (size // 50 + 1)},
                    {"content": [], "structuredContent": {f"k{n}": n for n in range(size // 50)}},
                    {"content": [{"type": "image", "data": "A" * size, "mimeType": "image/png"}]},
                    {"isError": True, "content": [{"type": "text", "text": "e" * size}]},
                )
            )
            return f"{len(bad.tools)} tools, a result of {size}", await _run(place, "remote")


async def _send(place: Place, request: body_cases.Request) -> tuple[str, str]:
    url, headers = place.server.url + request.path, {"content-type": "application/json"}
    async with place.client.request(request.method, url, data=io.BytesIO(request.body), headers=headers) as answer:
        size = 0
        async for piece in answer.content.iter_any():
            size += len(piece)
    return f"{request.attack}, {len(request.body)} bytes", f"{answer.status} with {size} bytes"


async def _run(place: Place, agent: str) -> str:
    """A run to its end; one that is still at it after some seconds is cancelled, as its user would."""
    url = f"{place.server.url}/api/runs"
    async with place.client.post(f"{url}?wait=8", json={"agent": agent, "input": "go"}) as answer:
        run = await answer.json()
    if run.get("status") in ("queued", "running"):
        async with place.client.post(f"{url}/{run['id']}/cancel") as answer:
            return f"cancelled ({answer.status})"
    code = (run.get("error") or {}).get("code")
    return f"{run.get('status')}{f' with {code}' if code else ''}"


async def _frames(place: Place, draw: Draw) -> tuple[str, str]:
    attack, frames = body_cases.frames(draw)
    received = 0
    async with place.client.ws_connect(place.server.stream_url, max_msg_size=0) as socket:
        for frame in frames:
            await socket.send_bytes(frame) if draw.chance(0.2) else await socket.send_str(
                frame.decode(errors="replace")
            )
        await _run(place, "echo")
        with suppress(TimeoutError):
            while received < len(frames) + 5:
                message = await asyncio.wait_for(socket.receive(), 0.05)
                if message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.ERROR):
                    break
                received += 1
    return attack, f"{received} frames"
