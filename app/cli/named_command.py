"""The part of the command line that the arguments name: the framework takes apart every command it is given.

For all of ours that takes a fifth of a second, at each call. Leaves to others: what the commands are (`application`),
and reading their arguments (the framework).
"""

import copy
from collections.abc import Sequence

import typer
from typer.main import get_command_name
from typer.models import CommandInfo


def named_command(app: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """A copy with only the command or group that comes first; all of it where that is an option or unknown.

    Help, errors and completion are then about all commands, as they should be.
    """
    name = arguments[0] if arguments else ""
    commands = [info for info in app.registered_commands if _name(info) == name]
    groups = [info for info in app.registered_groups if info.name == name]
    if len(commands) + len(groups) != 1:
        return app
    named = copy.copy(app)
    named.registered_commands = commands
    named.registered_groups = []
    for info in groups:
        assert info.typer_instance is not None, f"{name} was added as a group"
        group = copy.copy(info)
        group.typer_instance = named_command(info.typer_instance, arguments[1:])
        named.registered_groups.append(group)
    return named


def _name(info: CommandInfo) -> str:
    assert info.callback is not None, "every command has a function"
    return info.name or get_command_name(info.callback.__name__)
