"""A world that runs change and undos restore: a fake payment API over real HTTP, files, and seats in a file.

The workspace has a tool for each way of taking an effect back, and a backend that makes the calls its input lists.
Leaves to others: the server (`tests.server`, `tests.faults.doomed`).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
from aiohttp import web

from app.backends.contract import CallRequest, Context, Result, Resume
from app.core import json
from app.core.settings import Settings
from app.outside.files import tenant_folder

_TOOLS = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: shop}
spec: {defaultAgent: doer, outgoing: {private: [127.0.0.1]}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true, parallelTools: true}
  script:
    rules:
      - match: {afterTool: charge}
        reply: {text: "done"}
      - match: {contains: buy}
        reply:
          toolCalls:
            - {name: write_file, args: {path: a.txt, content: one, claim: CLAIM}}
            - {name: charge, args: {amount: 5}}
            - {name: book, args: {seat: "1A"}}
            - {name: charge, args: {amount: 7}}
    default: {text: "You said: {{ input }}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: doer}
spec: {model: script, tools: [write_file, charge, book, mail, risky, asked, look], hooks: []}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: write_file}
spec: {kind: builtin}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: charge}
spec:
  kind: http
  effect: keyed
  input: {type: object, required: [amount], properties: {amount: {type: integer}}}
  http: {method: POST, url: "API/charges", body: json}
  compensation: {tool: refund, arguments: {charge: "{{ result.id }}", note: {amount: "{{ args.amount }}"}}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: refund}
spec:
  kind: http
  effect: keyed
  timeoutSeconds: 5
  input: {type: object, required: [charge], properties: {charge: {type: string}, note: {type: object}}}
  http: {method: POST, url: "API/refunds", body: json}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: book}
spec:
  kind: python
  entry: seats:book
  effect: keyed
  compensation: {entry: "seats:release"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec: {kind: python, entry: "seats:look", effect: readonly}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: mail}
spec: {kind: python, entry: "seats:mail", effect: unsafe}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: risky}
spec: {kind: python, entry: "seats:risky", effect: keyed, compensation: {entry: "seats:release"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: asked}
spec:
  kind: python
  entry: seats:asked
  approval: args.seat == "9Z"
"""
_SEATS = """
import json
from pathlib import Path

from holdfast import ToolError, tool

PLACE = Path({place!r})


def _read():
    return json.loads(PLACE.read_text()) if PLACE.exists() else {{}}


def _write(seats):
    part = PLACE.with_suffix(".part")
    part.write_text(json.dumps(seats))
    part.replace(PLACE)


def book(seat: str, ctx) -> dict:
    seats = _read()
    seats[seat] = ctx.idempotency_key
    _write(seats)
    return {{"seat": seat}}


def look() -> list:
    return sorted(_read())


def release(arguments, result, ctx):
    assert ctx.idempotency_key
    seats = _read()
    seats.pop(arguments["seat"], None)
    _write(seats)
    return {{"released": arguments["seat"]}}


def mail(to: str) -> str:
    return "sent to " + to


def risky(seat: str) -> str:
    raise ToolError("the other side did not answer")


@tool(effect="keyed", undo=release)
def asked(seat: str, ctx) -> dict:
    return book(seat, ctx)
"""
CLAIM = {"who": "doer", "why": "test", "expected_hash": "", "schema_version": "v1"}


class Doer:
    """A backend that does what its input says: `[["tool", {arguments}], ["checkpoint", "label"], ...]`."""

    kind = "native"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> Result:
        for number, (name, value) in enumerate(ctx.input["do"] if isinstance(ctx.input, dict) else ()):
            if name == "checkpoint":
                await ctx.checkpoint(value)
            else:
                await ctx.call_tools([CallRequest(f"call-{number}", name, value)])
        # A direct question shows what a later run is told.
        return "; ".join(str(message["content"]) for message in ctx.history if message["role"] == "system")


