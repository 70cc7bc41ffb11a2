"""Repeats one pure case, or many: `python -m tests.faults.cost CLASS SEED [SCALE]`, `... CLASS FIRST-LAST`."""

import sys

from tests.faults.cost.case import Verdict
from tests.faults.cost.classes import PURE
from tests.faults.cost.figures import failures, table
from tests.faults.cost.watch import Watch, run_all


def main(arguments: list[str]) -> int:
    name, seeds = arguments[0], arguments[1]
    verdicts: list[Verdict]
    if "-" in seeds:
        first, last = map(int, seeds.split("-"))
        names = sorted(PURE) if name == "all" else [name]
        verdicts = run_all(((one, seed) for seed in range(first, last) for one in names), at_most=1000)
    else:
        with Watch() as watch:
            verdicts = [watch.run(name, int(seeds), float(arguments[2]) if len(arguments) > 2 else 1.0)]
        print(verdicts[0])
    print(*table(verdicts), *failures(verdicts), sep="\n")
    return 1 if failures(verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
