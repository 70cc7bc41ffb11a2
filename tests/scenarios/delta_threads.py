"""Threads with streamed answers whose deltas are old enough to be dropped, on a server whose clock a test moves.

Leaves to others: what is left of them afterwards (`test_delta_retention`, `test_delta_resuming`).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from app.core.clock import ManualClock
from app.core.settings import Settings
from tests.clients import reached, submit
from tests.server import InProcessServer, in_process
from tests.store_equals_replay import assert_tables_equal_replay

DAY: Final = 86_400.0
DAYS: Final = 30
COMPACTED: Final = "runtime.log.compacted"
ANSWER: Final = "One two three four five six seven eight nine ten."
_WORKSPACE: Final = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: r}
spec:
  defaultAgent: talker
  retention: {deltaDays: 30}
  redaction: {reasoning: none}
  interrupts: {expiresSeconds: 31536000}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  retry: {attempts: 2, initialDelaySeconds: 0.01, midStream: restart}
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - match: {contains: add, turn: 1}
        reply:
          text: Let me see what that is.
          reasoning: A sum of two numbers.
          chunkSize: 5
          chunkDelaySeconds: 0.002
          toolCalls: [{name: calculator, args: {expression: "1 + 2 + 3 + 4 + 5 + 6"}}]
      - match: {contains: publish, turn: 1}
        reply:
          {text: Shall I really publish this text?, chunkSize: 4, chunkDelaySeconds: 0.002,
           toolCalls: [{name: publish, args: {text: news}}]}
      - match: {contains: break}
        reply: {text: The whole answer comes again., chunkSize: 4, chunkDelaySeconds: 0.002}
        fail: {kind: midStream, times: 1, afterChunks: 5}
      - match: {contains: briefly}
        reply: {text: Yes.}
    default:
      text: One two three four five six seven eight nine ten.
      chunkSize: 4
      chunkDelaySeconds: 0.002
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: talker}
spec: {model: script, tools: [calculator, publish], subagents: [echo]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo}
spec: {backend: echo}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: calculator}
spec: {kind: builtin}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: publish, description: Publishes a text.}
spec:
  kind: python
  entry: publishing:publish
  effect: unsafe
  approval: always
  input: {type: object, required: [text], properties: {text: {type: string}}}
"""


@dataclass(slots=True)
class Aged:
    """A database whose server is started again and again, each time as much later as the test says."""

    settings: Settings
    clock: ManualClock = field(default_factory=ManualClock)

    @classmethod
    def on(cls, settings: Settings, folder: Path, **more: Any) -> "Aged":
        folder.mkdir(exist_ok=True)
        (folder / "w.yaml").write_text(_WORKSPACE)
        (folder / "publishing.py").write_text("def publish(text: str) -> str:\n    return text\n")
        return cls(settings.model_copy(update={"workspace": folder, **more}))

    @contextlib.asynccontextmanager
    async def serving(self, days_later: float = 0) -> AsyncIterator[tuple[InProcessServer, httpx2.AsyncClient]]:
        self.clock.advance(days_later * DAY)
        async with (
            asyncio.timeout(60),
            in_process(self.settings, clock=self.clock) as server,
            httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client,
        ):
            yield server, client
            await assert_tables_equal_replay(server.holdfast.store)


async def said(client: httpx2.AsyncClient, text: str, **more: Any) -> dict[str, Any]:
    """A run that has ended."""
    return await reached(client, (await submit(client, more.pop("agent", "talker"), text, **more))["id"])


async def events(client: httpx2.AsyncClient, thread_id: str, limit: int = 1000) -> list[dict[str, Any]]:
    """All that are stored, in pages."""
    found: list[dict[str, Any]] = []
    after: str | int | None = 0
    while after is not None:
        page = (await client.get(f"/api/threads/{thread_id}/events", params={"after": after, "limit": limit})).json()
        found += page["items"]
        after = page["nextCursor"]
    return found


async def compacted(client: httpx2.AsyncClient, thread_id: str) -> list[dict[str, Any]]:
    """The thread's events once the sweep at the server's start has dropped deltas of it."""
    while True:
        found = await events(client, thread_id)
        if any(event["type"] == COMPACTED for event in found):
            return found
        await asyncio.sleep(0.01)  # the sweep runs in the background and notifies nobody


def is_delta(event: dict[str, Any]) -> bool:
    return bool(
        event["type"] == "runtime.adapter.event"
        and event["payload"]["event"]["phase"].endswith((".output.delta", ".reasoning.delta", ".tool.delta"))
    )
