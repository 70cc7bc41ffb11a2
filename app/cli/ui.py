"""`holdfast ui`: checks and projects UI events from a file, ours or those of another runtime. Needs no server."""

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

app = typer.Typer(no_args_is_help=True, help="UI events: validate, project.")

MAX_BYTES: Final = 256 * 1024 * 1024
File = Annotated[
    Path, typer.Argument(exists=True, dir_okay=False, help="JSON: a list, an object with `events`, or lines.")
]


def _events(file: Path) -> list[Any]:
    """A list of events; an object with `events` or `items`, as fixtures and answers have it; or one event a line."""
    from app.core import json

    data = file.read_bytes() if file.stat().st_size <= MAX_BYTES else b""
    try:
        if not data:
            raise typer.BadParameter(f"The file is empty or larger than {MAX_BYTES} bytes.", param_hint="FILE")
        try:
            value: Any = json.loads(data)
        except json.JsonError:
            value = [json.loads(line) for line in data.splitlines() if line.strip()]
    except json.JsonError:
        raise typer.BadParameter("The file is not JSON.", param_hint="FILE") from None
    if isinstance(value, dict):
        value = value.get("events", value.get("items", [value]))
    if not isinstance(value, list):
        raise typer.BadParameter("The file has no list of events.", param_hint="FILE")
    return value


@app.command("validate")
def validate(file: File, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check UI events against their standard. The exit code is 1 if there is an issue."""
    from app.core import json
    from app.views.ui.sequence import sequence_violations
    from app.views.ui.validation import list_issues

    events = _events(file)
    issues, violations = list_issues(events), sequence_violations(events)
    if as_json:
        found = {"valid": not issues, "issues": [issue.to_json() for issue in issues]}
        sys.stdout.buffer.write(json.pretty(found | {"violations": [one.to_json() for one in violations]}))
    else:
        for issue in issues:
            typer.echo(f"{issue.path}: {issue.code}: {issue.message}")
        for violation in violations:
            typer.echo(f"{violation.event_id}: {violation.code}: {violation.message}")
        typer.echo(f"{len(events)} events, {len(issues)} issues, {len(violations)} violations of their order")
    if issues:
        raise typer.Exit(1)


@app.command("project")
def project_command(file: File) -> None:
    """Print the state that a user interface makes of UI events, as JSON."""
    from app.core import json
    from app.views.ui.projection import project

    sys.stdout.buffer.write(json.pretty(project(_events(file))))
