"""The process whose disk fails: writes, waits for a word, lets syncs fail, and writes on.

    python -m tests.faults.failing_disk --data-dir D --notes D2 --fail commits|checkpoints|leases

Says `loaded`, waits for a line, says `failing`, and `survived` if it gets through, which it must not.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from app.core.settings import Settings
from app.wiring.store import open_store
from tests.faults.load import Producer
from tests.faults.loader import note
from tests.faults.syscalls import fail_syncs, open_files

RUNS_BEFORE = 5
RUNS_AFTER = 400
"""Enough for the database to move what it has written ahead into its main file."""


async def _main(given: Any) -> None:
    settings = Settings(data_dir=given.data_dir)
    given.notes.mkdir(parents=True, exist_ok=True)
    async with open_store(settings) as store:
        producer = Producer(store.recorder, note(given.notes / "acknowledged"))
        await producer.produce(RUNS_BEFORE)
        held = await producer.begin()
        print("loaded", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        fail_syncs(open_files(settings.sqlite_path.resolve()) if given.fail == "checkpoints" else None)
        print("failing", flush=True)
        if given.fail == "leases":
            assert held.run_id is not None
            await store.leases.renew([(held.tenant, held.run_id, 1)], 15.0)
        else:
            await producer.produce(RUNS_AFTER)
        print("survived", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--fail", choices=["commits", "checkpoints", "leases"], required=True)
    asyncio.run(_main(parser.parse_args()))
