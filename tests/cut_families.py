"""Runs with their subagents as a killed server leaves them: their log cut off after any event, and seen through.

Leaves to others: a run alone (`tests.cut_runs`), opening a Holdfast and submitting runs (`tests.runs`).
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from app.core import json
from app.core.ids import new_id
from app.core.principal import LOCAL
from app.events.blobs import stored_blobs, with_blobs
from app.events.catalog import request, thread
from app.events.catalog.base import EVENTS
from app.events.envelope import Event
from app.events.follow import follow
from app.events.ports import Appended, BlobDraft
from app.events.recorder import PayloadEntry, Scope
from app.views.run import Run
from app.wiring.runtime import Holdfast

_NOTHING: Final[Mapping[str, Any]] = {}


async def family(holdfast: Holdfast, run: Run) -> list[Event]:
    events = [event for event in await holdfast.store.reader.events("default", run.thread_id, 0, 1000) if event.run_id]
    load = stored_blobs(holdfast.store.reader, "default", run.thread_id)
    return [await with_blobs(event, load) for event in events]


async def seen_through(holdfast: Holdfast, run: Run, answers: Mapping[str, Any] = _NOTHING) -> list[Event]:
    """The family's events to the end of the run; questions get these answers, calls that were cut off are repeated."""
    store, answered = holdfast.store, set[str]()
    async with asyncio.timeout(60):
        async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, run.first_seq - 1):
            for event in batch:
                if event.run_id == run.id and event.type in request.TERMINAL:
                    return await family(holdfast, run)
                if event.type == "runtime.interrupt.raised":
                    asked = event.payload["interruptId"]
                    open_ = await store.reader.interrupt("default", asked)
                    if asked not in answered and open_ is not None and open_.status == "open":
                        answered.add(asked)
                        recovery = open_.kind == "recovery"
                        answer = {"decision": "retry"} if recovery else {"answers": dict(answers)}
                        await holdfast.interrupts.answer(LOCAL, asked, answer)
    raise AssertionError("the stream ended")


async def left_behind(holdfast: Holdfast, events: list[Event], blobs: dict[str, bytes]) -> Run:
    """The same runs on a thread of their own, as far as a server had come that was killed."""
    ids = {str(event.run_id): new_id("run") for event in events}
    names = dict(ids)
    for event in events:
        if event.type == "runtime.interrupt.raised":
            names[event.payload["interruptId"]] = new_id("delivery" if event.payload.get("artifacts") else "interrupt")
        if event.type == "runtime.artifact.created":
            names[event.payload["artifact"]["id"]] = new_id("artifact")
    scope = Scope("default", new_id("thread"), next(iter(ids.values())))
    entries: list[Any] = []
    for event in events:
        text = json.dumps(event.payload).decode()
        for old, new in names.items():
            text = text.replace(old, new)
        kept: tuple[BlobDraft, ...] = ()
        if event.type == "runtime.artifact.created":
            made = event.payload["artifact"]
            kept = (BlobDraft(made["sha256"], blobs[made["sha256"]], made["mime"]),)
        payload = EVENTS[event.type].unchecked(json.loads(text))
        entries.append(PayloadEntry(payload, run_id=ids[str(event.run_id)], actor=event.actor, blobs=kept))
    assert isinstance(await holdfast.store.recorder.record(scope, thread.ThreadCreated(), *entries), Appended)
    found = await holdfast.store.reader.run("default", scope.run_id or "")
    assert found is not None
    return found


async def contents(holdfast: Holdfast, events: list[Event]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for event in events:
        if event.type == "runtime.artifact.created":
            digest = event.payload["artifact"]["sha256"]
            blob = await holdfast.store.reader.blob("default", event.thread_id, digest)
            assert blob is not None
            found[digest] = blob[1]
    return found


def visits(events: list[Event]) -> list[str]:
    """The steps that ended, in order."""
    steps = (event.payload for event in events if event.type == "runtime.step.completed")
    return [step["key"] for step in steps if step["step"] == "node"]


def written_by(events: list[Event], lines: list[str]) -> int:
    """How many lines of a ledger are by runs of the family."""
    family = {event.run_id for event in events}
    return sum(line in family for line in lines)
