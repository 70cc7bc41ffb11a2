"""The command line itself: quick help, completion, no command without its words."""

import subprocess
import sys

import pytest
from typer.core import TyperCommand, TyperOption

from scripts.commands import commands
from tests.cli.conftest import Holdfast
from tests.server import ROOT, clean_environment

HEAVY = ("fastapi", "sqlalchemy", "yarl", "pydantic", "uvicorn", "mcp", "alembic", "httpx2", "app.wiring")


COMMANDS = list(commands())


def test_help_loads_nothing_of_the_server() -> None:
    program = f"import sys, app.cli.application; print([name for name in {HEAVY!r} if name in sys.modules])"
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=clean_environment(), cwd=ROOT, check=True
    )
    assert finished.stdout == "[]\n"


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_command_explains_itself_and_its_options(
    holdfast: Holdfast, path: tuple[str, ...], command: TyperCommand
) -> None:
    assert command.help, path
    assert [one.name for one in command.params if isinstance(one, TyperOption) and not one.help] == []
    assert holdfast(*path, "--help").exit_code == 0


def test_every_command_that_talks_to_a_server_has_json_and_quiet() -> None:
    # `log` and `audit` print documents and lines that programs read as they are.
    commands = [(path, command) for path, command in COMMANDS if path[0] not in ("log", "audit")]
    talking = [(path, {one.name for one in command.params}) for path, command in commands]
    lacking = [path for path, names in talking if "url" in names and not {"as_json", "quiet", "key"} <= names]
    assert lacking == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_completion(shell: str) -> None:
    variable = "_HOLDFAST_COMPLETE"
    finished = subprocess.run(
        [sys.executable, "-c", "from app.cli.application import app; app(prog_name='holdfast')"],
        capture_output=True, text=True, cwd=ROOT, env=clean_environment() | {variable: f"source_{shell}"}, check=False,
    )  # fmt: skip
    assert variable in finished.stdout


def test_the_version_is_printed(holdfast: Holdfast) -> None:
    from app import __version__

    assert holdfast("--version").stdout.strip() == __version__
