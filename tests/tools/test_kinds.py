"""Python, HTTP, subprocess and builtin tools, each through the gateway as a run would call it."""

import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import pytest
from aiohttp import web
from pydantic import BaseModel

from app.core import json
from app.core.clock import ManualClock
from app.events.envelope import Event
from app.outside.files import hash_of
from app.outside.http import HttpClient
from app.outside.process import ProcessLimits
from app.tools.contract import (
    BytesResult,
    FileResult,
    Tool,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
    ToolRequest,
)
from app.tools.decorator import tool
from app.tools.gateway import Gateway
from app.tools.guard import Guard, ToolInvalid
from app.tools.kinds.builtin import builtins
from app.tools.kinds.http import HttpRequest, HttpTool
from app.tools.kinds.python import PythonTool
from app.tools.kinds.subprocess import CommandTemplate, SubprocessTool
from app.tools.registry import Registry
from app.views.todos import Todos, fold
from app.wiring.kinds import kind_catalog
from app.workspace.templates import Template, tolerant_template
from tests.tools.recording import Recording, code, scope

ANY = {"type": "object", "additionalProperties": True}


def template(text: str) -> Template:
    return tolerant_template(text, ("args",))


async def call(used: Tool, arguments: dict[str, Any], log: Recording | None = None, **ports: Any) -> ToolOutcome:
    log = log or Recording()
    name = used.definition.name
    return await Gateway(Registry([used])).call(ToolRequest("call_1", name, arguments), scope(name), log.ports(**ports))


# -- python ----------------------------------------------------------------------------------------


class Place(BaseModel):
    lat: float
    lon: float


@pytest.mark.requirement("HK-35")
async def test_a_function_becomes_a_tool_by_its_hints_and_docstring() -> None:
    @tool(effect="readonly")
    async def forecast(
        city: str, unit: Literal["c", "k"] = "c", near: Place | None = None, ctx: ToolContext | None = None
    ) -> dict[str, Any]:
        """Tell the weather.

        Args:
            city: where, in English
        """
        assert ctx is not None
        return {"city": city, "unit": unit, "run": ctx.run_id, "lat": near["lat"] if near else None}  # type: ignore[index]  # JSON

    schema = forecast.definition.input
    assert forecast.definition.description == "Tell the weather."
    assert schema["properties"]["city"] == {"description": "where, in English", "type": "string"}
    assert schema["required"] == ["city"]
    assert "ctx" not in schema["properties"]
    guard = Guard(forecast.definition)
    assert not guard.accepts({"city": "x", "unit": "f"})
    assert not guard.accepts({"city": "x", "near": {"lat": 1, "lon": 2, "alt": 3}})
    outcome = await call(PythonTool.of(forecast), {"city": "Oslo", "near": {"lat": 1, "lon": 2}})
    assert outcome.output == {"city": "Oslo", "unit": "c", "run": "run_1", "lat": 1}


def test_a_function_without_hints_is_no_tool() -> None:
    def bare(city) -> None:  # type: ignore[no-untyped-def]  # the point of the test
        return None

    with pytest.raises(ToolInvalid):
        tool()(bare)


async def test_a_plain_function_runs_in_a_thread_and_may_report_progress() -> None:
    @tool(effect="readonly")
    def slow(ctx: ToolContext) -> str:
        ctx.progress(0.5, "half")
        return threading.current_thread().name

    seen: list[tuple[float | None, str]] = []
    outcome = await call(PythonTool.of(slow), {}, progress=lambda done, said: seen.append((done, said)))
    assert outcome.output == "tool-slow"
    assert seen == [(0.5, "half")]


async def test_a_plain_function_that_never_returns_times_out_and_does_not_block_the_next() -> None:
    release = threading.Event()

    @tool(effect="readonly", timeout_seconds=0.05)
    def stuck() -> str:
        release.wait(10)
        return "late"

    assert code(await call(PythonTool.of(stuck), {})) == "TOOL_TIMEOUT"
    release.set()


