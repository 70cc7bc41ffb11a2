"""The process whose disk refuses writes with an error that is not "no space".

    python -m tests.faults.refusing_disk --data-dir D --error EIO|EPERM|ENOSPC

Prints the code that an append is answered with, and whether what was stored before can still be read.
"""

import argparse
import asyncio
import errno
from pathlib import Path
from typing import Any

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.envelope import Event
from app.events.ports import StoreError
from app.wiring.store import open_store
from tests.faults.load import Producer
from tests.faults.syscalls import fail_writes


async def _main(given: Any) -> None:
    acknowledged: list[Event] = []
    async with open_store(Settings(data_dir=given.data_dir)) as store:
        producer = Producer(store.recorder, acknowledged.append)
        await producer.produce(2)
        fail_writes(getattr(errno, given.error))
        try:
            await producer.produce(1)
        except StoreError as error:
            print(f"refused {error.code}", flush=True)
        last = acknowledged[-1]
        found = await store.reader.events(DEFAULT_TENANT, last.thread_id, last.seq - 1, 1)
        print(f"read {found[0].id == last.id}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--error", required=True)
    asyncio.run(_main(parser.parse_args()))
