"""The log's tables on Postgres in partitions, by hash of the thread: smaller indexes, and a vacuum for each part.

A thread is in one partition, so that reading and purging it touches one. New and small databases are converted by a
migration; a large one by `holdfast partition`, while its servers are stopped. Either is one transaction: a crash leaves
the tables as they were.
"""

from typing import Final

from app.core.errors import HoldfastError
from app.events.ports import StorageDown

PARTITIONS: Final = 16
"""Enough for a few hundred million events; with more, planning a statement takes longer (bench/postgres_size.py)."""
SMALL_ROWS: Final = 50_000
"""Tables up to this size are converted by the migration, in about a second. Others wait for the operator."""
TABLES: Final = ("events", "deltas")
_INSERTED_ONLY: Final = (
    "autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_scale_factor = 0.02, "
    "autovacuum_analyze_scale_factor = 0.05"
)
"""Rows are written once and deleted with their thread: without this a vacuum would come after a fifth of the table."""
_UPDATED_OFTEN: Final = (
    "fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, "
    "autovacuum_analyze_scale_factor = 0.05"
)
"""Each append moves counters of a row: with room on its page that needs no change of an index."""
_CONNECT_SECONDS: Final = 5.0
_LOCK_SECONDS: Final = 10

# In the order in which an append takes them, so that nobody waits for each other.
LOCK: Final = "LOCK TABLE threads, runs, leases, events, deltas IN ACCESS EXCLUSIVE MODE"
IS_PARTITIONED: Final = "SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass('events')"
IS_SMALL: Final = " AND ".join(
    f"(SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT {SMALL_ROWS + 1}) AS counted) <= {SMALL_ROWS}"
    for table in TABLES
)
SETTINGS: Final = tuple(f"ALTER TABLE {table} SET ({_UPDATED_OFTEN})" for table in ("threads", "runs", "leases"))


class CannotPartition(HoldfastError):
    def __init__(self, message: str) -> None:
        super().__init__("CANNOT_PARTITION", message)


def conversion(table: str, count: int = PARTITIONS) -> list[str]:
    """The statements that put a table into partitions; its rows move along."""
    parts = [
        f"CREATE TABLE {table}_p{number} PARTITION OF {table} FOR VALUES WITH (MODULUS {count}, REMAINDER {number}) "
        f"WITH ({_INSERTED_ONLY})"
        for number in range(count)
    ]
    return [
        f"ALTER TABLE {table} RENAME TO {table}_whole",
        f"ALTER TABLE {table}_whole RENAME CONSTRAINT {table}_by_seq TO {table}_whole_by_seq",
        f"CREATE TABLE {table} (LIKE {table}_whole INCLUDING DEFAULTS) PARTITION BY HASH (thread_key)",
        *parts,
        f"INSERT INTO {table} SELECT * FROM {table}_whole",
        # After the rows: an index is made faster than it grows.
        f"ALTER TABLE {table} ADD CONSTRAINT {table}_by_seq PRIMARY KEY (thread_key, seq)",
        f"ALTER TABLE {table} ADD CONSTRAINT {table}_thread_key_fkey FOREIGN KEY (thread_key) REFERENCES threads (key)",
        f"DROP TABLE {table}_whole",
    ]


async def partition(url: str) -> int | None:
    """Converts a database of any size. How many rows were moved; None if it has partitions already."""
    import asyncpg

    try:
        connection = await asyncpg.connect(url, timeout=_CONNECT_SECONDS)
    except (OSError, asyncpg.PostgresError, TimeoutError) as error:
        raise StorageDown(f"cannot connect to the database: {type(error).__name__}") from error
    try:
        converted = await connection.fetchval(IS_PARTITIONED)
        if converted is None:
            raise CannotPartition("the database has no tables yet; start a server on it first")
        if converted:
            return None
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'; SET LOCAL statement_timeout = 0")
            try:
                await connection.execute(LOCK)
            except asyncpg.LockNotAvailableError as error:
                raise CannotPartition("a server uses the database; stop all servers of it first") from error
            moved = 0
            for table in TABLES:
                for statement in conversion(table):
                    status = await connection.execute(statement)
                    moved += int(status.split()[-1]) if status.startswith("INSERT") else 0
        for table in TABLES:
            await connection.execute(f"ANALYZE {table}")
        return moved
    finally:
        await connection.close()
