"""How SQLite goes about the store's queries: by an index, whatever the table has grown to."""

import re
import sqlite3
from pathlib import Path
from types import ModuleType

import pytest

from app.core.settings import Settings
from app.store import leases, materialize, reader, retention, run_lists, sqlite
from app.store.engine import Sql
from app.store.migrate import migrate


@pytest.fixture
async def database(tmp_path: Path) -> sqlite3.Connection:
    settings = Settings(data_dir=tmp_path)
    await migrate(settings)
    return sqlite3.connect(settings.sqlite_path)


def _plan(database: sqlite3.Connection, sql: Sql) -> list[str]:
    parameters = max((int(number) for number in re.findall(r"\?(\d+)", sql.sqlite)), default=0)
    return [row[3] for row in database.execute("EXPLAIN QUERY PLAN " + sql.sqlite, [None] * parameters)]


def _statements(module: ModuleType) -> dict[str, Sql]:
    """Those with a name of their own, those in tables and those in lists."""
    named = dict(vars(module))
    named |= {f"{name}.{place}": sql for name, several in list(named.items()) if isinstance(several, tuple)
              for place, sql in enumerate(several)}  # fmt: skip
    tables = {f"{name}.{key}": sql for name, table in named.items() if isinstance(table, dict)
              for key, sql in table.items()}  # fmt: skip
    return {name: sql for name, sql in (named | tables).items() if isinstance(sql, Sql)}


@pytest.mark.parametrize(
    ("module", "fewest"),
    [(reader, 10), (materialize, 10), (run_lists, 6), (retention, 6)],
    ids=["reader", "materialize", "run_lists", "retention"],
)
def test_no_query_reads_a_whole_table(database: sqlite3.Connection, module: ModuleType, fewest: int) -> None:
    queries = _statements(module)
    assert len(queries) >= fewest
    scans = {
        name: step
        for name, sql in queries.items()
        for step in _plan(database, sql)
        if step.startswith("SCAN")
        and "json_each" not in step
        and "subquery" not in step
        # Holds those that are open and nothing else, and whoever counts them has to look at each.
        and "interrupts_open" not in step
    }
    database.close()
    assert scans == {}


@pytest.mark.parametrize("module", [sqlite, materialize, leases], ids=["sqlite", "materialize", "leases"])
def test_no_statement_for_many_rows_reads_a_whole_table(database: sqlite3.Connection, module: ModuleType) -> None:
    many = {name: sql for name, sql in _statements(module).items() if sql.sqlite_bulk is not None}
    scans = {}
    for name, sql in many.items():
        statement = sqlite.sized(sql, 16)
        for row in database.execute("EXPLAIN QUERY PLAN " + statement, [None] * (16 * sql.sqlite_row.count("?"))):
            if row[3].startswith("SCAN") and row[3] not in ("SCAN v", "SCAN 16 CONSTANT ROWS"):
                scans[name] = row[3]
    database.close()
    assert many.keys() >= ({"_MOVE_THREADS", "_MOVE_RUNS"} if module is sqlite else {"_RELEASE"})
    assert scans == {}


@pytest.mark.requirement("G6")
def test_an_idempotency_key_is_found_without_reading_its_tenant_s_others(database: sqlite3.Connection) -> None:
    plan = _plan(database, materialize._KEYS)
    database.close()
    assert "(tenant=? AND route=? AND key=?)" in plan[0]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("_BY_TIME", "runs_by_time"),
        ("_BY_AGENT", "runs_by_agent (tenant=? AND agent=?"),
        ("_RESTING", "runs_by_status (tenant=? AND status=?"),
        ("_WORKING", "runs_active (status=?"),
        ("_BY_LABEL", "sqlite_autoindex_run_labels_1 (tenant=? AND name=? AND value=?"),
        ("_OF_THREAD", "runs_of_thread (thread_key=?"),
    ],
)
def test_a_list_of_runs_is_led_by_the_index_of_what_it_asks_for_and_sorts_nothing(
    database: sqlite3.Connection, name: str, index: str
) -> None:
    plan = _plan(database, vars(run_lists)[name])
    database.close()
    assert any(index in step for step in plan), plan
    assert name == "_WORKING" or not any("TEMP B-TREE" in step for step in plan), plan


@pytest.mark.parametrize("name", ["_LEASES", "_ORPHANS", "_LABELS", "_RUNS"])
def test_a_purge_looks_at_the_rows_of_its_thread_alone(database: sqlite3.Connection, name: str) -> None:
    plan = _plan(database, vars(retention)[name])
    database.close()
    assert plan and all(step.startswith(("SEARCH", "LIST", "CORRELATED", "USE TEMP")) for step in plan), plan
