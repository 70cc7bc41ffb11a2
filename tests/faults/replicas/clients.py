"""Clients of a team of servers: they submit, retry as documented, follow streams from wherever they were cut off, and
keep what they saw. They know nothing of the server but its HTTP interface."""

import asyncio
import contextlib
import json
import random
import uuid
from dataclasses import dataclass, field
from typing import Final

import httpx2

RETRY_SECONDS: Final = 0.05
TERMINAL: Final = ("runtime.request.completed", "runtime.request.failed", "runtime.request.cancelled")


@dataclass(slots=True)
class Wish:
    """A run that a client wants, and what it has seen of it."""

    text: str
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    thread_id: str = field(default_factory=lambda: f"thr_{uuid.uuid4().hex}")
    run_id: str | None = None
    """Once the server has acknowledged it."""
    seen: list[tuple[int, str]] = field(default_factory=list)
    """What the reader got: `seq` and id of each event, in the order of arrival, over all its connections."""
    end: str | None = None
    cancelled: bool = False


class TeamClient:
    def __init__(self, urls: list[str], chance: random.Random) -> None:
        """`urls` may change under its hands: servers die and come back elsewhere."""
        self._urls, self._chance = urls, chance
        self.wishes: list[Wish] = []
        self.retries = 0

    @property
    def is_waiting(self) -> bool:
        """For the end of a run that a server has acknowledged."""
        return bool(self.wishes) and self.wishes[-1].run_id is not None and self.wishes[-1].end is None

    def _url(self) -> str:
        return self._chance.choice(self._urls)

    async def work(self, texts: list[str], stop: asyncio.Event) -> None:
        timeout = httpx2.Timeout(3, read=8)
        async with httpx2.AsyncClient(timeout=timeout) as http:
            while not stop.is_set():
                wish = Wish(self._chance.choice(texts))
                self.wishes.append(wish)
                await self._submit(http, wish)
                cancelling = asyncio.create_task(self._maybe_cancel(http, wish))
                await self._follow(http, wish)
                await cancelling

    async def _submit(self, http: httpx2.AsyncClient, wish: Wish) -> None:
        body = {"agent": "worker", "input": wish.text, "threadId": wish.thread_id, "createThread": True}
        while wish.run_id is None:
            with contextlib.suppress(httpx2.HTTPError, json.JSONDecodeError):
                headers = {"idempotency-key": wish.key}
                answer = await http.post(f"{self._url()}/api/runs", json=body, headers=headers)
                if answer.status_code in (200, 202):
                    wish.run_id = answer.json()["id"]
                    return
                assert answer.status_code in (429, 500, 502, 503, 504), answer.text
            self.retries += 1
            await asyncio.sleep(RETRY_SECONDS)

    async def _maybe_cancel(self, http: httpx2.AsyncClient, wish: Wish) -> None:
        if "take your time" not in wish.text or self._chance.random() < 0.5:
            return
        await asyncio.sleep(self._chance.uniform(0, 0.3))
        wish.cancelled = True
        while wish.end is None:
            with contextlib.suppress(httpx2.HTTPError):
                answer = await http.post(f"{self._url()}/api/runs/{wish.run_id}/cancel")
                if answer.status_code in (200, 202):
                    return
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self, http: httpx2.AsyncClient, wish: Wish) -> None:
        """Each connection at another server, after the last event that arrived."""
        while wish.end is None:
            with contextlib.suppress(httpx2.HTTPError, TimeoutError):
                last = wish.seen[-1][0] if wish.seen else 0
                path = f"{self._url()}/api/runs/{wish.run_id}/stream"
                async with asyncio.timeout(12):
                    async with http.stream("GET", path, headers={"last-event-id": str(last)}) as answer:
                        if answer.status_code == 200:
                            await self._read(answer, wish)
            if wish.end is None:
                self.retries += 1
                await asyncio.sleep(RETRY_SECONDS)

    async def _read(self, answer: httpx2.Response, wish: Wish) -> None:
        rest = b""
        async for chunk in answer.aiter_bytes():
            *blocks, rest = (rest + chunk).split(b"\n\n")
            for block in blocks:
                data = next((line[6:] for line in block.split(b"\n") if line.startswith(b"data: ")), None)
                if data is None:
                    continue
                frame = json.loads(data)
                if "id" in frame:
                    wish.seen.append((frame["seq"], frame["id"]))
                    if frame["type"] in TERMINAL and frame.get("runId") == wish.run_id:
                        wish.end = frame["type"]
                        return
