"""Holdfast next to other servers that run agents: `python -m bench.peers [--quick] [--only NAME ...]` prints a table.

All stream the same answers of 20 tokens from the same scripted model, one server at a time, each on the first core with
the load on the second. The lean proxy stores nothing and is the yardstick. `python -m bench.peers.install` installs the
others. What each stores is in the table, because that is most of the difference. Memory is the most that the server's
processes had resident.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from bench.edge import _STAMP, ROOT, port_of, request, started, workspace
from bench.peers.install import FOLDER, PACKAGES, python_of, version_of

HERE = Path(__file__).parent
START_SECONDS = 120.0
ANSWER_SECONDS = 60.0
CLIENTS = {"burst": 32, "pace5": 100}
PROMPT = "Tell me a story."


@dataclass(frozen=True)
class Peer:
    title: str
    stores: str
    start: Callable[[str, int, Path], "subprocess.Popen[str]"]
    """Upstream, port and a folder of its own to the process."""
    ask: Callable[[str, str], bytes]
    """The request for a pace; the second argument is unique to the stream."""
    before: Callable[[str, str], bytes] | None = None
    """What has to be asked for before each stream, such as a session."""


def post(path: str, body: dict[str, Any]) -> bytes:
    return _post(path, json.dumps(body).encode(), "application/json")


def _post(path: str, data: bytes, kind: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def _run(command: list[str], folder: Path, upstream: str) -> "subprocess.Popen[str]":
    if shutil.which("taskset") and (os.cpu_count() or 1) > 1:
        command = ["taskset", "-c", "0", *command]
    path = f"{Path(command[3] if command[0] == 'taskset' else command[0]).parent}:{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HOLDFAST"))}
    environment |= {"PATH": path, "BENCH_UPSTREAM": upstream, "OPENAI_API_KEY": "none", "LANGSMITH_TRACING": "false"}
    environment["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"  # nobody else reaches it
    with (folder / "log").open("w") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, text=True, cwd=folder, env=environment)


def _lean(upstream: str, port: int, folder: Path) -> "subprocess.Popen[str]":
    return started(0, "-m", "bench.lean_proxy", upstream)


def _holdfast(upstream: str, port: int, folder: Path) -> "subprocess.Popen[str]":
    settings = {
        "HOLDFAST_WORKSPACE": str(workspace(folder / "workspace", int(upstream.rpartition(":")[2]))),
        "HOLDFAST_LOG_LEVEL": "error",
        "HOLDFAST_DATA_DIR": str(folder / "data"),
        "HOLDFAST_MAX_CONCURRENT_RUNS": "512",
        "HOLDFAST_RATE_PER_KEY": "0",
    }
    return started(0, "-m", "app.main", "serve", "--port", "0", env=settings)


def _agno(upstream: str, port: int, folder: Path) -> "subprocess.Popen[str]":
    return _run(
        [str(python_of("agno")), str(HERE / "agno_server.py"), upstream, str(port), str(folder)], folder, upstream
    )


def _langgraph(upstream: str, port: int, folder: Path) -> "subprocess.Popen[str]":
    shutil.copy(HERE / "langgraph_graphs.py", folder)
    graphs = {pace: f"./langgraph_graphs.py:{pace}" for pace in CLIENTS}
    (folder / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    command = [str(python_of("langgraph").parent / "langgraph"), "dev", "--no-browser", "--no-reload"]
    return _run([*command, "--port", str(port), "--n-jobs-per-worker", "100"], folder, upstream)


def _litellm(upstream: str, port: int, folder: Path) -> "subprocess.Popen[str]":
    models = [
        {
            "model_name": pace,
            "litellm_params": {"model": "openai/m", "api_base": f"{upstream}/{pace}", "api_key": "none"},
        }
        for pace in CLIENTS
    ]
    (folder / "config.yaml").write_text(json.dumps({"model_list": models, "litellm_settings": {"telemetry": False}}))
    command = [str(python_of("litellm").parent / "litellm"), "--config", str(folder / "config.yaml")]
    return _run([*command, "--host", "127.0.0.1", "--port", str(port)], folder, upstream)


def _adk(upstream: str, port: int, folder: Path) -> "subprocess.Popen[str]":
    agents = folder / "agents"
    for pace in CLIENTS:
        (agents / pace).mkdir(parents=True)
        shutil.copy(HERE / "adk_agent.py", agents / pace / "agent.py")
        (agents / pace / "__init__.py").write_text("from . import agent\n")
    command = [str(python_of("adk").parent / "adk"), "api_server", "--host", "127.0.0.1", "--port", str(port)]
    # With SQLite it answers parallel sessions with "database is locked".
    return _run([*command, "--session_service_uri", "memory://", str(agents)], folder, upstream)


def _ask_agno(pace: str, unique: str) -> bytes:
    fields = {"message": PROMPT, "stream": "true", "session_id": unique}
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    ]
    return _post(f"/agents/{pace}/runs", ("".join(parts) + "--b--\r\n").encode(), "multipart/form-data; boundary=b")


def _ask_langgraph(pace: str, unique: str) -> bytes:
    messages = {"messages": [{"role": "user", "content": PROMPT}]}
    return post("/runs/stream", {"assistant_id": pace, "input": messages, "stream_mode": "messages-tuple"})


def _ask_our_langgraph(pace: str, unique: str) -> bytes:
    messages = {"messages": [{"role": "user", "content": PROMPT}]}
    return post("/langgraph/runs/stream", {"assistant_id": pace, "input": messages, "stream_mode": "messages-tuple"})


def _ask_adk(pace: str, unique: str) -> bytes:
    said = {"role": "user", "parts": [{"text": PROMPT}]}
    named = {"appName": pace, "userId": "u", "sessionId": unique}
    return post("/run_sse", {**named, "newMessage": said, "streaming": True})


def _openai(pace: str, unique: str) -> bytes:
    return request(pace)


PEERS = {
    "lean": Peer("lean proxy", "nothing", _lean, _openai),
    "holdfast": Peer("Holdfast", "every token, synced, hash-chained (SQLite)", _holdfast, _openai),
    "litellm": Peer("LiteLLM proxy", "nothing", _litellm, _openai),
    "agno": Peer("Agno AgentOS", "the run at its end (SQLite)", _agno, _ask_agno),
    "holdfast-langgraph": Peer(
        "Holdfast, asked as langgraph dev", "every token, synced, hash-chained (SQLite)", _holdfast, _ask_our_langgraph
    ),
    "langgraph": Peer("langgraph dev", "run and state in memory", _langgraph, _ask_langgraph),
    "adk": Peer(
        "Google ADK api_server", "session and events in memory", _adk, _ask_adk,
        lambda pace, unique: post(f"/apps/{pace}/users/u/sessions", {"session_id": unique}),
    ),
}  # fmt: skip


# -- the load -----------------------------------------------------------------------------------------


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Reads one whole answer: when its first token came, and how it began and ended."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"200", head[:200]
    lower, first, seen = head.lower(), 0, b""
    if b"content-length:" in lower:
        return 0, await reader.readexactly(int(lower.split(b"content-length:")[1].split(b"\r\n")[0]))
    while not seen.endswith((b"\r\n0\r\n\r\n", b"0\r\n\r\n")):
        piece = await reader.read(65536)
        assert piece, "the server hung up"
        if not first and _STAMP.search(seen[-64:] + piece):
            first = time.monotonic_ns()
        seen = (seen + piece)[-400:]
    return first, seen


async def _client(port: int, peer: Peer, pace: str, number: int, until: float, first: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.monotonic() < until:
        unique = f"s{os.getpid()}-{number}-{count}-{time.monotonic_ns()}"
        count += 1
        async with asyncio.timeout(ANSWER_SECONDS):
            if peer.before is not None:
                writer.write(peer.before(pace, unique))
                await _answer(reader)
            began = time.monotonic_ns()
            writer.write(peer.ask(pace, unique))
            token, end = await _answer(reader)
        assert token, end
        first.append((token - began) / 1e6)
    writer.close()


async def _measure(port: int, peer: Peer, pace: str, clients: int, seconds: float) -> dict[str, float]:
    first: list[float] = []
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(_client(port, peer, pace, number, began + seconds, first))
    return {
        "streamsPerSecond": round(len(first) / (time.monotonic() - began), 1),
        "firstTokenMs": round(statistics.median(first), 1),
    }


def _peak_mb(pid: int) -> float:
    """Of the process and its children."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        own = int(status.split("VmHWM:")[1].split()[0]) / 1024 if "VmHWM:" in status else 0.0
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return own + sum(_peak_mb(int(child)) for child in children)
    return 0.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _started(name: str, upstream: str) -> Iterator[tuple[int, int]]:
    with tempfile.TemporaryDirectory(prefix="holdfast-peers-", ignore_cleanup_errors=True) as folder:
        port = _free_port()
        process = PEERS[name].start(upstream, port, Path(folder))
        try:
            if process.stdout is not None:  # one of ours, which says where it listens
                port = port_of(process)
            deadline = time.monotonic() + START_SECONDS
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("did not start: " + (Path(folder) / "log").read_text()[-300:])
                time.sleep(0.2)
            yield port, process.pid
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


