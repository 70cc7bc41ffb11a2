"""A standby of a test's Postgres, made from a backup of it, which follows it and can take its place."""

import subprocess
from pathlib import Path

import asyncpg

from tests.postgres import PostgresServer


class Standby(PostgresServer):
    def __init__(self, folder: Path, primary: PostgresServer) -> None:
        super().__init__(folder)
        self._primary = primary
        self._install = primary._install  # which may be a copy that the server's user can read

    def _initialise(self) -> None:
        super()._initialise()  # for the folders and who may enter them; the data is the primary's
        subprocess.run(["rm", "-rf", str(self._data)], check=True)
        subprocess.run(
            [str(self._bin / "pg_basebackup"), "-D", str(self._data), "-h", "127.0.0.1", "-p", str(self._primary.port),
             "-U", "postgres", "-R", "-X", "stream", "--checkpoint=fast", "--no-sync"],
            check=True, capture_output=True, user=self._user, group=self._user,
        )  # fmt: skip

    async def follow(self) -> None:
        """From now on nothing is acknowledged by the primary that this one does not have."""
        admin = await asyncpg.connect(self._primary.url("postgres"))
        try:
            await admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            await admin.execute("SELECT pg_reload_conf()")
            state = "SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"
            while not await admin.fetchval(state):  # Postgres has no event for it
                await admin.execute("SELECT pg_sleep(0.05)")
        finally:
            await admin.close()

    async def promote(self) -> None:
        connection = await asyncpg.connect(self.url("postgres"))
        try:
            await connection.execute("SELECT pg_promote(true, 30)")
        finally:
            await connection.close()
