"""The process that migrates an empty database on request, as a replica does that starts.

python -m tests.faults.migrator --data-dir D [--database-url U] [--die-before-commit] [--one-by-one]
"""

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from app.core.errors import HoldfastError
from app.core.settings import Settings
from app.store import migrate as migrations
from app.store.folder import DataFolder


def _die_before_commit() -> None:
    upgrade, run_script = migrations._upgrade, migrations._run_script

    def dying_upgrade(connection: Any) -> None:
        upgrade(connection)
        os.kill(os.getpid(), signal.SIGKILL)

    def dying_script(connection: Any) -> None:
        run_script(connection)
        os.kill(os.getpid(), signal.SIGKILL)

    migrations._upgrade, migrations._run_script = dying_upgrade, dying_script


async def _main(given: Any) -> None:
    settings = Settings(data_dir=given.data_dir, database_url=given.database_url)
    import alembic.command  # noqa: F401  # loaded before the race, so that it is one
    import sqlalchemy.ext.asyncio  # noqa: F401

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    if not settings.is_postgres:
        DataFolder(settings.data_dir).take()
    await migrations.migrate(settings)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--database-url")
    parser.add_argument("--die-before-commit", action="store_true")
    parser.add_argument("--one-by-one", action="store_true", help="also a new SQLite file by each migration")
    options = parser.parse_args()
    if options.one_by_one:
        migrations._create_sqlite = lambda path, can_shrink: False
    if options.die_before_commit:
        _die_before_commit()
    try:
        asyncio.run(_main(options))
    except HoldfastError as error:
        sys.exit(str(error))
