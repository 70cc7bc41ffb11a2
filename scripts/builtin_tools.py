"""The page of the tools that ship, made from their definitions; `make generate` writes it."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from app.core import json
from app.core.clock import SystemClock
from app.outside.http import HttpClient
from app.tools.contract import ToolDefinition
from app.tools.kinds.builtin import builtins

_HEAD: Final = """\
# Built-in tools

Generated from `app/tools/kinds/builtin.py`. To use a built-in tool, add a document to the workspace. It may contain any
field of a [Tool document](workspace-reference.md#tool), such as an approval or rules:

```yaml
apiVersion: holdfast/v1
kind: Tool
metadata: {name: clock}
spec: {kind: builtin, effect: readonly}
```

`effect` says what happens after a crash during a call: `readonly` calls are repeated, `keyed` calls are
repeated with the same idempotency key so that they act only once, and `unsafe` calls wait for a person.
The file tools use the tenant's folder in the server's data folder.
`http_fetch` is available only if the Runtime lists hosts in `outgoing.hosts`.
"""


def page() -> bytes:
    lines = [_HEAD]
    for definition in definitions():
        lines += _section(definition)
    return "\n".join(lines).rstrip("\n").encode() + b"\n"


def definitions() -> list[ToolDefinition]:
    with tempfile.TemporaryDirectory() as folder:
        made = builtins(Path(folder), SystemClock(), client=HttpClient(), fetch_hosts=frozenset({"example.com"}))
        return [tool.definition for tool in made.values()]


def _section(tool: ToolDefinition) -> Iterator[str]:
    yield f"## {tool.name}"
    yield ""
    yield f"{tool.description} Effect: `{tool.effect}`. Time limit: {tool.timeout_seconds:g} s."
    yield ""
    required = tool.input.get("required", [])
    properties: Mapping[str, Any] = tool.input.get("properties", {})
    if properties:
        yield from ("| argument | required | JSON Schema |", "|---|---|---|")
    for name, schema in properties.items():
        written = json.dumps(schema).decode().replace("|", "\\|")
        yield f"| `{name}` | {'yes' if name in required else ''} | `{written}` |"
    if not properties:
        yield "It takes no arguments."
    if tool.output is not None:
        yield from ("", f"Result: `{json.dumps(tool.output.get('properties', {})).decode()}`")
    yield ""