async def test_bytes_and_files_come_back_as_blobs_with_their_type(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")

    @tool(effect="readonly")
    def picture(kind: str) -> BytesResult | FileResult:
        return (
            BytesResult(b"\x89", "image/png") if kind == "bytes" else FileResult(tmp_path / "picture.png", "image/png")
        )

    log = Recording()
    for kind, content in (("bytes", b"\x89"), ("file", b"\x89PNG")):
        outcome = await call(PythonTool.of(picture), {"kind": kind}, log)
        assert outcome.output == {"$blob": {"sha256": hash_of(content), "size": len(content), "mime": "image/png"}}


# -- http ------------------------------------------------------------------------------------------


@asynccontextmanager
async def serving(handler: Any) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        assert site._server is not None
        yield f"127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]  # an asyncio server
    finally:
        await runner.cleanup()


async def echo(request: web.Request) -> web.Response:
    return web.json_response(
        {
            "path": request.raw_path,
            "headers": dict(request.headers),
            "query": dict(request.query),
            "body": (await request.read()).decode(),
        }
    )


def http_tool(client: HttpClient, url: str, **fields: Any) -> HttpTool:
    definition = ToolDefinition("web", input=ANY, effect=fields.pop("effect", "readonly"), timeout_seconds=5)
    secrets: Mapping[str, str] = {"TOKEN": "sk-secret-123"}
    return HttpTool(definition, HttpRequest(template(url), **fields), client, secrets.get)


async def test_arguments_fill_a_request_quoted_for_their_place() -> None:
    client = HttpClient()
    async with serving(echo) as host:
        used = http_tool(
            client, f"http://{host}/users/{{{{ args.id }}}}/posts", private=frozenset({"127.0.0.1"}), method="POST",
            query={"q": template("{{ args.q }}")},
            json={"n": template("{{ args.n }}"), "t": template("n={{ args.n }}")},
            effect="keyed",
        )  # fmt: skip
        outcome = await call(used, {"id": "a/b?c#d", "q": "x&y=z", "n": 3})
    await client.close()
    assert isinstance(outcome.output, dict)
    assert str(outcome.output["path"]).startswith("/users/a%2Fb%3Fc%23d/posts?")
    assert outcome.output["query"] == {"q": "x&y=z"}
    assert outcome.output["body"] == '{"n":3,"t":"n=3"}'
    headers = outcome.output["headers"]
    assert isinstance(headers, dict)
    assert str(headers["Idempotency-Key"]).startswith("hf-")


@pytest.mark.requirement("G21")
async def test_secrets_are_sent_but_come_back_in_nothing_and_arguments_cannot_ask_for_them() -> None:
    client, log = HttpClient(), Recording()
    async with serving(echo) as host:
        used = http_tool(
            client, f"http://{host}/", private=frozenset({"127.0.0.1"}),
            headers={"Authorization": template("Bearer ${env:TOKEN}"), "X-Said": template("{{ args.said }}")},
        )  # fmt: skip
        outcome = await call(used, {"said": "${env:TOKEN}"}, log)
    await client.close()
    assert isinstance(outcome.output, dict)
    headers = outcome.output["headers"]
    assert isinstance(headers, dict)
    assert headers["Authorization"] == "Bearer [REDACTED:secret]"
    assert headers["X-Said"] == "${env:TOKEN}"
    assert "sk-secret" not in str(log.events)


@pytest.mark.requirement("S11")
@pytest.mark.parametrize("value", ["..", ".", ""])
async def test_an_argument_cannot_climb_in_the_path(value: str) -> None:
    client = HttpClient()
    used = http_tool(client, "http://example.org/a/{{ args.id }}/b")
    assert code(await call(used, {"id": value})) == "INVALID_ARGUMENTS"
    assert code(await call(http_tool(client, "http://example.org/", headers={"X": template("{{ args.h }}")}),
                           {"h": "a\r\nEvil: yes"})) == "INVALID_ARGUMENTS"  # fmt: skip
    await client.close()


@pytest.mark.requirement("S11")
def test_an_argument_cannot_choose_the_host() -> None:
    for url in ("http://{{ args.host }}/", "{{ args.url }}", "https://api.{{ args.x }}.org/"):
        with pytest.raises(ToolInvalid):
            http_tool(HttpClient(), url)


@pytest.mark.requirement("S11")
@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:1/", "http://[::ffff:127.0.0.1]/", "http://169.254.169.254/", "http://[::1]/"]
)
async def test_a_redirect_to_a_private_address_is_refused(target: str) -> None:
    async def redirect(request: web.Request) -> web.Response:
        raise web.HTTPFound(target)

    client = HttpClient()
    async with serving(redirect) as host:
        hosts = frozenset({host, "127.0.0.1", "::1", "169.254.169.254"})
        used = http_tool(client, f"http://{host}/", private=frozenset({host}), hosts=hosts)
        assert code(await call(used, {})) == "ADDRESS_REFUSED"
    await client.close()