async def measure(name: str, upstream: str, seconds: float) -> dict[str, Any]:
    peer = PEERS[name]
    with _started(name, upstream) as (port, pid):
        await _measure(port, peer, "burst", 4, 1.0)  # warm
        made: dict[str, Any] = {"one": await _measure(port, peer, "burst", 1, seconds / 2)}
        for pace, clients in CLIENTS.items():
            made[pace] = await _measure(port, peer, pace, clients, seconds)
        made["peakMb"] = round(_peak_mb(pid))
    return made


async def bench(options: argparse.Namespace) -> dict[str, Any]:
    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {1})
    found: dict[str, Any] = {}
    model = started(1, "-m", "bench.edge", "--upstream")
    try:
        upstream = f"http://127.0.0.1:{port_of(model)}"
        for name in options.only or PEERS:
            version = version_of(name) if name in PACKAGES else ""
            if version is None:
                found[name] = {"notMeasured": f"not installed in {FOLDER.name}; see bench.peers.install"}
                continue
            try:
                found[name] = await measure(name, upstream, options.seconds) | {"version": version}
            except (Exception, ExceptionGroup) as problem:
                found[name] = {"version": version, "notMeasured": _reason(problem)}
            print(json.dumps({name: found[name]}), file=sys.stderr, flush=True)
    finally:
        model.terminate()
    return found


def _reason(problem: BaseException) -> str:
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:200]


def table(found: dict[str, Any]) -> str:
    lines = [
        "| server | stores | burst, streams/s | 5 ms pace, streams/s | first token alone, ms | peak, MB |",
        "|---|---|---|---|---|---|",
    ]
    for name, made in found.items():
        peer = PEERS[name]
        title = f"{peer.title} {made.get('version') or ''}".strip()
        if "notMeasured" in made:
            lines.append(f"| {title} | {peer.stores} | {made['notMeasured']} | | | |")
            continue
        figures = (made["burst"]["streamsPerSecond"], made["pace5"]["streamsPerSecond"], made["one"]["firstTokenMs"])
        lines.append(f"| {title} | {peer.stores} | {' | '.join(map(str, figures))} | {made['peakMb']} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers")
    parser.add_argument("--quick", action="store_const", const=2.0, default=6.0, dest="seconds", help="2 s each")
    parser.add_argument("--only", nargs="*", choices=list(PEERS), help="only these")
    options = parser.parse_args()
    found = uvloop.run(bench(options))
    print(table(found))
    print(json.dumps({"bench": "peers", "root": ROOT.name, "servers": found}))


if __name__ == "__main__":
    main()
