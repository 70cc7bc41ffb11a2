"""Clients of a server over its own interfaces: runs over HTTP to their end, frames of a websocket.

Leaves to others: the server (`tests.server`) and server-sent events (`tests.sse`).
"""

import asyncio
from typing import Any

import httpx2
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.connection import Connection

from app.core import json

TERMINAL = ("completed", "failed", "cancelled")
_close = Connection.close


async def _read_and_close(self: Connection, code: int = 1000, reason: str = "") -> None:
    frames = self.recv_messages
    frames.high = frames.low = None
    if frames.paused:
        frames.resume()
    await _close(self, code, reason)


def close_at_once() -> None:
    """From now on in this process. A websocket that holds more frames than its test looked at does not read, not even
    the server's farewell: its client would wait ten seconds for that, and then give up."""
    ClientConnection.close = _read_and_close  # type: ignore[method-assign]


async def submit(client: httpx2.AsyncClient, agent: str, text: str, wait: float = 0, **more: Any) -> dict[str, Any]:
    """The run when it has ended, waits for a person, or the time is up."""
    body = {"agent": agent, "input": text, **more}
    answer = await client.post("/api/runs", params={"wait": wait}, json=body)
    assert answer.status_code in (200, 202), answer.text
    run: dict[str, Any] = answer.json()
    return run


async def reached(client: httpx2.AsyncClient, run_id: str, *states: str) -> dict[str, Any]:
    """The run when it has one of these states; without any, when it has ended."""
    async with asyncio.timeout(60):  # a busy machine is slow, and no test is about how long it takes
        while True:
            run: dict[str, Any] = (await client.get(f"/api/runs/{run_id}")).json()
            if run["status"] in (states or TERMINAL):
                return run
            await asyncio.sleep(0.02)  # over HTTP there is no event to await that would not be the thing tested


async def create_session(client: httpx2.AsyncClient, **body: Any) -> str:
    answer = await client.post("/api/sessions", json=body)
    assert answer.status_code == 200, answer.text
    session_id: str = answer.json()["session"]["sessionId"]
    return session_id


async def say(client: httpx2.AsyncClient, session_id: str, text: str, **more: Any) -> str:
    """The id of the session's next turn, which is that of its run."""
    answer = await client.post(f"/api/sessions/{session_id}/messages", json={"text": text, **more})
    assert answer.status_code == 202, answer.text
    accepted = answer.json()
    assert (accepted["status"], accepted["sessionId"]) == ("accepted", session_id)
    turn_id: str = accepted["turnId"]
    return turn_id


async def receive(socket: ClientConnection, seconds: float = 30) -> dict[str, Any]:
    """The next frame."""
    frame: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), seconds))
    return frame


async def receive_event(socket: ClientConnection) -> dict[str, Any]:
    """The next frame of its own; the other spellings of an event have tests of their own."""
    while (frame := await receive(socket)).get("part"):
        pass
    return frame
