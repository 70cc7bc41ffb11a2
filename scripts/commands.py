"""The page of the command line, made from the commands themselves; `make generate` writes it."""

from collections.abc import Iterator

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from app.cli.application import app

Parameter = TyperArgument | TyperOption

_COMMON = ["url", "key", "data_dir", "database_url", "workspace", "as_json", "quiet"]

_HEAD = """\
# The command line

Generated from the commands; `holdfast COMMAND --help` prints the same.

Commands that use a server connect to `--url` or `HOLDFAST_URL`. Without these, they connect to the server that uses the
data folder (`--data-dir`, `HOLDFAST_DATA_DIR`). If none is running, they start one in their own process until they are
done. Pass an API key with `--key` or `HOLDFAST_API_KEY`. Results are written to standard output, everything else to
standard error.

| exit code | meaning |
|---|---|
| 0 | success; for a run: completed |
| 1 | the command failed, was rejected, or found a problem |
| 2 | wrong usage |
| 3 | the run waits for a person, and the command cannot ask one |
| 130 | interrupted by Ctrl-C |

`holdfast --install-completion` installs shell completion.
During a run, its tool calls and pauses are shown, and the events that the workspace lists in
`runtime.cli.events.include` (narration by default). Use `--events PATTERN` to select others.

Examples, in the folder of a running server:

```sh skip="ids differ; tests/cli has each of them"
holdfast agents                                   # lists the agents
holdfast run assistant "publish it"               # asks for an approval, unless it is answered elsewhere first
holdfast approvals list                           # in another terminal: open approvals and questions
holdfast approvals decide ID approve
holdfast runs list --status running
holdfast runs steer RUN "and be brief"            # takes effect before the run's next model call
holdfast runs pause RUN
holdfast runs resume RUN
holdfast runs rerun RUN                           # runs the recorded input again, on a fork of the thread
holdfast threads fork THREAD --seq 12             # creates a thread with the history up to event 12
holdfast log tail THREAD -f --url http://127.0.0.1:8700
holdfast audit THREAD --url http://127.0.0.1:8700
```
"""


def page() -> bytes:
    lines = [_HEAD]
    for path, command in commands():
        lines += [f"## holdfast {' '.join(path)}", "", f"```\n{_usage(path, command)}\n```", "", _help(command), ""]
        rows = [(_names(one), _meaning(one)) for one in parameters(command) if not _is_common(command, one)]
        if rows:
            lines += [
                "| argument or option | meaning |",
                "|---|---|",
                *(f"| {name} | {text} |" for name, text in rows),
                "",
            ]
        if _talks(command):
            lines += ["Also: `--url`, `--key`, `--data-dir`, `--database-url`, `--workspace`, `--json`, `--quiet`.", ""]
    return "\n".join(lines).rstrip("\n").encode() + b"\n"


def commands() -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    root = get_command(app)
    assert isinstance(root, TyperGroup)
    yield from _below(root, ())


def parameters(command: TyperCommand) -> list[Parameter]:
    return [one for one in command.params if isinstance(one, TyperArgument | TyperOption)]


def _below(group: TyperGroup, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _below(command, (*path, name))
        else:
            assert isinstance(command, TyperCommand)
            yield (*path, name), command


def _talks(command: TyperCommand) -> bool:
    return {one.name for one in command.params} >= set(_COMMON)


def _is_common(command: TyperCommand, one: Parameter) -> bool:
    return one.name == "help" or (_talks(command) and one.name in _COMMON)


def _usage(path: tuple[str, ...], command: TyperCommand) -> str:
    arguments = [_placeholder(one) for one in command.params if isinstance(one, TyperArgument)]
    return " ".join(["holdfast", *path, *arguments, "[OPTIONS]"])


def _placeholder(one: TyperArgument) -> str:
    name = (one.metavar or one.name or "").upper()
    return name if one.required else f"[{name}]"


def _names(one: Parameter) -> str:
    if isinstance(one, TyperArgument):
        return f"`{(one.metavar or one.name or '').upper()}`"
    return ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))


def _meaning(one: Parameter) -> str:
    text: str = getattr(one, "help", None) or ""
    return text.replace("|", "\\|")


def _help(command: TyperCommand) -> str:
    return " ".join((command.help or "").split())
