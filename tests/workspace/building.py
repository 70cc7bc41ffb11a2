"""Small workspaces for the tests: a good one, and what it takes to spoil it."""

from collections.abc import Mapping
from textwrap import dedent

from app.wiring.kinds import BACKENDS, kind_catalog
from app.workspace.catalog import AnyConfig, Kind, KindCatalog, Kinds
from app.workspace.compile import CompileCache, compile
from app.workspace.compiled import Compiled, CompiledWorkspace
from app.workspace.diagnostics import Diagnostics
from app.workspace.files import WorkspaceFiles

RUNTIME = """\
apiVersion: holdfast/v1
kind: Runtime
metadata:
  name: test
spec:
  defaultAgent: helper
  env: [API_KEY]
"""
MODEL = """\
apiVersion: holdfast/v1
kind: Model
metadata:
  name: main
spec:
  provider: scripted
  model: script
"""
AGENT = """\
apiVersion: holdfast/v1
kind: Agent
metadata:
  name: helper
spec:
  model: main
  tools: [echo]
"""
TOOL = """\
apiVersion: holdfast/v1
kind: Tool
metadata:
  name: echo
spec:
  kind: builtin
"""
GOOD = {
    "runtime.yaml": RUNTIME,
    "models/main.yaml": MODEL,
    "agents/helper.yaml": AGENT,
    "tools/echo.yaml": TOOL,
}

MISSING_EXTRA = Kind(name="langgraph", extra="langgraph", module="no_such_module", needs_model=True)
OWN = Kind(name="own", config=AnyConfig, needs_model=True, runs_edges=True)


def catalog() -> KindCatalog:
    """The kinds that ship, and all that the format knows counts as served, so that each part can be tested."""
    shipped = kind_catalog()
    return KindCatalog(
        backends=Kinds([*BACKENDS, MISSING_EXTRA, OWN]),
        providers=shipped.providers,
        tools=shipped.tools,
        builtin_tools=shipped.builtin_tools,
        builtin_hooks=shipped.builtin_hooks,
        guardrails=shipped.guardrails,
        evaluators=shipped.evaluators,
        memories=shipped.memories,
        adapters=shipped.adapters,
        narrators=shipped.narrators,
        redaction_kinds=shipped.redaction_kinds,
        has_module=lambda name: name in ("json", "math"),
    )


def document(kind: str, name: str, spec: str) -> str:
    """A document whose `spec:` is on line 5, so that the spec's own lines begin with 6."""
    body = "".join(f"  {line}\n" for line in dedent(spec).strip("\n").splitlines())
    return f"apiVersion: holdfast/v1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n{body}"


def files(changes: Mapping[str, str | bytes | None]) -> WorkspaceFiles:
    """The good workspace with some files replaced, added, or (None) removed."""
    merged: dict[str, str | bytes | None] = {**GOOD, **changes}
    contents = {
        path: text.encode() if isinstance(text, str) else text for path, text in merged.items() if text is not None
    }
    return WorkspaceFiles.from_contents(contents)


def build(
    changes: Mapping[str, str | bytes | None],
    *,
    profile: str | None = None,
    cache: CompileCache | None = None,
) -> Compiled | Diagnostics:
    return compile(files(changes), catalog(), profile=profile, cache=cache)


def good(changes: Mapping[str, str | bytes | None], *, profile: str | None = None) -> CompiledWorkspace:
    result = build(changes, profile=profile)
    assert isinstance(result, Compiled), result.as_text()
    return result.workspace


def findings(result: Compiled | Diagnostics) -> list[tuple[str, str, int]]:
    diagnostics = result.diagnostics if isinstance(result, Compiled) else result
    return [(item.code, item.file, item.line) for item in diagnostics]