@pytest.mark.requirement("S11")
@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1", "::1", "::ffff:10.0.0.1", "fe80::1", "64:ff9b::a00:1"])
async def test_a_name_that_resolves_to_a_private_address_is_refused(address: str) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return [address]

    client = HttpClient(lookup=lookup)
    assert code(await call(http_tool(client, "http://rebound.example/"), {})) == "ADDRESS_REFUSED"
    await client.close()


async def test_an_answer_that_is_too_large_or_an_error_is_a_failure_with_a_code() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/large":
            return web.Response(body=b"x" * 5_000_000)
        return web.Response(status=503, text="busy")

    client = HttpClient()
    async with serving(answer) as host:
        private = frozenset({"127.0.0.1"})
        assert code(await call(http_tool(client, f"http://{host}/large", private=private), {})) == "OUTPUT_TOO_LARGE"
        busy = await call(http_tool(client, f"http://{host}/busy", private=private), {})
        assert busy.error is not None
        assert busy.error.retryable
    await client.close()


# -- subprocess ------------------------------------------------------------------------------------


def program(*argv: str, **fields: Any) -> SubprocessTool:
    definition = ToolDefinition(
        "program", input=ANY, timeout_seconds=fields.pop("timeout", 20), max_output_bytes=fields.pop("most", 100_000)
    )
    words = (sys.executable, "-I", "-S", "-c", *argv)
    return SubprocessTool(definition, CommandTemplate(tuple(template(word) for word in words), **fields), grace=0.2)


async def test_a_program_gets_its_arguments_as_json_and_answers_json() -> None:
    used = program("import json, sys; print(json.dumps({'sum': sum(json.load(sys.stdin)['numbers'])}))")
    assert (await call(used, {"numbers": [1, 2, 3]})).output == {"sum": 6}


@pytest.mark.requirement("S15")
@pytest.mark.parametrize("value", ["; rm -rf /", "$(id)", "`id`", "a b", "|cat", "x\ny", "'\"", "*"])
async def test_an_argument_stays_one_argument_whatever_it_contains(value: str) -> None:
    used = program("import json, sys; print(json.dumps(sys.argv[1:]))", "{{ args.v }}")
    assert (await call(used, {"v": value})).output == [value]


@pytest.mark.requirement("S15")
async def test_an_argument_cannot_become_an_option() -> None:
    used = program("print(1)", "{{ args.v }}")
    for value in ("--output=/etc/passwd", "-c", "a\x00b"):
        assert code(await call(used, {"v": value})) == "INVALID_ARGUMENTS"


@pytest.mark.requirement("S15")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("while True: print('x' * 1000)", "OUTPUT_TOO_LARGE"),
        ("while True: pass", "TOOL_TIMEOUT"),
        ("open('/etc/passwd')", "TOOL_FAILED"),
        ("print('no json')", "TOOL_FAILED"),
        ("bytearray(10**10)", "TOOL_FAILED"),
    ],
)
async def test_what_a_program_does_wrong_is_a_failure_with_a_code(source: str, expected: str) -> None:
    seconds = 1 if expected == "TOOL_TIMEOUT" else 60  # a busy machine starts a program slowly
    assert code(await call(program(source, timeout=seconds), {})) == expected


