"""A client of the whole server, or of its parts: submits runs, keeps what was accepted, hears how it ends."""

import asyncio
import contextlib
from typing import Any, Final

import httpx2
from websockets.asyncio.client import connect

from app.core import json
from app.core.principal import DEFAULT_TENANT
from app.events.catalog.request import TERMINAL
from app.events.follow import follow
from app.views.run import Run
from app.wiring.store import Store

SEVERAL: Final = 12
MAX_SUBSCRIBED: Final = 100
"""Threads that one socket may listen to."""


class Client:
    """Submits runs one after the other and keeps those that the server said it accepted."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.accepted: dict[str, str] = {}
        """Run to thread."""
        self.several = asyncio.Event()

    async def submit(self, text: str) -> None:
        async with httpx2.AsyncClient(base_url=self._url, timeout=10) as http:
            answer = await http.post("/api/runs", json={"agent": "echo", "input": text})
            assert answer.status_code == 202, answer.text
            self.accepted[answer.json()["id"]] = answer.json()["threadId"]
            if len(self.accepted) >= SEVERAL:
                self.several.set()

    async def submit_until_it_dies(self, text: str) -> None:
        with contextlib.suppress(httpx2.HTTPError):
            while True:
                await self.submit(text)


async def ends(url: str, threads: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Every frame of the threads from their beginning on, until each has reported its run's end."""
    frames: dict[str, list[dict[str, Any]]] = {}
    for start in range(0, len(threads), MAX_SUBSCRIBED):
        frames |= await _ends_of_some(url, threads[start : start + MAX_SUBSCRIBED])
    return frames


async def _ends_of_some(url: str, threads: list[str]) -> dict[str, list[dict[str, Any]]]:
    frames: dict[str, list[dict[str, Any]]] = {thread: [] for thread in threads}
    open_threads = set(threads)
    # Filtered from the start: a socket without a filter hears every thread until its subscription arrives.
    async with connect(url.replace("http", "ws", 1) + "/api/stream?threadId=thr_nobody") as socket:
        await socket.send(json.dumps({"type": "subscribe", "threads": dict.fromkeys(threads, 0)}).decode())
        async for message in socket:
            frame = json.loads(message)
            # Until the server has read the subscription, the socket hears every thread.
            # An event's other spellings follow its own frame, with the same seq.
            if frame.get("threadId") in frames and frame.get("part", 0) == 0:
                frames[frame["threadId"]].append(frame)
                if frame["type"] in TERMINAL:
                    open_threads.discard(frame["threadId"])
            if not open_threads:
                break
    return frames


async def end_of(store: Store, run: Run) -> str:
    """The type of the run's last event, awaited in this process."""
    async for batch in follow(store.hub, store.reader.events, DEFAULT_TENANT, run.thread_id, 0):
        for event in batch:
            if event.run_id == run.id and event.type in TERMINAL:
                return event.type
    raise AssertionError("the stream closed before the run ended")
