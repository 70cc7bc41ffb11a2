"""A client that does not give up: it repeats what was cut off with the same Idempotency-Key, and answers what is asked.

What it may expect: one run for each thing it wanted, whatever happened to the server in between.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx2

from app.core import json
from app.core.ids import new_id

_ENDED = frozenset({"completed", "failed", "cancelled"})


@dataclass(slots=True)
class Wanted:
    text: str
    agent: str = "worker"
    thread_id: str = field(default_factory=lambda: new_id("thread"))
    key: str = field(default_factory=lambda: new_id("key"))
    run_id: str = ""
    """Known once the server has answered."""
    end: str | None = None
    answered: int = 0
    """How often the server took an answer from us."""


class PersistentClient:
    def __init__(self) -> None:
        self.wanted: list[Wanted] = []
        self.accepted = asyncio.Event()
        """Set by each answer to a submission; `work_until_it_dies` begins without it."""

    def want(self, text: str, agent: str = "worker") -> Wanted:
        wanted = Wanted(text, agent)
        self.wanted.append(wanted)
        return wanted

    async def see_through(self, url: str, *wanted: Wanted) -> None:
        """Submit, perhaps again, and stay with it to its end. Raises `httpx2.HTTPError` when the server dies."""
        async with _http(url) as http:
            await asyncio.gather(*(self._see_through(http, one) for one in wanted))

    async def submit_everything(self, url: str) -> None:
        async with _http(url) as http:
            await asyncio.gather(*(self._submit(http, one) for one in self.wanted))

    async def see_everything_through(self, url: str) -> None:
        await self.see_through(url, *(wanted for wanted in self.wanted if wanted.end is None))

    async def work_until_it_dies(self, url: str, texts: Sequence[str]) -> None:
        """Alongside what a former server left undone, one thing after the other, as long as there is a server."""
        self.accepted.clear()
        undone = [wanted for wanted in self.wanted if wanted.end is None]

        async def go_on() -> None:
            while True:
                for text in texts:
                    await self._see_through(http, self.want(text))

        with contextlib.suppress(httpx2.HTTPError):
            async with _http(url) as http:
                await asyncio.gather(go_on(), *(self._see_through(http, wanted) for wanted in undone))

    async def _see_through(self, http: httpx2.AsyncClient, wanted: Wanted) -> None:
        await self._submit(http, wanted)
        while wanted.end is None:
            answer = await http.get(f"/api/runs/{wanted.run_id}")
            if answer.status_code == 503:  # a busy machine: it says so, and is asked again
                await asyncio.sleep(0.05)
                continue
            assert answer.status_code == 200, answer.text
            run = answer.json()
            if run["status"] in _ENDED:
                wanted.end = run["status"]
                return
            for interrupt in run["waitingOn"]:
                await self._answer(http, wanted, interrupt)
            await asyncio.sleep(0.005)

    async def _submit(self, http: httpx2.AsyncClient, wanted: Wanted) -> None:
        body = {"agent": wanted.agent, "input": wanted.text, "threadId": wanted.thread_id, "createThread": True}
        headers = {"content-type": "application/json", "idempotency-key": wanted.key}
        answer = await http.post("/api/runs", content=json.dumps(body), headers=headers)
        while answer.status_code == 503:  # a busy machine: it says so, and is asked again
            await asyncio.sleep(0.05)
            answer = await http.post("/api/runs", content=json.dumps(body), headers=headers)
        assert answer.status_code in (200, 202), answer.text
        run_id = answer.json()["id"]
        assert wanted.run_id in ("", run_id), "the same key stands for another run"
        wanted.run_id = run_id
        self.accepted.set()

    async def _answer(self, http: httpx2.AsyncClient, wanted: Wanted, interrupt: str) -> None:
        asked = (await http.get("/api/interrupts?status=open")).json()["items"]
        kinds = {item["id"]: item["kind"] for item in asked}
        if interrupt not in kinds:
            return
        decision = {"approval": "approve", "recovery": "retry"}[kinds[interrupt]]
        answer = await http.post(f"/api/interrupts/{interrupt}/answer", json={"decision": decision})
        assert answer.status_code in (200, 409), answer.text
        wanted.answered += answer.status_code == 200


def _http(url: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=url, timeout=20, verify=False)