@pytest.mark.requirement("G21")
async def test_a_secret_in_a_programs_environment_is_scrubbed_from_what_it_says() -> None:
    definition = ToolDefinition("program", input=ANY)
    command = CommandTemplate(
        tuple(template(w) for w in (sys.executable, "-I", "-S", "-c", "import os; print(os.environ['KEY'])")),
        env={"KEY": template("${env:TOKEN}")}, result="text", limits=ProcessLimits(),
    )  # fmt: skip
    outcome = await call(SubprocessTool(definition, command, secret={"TOKEN": "sk-secret-123"}.get), {})
    assert outcome.output == "[REDACTED:secret]\n"


# -- builtin ---------------------------------------------------------------------------------------


@pytest.mark.requirement("OS-I3")
async def test_the_builtin_tools_that_a_workspace_may_name_are_those_that_exist(tmp_path: Path) -> None:
    client = HttpClient()
    made = builtins(tmp_path, ManualClock(), client=client, fetch_hosts=frozenset({"example.org"}))
    await client.close()
    assert kind_catalog().builtin_tools == set(made)


@pytest.mark.requirement("HK-24")
async def test_todos_are_accepted_unless_two_have_one_id_or_there_are_too_many(tmp_path: Path) -> None:
    todos = builtins(tmp_path, ManualClock())["todos"]
    item = {"id": "a", "title": "Write", "status": "pending"}
    assert (await call(todos, {"items": [item, item | {"id": "b"}]})).output == {"accepted": 2}
    assert (await call(todos, {"items": [], "mode": "replace"})).output == {"accepted": 0}
    many = [item | {"id": str(number), "title": "x" * 500} for number in range(30)]
    for wrong in ([item, item], many, [item | {"status": "started"}], [item | {"colour": "red"}], [{"id": "a"}]):
        assert code(await call(todos, {"items": wrong})) == "INVALID_ARGUMENTS"


@pytest.mark.requirement("HK-24")
async def test_what_the_todos_tool_records_is_what_the_view_reads(tmp_path: Path) -> None:
    todos, log, items = builtins(tmp_path, ManualClock())["todos"], Recording(), []
    for status in ("pending", "done"):
        items = [{"id": "a", "title": "Write", "status": status}]
        await call(todos, {"items": items, "mode": "update"}, log)
    state = Todos()
    for number, payload in enumerate(log.events):
        encoded = json.dumps(payload.to_json())
        happened = Event("e", "t", "th", "run_1", number, number, payload.type, "agent", 0, encoded, None, "", "")
        state = fold(state, happened)
    assert [asdict(item) for item in state.items] == [item | {"owner": "agent"} for item in items]


async def test_echo_clock_and_calculator(tmp_path: Path) -> None:
    tools = builtins(tmp_path, ManualClock())
    assert (await call(tools["echo"], {"text": "hi"})).output == {"text": "hi"}
    assert (await call(tools["clock"], {})).output == {"utc": "2026-01-01T00:00:00.000Z", "epochMs": 1767225600000}
    for expression, value in (("2 * (3 + 4) ** 2", 98), ("-7 // 2", -4), ("1 / 4", 0.25), ("10 % 4", 2)):
        assert (await call(tools["calculator"], {"expression": expression})).output == {"value": value}


@pytest.mark.parametrize(
    "expression", ["__import__('os')", "9**9**9**9", "1/0", "(" * 300, "a", "1e400", "2**64", "[1]", "1j"]
)
async def test_what_is_no_arithmetic_is_a_failure(expression: str, tmp_path: Path) -> None:
    assert (
        code(await call(builtins(tmp_path, ManualClock())["calculator"], {"expression": expression})) == "TOOL_FAILED"
    )


