"""Requests of a hostile client: bodies for every route that takes one, and frames for the websocket."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.core import json
from tests.faults.cost.case import Draw
from tests.faults.cost.schema_cases import ATTACKS

MAX_BODY: Final = 31 * 1024 * 1024
_WRITING: Final = ("post", "patch", "put")


@dataclass(frozen=True, slots=True)
class Request:
    attack: str
    method: str
    path: str
    body: bytes


def routes(root: Path) -> list[tuple[str, str]]:
    """Method and path of every route of ours that takes a body, from the published description."""
    described = json.loads((root / "openapi/openapi.json").read_bytes())["paths"]
    return [
        (method, path)
        for path, methods in sorted(described.items())
        for method in _WRITING
        if method in methods and path.startswith("/api/") and path not in ("/api/keys", "/api/files")
    ]


def poison(draw: Draw) -> tuple[str, bytes]:
    """A JSON value that is small in meaning and large in cost, as text: parsing it here would cost the same."""
    count = draw.count(10, draw.one((10_000, 10_000, 500_000)))
    piece = draw.one(("0", "{}", "[]", '"a"', '{"a":0}', '{"type":"text","text":"x"}', "null", '"' + "x" * 50 + '"'))
    match draw.one(("list", "keys", "deep", "text", "number", "same keys")):
        case "list":
            return f"a list of {count} x {piece}", f"[{','.join([piece] * count)}]".encode()
        case "keys":
            members = ",".join(f'"k{n}":{piece}' for n in range(count))
            return f"{count} keys with {piece}", b"{" + members.encode() + b"}"
        case "same keys":
            return f"one key {count} times", b"{" + b",".join([b'"k":0'] * count) + b"}"
        case "deep":
            return f"{count} levels", b"[" * count + b"]" * count
        case "text":
            return f"a text of {count * 20}", b'"' + draw.one((b"x", b"\\u0000", b"\\n", "é".encode())) * (
                count * 10
            ) + b'"'
        case _:
            return f"a number of {count} digits", b"9" * count


_FIELDS: Final = (
    "input", "metadata", "labels", "agent", "threadId", "title", "limits", "parameters", "answer", "arguments", "type",
    "messages", "payload", "settings", "text", "command", "decision", "reason", "kind", "content", "parts", "options",
)  # fmt: skip


def rest(draw: Draw, known: list[tuple[str, str]]) -> Request:
    method, path = ("post", "/api/runs") if draw.chance(0.4) else draw.one(known)
    attack, value = poison(draw)
    fields = {"agent": b'"echo"', "input": b'"hello"'} if path == "/api/runs" else {}
    fields[draw.one(_FIELDS)] = value
    body = value if draw.chance(0.1) else _object(fields)
    while "{" in path:
        head, _, rest = path.partition("{")
        path = head + draw.one(("x", "thr_cost", "echo")) + rest.partition("}")[2]
    return Request(f"{method} {path}: {attack}", method, path, body[:MAX_BODY])


def _object(fields: dict[str, bytes]) -> bytes:
    return b"{" + b",".join(json.dumps(name) + b":" + value for name, value in fields.items()) + b"}"


_CHAT_FIELDS: Final = (
    "messages", "metadata", "stop", "logit_bias", "tools", "tool_choice", "response_format", "user", "modalities",
    "functions", "stream_options", "n", "temperature", "seed", "unknown",
)  # fmt: skip


def openai(draw: Draw) -> Request:
    chat = draw.chance(0.6)
    path = "/v1/chat/completions" if chat else "/v1/responses"
    said = b'[{"role":"user","content":"hi"}]'
    fields: dict[str, bytes] = {"model": b'"hostile"', "messages" if chat else "input": said}
    if draw.chance(0.5):
        attack, document, _ = draw.one(ATTACKS)(draw)
        try:
            written = json.dumps(document)[: MAX_BODY // 4]
        except json.JsonError:  # nested so deep that it cannot be sent
            written = b'{"not":' * 2000
        if draw.chance(0.7):
            named = b'"name":"a","schema":' + written
            made = b'{"type":"json_schema",%s}' % (b'"json_schema":{%s}' % named if chat else named)
            fields |= {"response_format": made} if chat else {"text": b'{"format":%s}' % made}
        else:
            function = b'{"name":"f","parameters":%s}' % written
            fields["tools"] = b'[{"type":"function","function":%s}]' % function if chat else b"[%s]" % function
        return Request(f"{path}: a schema: {attack}", "post", path, _object(fields))
    attack, value = poison(draw)
    name = draw.one(
        _CHAT_FIELDS if chat else ("input", "metadata", "text", "tools", "instructions", "include", "reasoning")
    )
    fields[name] = value
    return Request(f"{path}: {name}: {attack}", "post", path, _object(fields)[:MAX_BODY])


def frames(draw: Draw) -> tuple[str, list[bytes]]:
    """What a client may send on `/api/stream`."""
    count = draw.count(1, 1000)
    attack, value = poison(draw)
    stars = "*" * draw.count(1, 60)
    options: list[tuple[str, dict[str, Any] | bytes]] = [
        (
            f"types of {len(stars)} stars",
            {"type": "subscribe", "types": [f"{stars}z", "*a" * 30 + "z", "*e*e*e*e*e*e*e*z"]},
        ),
        (f"{count} types", {"type": "subscribe", "types": [f"runtime.{n}.*" for n in range(count)]}),
        (f"{count} threads", {"type": "subscribe", "threads": {f"thr_{n}": 0 for n in range(count)}}),
        (f"a command with {attack}", _object({"type": b'"subscribe"', "threads": value})[: 1024 * 1024 - 10]),
        (f"a thread of {count} letters", {"type": "subscribe", "threadId": "t" * count * 900}),
        ("noise", draw.random.randbytes(min(count * 100, 100_000))),
        (f"{count} pings", {"type": "ping"}),
    ]
    attack, frame = draw.one(options)
    raw: bytes = frame if isinstance(frame, bytes) else json.dumps(frame)
    return attack, [raw] * (count if attack.endswith("pings") else min(3, count))
