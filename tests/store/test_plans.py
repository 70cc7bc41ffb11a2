"""How both databases carry out the store's queries: by an index, whatever the table has grown to."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import asyncpg
import pytest

from app.core.settings import Settings
from app.store import (
    compaction,
    event_rows,
    heads,
    idle_threads,
    leases,
    materialize,
    postgres_append,
    postgres_session,
    project_lines,
    reader,
    retention,
    run_lists,
    sqlite,
)
from app.store.engine import Sql
from app.store.migrate import migrate
from tests.databases import create_database
from tests.postgres import PostgresServer


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
    [
        (reader, 10),
        (event_rows, 1),
        (heads, 9),
        (materialize, 10),
        (run_lists, 6),
        (retention, 6),
        (leases, 5),
        (idle_threads, 1),
        (compaction, 2),
        (project_lines, 4),
    ],
    ids=[
        "reader",
        "event_rows",
        "heads",
        "materialize",
        "run_lists",
        "retention",
        "leases",
        "idle_threads",
        "compaction",
        "project_lines",
    ],
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
        and step != "SCAN CONSTANT ROW"  # of no table
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
    plan = _plan(database, heads._KEYS)
    database.close()
    assert "(tenant=? AND route=? AND key=?)" in plan[0]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("_BY_TIME", "runs_by_time"),
        ("_BY_AGENT", "runs_by_agent (tenant=? AND agent>? AND (agent,created_at,id)<(?,?,?))"),
        ("_RESTING", "runs_by_status (tenant=? AND status>? AND (status,created_at,id)<(?,?,?))"),
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


@pytest.mark.parametrize("name", ["_EVENTS", "_EVENTS_AND_DELTAS_OF", "_RUN_EVENTS"])
def test_wide_and_tight_rows_are_merged_in_the_order_of_their_keys(database: sqlite3.Connection, name: str) -> None:
    plan = _plan(database, vars(reader)[name])
    database.close()
    assert plan[0] == "MERGE (UNION ALL)" and not any("TEMP B-TREE" in step for step in plan), plan


@pytest.mark.parametrize("name", ["_LEASES", "_ORPHANS", "_LABELS", "_RUNS"])
def test_a_purge_looks_at_the_rows_of_its_thread_alone(database: sqlite3.Connection, name: str) -> None:
    plan = _plan(database, vars(retention)[name])
    database.close()
    assert plan and all(step.startswith(("SEARCH", "LIST", "CORRELATED", "USE TEMP")) for step in plan), plan


ROWS: Final = 20_000
"""Enough that Postgres would not read a table from end to end where an index serves."""
_FILL: Final = f"""
INSERT INTO threads (key, tenant, id, last_seq, head_hash, updated_at, created_at, deleted_at, state)
    SELECT n, 'default', 'thr_' || n, 1, '', n, n, CASE WHEN n % 1000 = 0 THEN n END, repeat('x', 200)::bytea
    FROM generate_series(1, {ROWS}) AS n;
INSERT INTO runs (tenant, id, thread_key, thread_id, agent, status, created_at, first_seq, last_seq, run_seq, state)
    SELECT 'default', 'run_' || n, n, 'thr_' || n, 'echo', CASE WHEN n % 5000 = 0 THEN 'running' ELSE 'completed' END,
    n, 1, 1, 1, repeat('x', 200)::bytea FROM generate_series(1, {ROWS}) AS n;
INSERT INTO run_labels (tenant, name, value, created_at, run_id, thread_key)
    SELECT 'default', 'team', 'all', n, 'run_' || n, n FROM generate_series(1, {ROWS}) AS n;
INSERT INTO leases (tenant, run_id, owner, epoch, until)
    SELECT 'default', 'run_' || n, 'owner', 1, 0 FROM generate_series(1, {ROWS}) AS n;
INSERT INTO events (thread_key, seq, id, type, actor, at, payload, prev_hash, hash)
    SELECT 1 + n % 1000, n, 'evt_' || n, 'type', 'user', n, repeat('x', 200)::bytea, '', ''
    FROM generate_series(1, {ROWS}) AS n;
INSERT INTO deltas (thread_key, seq, back, uuid, text, hash)
    SELECT 1 + n % 1000, {ROWS} + n, {ROWS}, repeat('x', 16)::bytea, 'text', repeat('x', 32)::bytea
    FROM generate_series(1, {ROWS}) AS n;
INSERT INTO transcript_entries (thread_key, message_id, position, state)
    SELECT 1 + n % 1000, 'msg_' || n, n, repeat('x', 200)::bytea FROM generate_series(1, {ROWS}) AS n;
