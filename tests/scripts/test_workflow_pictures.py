"""The pictures and the events in the examples of workflows are those of a real run."""

import pytest

from scripts.workflow_picture import EXAMPLES, PLACE, WORKSPACES, Example, draw, same


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.workspace)
async def test_picture_of_an_example_is_of_a_real_run(example: Example) -> None:
    folder, made = WORKSPACES / example.workspace, await draw(example)
    assert (folder / "run.svg").read_text() == made.svg
    shown = PLACE.search((folder / "README.md").read_text())
    assert shown is not None and same(shown[0], shown[1] + made.lines + shown[2])
