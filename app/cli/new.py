"""`holdfast new`: creates a workspace by copying one of the examples."""

import re
import shutil
from pathlib import Path
from typing import Annotated, Final

import typer

from app.core.resources import shipped

SCHEMAS_FOLDER: Final = ".schemas"  # hidden, so that it is no part of the workspace itself
_MODELINE = re.compile(r"(yaml-language-server: \$schema=)(?:\.\./)+schemas/workspace/")


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to create.")],
    template: Annotated[
        str, typer.Option("--template", "-t", help="Example workspace to copy, such as demo or openai.")
    ] = "demo",
) -> None:
    """Create a workspace in DIR by copying an example."""
    source = shipped("workspaces") / template
    if template not in templates():
        _refuse(f"There is no template {template!r}. Choose one of: {', '.join(templates())}.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        _refuse(f"{folder} already exists and is not empty.")
    create(source, folder)
    typer.echo(f"Created {folder}. Check it with `holdfast check {folder}`,")
    typer.echo(f"serve it with `HOLDFAST_WORKSPACE={folder} holdfast serve`.")


def templates() -> list[str]:
    """The names of the example workspaces; `defaults` contains only prompts."""
    return sorted(path.parent.name for path in shipped("workspaces").glob("*/runtime.yaml"))


def create(source: Path, folder: Path) -> None:
    """Copy the files and the JSON Schemas for editors, and adapt the paths to the schemas."""
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    shutil.copytree(shipped("schemas") / "workspace", folder / SCHEMAS_FOLDER, dirs_exist_ok=True)
    for path in folder.rglob("*.yaml"):
        up = "../" * (len(path.relative_to(folder).parts) - 1)
        text = path.read_text(encoding="utf-8")
        path.write_text(_MODELINE.sub(rf"\g<1>{up}{SCHEMAS_FOLDER}/", text), encoding="utf-8")


def _refuse(message: str) -> None:
    typer.echo(message, err=True)
    raise typer.Exit(1)
