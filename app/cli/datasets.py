"""`holdfast dataset`: collects cases from runs, imports and exports files, lists versions and takes samples."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.command_session import CommandSession, print_json, server_command

if TYPE_CHECKING:
    from app.core.json import JsonObject

app = typer.Typer(no_args_is_help=True, help="Datasets: collect, import, export, list, sample.")

Name = Annotated[str, typer.Argument(metavar="DATASET", help="The dataset's name.")]
Format = Annotated[
    Literal["jsonl", "yaml"] | None,
    typer.Option("--format", help="jsonl, or yaml for pydantic-evals. Default: by the file's name."),
]
Version = Annotated[int | None, typer.Option(min=1, help="Default: the newest.")]


@app.command("list")
@server_command
async def list_datasets(
    session: CommandSession, limit: Annotated[int, typer.Option(min=1, help="Maximum number of results.")] = 50
) -> None:
    """List datasets with their newest version."""
    found = [one async for one in session.client.pages("/api/datasets", limit)]
    session.table(
        found,
        {
            "dataset": lambda one: one["name"],
            "version": lambda one: one["version"],
            "cases": lambda one: one["cases"],
            "source": lambda one: one["source"],
            "created": lambda one: one["createdAt"],
            "digest": lambda one: one["digest"][:16],
        },
    )


@app.command("collect")
@server_command
async def collect(
    session: CommandSession,
    name: Name,
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.")] = None,
    label: Annotated[list[str] | None, typer.Option(help="Only runs with this label, as name:value.")] = None,
    status: Annotated[
        Literal["completed", "failed", "cancelled"], typer.Option(help="Only runs with this status.")
    ] = "completed",
    gate: Annotated[str | None, typer.Option(help="Only runs that this gate judged, with --min-score.")] = None,
    min_score: Annotated[float, typer.Option(min=0, max=1, help="Minimum score of the gate.")] = 0.0,
    min_feedback: Annotated[
        float | None, typer.Option(min=0, max=1, help="Only runs whose feedback is at least this.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of cases.")] = 1000,
) -> None:
    """Create a version from stored runs. Personal data is replaced."""
    wanted: JsonObject = {"status": status, "limit": limit}
    wanted |= {"agent": agent} if agent else {}
    wanted |= {"labels": dict(_label(text) for text in label)} if label else {}
    wanted |= {"score": {"name": gate, "atLeast": min_score}} if gate else {}
    wanted |= {"feedback": {"atLeast": min_feedback}} if min_feedback is not None else {}
    _created(session, await session.client.post("/api/datasets", {"name": name, "collect": wanted}))


@app.command("import")
@server_command
async def import_file(
    session: CommandSession,
    name: Name,
    file: Annotated[Path, typer.Argument(help="JSON lines or YAML; - reads standard input.")],
    format_: Format = None,
) -> None:
    """Create a version from a file."""
    from app.cli.client import expect_success, path_of
    from app.core import json

    data = sys.stdin.buffer.read() if str(file) == "-" else await asyncio.to_thread(file.read_bytes)
    wanted = {"format": format_ or _format(file)}
    answer = await session.client.http.post(f"{path_of('datasets', name)}/import", params=wanted, content=data)
    expect_success(answer.status_code, answer.content)
    _created(session, json.loads(answer.content))


@app.command("export")
@server_command
async def export(
    session: CommandSession,
    name: Name,
    file: Annotated[Path, typer.Argument(help="Where to write; - writes to standard output.")],
    version: Version = None,
    format_: Format = None,
) -> None:
    """Write a version to a file."""
    from app.cli.client import expect_success, path_of

    wanted = {"format": format_ or _format(file)} | ({} if version is None else {"version": str(version)})
    answer = await session.client.http.get(f"{path_of('datasets', name)}/export", params=wanted)
    expect_success(answer.status_code, answer.content)
    if str(file) == "-":
        sys.stdout.buffer.write(answer.content)
        sys.stdout.flush()
    else:
        await asyncio.to_thread(file.write_bytes, answer.content)
        session.notes.print(f"The dataset is in {file}.")


@app.command("sample")
@server_command
async def take_sample(
    session: CommandSession,
    name: Name,
    size: Annotated[int, typer.Option(min=1, help="Number of cases.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same sample.")] = 0,
    by: Annotated[str | None, typer.Option(help="A field whose values keep their shares, such as agent.")] = None,
    save_as: Annotated[str | None, typer.Option(help="Store the sample as a version of this dataset.")] = None,
    version: Version = None,
) -> None:
    """Take a sample of a dataset."""
    from app.cli.client import path_of

    wanted: JsonObject = {"size": size, "seed": seed}
    wanted |= {"by": by} if by else {}
    wanted |= {"saveAs": save_as} if save_as else {}
    wanted |= {"version": version} if version else {}
    taken = await session.client.post(f"{path_of('datasets', name)}/sample", wanted)
    if session.as_json:
        print_json(taken)
    elif taken["dataset"] is not None:
        _created(session, taken["dataset"])
    else:
        session.table(taken["cases"], {"case": lambda case: case["id"], "input": lambda case: str(case["input"])[:60]})


def _created(session: CommandSession, made: "JsonObject") -> None:
    text = f"{made['name']}@{made['version']}"
    session.result(made, text if session.quiet else f"{text}: {made['cases']} cases, SHA-256 {made['digest']}")


def _format(file: Path) -> str:
    return "yaml" if file.suffix in (".yaml", ".yml") else "jsonl"


def _label(text: str) -> tuple[str, str]:
    name, given, value = text.partition(":")
    if not given:
        raise typer.BadParameter(f"{text!r} is not a label, such as team:sales")
    return name, value
