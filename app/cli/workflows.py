"""`holdfast workflows`: lists and shows workflows, draws their graphs, and says what one would do."""

from typing import Annotated, Literal

import typer

from app.cli.command_session import CommandSession, print_json, server_command

app = typer.Typer(no_args_is_help=True, help="Workflows: list, show, graph, plan, run.")

Workflow = Annotated[str, typer.Argument(metavar="NAME", help="The workflow's name.")]
Form = Annotated[Literal["json", "mermaid", "svg"], typer.Option("--format", help="JSON, Mermaid text, or a picture.")]
Given = Annotated[str, typer.Argument(metavar="INPUT", help="The input: JSON, or a text.")]


@app.command("list")
@server_command
async def list_(session: CommandSession) -> None:
    """List the workflows of the workspace."""
    found = [one async for one in session.client.pages("/api/workflows", None)]
    session.table(
        found,
        {
            "name": lambda one: one["name"],
            "adapter": lambda one: one["adapter"],
            "steps": lambda one: one["nodes"],
            "available": lambda one: "yes" if one["available"] else "no",
            "description": lambda one: one["description"],
        },
    )


@app.command()
@server_command
async def show(session: CommandSession, workflow: Workflow) -> None:
    """Print one workflow and its steps."""
    from app.cli.client import path_of

    found = await session.client.get(path_of("workflows", workflow) + "/graph")
    lines = [f"{node['id']}: {node.get('ref') or node['kind']}" for node in found["nodes"]]
    lines += [f"{edge['from']} -> {edge['to']}{_labelled(edge.get('condition'))}" for edge in found["edges"]]
    session.result(found, "\n".join(lines))


@app.command()
@server_command
async def graph(
    session: CommandSession,
    workflow: Workflow,
    format: Form = "mermaid",
    run: Annotated[bool, typer.Option("--run", help="NAME is the id of a run; show the state of its steps.")] = False,
) -> None:
    """Draw the graph of a workflow, or of a run."""
    from app.cli.client import path_of

    path = path_of("runs" if run else "workflows", workflow) + "/graph"
    if format == "json" or session.as_json:
        print_json(await session.client.get(path))
    else:
        typer.echo(await session.client.text(path, format=format), nl=False)


@app.command()
@server_command
async def plan(session: CommandSession, workflow: Workflow, given: Given = "") -> None:
    """Say what a workflow would do with an input, without running it."""
    from app.cli.client import path_of

    found = await session.client.post(path_of("workflows", workflow) + "/plan", {"input": _value(given)})
    valid = found["input"]["valid"]
    issues = "; ".join(f"{issue['path'] or '/'}: {issue['message']}" for issue in found["input"]["issues"])
    lines = ["The input is valid." if valid else f"The input is not valid: {issues}"]
    lines += [
        f"{step['id']}: {step.get('ref') or step['kind']}, after {', '.join(step['after'])}" for step in found["steps"]
    ]
    session.result(found, "\n".join(lines))
    if not valid:
        raise typer.Exit(1)


@app.command()
@server_command
async def run(
    session: CommandSession,
    workflow: Workflow,
    given: Given = "",
    wait: Annotated[float, typer.Option(help="Seconds to wait for its end.")] = 60,
) -> None:
    """Run a workflow and print its result. Exit code 3 if it waits for a person or a timer."""
    body = {"workflow": workflow, "input": _value(given)}
    found = await session.client.post("/api/runs", body, wait=wait)
    said = found["output"] if isinstance(found["output"], str) else None
    if found["status"] == "failed":
        typer.echo(f"{found['error']['code']}: {found['error']['message']}", err=True)
        raise typer.Exit(1)
    if found["status"] != "completed":
        session.result(found, f"{found['id']} is {found['status']}")
        raise typer.Exit(3)
    from app.core import json

    session.result(found, said if said is not None else json.dumps(found["output"]).decode())


def _labelled(condition: str | None) -> str:
    return f" [{condition}]" if condition else ""


def _value(given: str) -> object:
    from app.core import json

    try:
        return json.loads(given)
    except json.JsonError:
        return given
