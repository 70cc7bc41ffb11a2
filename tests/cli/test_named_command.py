"""Only the command that is called is taken apart; what it prints is what it prints among all others."""

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from app.cli.application import app
from app.cli.named_command import named_command


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["serve", "--port", "0"], ["serve"]),
        (["tool-bench"], ["tool-bench"]),
        (["runs", "list", "--json"], ["runs"]),
        (["runs", "--help"], ["runs"]),
    ],
)
def test_the_command_that_comes_first_is_the_only_one(arguments: list[str], names: list[str]) -> None:
    assert list(get_group(named_command(app, arguments)).commands) == names


def test_of_a_group_only_its_command_remains() -> None:
    (group,) = named_command(app, ["runs", "list"]).registered_groups
    assert group.typer_instance is not None
    assert [info.name for info in group.typer_instance.registered_commands] == ["list"]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["srve"], ["--", "serve"], [""]])
def test_all_commands_remain_where_none_is_named(arguments: list[str]) -> None:
    assert named_command(app, arguments) is app


def test_the_application_itself_is_not_changed() -> None:
    before = len(app.registered_commands), len(app.registered_groups)
    named_command(app, ["runs", "list"])
    assert (len(app.registered_commands), len(app.registered_groups)) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--help"],
        ["serve", "--prt", "1"],
        ["serve", "x"],
        ["runs"],
        ["runs", "lst"],
        ["runs", "show", "--help"],
    ],
)
def test_it_answers_as_among_all_others(arguments: list[str]) -> None:
    runner = CliRunner()
    among_all, alone = (runner.invoke(one, arguments) for one in (app, named_command(app, arguments)))
    assert (alone.exit_code, alone.output) == (among_all.exit_code, among_all.output)
