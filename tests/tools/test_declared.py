"""Tools as a workspace declares them, compiled by the real compiler and called through the gateway."""

import sys
from pathlib import Path
from typing import Any

import pytest

from app.core.clock import ManualClock
from app.core.errors import Failure
from app.core.resources import shipped
from app.outside import process
from app.outside.http import HttpClient
from app.outside.process import Finished, ProcessError, Program
from app.tools.contract import ToolOutcome, ToolRequest
from app.tools.declared import build
from app.tools.gateway import Gateway
from app.tools.kind import ToolDeps
from app.tools.registry import Registry
from app.wiring.kinds import kind_catalog, tools
from app.workspace.compile import compile
from app.workspace.compiled import Compiled, CompiledWorkspace
from app.workspace.files import WorkspaceFiles, read_folder
from tests.tools.recording import Recording, scope

RUNTIME = """
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: test}
spec:
  defaultAgent: echo
  env: [TOKEN]
  outgoing: {private: [127.0.0.1]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo}
spec: {backend: echo}
"""


def tool(name: str, spec: str) -> str:
    indented = "\n".join("  " + line for line in spec.strip().splitlines())
    return f"---\napiVersion: holdfast/v1\nkind: Tool\nmetadata: {{name: {name}}}\nspec:\n{indented}\n"


def compiled(files: WorkspaceFiles) -> CompiledWorkspace:
    result = compile(files, kind_catalog())
    assert isinstance(result, Compiled), result
    return result.workspace


async def registry(
    workspace: CompiledWorkspace, data: Path, client: HttpClient, folder: Path | None = None
) -> Registry | list[Failure]:
    secret = {"TOKEN": "sk-secret-123"}.get
    return await build(workspace, tools(), ToolDeps(client, secret, ManualClock(), folder or data, data))


async def call(registry: Registry, name: str, arguments: dict[str, Any]) -> ToolOutcome:
    return await Gateway(registry).call(ToolRequest("c", name, arguments), scope(*registry), Recording().ports())


async def test_every_tool_of_the_demo_works_as_declared(tmp_path: Path) -> None:
    client = HttpClient()
    tools = await registry(compiled(read_folder(shipped("workspaces") / "demo")), tmp_path, client)
    assert isinstance(tools, Registry), tools
    assert (await call(tools, "echo", {"text": "hi"})).output == {"text": "hi"}
    assert (await call(tools, "calculator", {"expression": "6 * 7"})).output == {"value": 42}
    assert (await call(tools, "notes", {"action": "add", "text": "milk"})).ok
    assert (await call(tools, "clock", {})).ok
    publish = await call(tools, "publish", {"title": "News", "text": "TODO"})
    assert publish.error is not None
    assert publish.error.code == "INVALID_ARGUMENTS"
    assert "still contains a TODO" in publish.error.message
    waiting = await call(tools, "publish", {"title": "News", "text": "All is well."})
    assert waiting.error is not None
    assert waiting.error.code == "APPROVAL_DENIED"
    await client.close()


@pytest.mark.requirement("HK-35", "SH-12")
async def test_rules_approval_repair_excerpt_and_effect_come_from_the_document(tmp_path: Path) -> None:
    spec = """
kind: python
entry: mine:quote
effect: readonly
excerptBytes: 500
approval: args.amount > 100
repair: {types: false}
rules:
  - check: args.symbol.matches('^[A-Z]{1,5}$')
    message: symbol must be a ticker
    example: {symbol: ACME}
"""
    source = (
        b'from .prices import price\n\ndef quote(symbol: str, amount: int = 1) -> int:\n    """Price."""\n'
        b"    return price * amount\n"
    )
    documents = {"runtime.yaml": RUNTIME.encode(), "tools.yaml": tool("quote", spec).encode(), "mine.py": source}
    files = WorkspaceFiles.from_contents(documents | {"prices.py": b"price = 7\n"})
    client = HttpClient()
    tools = await registry(compiled(files), tmp_path, client)
    await client.close()
    assert isinstance(tools, Registry), tools
    assert tools.definitions()[0].excerpt_bytes == 500
    assert (await call(tools, "quote", {"symbol": "ACME", "amount": 3})).output == 21
    for arguments, code in (
        ({"symbol": "acme corp"}, "INVALID_ARGUMENTS"),
        ({"symbol": "ACME", "amount": "3"}, "INVALID_ARGUMENTS"),
        ({"symbol": "ACME", "amount": 101}, "APPROVAL_DENIED"),
    ):
        outcome = await call(tools, "quote", arguments)
        assert outcome.error is not None
        assert outcome.error.code == code


