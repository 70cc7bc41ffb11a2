"""Answers of hostile providers and MCP servers, as the bytes and documents that arrive."""

import gzip
from typing import Any, Final

from app.core import json
from app.core.errors import HoldfastError
from app.models.collect import Collector
from app.models.kinds.anthropic import Anthropic
from app.models.kinds.gemini import Gemini
from app.models.kinds.ollama import Ollama
from app.models.kinds.openai import OpenAi
from app.models.sse import LineParser, PayloadTooLarge, SseParser
from app.models.transport import _FAULTS, Dialect, _Answer
from app.models.transport import whole_answer as whole_answer_of
from app.outside.failures import OutsideError
from app.outside.inflate import BrokenBody, Inflater
from app.outside.message_meter import fits
from app.tools.contract import ToolDefinition
from app.tools.guard import Guard
from tests.faults.cost.case import Case, Draw
from tests.faults.cost.schema_cases import ATTACKS

DIALECTS: Final[dict[str, type[Dialect]]] = {
    "openai": OpenAi,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "ollama": Ollama,
}
MAX_BYTES: Final = 8 * 1024 * 1024
"""Of a generated answer; what a server may send in all is bounded where it is read."""


def provider_bytes(draw: Draw, kind: str) -> tuple[str, bytes]:
    """An answer on the wire: events of the dialect with something wrong about their number, size or depth."""
    attack = draw.one(
        ("giant line", "small events", "calls", "arguments", "deep", "call pieces", "blank", "noise", "wide", "indexes")
    )
    count = draw.count(10, 100_000)
    match attack:
        case "giant line":
            events = [_text(kind, "x" * min(count * 100, MAX_BYTES))]
        case "small events":
            events = [_text(kind, "a")] * count
        case "calls":
            events = [_call(kind, n, "t", "{}") for n in range(count)]
        case "arguments":
            events = [_call(kind, 0, "t", '{"a":"' + "x" * min(count * 50, MAX_BYTES) + '"}')]
        case "deep":
            depth = min(count, 1000)
            events = [_call(kind, 0, "t", '{"a":' * depth + "1" + "}" * depth)]
        case "call pieces":
            events = [_call(kind, n % 7, None, "{") for n in range(count)]
        case "indexes":
            events = [_call(kind, -n * 10**9, "x" * 20, "{}") for n in range(count)]
        case "blank":
            return f"{count} blank lines, {kind}", draw.one(
                (b"\n", b"\r\n", b"\r", b":\n\n", b"data:\n\n", b"data: \n")
            ) * count
        case "noise":
            return f"{count} bytes of noise, {kind}", draw.random.randbytes(count)
        case _:
            piece = draw.one((b"{}", b'{"a":0}', b"[]", b'"ab"', b"0"))
            body = b'{"choices":[' + b",".join([piece] * (MAX_BYTES // 2 // (len(piece) + 1))) + b"]}"
            return f"a document of {len(body)} bytes of {piece!r}, {kind}", _framed(kind, body)
    data = b"".join(events) + _end(kind)
    return f"{attack}: {len(events)} events, {len(data)} bytes, {kind}", data[: 3 * MAX_BYTES]


def _framed(kind: str, document: bytes) -> bytes:
    return document + b"\n" if kind == "ollama" else b"data: " + document + b"\n\n"


def _text(kind: str, text: str) -> bytes:
    documents: dict[str, Any] = {
        "openai": {"choices": [{"delta": {"content": text}}]},
        "anthropic": {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        "gemini": {"candidates": [{"content": {"parts": [{"text": text}]}}]},
        "ollama": {"message": {"content": text}},
    }
    return _framed(kind, json.dumps(documents[kind]))


def _call(kind: str, index: int, name: str | None, arguments: str) -> bytes:
    if kind == "openai":
        function = {"name": name, "arguments": arguments}
        call = {"index": index, "id": f"c{index}", "function": function}
        return _framed(kind, json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}))
    if kind == "anthropic":
        if name is None:
            delta = {"type": "input_json_delta", "partial_json": arguments}
            return _framed(kind, json.dumps({"type": "content_block_delta", "index": index, "delta": delta}))
        block = f'{{"type":"tool_use","id":"c{index}","name":"t","input":{arguments}}}'
        return _framed(kind, f'{{"type":"content_block_start","index":{index},"content_block":{block}}}'.encode())
    if kind == "gemini":
        raw = '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"t","args":%s}}]}}]}'
    else:
        raw = '{"message":{"tool_calls":[{"function":{"name":"t","arguments":%s}}]}}'
    return _framed(kind, (raw % arguments).encode())


def _end(kind: str) -> bytes:
    documents: dict[str, bytes] = {
        "openai": b'{"choices":[{"delta":{},"finish_reason":"stop"}]}',
        "anthropic": b'{"type":"message_stop"}',
        "gemini": b'{"candidates":[{"finishReason":"STOP"}]}',
        "ollama": b'{"message":{},"done":true}',
    }
    return _framed(kind, documents[kind])


def provider(draw: Draw) -> Case:
    """The bytes are fed to the decoder in reads of some size, and what comes out is collected."""
    kind = draw.one(sorted(DIALECTS))
    attack, data = provider_bytes(draw, kind)
    size = draw.one((1, 7, 64, 1000, 65_536, 65_536, 65_536))
    data = data[: 20_000 * size]  # more reads than a socket gives in that time
    return Case(f"{attack}, in reads of {size}", lambda: _decoded(kind, data, size))


def _decoded(kind: str, data: bytes, size: int) -> str:
    answer = _Answer(DIALECTS[kind]().decoder(), LineParser() if kind == "ollama" else SseParser())
    collector = Collector("test", "msg_1")
    deltas = 0
    try:
        for start in range(0, len(data), size):
            deltas += len(collector.take(answer.feed(data[start : start + size])))
            if answer.fault is not None:
                raise answer.fault
        deltas += len(collector.take(answer.end()))
    except (*_FAULTS, PayloadTooLarge, OutsideError) as fault:
        return f"{type(fault).__name__} after {deltas} deltas"
    return f"{deltas} deltas, {len(collector.calls)} calls"


def whole_answer(draw: Draw) -> Case:
    """An answer that is not streamed."""
    kind = draw.one(sorted(DIALECTS))
    count = draw.count(10, 200_000)
    piece = draw.one(('{"a":0}', "{}", "[]", '"ab"', '{"type":"text","text":"x"}', '{"functionCall":{"name":"t"}}'))
    place = draw.one(('{"choices":[%s]}', '{"content":[%s]}', '{"candidates":[{"content":{"parts":[%s]}}]}', "[%s]"))
    data = (place % ",".join([piece] * count)).encode()
    return Case(f"{count} x {piece} in {place}, {kind}", lambda: _whole(kind, data))


def _whole(kind: str, data: bytes) -> str:
    decoder = DIALECTS[kind]().decoder()
    try:
        events = whole_answer_of(decoder, data)
    except _FAULTS as fault:
        return type(fault).__name__
    return f"{len(events)} events"


def compressed(draw: Draw) -> Case:
    """A body that grows a thousandfold when it is unpacked."""
    size = draw.count(1000, 100_000_000)
    data = gzip.compress(b"\0" * size, 9)
    layers = draw.one((1, 1, 2, 200))
    data = data * layers if layers > 2 else data
    return Case(f"{len(data)} bytes that hold {size * max(layers, 1)}", lambda: _unpacked(data))


def _unpacked(data: bytes) -> str:
    inflater, room, total = Inflater(gzip=True), 32 * 1024 * 1024, 0
    try:
        for start in range(0, len(data), 65_536):
            total += len(inflater.feed(data[start : start + 65_536], room - total))
            if total > room:
                return "over the limit"
    except BrokenBody:
        return "broken"
    return f"{total} bytes"


def listing(draw: Draw) -> list[dict[str, Any]]:
    """Tools as a hostile MCP server describes them."""
    count = draw.count(1, draw.one((10, 1000, 20_000)))
    size = draw.count(10, max(10, min(100_000, 4_000_000 // count)))
    schema: Any = {"type": "object", "properties": {}}
    if count <= 1000 and draw.chance(0.5):
        _, schema, _ = draw.one(ATTACKS)(draw)
        try:
            count = 1 if len(json.dumps(schema)) * count > MAX_BYTES else count
        except json.JsonError:  # nested so deep that it cannot be sent
            schema = {}
    named = draw.chance(0.8)
    return [
        {"name": f"u{n}" if named else "u", "description": "d" * size, "inputSchema": {"type": "object", **schema}}
        for n in range(count)
    ]


def mcp_tools(draw: Draw) -> Case:
    """A listing becomes tools: parsed by the client's models, hashed, and each guarded."""
    tools = listing(draw)
    data = json.dumps({"tools": tools})
    return Case(f"{len(tools)} tools, {len(data)} bytes", lambda: _taken_up(data))


def _taken_up(data: bytes) -> str:
    from mcp_types import ListToolsResult
    from pydantic import ValidationError

    from app.tools.kinds.mcp_tools import _offer

    if not fits(data):
        return "too large"
    try:
        offers = [_offer(tool) for tool in ListToolsResult.model_validate_json(data).tools]
    except (ValidationError, json.JsonError):
        return "refused"
    try:
        for offer in offers[:50]:  # an agent names its tools; it never takes up a whole listing
            Guard(ToolDefinition(offer.name, offer.description, offer.input, closed=False))
    except HoldfastError:
        return "refused"
    return f"{len(offers)} tools"
