"""Instructions of one stored token: `python -m bench.append [--against CHECKOUT]` prints JSON.

One delta after the other goes from the recorder to the hub, each in a commit of its own, in one process without a
network: so the count neither depends on what else the machine does nor on how long a stream takes, as that of
`bench.instructions` does, in which the server's regular work goes on meanwhile. Needs `valgrind`.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import orjson
import uvloop

ROOT: Final = Path(__file__).parents[1]
WARM: Final = 30
DELTAS: Final = 100


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--against", type=Path, help="another checkout with its .venv")
    parser.add_argument("--counted", type=Path, help="be the counted process, with this data folder")
    options = parser.parse_args()
    if options.counted is not None:
        sys.path.insert(0, os.getcwd())
        uvloop.run(stored(options.counted))
        return
    checkouts = {"ours": ROOT} | ({"against": options.against.resolve()} if options.against else {})
    counts = {name: instructions(checkout) for name, checkout in checkouts.items()}
    result: dict[str, object] = {"bench": "append", "database": "sqlite", "instructionsPerDelta": counts}
    if "against" in counts:
        result["toAgainst"] = round(counts["ours"] / counts["against"], 3)
    print(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode())


async def stored(data_dir: Path) -> None:
    """Imports from the checkout in the working folder."""
    from app.core.ids import new_id
    from app.core.settings import Settings
    from app.events.catalog import request, thread
    from app.events.catalog.adapter import OUTPUT_DELTA
    from app.events.catalog.builders import ScreenedDelta
    from app.events.recorder import Scope
    from app.wiring.store import open_store

    async with open_store(Settings(data_dir=data_dir)) as store:
        scope = Scope("default", new_id("thread"), new_id("run"), "backend:native")
        await store.recorder.record(scope, thread.ThreadCreated(), request.RequestQueued(agent="a", input="hi"))
        seen = 0

        def heard() -> None:
            nonlocal seen
            seen += len(subscription.take())

        subscription = store.hub.subscribe("default", [scope.thread_id])
        subscription.on_news = heard

        async def say(count: int) -> None:
            for n in range(count):
                await store.recorder.record(scope, ScreenedDelta("native", OUTPUT_DELTA, "msg_1", 0, f" word{n}"))

        await say(WARM)
        await asyncio.to_thread(control, "-i", "on")
        await say(DELTAS)
        await asyncio.to_thread(control, "-i", "off")
        await asyncio.to_thread(control, "-d")
        assert seen == WARM + DELTAS, seen


def control(*words: str) -> None:
    command = ["callgrind_control", *words, str(os.getpid())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)


def instructions(checkout: Path) -> int:
    python = sys.executable if checkout == ROOT else str(checkout / ".venv/bin/python")
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as made:
        folder = Path(made)
        grind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder / 'out'}", "-q"]
        script = [python, str(Path(__file__).resolve()), "--counted", str(folder / "data")]
        environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"}
        quiet = subprocess.DEVNULL
        subprocess.run([*grind, *script], check=True, cwd=checkout, env=environment, stdout=quiet, stderr=quiet)
        dumps = [path.read_text() for path in folder.glob("out*")]
    return round(sum(int(found[1]) for dump in dumps for found in re.finditer(r"(?m)^totals: (\d+)", dump)) / DELTAS)


if __name__ == "__main__":
    main()
