"""The picture of a run in the README, drawn from the log of a real one; `make generate` writes it.

Nothing in it depends on time or chance: rows are in the order of the log, pieces of text that follow each other are
drawn as one, ids and times are left out.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.runtime.intake.interrupts import NotAnswered
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.wiring.runtime import Holdfast, open_holdfast

ASKED: Final = "publish it"
_LANES: Final = {"caller": 70, "log": 320, "model": 570, "tool": 690, "person": 810}
_TITLES: Final = {"caller": "your program", "log": "the log", "model": "model", "tool": "tool", "person": "a person"}
_ROW: Final = 30
_TOP: Final = 84
_WIDTH: Final = 880
_BOX: Final = 220
_WORDS: Final = {
    "runtime.request.queued": ("caller", "log", "asks: stored, then 202"),
    "runtime.request.completed": ("log", "caller", "answer"),
    "runtime.adapter.event": ("model", "log", "text, as it comes"),
    "runtime.model.requested": ("log", "model", ""),
    "runtime.model.completed": ("model", "log", ""),
    "runtime.tool.invoked": ("log", "tool", ""),
    "runtime.tool.resulted": ("tool", "log", ""),
    "runtime.interrupt.raised": ("log", "person", "may it?"),
    "runtime.interrupt.resolved": ("person", "log", "yes"),
}
"""From where to where an event goes; those that are not here stay within."""


def picture() -> bytes:
    rows = _rows(asyncio.run(_story()))
    height = _TOP + _ROW * len(rows) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'aria-label="One run as its log has it" font-family="ui-sans-serif, system-ui, sans-serif" font-size="12">',
        "<defs><marker id='to' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
        "<path d='M0 0 8 4 0 8z' fill='#64748b'/></marker></defs>",
        f'<rect width="{_WIDTH}" height="{height}" rx="10" fill="#ffffff" stroke="#e2e8f0"/>',
        '<text x="24" y="28" font-size="14" font-weight="600" fill="#0f172a">'
        f'One run: "{ASKED}", with a tool that needs an approval</text>',
    ]
    for name, x in _LANES.items():
        parts.append(f'<line x1="{x}" y1="{_TOP - 18}" x2="{x}" y2="{height - 20}" stroke="#e2e8f0"/>')
        parts.append(f'<text x="{x}" y="{_TOP - 26}" text-anchor="middle" fill="#475569">{_TITLES[name]}</text>')
    for index, (type, more) in enumerate(rows):
        parts += _drawn(_TOP + index * _ROW, type, more)
    return "\n".join([*parts, "</svg>", ""]).encode()


def _drawn(y: int, type: str, more: str) -> list[str]:
    left = _LANES["log"] - _BOX // 2
    source, target, words = _WORDS.get(type, ("log", "log", ""))
    shown = type if not more else f"{type.removeprefix('runtime.')} {more}"
    parts = [
        f'<rect x="{left}" y="{y - 12}" width="{_BOX}" height="24" rx="6" fill="{_colour(type)}"/>',
        f'<text x="{left + 12}" y="{y + 4}" fill="#0f172a">{escape(shown)}</text>',
    ]
    if source != target:
        parts += _arrow(y, source, target, words)
    if type == "runtime.adapter.event":
        parts += _arrow(y, "log", "caller", words)
    return parts


def _arrow(y: int, source: str, target: str, words: str) -> list[str]:
    outer = target if source == "log" else source
    at, side = _LANES[outer], -1 if outer == "caller" else 1
    edge = _LANES["log"] + side * _BOX // 2
    start, end = (edge, at) if source == "log" else (at, edge)
    parts = [f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" stroke="#64748b" marker-end="url(#to)"/>']
    if words:
        style = 'text-anchor="middle" fill="#64748b" font-size="10"'
        parts.append(f'<text x="{(at + edge) // 2}" y="{y - 5}" {style}>{words}</text>')
    return parts


def _colour(type: str) -> str:
    for part, colour in (("request", "#dbeafe"), ("interrupt", "#fef3c7"), ("tool", "#dcfce7"), ("model", "#ede9fe")):
        if f".{part}." in type:
            return colour
    return "#f1f5f9"


def _rows(events: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Type and a word. Pieces of one message are one row; narration and what a backend says of itself are left out."""
    rows: list[tuple[str, str]] = []
    for event in events:
        type, payload = event["type"], event["payload"]
        if type == "runtime.adapter.event":
            if payload["event"]["phase"].endswith(".delta") and (not rows or rows[-1][0] != type):
                rows.append((type, "delta"))
        elif type != "runtime.progress.narration":
            rows.append((type, _word(type, payload)))
    return rows


def _word(type: str, payload: dict[str, Any]) -> str:
    if type.startswith("runtime.tool."):
        return str(payload["tool"])
    return str(payload.get("kind", "")) if type == "runtime.interrupt.raised" else ""


async def _story() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        async with open_holdfast(Settings(data_dir=Path(folder))) as holdfast:
            return await _run(holdfast)


async def _run(holdfast: Holdfast) -> list[dict[str, Any]]:
    run = await holdfast.service.submit(LOCAL, Submission(agent="assistant", input=ASKED))
    assert not isinstance(run, Rejected), run
    reader, tenant = holdfast.store.reader, LOCAL.tenant
    async with asyncio.timeout(30):
        while not (asked := await reader.interrupts(tenant, thread_id=run.thread_id, status="open")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert not isinstance(
            await holdfast.interrupts.answer(LOCAL, asked[0].id, {"decision": "approve"}), NotAnswered
        )
        while not (now := await reader.run(tenant, run.id)) or not now.terminal:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    events = await reader.run_events(tenant, run.id, 0, 1000)
    return [{"type": event.type, "payload": event.payload} for event in events]
