"""Workflows that are made to hurt the compiler are refused in a moment, with a code and a remedy."""

import pytest

from app.workspace.compiled import Compiled
from app.workspace.diagnostics import Diagnostic
from tests.workspace.broken.workflows import chain, flow
from tests.workspace.building import build


def found(changes: dict[str, str]) -> Diagnostic:
    result = build(changes)
    assert not isinstance(result, Compiled)
    return next(iter(result))


def nodes(count: int) -> str:
    return "nodes:\n" + "".join(f"  - {{id: n{number}, ref: tools.echo}}\n" for number in range(count))


@pytest.mark.requirement("SH-5")
def test_ten_thousand_steps_are_refused_with_the_limit() -> None:
    one = found(flow(nodes(10_000)))
    assert (one.code, one.file, one.line) == ("VALUE_INVALID", "w.yaml", 6)
    assert "2000" in f"{one.message} {one.expected}"


def test_two_thousand_steps_compile() -> None:
    assert isinstance(build(flow(nodes(2_000))), Compiled)


def test_steps_that_all_lead_to_each_other_compile_within_bounds() -> None:
    count = 100
    edges = "edges:\n  - {from: START, to: n0}\n  - {from: n0, to: END}\n" + "".join(
        f"  - {{from: n{a}, to: n{b}}}\n" for a in range(count) for b in range(count) if a != b
    )
    assert isinstance(build(flow(nodes(count) + edges + "cycles: {maxVisits: 2}\n")), Compiled)


@pytest.mark.parametrize("length", [6, 300])
def test_deep_workflows_are_refused(length: int) -> None:
    assert found(chain(length, depth=4)).code == "SUBWORKFLOW_TOO_DEEP"


def test_foreach_without_bound_is_refused() -> None:
    spec = "nodes:\n  - {id: a, ref: tools.echo, foreach: input.list, maxItems: 1000000}\n"
    assert found(flow(spec)).code == "VALUE_INVALID"
