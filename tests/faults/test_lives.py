"""Any order of submitting, stepping, crashing, resuming, cancelling, answering and commanding leaves a sound store."""

import itertools
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from app.core.settings import Settings
from app.store.migrate import migrate
from tests.databases import create_database
from tests.faults.stepping import Lives
from tests.postgres import PostgresServer
from tests.server import secret_file


def _maker(kind: str, folder: Path, request: pytest.FixtureRequest) -> Callable[[], Awaitable[Settings]]:
    """A fresh, migrated database for each example."""
    numbers, template = itertools.count(1), folder / "template"

    async def sqlite() -> Settings:
        if not template.exists():
            template.mkdir()
            await migrate(Settings(data_dir=template))
        return Settings(data_dir=Path(shutil.copytree(template, folder / f"data-{next(numbers)}")))

    async def postgres() -> Settings:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        number = next(numbers)
        name = f"lives_{abs(hash(folder)) % 10**8}_{number}"
        await create_database(server, name)
        place = folder / f"data-{number}"
        place.mkdir()
        return Settings(data_dir=place, database_url=server.url(name), secret_file=secret_file(place))

    return sqlite if kind == "sqlite" else postgres


@pytest.mark.requirement("G4", "G5", "G7", "G8", "G9", "G22", "PX-2")
@pytest.mark.parametrize(
    ("kind", "examples"),
    [
        ("sqlite", 4),
        ("postgres", 1),
        pytest.param("sqlite", 100, marks=[pytest.mark.faults, pytest.mark.timeout(3000)]),
        pytest.param("postgres", 30, marks=[pytest.mark.faults, pytest.mark.timeout(3000)]),
    ],
)
def test_any_life_of_runs_is_explained_by_its_log(
    kind: str, examples: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "postgres":
        request.getfixturevalue("postgres_server")
    make, places = _maker(kind, tmp_path, request), itertools.count(1)

    def machine() -> Lives:
        place = tmp_path / f"example-{next(places)}"
        place.mkdir()
        return Lives(make, place)

    chosen = settings(
        max_examples=examples,
        stateful_step_count=20,
        deadline=None,
        derandomize=examples < 10,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(machine, settings=chosen)  # type: ignore[arg-type]  # a factory will do
