"""Whatever is done to a workspace, the compiler answers with diagnostics and never fails itself."""

import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.core import json
from app.core.resources import shipped
from app.wiring.kinds import kind_catalog
from app.workspace.compile import CompileCache, compile
from app.workspace.compiled import Compiled
from app.workspace.diagnostics import Diagnostics
from app.workspace.files import WorkspaceFiles, read_folder
from tests.examples import examples

DEMO = read_folder(shipped("workspaces") / "demo").contents()
EXTRA = {
    "workflows/phases/p.md": b"---\nid: p\nadvance_signal: a.b == 1\nschema_version: v1\n---\nx\n",
    "workflows/cycles/c.md": b"---\nid: c\nphases: [p]\nentry_phase: p\nschema_version: v1\n---\nx\n",
    "roles/lead.md": b"Lead.\n",
}
SCRAPS = [
    b"", b"\n", b"- ", b": ", b"{", b"}", b"[", b"]", b"'", b'"', b"*a", b"&a ", b"!!x ", b"---\n",
    b"null", b"3",
    b"\x00", b"\xff", b"\t", b"${env:X}", b"{{ args.", b"? ", b"| ", b"spec", b"  ", b"kind: Tool\n",
    b"<<: ", b"#",
    b"true", b".inf", "\N{SNOWMAN}".encode(), b"\r", b"../", b"99999999999999999999999",
]  # fmt: skip
ALL = {**DEMO, **EXTRA}
CATALOG = kind_catalog()
CACHE = CompileCache()


def edited(seed: int, count: int) -> dict[str, bytes]:
    random_ = random.Random(seed)
    contents = dict(ALL)
    for _ in range(count):
        path = random_.choice(sorted(contents))
        data = contents[path]
        start = random_.randrange(len(data) + 1)
        end = min(len(data), start + random_.choice((0, 0, 1, 3, 20, 200)))
        lines = data.splitlines(keepends=True)
        match random_.randrange(6):
            case 0:
                contents[path] = data[:start] + data[end:]
            case 1:
                contents[path] = data[:start] + random_.choice(SCRAPS) + data[end:]
            case 2:
                random_.shuffle(lines)
                contents[path] = b"".join(lines)
            case 3 if lines:
                at = random_.randrange(len(lines))
                contents[path] = b"".join([*lines[:at], b"  " + lines[at], *lines[at + 1 :]])
            case 4:
                contents[random_.choice(sorted(ALL))] = data
            case _:
                contents.pop(path)
                contents = contents or dict(ALL)
    return contents


@pytest.mark.requirement("S13", "SH-1")
@settings(max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 6))
@example(seed=0, count=1)
def test_random_edits_never_crash_the_compiler(seed: int, count: int) -> None:
    files = WorkspaceFiles.from_contents(edited(seed, count))
    result = compile(files, CATALOG, cache=CACHE)
    if isinstance(result, Compiled):
        assert result.workspace.digest == files.digest
        return
    assert result.errors
    # Where something is was found once for many workspaces; the answer is that of somebody who reads the files anew.
    assert list(result) == list(_diagnostics(files))
    for found in result:
        assert found.line >= 1 and found.column >= 1
        assert found.file in files.files or found.file in ("", "runtime.yaml")
    assert result.as_text() and result.as_json()


def _diagnostics(files: WorkspaceFiles) -> Diagnostics:
    result = compile(files, CATALOG, cache=CompileCache(CACHE.schemas))
    return result.diagnostics if isinstance(result, Compiled) else result


@settings(max_examples=examples(150), deadline=None, database=None)
@given(st.binary(max_size=400))
def test_random_bytes_never_crash_the_compiler(data: bytes) -> None:
    contents = {**DEMO, "agents/x.yaml": data, "skills/x/SKILL.md": b"---\n" + data, "roles/lead.md": data}
    compile(WorkspaceFiles.from_contents(contents), CATALOG, cache=CACHE)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**40) | st.text(max_size=8) | st.sampled_from(["main", "echo", "a.b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "backend", "model", "modelPlan", "tools", "edges", "config", "kind", "entry", "input", "output",
    "approval",
    "rules", "http", "mcp", "subprocess", "script", "provider", "routes", "env", "models", "on",
    "command", "nodes",
    "run", "cron", "paths", "examples", "compensation", "guardrails", "contextPolicy", "outputSchema",
    "limits",
]  # fmt: skip
KINDS = [
    "Agent",
    "Tool",
    "Model",
    "Runtime",
    "Profile",
    "Hook",
    "Workflow",
    "Schedule",
    "McpServer",
    "Evaluator",
]


@settings(max_examples=examples(250), deadline=None, database=None)
@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), values, max_size=6))
def test_random_values_in_known_fields_never_crash_the_compiler(kind: str, spec: dict[str, object]) -> None:
    document = {"apiVersion": "holdfast/v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    # JSON is YAML, apart from a few characters that YAML refuses; both answers are fine.
    contents = {**DEMO, "x.yaml": json.dumps(document)}
    compile(WorkspaceFiles.from_contents(contents), CATALOG, cache=CACHE)
