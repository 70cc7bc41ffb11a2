"""The fault-injection matrix of the guard: generated tools, every kind of fault, an independent oracle."""

import pytest

from bench.guard import REPAIRABLE, measure

FULL = pytest.mark.faults
KINDS = {
    "unknown_tool", "near_miss_name", "unparsable_arguments", "missing_required", "wrong_type", "bad_enum",
    "extra_argument", "bad_path", "semantic",
}  # fmt: skip


@pytest.mark.requirement("SH-10", "SH-12")
@pytest.mark.parametrize(
    ("seed", "tools"),
    [(11, 40), (90210, 40), pytest.param(11, 200, marks=FULL), pytest.param(90210, 60, marks=FULL)],
    ids=["working", "held out", "all working", "all held out"],
)
async def test_every_fault_is_stopped_no_valid_call_refused_and_repair_never_changes_the_call(
    seed: int, tools: int
) -> None:
    report = await measure(seed, tools, calls_per_tool=1)
    assert report["validRefused"] == 0
    assert set(report["kinds"]) == KINDS
    for kind, figures in report["kinds"].items():
        assert figures["stopped"] == figures["injected"], kind
        assert figures["different"] == 0, kind
    for kind in REPAIRABLE:
        assert report["kinds"][kind]["restoredShare"] >= 0.7, kind
