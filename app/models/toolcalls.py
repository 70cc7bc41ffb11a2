"""Tool calls put together from the pieces that a stream brings; parsed once, when complete."""

from app.core import json
from app.core.ids import new_id
from app.models.completion import ToolCall
from app.models.contract import ToolCallDelta


def parsed_call(call_id: str, name: str, raw: str) -> ToolCall:
    """Arguments that are no JSON object travel as `{}` with their text, so that the guard can repair them."""
    if not raw.strip():
        return ToolCall(call_id, name, {})
    try:
        args = json.loads(raw)
    except json.JsonError:
        return ToolCall(call_id, name, {}, raw)
    return ToolCall(call_id, name, args) if isinstance(args, dict) else ToolCall(call_id, name, {}, raw)


class CallPieces:
    """The calls of one answer, by the provider's index."""

    def __init__(self) -> None:
        self._calls: dict[int, list[str]] = {}
        self._pieces: dict[int, list[str]] = {}

    def add(self, index: int, call_id: str | None, name: str | None, text: str) -> ToolCallDelta:
        known = self._calls.get(index)
        if known is None:
            known = self._calls[index] = [call_id or new_id("call"), name or ""]
            self._pieces[index] = []
        elif name and not known[1]:
            known[1] = name
        if text:
            self._pieces[index].append(text)
        return ToolCallDelta(index, known[0], known[1], text)

    def complete(self) -> list[ToolCall]:
        calls = [
            parsed_call(ids[0], ids[1], "".join(self._pieces[index])) for index, ids in sorted(self._calls.items())
        ]
        self._calls.clear()
        return calls