ANALYZE
"""


@pytest.fixture(scope="module")
def filled_database(postgres_server: PostgresServer) -> str:
    """Its statistics say what is usual: one agent, one label, and nearly every run has completed."""

    async def fill() -> str:
        await create_database(postgres_server, "plans")
        connection = await asyncpg.connect(postgres_server.url("plans"))
        await connection.execute(_FILL)
        await connection.close()
        return postgres_server.url("plans")

    return asyncio.run(fill())


@pytest.fixture
async def filled(filled_database: str) -> "AsyncIterator[asyncpg.Connection[Any]]":
    connection = await asyncpg.connect(filled_database, statement_cache_size=0)
    # As a prepared statement is planned that has been used often: once, for whatever values come.
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    yield connection
    await connection.close()


async def _postgres_plan(connection: "asyncpg.Connection[Any]", sql: Sql) -> str:
    given = ["NULL"] * max((int(number) for number in re.findall(r"\$(\d+)", sql.postgres)), default=0)
    if "thread_key = $1" in sql.postgres:
        given[0] = "1"  # without a thread there is no partition to look into
    values = ", ".join(given)
    await connection.execute(f"PREPARE asked AS {sql.postgres}")
    rows = await connection.fetch(f"EXPLAIN EXECUTE asked{f'({values})' if values else ''}")
    await connection.execute("DEALLOCATE asked")
    return "\n".join(row[0] for row in rows)


async def test_postgres_reads_no_table_from_end_to_end(filled: "asyncpg.Connection[Any]") -> None:
    modules = (reader, event_rows, run_lists, retention, leases, idle_threads, compaction)
    scans = {}
    named = {f"{it.__name__}.{name}": sql for it in modules for name, sql in _statements(it).items()}
    for name, sql in named.items():
        plan = await _postgres_plan(filled, sql)
        # Those that hold nothing here are read so by their size.
        scanned = set(
            re.findall(r"Seq Scan on (threads|runs|run_labels|leases|events|deltas|transcript_entries)", plan)
        )
        if scanned:
            scans[name] = plan
    assert scans == {}


@pytest.mark.parametrize(
    ("module", "name", "index"),
    [
        (run_lists, "_BY_TIME", "runs_by_time"),
        (run_lists, "_BY_AGENT", "runs_by_agent"),
        (run_lists, "_RESTING", "runs_by_status"),
        (run_lists, "_BY_LABEL", "run_labels_by_value"),
        (run_lists, "_OF_THREAD", "runs_of_thread"),
        (reader, "_NEWEST_THREADS", "threads_of_tenant"),
        (reader, "_ENTRY_PAGE", "transcript_by_position"),
        (idle_threads, "_IDLE", "threads_by_age"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_postgres_follows_the_index_of_a_list_and_sorts_nothing(
    filled: "asyncpg.Connection[Any]", module: ModuleType, name: str, index: str
) -> None:
    plan = await _postgres_plan(filled, vars(module)[name])
    assert f"using {index} " in plan and "Sort" not in plan, plan


@pytest.mark.parametrize(
    ("module", "name", "most"),
    [(reader, "_ACTIVE", 200), (retention, "_DUE", 60), (idle_threads, "_IDLE", 20), (run_lists, "_WORKING", 60)],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_sweep_touches_few_pages_with_the_settings_of_a_server(
    filled: "asyncpg.Connection[Any]", module: ModuleType, name: str, most: int
) -> None:
    """The tables have some 500 pages and more each."""
    await filled.execute(postgres_session.READER_SETTINGS)
    sql: Sql = vars(module)[name]
    values = {
        "_ACTIVE": "100",
        "_DUE": "20000",
        "_IDLE": "20000, 100, 0, 10",
        "_WORKING": "'default', 20000, '', 50, 'running'",
    }
    await filled.execute(f"PREPARE asked AS {sql.postgres}")
    rows = await filled.fetch(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) EXECUTE asked({values[name]})")
    plan = "\n".join(row[0] for row in rows)
    touched = sum(int(number) for number in re.findall(r"(?:hit|read)=(\d+)", plan.splitlines()[1]))
    assert 0 < touched <= most, plan


@pytest.mark.parametrize(
    "name", ["_NEWEST_THREADS", "_THREADS_OF", "_ENTRY_PAGE", "_EVENTS", "_EVENTS_AND_DELTAS_OF", "_RUN_EVENTS"]
)
async def test_postgres_stops_at_a_page_s_end_without_statistics(postgres_server: PostgresServer, name: str) -> None:
    """A new database has none until the first automatic ANALYZE, and a plan made then is kept."""
    await create_database(postgres_server, f"plans{name.lower()}")
    connection = await asyncpg.connect(postgres_server.url(f"plans{name.lower()}"), statement_cache_size=0)
    await connection.execute(f"{postgres_session.READER_SETTINGS}; SET plan_cache_mode = force_generic_plan")
    plan = await _postgres_plan(connection, vars(reader)[name])
    await connection.close()
    assert "Index Scan" in plan and "Sort  (cost" not in plan, plan  # which a merge by a "Sort Key" is not


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("unlocked", postgres_append.append_if_unchanged(True, True)),
        ("locked", postgres_append.append((True, True, True, True))),
        ("threads", materialize._CHANGE_THREAD.postgres_bulk),
    ],
    ids=["unlocked", "locked", "threads"],
)
async def test_a_batch_on_postgres_finds_its_rows_by_their_keys_without_statistics(
    postgres_server: PostgresServer, name: str, statement: str
) -> None:
    await create_database(postgres_server, f"batches_{name}")
    connection = await asyncpg.connect(postgres_server.url(f"batches_{name}"), statement_cache_size=0)
    await connection.execute(f"{postgres_session.WRITER_SETTINGS}; SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE asked AS {statement}")
    nothing = ", ".join(["NULL"] * max(map(int, re.findall(r"\$(\d+)", statement))))
    plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE asked({nothing})"))
    await connection.close()
    assert "Index Scan using threads_pkey" in plan and "Seq Scan" not in plan, plan


async def test_postgres_finds_the_runs_at_work_and_the_leases_of_a_dead_owner_by_their_indexes(
    filled: "asyncpg.Connection[Any]",
) -> None:
    assert "runs_active" in await _postgres_plan(filled, run_lists._WORKING)
    plan = await _postgres_plan(filled, leases._OF_OWNER)
    assert "runs_active" in plan and "leases_by_previous" in plan, plan
