"""A run as the task that A2A clients are shown, when they ask for it and when they are notified.

Leaves to others: what they ask (`tasks`), where they are notified (`push`), the words (`dialects.a2a`).
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from app.core import json
from app.core.json import JsonObject
from app.events.blobs import restored, stored_blobs
from app.protocols.dialects import a2a
from app.views.interrupt import Interrupt
from app.views.ports import Reader
from app.views.push_config import PushConfig
from app.views.run import Run

MAX_PUSH_BYTES: Final = 1024 * 1024
"""A task that is larger is sent without its artifacts and history; the client gets them by its id."""


async def open_questions(reader: Reader, tenant: str, run: Run) -> list[Interrupt]:
    found = [await reader.interrupt(tenant, one) for one in run.waiting_on]
    return [one for one in found if one is not None and one.status == "open" and one.kind != "timer"]


async def shown_task(reader: Reader, tenant: str, run: Run, asked: Iterable[Interrupt], base_url: str) -> JsonObject:
    load = stored_blobs(reader, tenant, run.thread_id)
    run.input = await restored(run.input, load)
    output = await restored(run.output if run.output_parts is None else run.output_parts, load)
    made = [one for one in await reader.artifacts(tenant, run.thread_id) if one.run_id == run.id]
    last = await reader.run_events(tenant, run.id, run.last_seq - 1, 1)
    return a2a.task(run, output, asked, made, base_url, last[-1].at if last else run.created_at)


async def push_body(reader: Reader, tenant: str, run: Run, config: PushConfig) -> bytes:
    """What a client is sent: the task as it stands. It asks also while other branches of it go on, as in streams."""
    asked = await open_questions(reader, tenant, run)
    if asked and not run.terminal:
        run = replace(run, status="waiting")
    shown = await shown_task(reader, tenant, run, asked, config.base_url)
    body = _spelled(shown, config)
    if len(body) <= MAX_PUSH_BYTES:
        return body
    return _spelled({name: shown[name] for name in ("id", "contextId", "status")}, config)


def _spelled(shown: JsonObject, config: PushConfig) -> bytes:
    return json.dumps(a2a.as_v03(shown) if config.old else {"task": shown})
