"""Runs as a killed server leaves them: their log cut off after any event, for another server to resume.

Leaves to others: opening a Holdfast and submitting runs (`tests.runs`).
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.core import json
from app.core.ids import new_id
from app.core.principal import LOCAL
from app.events.blobs import stored_blobs, with_blobs
from app.events.catalog import request, thread
from app.events.catalog.base import EVENTS
from app.events.envelope import Event
from app.events.follow import follow
from app.events.ports import Appended
from app.events.recorder import PayloadEntry, Scope
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.runs import payloads


async def left_behind(holdfast: Holdfast, events: Sequence[Event]) -> Run:
    """The same run on a thread of its own, as far as a server had come that was killed, with questions of its own."""
    scope = Scope("default", new_id("thread"), new_id("run"))
    renamed = {one["interruptId"]: new_id("interrupt") for one in payloads(events, "interrupt.raised")}
    load = stored_blobs(holdfast.store.reader, "default", events[0].thread_id)
    recorded = []
    for event in events:
        text = json.dumps((await with_blobs(event, load)).payload).decode()
        for former, own in renamed.items():
            text = text.replace(former, own)
        payload = EVENTS[event.type].unchecked(json.loads(text))
        recorded.append(PayloadEntry(payload, apart=tuple(_apart(event.payload))))
    assert isinstance(await holdfast.store.recorder.record(scope, thread.ThreadCreated(), *recorded), Appended)
    found = await holdfast.store.reader.run("default", scope.run_id or "")
    assert found is not None
    return found


def _apart(payload: Mapping[str, Any], below: str = "") -> Iterator[str]:
    """The fields that are stored as content of their own, which belongs to the thread that it came with."""
    for name, value in payload.items():
        if isinstance(value, Mapping):
            if "$blob" in value:
                yield below + name
            elif not below:
                yield from _apart(value, f"{name}.")


async def seen_through(holdfast: Holdfast, run: Run) -> list[Event]:
    """The run's events to its end; whatever it asks is approved, once."""
    seen: list[Event] = []
    store = holdfast.store
    async with asyncio.timeout(30):
        async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, run.first_seq - 1):
            for event in batch:
                seen += [event] if event.run_id == run.id else []
                if event.run_id == run.id and event.type in request.TERMINAL:
                    return seen
            answered = {one["interruptId"] for one in payloads(seen, "interrupt.resolved")}
            for asked in payloads(seen, "interrupt.raised"):
                if asked["interruptId"] not in answered:
                    # Refused when the answer is stored already and not yet seen here.
                    await holdfast.interrupts.answer(LOCAL, asked["interruptId"], {"decision": "approve"})
    raise AssertionError("the stream ended")