@dataclass
class Payments:
    """Charges and refunds, each once for a key. `trouble` is a list of statuses that the next refunds are answered."""

    url: str = ""
    charges: dict[str, int] = field(default_factory=dict)
    refunds: Counter[str] = field(default_factory=Counter)
    keys: dict[str, Any] = field(default_factory=dict)
    trouble: list[int] = field(default_factory=list)
    requests: int = 0

    @property
    def balance(self) -> int:
        return sum(amount for charge, amount in self.charges.items() if charge not in self.refunds)

    async def charge(self, request: web.Request) -> web.Response:
        key, body = request.headers["Idempotency-Key"], await request.json()
        if key not in self.keys:
            self.keys[key] = f"ch_{len(self.charges) + 1}"
            self.charges[self.keys[key]] = body["amount"]
        return web.json_response({"id": self.keys[key]})

    async def refund(self, request: web.Request) -> web.Response:
        self.requests += 1
        key, body = request.headers["Idempotency-Key"], await request.json()
        if self.trouble:
            return web.json_response({"error": "later"}, status=self.trouble.pop(0))
        if body["charge"] not in self.charges:
            return web.json_response({"error": "unknown"}, status=404)
        if key not in self.keys:
            self.keys[key] = True
            self.refunds[body["charge"]] += 1
        return web.json_response({"refunded": body["charge"]})


@asynccontextmanager
async def payments() -> AsyncIterator[Payments]:
    shop = Payments()
    app = web.Application()
    app.router.add_post("/charges", shop.charge)
    app.router.add_post("/refunds", shop.refund)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    shop.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield shop
    finally:
        await runner.cleanup()


def make_workspace(folder: Path, shop: Payments) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = _TOOLS.replace("API", shop.url).replace("CLAIM", json.dumps(CLAIM).decode())
    (folder / "workspace.yaml").write_text(text)
    (folder / "seats.py").write_text(_SEATS.format(place=str(folder.parent / "seats.json")))
    return folder


@dataclass(frozen=True)
class World:
    """All that runs can change, as it is now."""

    settings: Settings
    workspace: Path
    shop: Payments

    def file(self, path: str) -> Path:
        return tenant_folder(self.settings.data_dir / "files", "default") / path

    def seen(self) -> dict[str, Any]:
        root = tenant_folder(self.settings.data_dir / "files", "default")
        seats = self.workspace.parent / "seats.json"
        return {
            "files": {str(it.relative_to(root)): it.read_bytes() for it in root.rglob("*") if it.is_file()},
            "balance": self.shop.balance,
            "seats": sorted(json.loads(seats.read_bytes())) if seats.exists() else [],
        }


def write(path: str, content: str, before: str | None = None) -> tuple[str, dict[str, Any]]:
    expected = "" if before is None else sha256(before.encode()).hexdigest()
    return "write_file", {"path": path, "content": content, "claim": {**CLAIM, "expected_hash": expected}}


async def do(client: httpx2.AsyncClient, *steps: tuple[str, Any], thread: str | None = None) -> dict[str, Any]:
    body = {"agent": "doer", "input": {"do": steps}} | ({} if thread is None else {"threadId": thread})
    answer = await client.post("/api/runs", params={"wait": 20}, json=body)
    run: dict[str, Any] = answer.json()
    assert run["status"] == "completed", run
    return run


async def plan(client: httpx2.AsyncClient, run: dict[str, Any], to: str | int | None = None) -> dict[str, Any]:
    body = {} if to is None else {"toCheckpoint": to}
    answer = await client.post(f"/api/runs/{run['id']}/undo/plan", json=body)
    assert answer.status_code == 200, answer.text
    planned: dict[str, Any] = answer.json()
    return planned


async def undo(client: httpx2.AsyncClient, run: dict[str, Any], to: str | None = None, **more: Any) -> dict[str, Any]:
    """The run that undid it, at its end or when it waits for a person."""
    planned = await plan(client, run, to)
    body = {"planHash": planned["planHash"], **more}
    answer = await client.post(f"/api/runs/{run['id']}/undo", params={"wait": 20}, json=body)
    assert answer.status_code in (200, 202), answer.text
    undone: dict[str, Any] = answer.json()
    return undone


async def types_of(client: httpx2.AsyncClient, run: dict[str, Any]) -> list[str]:
    page = (await client.get(f"/api/runs/{run['id']}/events", params={"limit": 1000})).json()
    return [event["type"] for event in page["items"]]


async def gather(*work: Any) -> list[Any]:
    return list(await asyncio.gather(*work))
