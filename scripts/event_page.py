"""The page of every event type, made from the catalog and from real runs of the demo; `make generate` writes it.

Nothing on it depends on time or chance: ids, hashes and times of the examples are left out.
"""

import ast
import asyncio
import inspect
import re
import tempfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from app.core import json
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import EVENTS, EventModel, schema_of
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.wiring.runtime import Holdfast, open_holdfast
from scripts.event_words import LEFT_OUT, UI, WHEN

_HEAD: Final = """\
# Events

Generated from `app/events/catalog`. Everything that happens is recorded as an event in the log of a thread. An event
has `id`, `type`, `threadId`, `runId`, `seq` (counts within the thread, without gaps), `at`, `actor` and `payload`;
this page lists the payloads. You can read events with `GET /api/runs/{id}/events`, as server-sent events, on the
[websocket](stream.md), and with `holdfast log`. The [log format](log-format.md) describes how they are stored and
chained. Each type has a JSON Schema in `schemas/events/`. Types marked "draft" may still change.

How a user interface follows a run:

- Show the deltas of `runtime.adapter.event` as they arrive, grouped by `messageId` and `part`. They are provisional.
- When `runtime.model.completed` with the same `messageId` arrives, replace the deltas by its `text`.
- If a message is interrupted and started again, it has a **new `messageId`**. The old one ends with
  `runtime.model.failed` and `abandoned: true`; remove its text.
- A run ends only with `runtime.request.completed`, `.failed` or `.cancelled`.
- Ignore unknown types and fields: more will be added.
"""
_ID: Final = re.compile(r"^[a-z]+_[0-9A-Za-z-]{8,}.*$|^[0-9a-f]{32,}$|^hf-.*$|^\d{4}-\d\d-\d\dT.*$")
_CHANGES: Final = frozenset({"executor", "text", "code", "runtimeVersion", "digest"})
_MAX_TEXT: Final = 60


def page() -> bytes:
    examples = asyncio.run(_examples())
    lines = [_HEAD, "| type | when |", "|---|---|"]
    lines += [f"| [`{name}`](#{_anchor(name)}) | {_when(name, cls)} |" for name, cls in EVENTS.items()]
    for name, cls in EVENTS.items():
        lines += ["", *_section(name, cls, examples.get(name))]
    lines += ["", "## Types that are not recorded", "", "Other event models name these:", ""]
    lines += [f"- `{name}`: {reason}" for name, reason in LEFT_OUT.items()]
    return "\n".join(lines).encode() + b"\n"


def _anchor(name: str) -> str:
    return name.lower().replace(".", "")


def _section(name: str, cls: type[EventModel], example: Mapping[str, Any] | None) -> Iterator[str]:
    yield f"## {name}"
    yield ""
    yield _when(name, cls) + (" (Draft.)" if cls.draft else "")
    if name in UI:
        yield ""
        yield f"A user interface: {UI[name]}"
    schema = schema_of(cls)
    rows = list(_rows(cls, schema, schema.get("$defs", {})))
    if rows:
        yield from ("", "| field | type | required | meaning |", "|---|---|---|---|", *rows)
    if example is not None:
        yield from ("", "```json", json.pretty(_steady(example)).decode().rstrip("\n"), "```")


def _when(name: str, cls: type[EventModel]) -> str:
    said = WHEN.get(name) or inspect.cleandoc(cls.__doc__ or "")
    return " ".join(said.split()) or "See the fields."


def _rows(cls: type[EventModel], schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    """The fields, and those of the records in them."""
    notes, required = _notes(cls), schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        yield f"| `{name}` | {_type(field)} | {'yes' if name in required else ''} | {notes.get(name, '')} |"
        inner, mark = (field.get("items", {}), "[]") if field.get("type") == "array" else (field, "")
        record = definitions.get(str(inner.get("$ref", "")).rpartition("/")[2], {})
        for below, one in record.get("properties", {}).items():
            needed = "yes" if below in record.get("required", []) else ""
            yield f"| `{name}{mark}.{below}` | {_type(one)} | {needed} |  |"


def _notes(cls: type[EventModel]) -> dict[str, str]:
    """The sentence that stands below a field in the catalog, by the field's name in JSON."""
    tree = ast.parse(inspect.cleandoc(inspect.getsource(cls)))
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef)).body
    found = {}
    for field, note in pairwise(body):
        match field, note:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                found[cls.model_fields[name].alias or name] = " ".join(said.split()).replace("|", "\\|")
    return found


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(option) for option in field["anyOf"]))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return {"string": "text", "object": "object"}.get(str(field.get("type")), str(field.get("type", "any")))


def _steady(value: Any, key: str = "") -> Any:
    """The example without what differs each time."""
    if isinstance(value, Mapping):
        return {name: _steady(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_steady(item, key) for item in value[:2]]
    if key in _CHANGES or key.endswith("Ms") or (isinstance(value, str) and _ID.match(value)):
        return "…" if isinstance(value, str) else 0
    return value[:_MAX_TEXT] + "…" if isinstance(value, str) and len(value) > _MAX_TEXT else value


async def _examples() -> dict[str, Mapping[str, Any]]:
    """The first payload of each type, in runs of the demo that complete, wait, are denied, fail and are cancelled."""
    found: dict[str, Mapping[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with open_holdfast(Settings(data_dir=Path(folder))) as holdfast:
            for agent, asked, answer in _STORIES:
                for event in await _story(holdfast, agent, asked, answer):
                    piece = event.payload.get("event", {}).get("phase", "agent.output.delta")
                    if piece == "agent.output.delta":  # of the backend's signals, what every answer has
                        found.setdefault(event.type, event.payload)
    return found


_STORIES: Final = (
    ("assistant", "publish it", {"decision": "approve"}),
    ("assistant", "publish it", {"decision": "deny"}),
    ("assistant", "try again please", None),
    ("assistant", "fail please", None),
    ("team", "say hello", None),
    ("assistant", "publish it", None),
)


async def _story(holdfast: Holdfast, agent: str, asked: str, answer: dict[str, Any] | None) -> list[Any]:
    run = await holdfast.service.submit(LOCAL, Submission(agent=agent, input=asked))
    assert not isinstance(run, Rejected), run
    reader, tenant = holdfast.store.reader, LOCAL.tenant
    async with asyncio.timeout(60):
        while True:
            now = await reader.run(tenant, run.id)
            assert now is not None
            if now.terminal:
                break
            waiting = await reader.interrupts(tenant, thread_id=run.thread_id, status="open")
            if waiting and answer is not None:
                await holdfast.interrupts.answer(LOCAL, waiting[0].id, answer)
            elif waiting:
                await holdfast.lifecycle.cancel(LOCAL, run.id)
            await asyncio.sleep(0.02)
    return await reader.events(tenant, run.thread_id, 0, 1000)