async def test_a_program_of_the_workspace_runs_in_the_sandbox_and_writes_only_where_it_may(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "workspace"
    (data / "out").mkdir(parents=True)
    folder.mkdir()
    (folder / "job.py").write_text(
        "import sys\nplace = sys.argv[1]\n"
        "try:\n    open(place, 'w').write('x'); print('\"written\"')\n"
        "except OSError: print('\"refused\"')\n"
    )
    spec = f"""
kind: subprocess
input: {{type: object, properties: {{place: {{type: string}}}}, required: [place]}}
output: {{type: string}}
subprocess:
  command: [{sys.executable}, -I, -S, {folder}/job.py, "{{{{ args.place }}}}"]
  writable: [out]
"""
    documents = {"runtime.yaml": RUNTIME.encode(), "tools.yaml": tool("job", spec).encode()}
    client = HttpClient()
    tools = await registry(compiled(WorkspaceFiles.from_contents(documents)), data, client, folder)
    await client.close()
    assert isinstance(tools, Registry), tools
    assert (await call(tools, "job", {"place": str(data / "out" / "a")})).output == "written"
    assert (await call(tools, "job", {"place": str(data / "a")})).output == "refused"
    assert (await call(tools, "job", {"place": str(folder / "a")})).output == "refused"


@pytest.mark.requirement("S15")
@pytest.mark.parametrize("required", [True, False])
async def test_a_required_sandbox_is_demanded_for_each_program_and_its_lack_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: bool
) -> None:
    demanded: list[bool] = []

    async def lacking(program: Program, *, grace: float) -> Finished:
        demanded.append(program.required)
        raise ProcessError("SANDBOX_INCOMPLETE", "the sandbox is required and lacks here: files")

    monkeypatch.setattr(process, "run", lacking)
    runtime = RUNTIME.replace("spec:", "spec:\n  sandbox: required", 1) if required else RUNTIME
    spec = "kind: subprocess\ninput: {type: object}\neffect: readonly\nsubprocess: {command: [true]}"
    documents = {"runtime.yaml": runtime.encode(), "tools.yaml": tool("job", spec.replace("true", "'true'")).encode()}
    client = HttpClient()
    tools = await registry(compiled(WorkspaceFiles.from_contents(documents)), tmp_path, client)
    await client.close()
    assert isinstance(tools, Registry), tools
    outcome = await call(tools, "job", {})
    assert outcome.error is not None
    assert (outcome.error.code, demanded) == ("SANDBOX_INCOMPLETE", [required])


@pytest.mark.requirement("OS-I3")
async def test_every_tool_that_cannot_work_is_named_at_once(tmp_path: Path) -> None:
    bad = "kind: python\nentry: {}:run\ninput: {{type: object}}\neffect: readonly\n"
    documents = {
        "runtime.yaml": RUNTIME.encode(),
        "tools.yaml": (tool("one", bad.format("broken")) + tool("two", bad.format("missing_name"))).encode(),
        "broken.py": b"def run(): ...\nraise RuntimeError('secret')\n",
        "missing_name.py": b"def run(): ...\ndel run\n",
    }
    client = HttpClient()
    failures = await registry(compiled(WorkspaceFiles.from_contents(documents)), tmp_path, client)
    await client.close()
    assert isinstance(failures, list)
    assert [failure.code for failure in failures] == ["TOOL_INVALID", "TOOL_INVALID"]
    assert "secret" not in str(failures)


async def test_an_http_tool_is_filled_from_its_document_and_kept_to_the_workspaces_hosts(tmp_path: Path) -> None:
    spec = """
kind: http
effect: readonly
input: {type: object, properties: {id: {type: string}}, required: [id]}
output: {type: object}
http: {url: "https://api.example.org/items/{{ args.id }}", headers: {Authorization: "Bearer ${env:TOKEN}"}}
"""
    runtime = RUNTIME.replace("private: [127.0.0.1]", "hosts: [other.example.org]")
    documents = {"runtime.yaml": runtime.encode(), "tools.yaml": tool("item", spec).encode()}
    client = HttpClient()
    tools = await registry(compiled(WorkspaceFiles.from_contents(documents)), tmp_path, client)
    assert isinstance(tools, Registry), tools
    outcome = await call(tools, "item", {"id": "1"})
    await client.close()
    assert outcome.error is not None
    assert outcome.error.code == "ADDRESS_REFUSED"


async def test_an_mcp_tool_is_taken_up_by_its_server_and_name(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    server = f"""---
apiVersion: holdfast/v1
kind: McpServer
metadata: {{name: numbers}}
spec:
  command: [{sys.executable}, -m, tests.tools.servers.mcp_server]
  env: {{PYTHONPATH: "{root}"}}
  connect_seconds: 30
  tools: {{allow: [add]}}
"""
    spec = "kind: mcp\neffect: readonly\nmcp: {server: numbers, tool: add}\n"
    documents = {
        "runtime.yaml": RUNTIME.encode(),
        "tools.yaml": (server.replace("connect_seconds", "connectSeconds") + tool("sum", spec)).encode(),
    }
    client = HttpClient()
    tools = await registry(compiled(WorkspaceFiles.from_contents(documents)), tmp_path, client)
    assert isinstance(tools, Registry), tools
    used = tools.find("sum")
    assert used is not None
    outcome = await call(tools, "sum", {"a": 1, "b": 2})
    await used.tool.sessions.close()  # type: ignore[attr-defined]  # an McpTool
    await client.close()
    assert outcome.output == {"result": 3}


async def test_builtin_tool_may_have_another_name_and_its_examples_reach_the_model(tmp_path: Path) -> None:
    """`entry` and `examples` compiled and were ignored: the first made the whole workspace unusable."""
    spec = (
        "kind: builtin\nentry: echo\nexamples: [{text: hello}]\n"
        "input: {type: object, properties: {text: {type: string}}, required: [text]}\noutput: {}"
    )
    documents = {"runtime.yaml": RUNTIME.encode(), "tools.yaml": tool("repeat", spec).encode()}
    client = HttpClient()
    tools = await registry(compiled(WorkspaceFiles.from_contents(documents)), tmp_path, client)
    assert isinstance(tools, Registry), tools
    assert (await call(tools, "repeat", {"text": "hi"})).output == {"text": "hi"}
    found = tools.find("repeat")
    assert found is not None and found.definition.input is not None
    assert found.definition.input["examples"] == [{"text": "hello"}]
    await client.close()


def test_fetching_needs_a_list_of_hosts() -> None:
    documents = {"runtime.yaml": RUNTIME.encode(), "tools.yaml": tool("http_fetch", "kind: builtin").encode()}
    result = compile(WorkspaceFiles.from_contents(documents), kind_catalog())
    assert not isinstance(result, Compiled)
    assert [item.code for item in result.errors] == ["FIELD_MISSING"] and "outgoing" in result.errors[0].remedy
