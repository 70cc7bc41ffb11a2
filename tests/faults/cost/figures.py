"""The table of a run of the fuzzer: how many cases of each class, the slowest and the largest of them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.faults.cost.case import Verdict


def table(verdicts: Iterable[Verdict]) -> Iterator[str]:
    classes: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        classes[verdict.name].append(verdict)
    yield f"{'class':<14}{'cases':>7}{'failed':>8}  slowest and largest"
    for name, found in sorted(classes.items()):
        slowest = max(found, key=lambda v: v.seconds)
        largest = max(found, key=lambda v: v.peak)
        failed = sum(bool(v.problem) for v in found)
        row = f"{name:<14}{len(found):>7}{failed:>8}"
        yield f"{row}  {slowest.seconds:6.2f} s  seed {slowest.seed}: {slowest.attack[:80]}"
        yield f"{'':<29}  {largest.peak / 2**20:6.0f} MB seed {largest.seed}: {largest.attack[:80]}"


def failures(verdicts: Iterable[Verdict]) -> list[str]:
    return [str(verdict) for verdict in verdicts if verdict.problem]
