"""How much room there is, and how much the embedded database takes."""

import shutil
from pathlib import Path

from app.core.metrics import Metrics
from app.core.settings import Settings


def watch_disk(metrics: Metrics, settings: Settings) -> None:
    def free() -> float:
        return shutil.disk_usage(settings.data_dir).free if settings.data_dir.is_dir() else float("nan")

    def size(path: Path) -> float:
        return path.stat().st_size if path.is_file() else 0

    metrics.watch("disk_free_bytes", "Free space on the disk of the data folder.", free, shared=True)
    if not settings.is_postgres:
        database = settings.sqlite_path
        wal = database.with_name(database.name + "-wal")
        metrics.watch("database_bytes", "Size of the database file.", lambda: size(database))
        metrics.watch("database_wal_bytes", "Size of the write-ahead log (WAL) file.", lambda: size(wal))
