"""Writes the files that are made from code, or says which of them are not fresh.

    python -m scripts.generate            write what is stale, remove what is left over
    python -m scripts.generate --check    change nothing; fail and name each file that is not fresh

A generator is one entry of `GENERATORS`. What the files say is decided by the code they are made from;
what a frozen schema is, and that it did not change, by `scripts.frozen`.
"""

import argparse
import contextlib
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.core import json
from app.core.error_codes import CODES
from app.core.settings import PREFIX, Settings
from scripts import frozen

ROOT: Final = Path(__file__).resolve().parents[1]

Files = Mapping[str, bytes]
"""Contents by path, relative to the root of the project."""


@dataclass(frozen=True, slots=True)
class Generator:
    """Makes files; `owns` are the patterns in which no other file may lie."""

    name: str
    make: Callable[[Path], Files]
    owns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A file that is not as its generator makes it: stale, missing or left over."""

    path: str
    what: str


def error_pages(root: Path) -> Files:
    lines = [
        "# Error codes",
        "",
        "Generated from `app/core/error_codes`. Clients can rely on the codes: a code never changes its meaning.",
    ]
    for name, code in sorted(CODES.items()):
        lines += ["", f'## <a id="{name}"></a>{name}', "", code.meaning, "", f"**Remedy:** {code.remedy}"]
    return {"docs/errors.md": _text(lines)}


def sqlite_schema(root: Path) -> Files:
    """What all migrations come to on an empty file."""
    from app.store.migrate import upgrade_sqlite

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new.db"
        upgrade_sqlite(path)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    statements = ["\n".join(line.rstrip() for line in sql.splitlines()) for (sql,) in rows]
    return {"migrations/sqlite.sql": (";\n".join(statements) + "\n").encode()}


def configuration_page(root: Path) -> Files:
    properties = Settings.model_json_schema()["properties"]
    defaults = Settings()
    lines = [
        "# Configuration",
        "",
        "Generated from `app/core/settings.py`. Command-line flags take precedence over variables, variables over the",
        f"TOML file that `{PREFIX}CONFIG` names (with the keys below, without the prefix, in lower case), and the file",
        f"over the defaults. An unknown variable that begins with `{PREFIX}` prevents the start, so that mistakes",
        "are noticed. Kubernetes sets such variables for a service called `holdfast`; use `enableServiceLinks: false`.",
        "",
        "| variable | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for name, schema in properties.items():
        default = _default(getattr(defaults, name), root)
        lines.append(f"| `{PREFIX}{name.upper()}` | {_takes(schema)} | {default} | {schema['description']} |")
    return {"docs/configuration.md": _text(lines)}


def event_schemas(root: Path) -> Files:
    # Imported here: the other generators and their tests need no catalog.
    from app.events.catalog import EVENTS, schema_id, schema_of

    return {f"schemas/events/{schema_id(name)}.json": json.pretty(schema_of(cls)) for name, cls in EVENTS.items()}


def workspace_schemas(root: Path) -> Files:
    from app.workspace.schemas import workspace_schemas as make

    return {f"schemas/workspace/{name}": content for name, content in make().items()}


def _openapi() -> dict[str, Any]:
    from dataclasses import fields

    from app.core.metrics import Metrics
    from app.protocols.context import ServerContext
    from app.protocols.openapi import document
    from app.protocols.server import create_app

    # Describing the routes asks nothing of what they work with.
    given: dict[str, Any] = dict.fromkeys(field.name for field in fields(ServerContext)) | {"metrics": Metrics()}
    app = create_app(ServerContext(**given))
    return document(app)


def openapi(root: Path) -> Files:
    return {"openapi/openapi.json": json.pretty(_openapi())}


def clients(root: Path) -> Files:
    from scripts import client_javascript, client_python
    from scripts.client_model import read

    model = read(_openapi())
    return {**client_python.files(model), **client_javascript.files(model)}


def grafana_dashboard(root: Path) -> Files:
    from scripts.dashboard import dashboard

    return {"docs/deploy/grafana/holdfast.json": json.pretty(dashboard())}


def command_page(root: Path) -> Files:
    from scripts.commands import page

    return {"docs/cli.md": page()}


def metrics_page(root: Path) -> Files:
    from scripts.metrics import page

    return {"docs/metrics.md": page()}


def workspace_reference(root: Path) -> Files:
    from scripts.reference import page

    return {"docs/workspace-reference.md": page()}


def event_page(root: Path) -> Files:
    from scripts.event_page import page

    return {"docs/events.md": page()}


def builtin_tools_page(root: Path) -> Files:
    from scripts.builtin_tools import page

    return {"docs/built-in-tools.md": page()}


def run_picture(root: Path) -> Files:
    from scripts.picture import picture

    return {"docs/pictures/run.svg": picture()}


def asyncapi(root: Path) -> Files:
    from app.protocols.stream.asyncapi import document

    return {"openapi/asyncapi.json": json.pretty(document())}


GENERATORS: Final = (
    Generator("event schemas", event_schemas, owns=("schemas/events/*.json",)),  # before whatever records events
    Generator("SQLite schema", sqlite_schema),
    Generator("error pages", error_pages),
    Generator("configuration page", configuration_page),
    Generator("dashboard", grafana_dashboard),
    Generator("command line page", command_page),
    Generator("metrics page", metrics_page),
    Generator("workspace reference", workspace_reference),
    Generator("event catalogue", event_page),
    Generator("built-in tools page", builtin_tools_page),
    Generator("picture of a run", run_picture),
    Generator("workspace schemas", workspace_schemas, owns=("schemas/workspace/*.json",)),
    Generator("OpenAPI document", openapi),
    Generator("AsyncAPI document", asyncapi),
    Generator("client packages", clients),
    Generator("frozen schemas", frozen.record),  # after those that make schemas
)


def run(root: Path, generators: Iterable[Generator], *, write: bool) -> list[Finding]:
    """What was not fresh; with `write` it is afterwards."""
    found = []
    for generator in generators:
        made = generator.make(root)
        for path, content in made.items():
            target = root / path
            if not target.is_file():
                found.append(Finding(path, "missing"))
            elif target.read_bytes() != content:
                found.append(Finding(path, "stale"))
            else:
                continue
            if write:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        for path in _lying_in(root, generator.owns) - made.keys():
            found.append(Finding(path, "left over"))
            if write:
                (root / path).unlink()
    return sorted(found, key=lambda finding: finding.path)


def main(arguments: list[str] | None = None, *, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.generate")
    parser.add_argument("--check", action="store_true", help="change nothing, fail when a file is not fresh")
    check: bool = parser.parse_args(arguments).check
    changed = frozen.violations(root)
    for problem in changed:
        print(problem, file=sys.stderr)
    findings = run(root, GENERATORS, write=not check)
    for finding in findings:
        print(
            f"{finding.path}: {finding.what}" + ("" if check else ", now fresh"),
            file=sys.stderr if check else None,
        )
    if check and findings:
        print("run `make generate` and commit the result", file=sys.stderr)
    return 1 if changed or (check and findings) else 0


def _lying_in(root: Path, patterns: Iterable[str]) -> set[str]:
    return {path.relative_to(root).as_posix() for pattern in patterns for path in root.glob(pattern)}


def _text(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _default(value: Any, root: Path) -> str:
    if value is None:
        return "none"
    if isinstance(value, Path) and value.is_absolute():
        # A folder that ships with the program; where it lies depends on the installation.
        return f"the shipped `{value.relative_to(ROOT).as_posix()}`"
    return f"`{value}`"


def _takes(schema: Mapping[str, Any]) -> str:
    """`integer 1..10000`, `string`, `path`, `one of debug, info`: what a setting may be, in few words."""
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    option = options[0]
    if "enum" in option:
        return "one of " + ", ".join(option["enum"])
    kind = "path" if option.get("format") == "path" else str(option["type"])
    pattern = str(option.get("pattern", ""))
    if pattern.startswith("^(") and pattern.endswith(")$"):
        return "one of " + ", ".join(pattern[2:-2].split("|"))
    low, high = option.get("minimum"), option.get("maximum")
    if low is not None and high is not None:
        return f"{kind} {low}..{high}"
    return f"{kind}, at least {low}" if low is not None else kind


if __name__ == "__main__":
    sys.exit(main())
