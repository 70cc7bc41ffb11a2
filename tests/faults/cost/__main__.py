"""Repeats one case, or many: `python -m tests.faults.cost CLASS SEED [SCALE]`, `... CLASS FIRST-LAST`."""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.faults.cost import live
from tests.faults.cost.case import Verdict
from tests.faults.cost.classes import PURE
from tests.faults.cost.figures import failures, table
from tests.faults.cost.watch import Watch, run_all


def main(arguments: list[str]) -> int:
    name, seeds = arguments[0], arguments[1]
    verdicts: list[Verdict]
    if name in live.LIVE:
        verdicts = asyncio.run(_live(name, seeds))
    elif "-" in seeds:
        first, last = map(int, seeds.split("-"))
        names = sorted(PURE) if name == "all" else [name]
        verdicts = run_all(((one, seed) for seed in range(first, last) for one in names), at_most=1000)
    else:
        with Watch() as watch:
            verdicts = [watch.run(name, int(seeds), float(arguments[2]) if len(arguments) > 2 else 1.0)]
        print(verdicts[0])
    print(*table(verdicts), *failures(verdicts), sep="\n")
    return 1 if failures(verdicts) else 0


async def _live(name: str, seeds: str) -> list[Verdict]:
    first, _, last = seeds.partition("-")
    cases = [(name, seed) for seed in range(int(first), int(last or int(first) + 1))]
    with tempfile.TemporaryDirectory() as folder:
        async with live.serving(Path(folder)) as place:
            return await live.run_all(place, cases)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
