"""Whatever a stranger sends costs at most 2 s and 200 MB, and the server answers others meanwhile.

The ordinary suite has a small sample; `make faults` has ten thousand cases and prints the slowest and largest of each
class. A case that fails is named with the command that repeats it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import Report
from tests.faults.cost import live, watch
from tests.faults.cost.case import Verdict
from tests.faults.cost.classes import PURE
from tests.faults.cost.figures import failures, table

PURE_CASES = 9_000
LIVE_CASES = 1_000


def in_turn(names: list[str], count: int, first: int = 0) -> Iterator[tuple[str, int]]:
    """That many cases, from every class in turn."""
    for number in range(count):
        yield names[number % len(names)], first + number // len(names)


def judge(verdicts: list[Verdict], report: Report) -> None:
    for line in table(verdicts):
        report(line)
    assert failures(verdicts) == []


@pytest.mark.requirement("G13", "S25")
def test_a_sample_of_hostile_texts_costs_little(report: Report) -> None:
    judge(watch.run_all(in_turn(sorted(PURE), 5 * len(PURE))), report)


@pytest.mark.requirement("G13", "S25")
async def test_a_sample_of_hostile_requests_leaves_the_server_attentive(tmp_path: Path, report: Report) -> None:
    async with live.serving(tmp_path) as place:
        judge(await live.run_all(place, in_turn(sorted(live.LIVE), 2 * len(live.LIVE))), report)


@pytest.mark.faults
@pytest.mark.timeout(7200)
@pytest.mark.requirement("G13", "S25")
def test_nine_thousand_hostile_texts_cost_little(report: Report) -> None:
    judge(watch.run_all(in_turn(sorted(PURE), PURE_CASES)), report)


@pytest.mark.faults
@pytest.mark.timeout(7200)
@pytest.mark.requirement("G13", "S25")
async def test_a_thousand_hostile_requests_leave_the_server_attentive(tmp_path: Path, report: Report) -> None:
    async with live.serving(tmp_path) as place:
        judge(await live.run_all(place, in_turn(sorted(live.LIVE), LIVE_CASES)), report)


def test_the_watch_finds_what_takes_too_long_too_much_or_kills_the_process() -> None:
    with watch.Watch() as watching:
        found = {name: watching.run(name, 0) for name in ("test-slow", "test-large", "test-dead", "test-good")}
    assert "took more than" in found["test-slow"].problem
    assert "memory" in found["test-large"].problem
    assert "died" in found["test-dead"].problem
    assert found["test-good"].problem == ""