@pytest.mark.requirement("G4")
async def test_a_note_is_added_once_however_often_the_call_is_repeated(tmp_path: Path) -> None:
    notes = builtins(tmp_path, ManualClock())["notes"]
    for _ in range(2):
        assert (await call(notes, {"action": "add", "text": "milk"})).output == {"notes": ["milk"]}
    assert (await call(notes, {"action": "list"})).output == {"notes": ["milk"]}
    assert (await call(notes, {"action": "remove", "text": "milk"})).output == {"notes": []}
    assert code(await call(notes, {"action": "add"})) == "INVALID_ARGUMENTS"


def claim(expected: str) -> dict[str, str]:
    return {"who": "planner", "why": "update the plan", "expected_hash": expected, "schema_version": "v1"}


@pytest.mark.requirement("OS-W", "OS-F")
async def test_a_protected_write_with_a_stale_hash_conflicts_and_names_the_current_one(tmp_path: Path) -> None:
    tools = builtins(tmp_path, ManualClock())
    first = await call(tools["write_file"], {"path": "plan.md", "content": "one", "claim": claim("")})
    assert first.ok
    stale = await call(tools["write_file"], {"path": "plan.md", "content": "two", "claim": claim(hash_of(b"zero"))})
    assert code(stale) == "WRITE_CONFLICT"
    assert stale.error is not None
    assert hash_of(b"one") in stale.error.message
    read = await call(tools["read_file"], {"path": "plan.md"})
    assert read.output == {"content": "one", "hash": hash_of(b"one")}
    good = await call(tools["write_file"], {"path": "plan.md", "content": "two", "claim": claim(hash_of(b"one"))})
    assert good.output == {"path": "plan.md", "hash": hash_of(b"two"), "size": 3, "former": hash_of(b"one")}
    assert (await call(tools["list_files"], {})).output == {"names": ["plan.md"]}


@pytest.mark.requirement("OS-W")
async def test_a_write_without_a_whole_claim_is_refused_by_the_guard(tmp_path: Path) -> None:
    tools = builtins(tmp_path, ManualClock())
    for bad in ({}, claim("") | {"schema_version": "v2"}, claim("not a hash"), claim("") | {"more": 1}):
        assert code(await call(tools["write_file"], {"path": "a", "content": "", "claim": bad})) == "INVALID_ARGUMENTS"


@pytest.mark.requirement("S16")
async def test_file_tools_do_not_leave_their_folder_nor_cross_tenants(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("outside")
    tools = builtins(tmp_path, ManualClock())
    for path in ("../secret", "/etc/passwd", "%2e%2e/secret"):
        assert code(await call(tools["read_file"], {"path": path})) == "INVALID_ARGUMENTS"
    await call(tools["write_file"], {"path": "mine", "content": "x", "claim": claim("")})
    folder = tmp_path / f"tenant-{hash_of(b'default')[:16]}"
    (folder / "link").symlink_to("../secret")
    assert code(await call(tools["read_file"], {"path": "link"})) == "PATH_REFUSED"
    gateway = Gateway(Registry([tools["read_file"]]))
    other = scope("read_file", tenant="other")
    outcome = await gateway.call(ToolRequest("c", "read_file", {"path": "mine"}), other, Recording().ports())
    assert code(outcome) == "FILE_NOT_FOUND"


async def test_fetch_is_off_by_default_and_reaches_listed_hosts_only(tmp_path: Path) -> None:
    client = HttpClient()
    assert "http_fetch" not in builtins(tmp_path, ManualClock(), client=client)
    fetch = builtins(tmp_path, ManualClock(), client=client, fetch_hosts=frozenset({"example.org"}))["http_fetch"]
    assert code(await call(fetch, {"url": "http://example.com/"})) == "ADDRESS_REFUSED"
    assert code(await call(fetch, {"url": "file:///etc/passwd"})) == "INVALID_ARGUMENTS"
    await client.close()
