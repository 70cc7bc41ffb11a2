"""A sample of the strict reruns of the example workspaces; `python -m bench.reruns` does all of them."""

import pytest

from bench.reruns import EXAMPLES as ROOT
from bench.reruns import MIN_RUNS, examples, inputs, measure


@pytest.mark.requirement("HK-27", "HK-M")
@pytest.mark.parametrize(("example", "limit"), [("demo", 4), ("release-notes", 4)])
async def test_strict_reruns_of_an_example_end_as_its_runs_did(example: str, limit: int) -> None:
    found = await measure(example, limit)
    assert found["runs"] >= 2  # a workflow takes only inputs that meet its schema
    assert (found["succeeded"], found["failed"]) == (found["runs"], [])


def test_the_examples_have_enough_inputs() -> None:
    assert len(examples()) >= 12
    assert sum(len(inputs(ROOT / name)) for name in examples()) * 2 > MIN_RUNS
