"""What a case is: work made from a class, a seed and a scale, and therefore repeatable.

The scale shrinks every count that a generator draws, so that a case that fails can be made smaller.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

SECONDS: Final = 2.0
"""Of processor time: the machines that run this have other work, so the wall clock says little."""
BYTES: Final = 200 * 1024 * 1024
"""On top of what the process held before the case."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    attack: str
    """What it tries, in a few words, with its counts."""
    run: Callable[[], str]
    """Does the work and says how it ended. Failures that the function documents are ends as well."""


class Draw:
    """Random choices whose counts shrink with the scale."""

    def __init__(self, name: str, seed: int, scale: float = 1.0) -> None:
        self.random = Random(f"{name}:{seed}")
        self._scale = scale

    def count(self, low: int, high: int) -> int:
        """Small numbers are as likely as large ones: most cases are cheap, some are as large as allowed."""
        steps = max(1, (high // max(low, 1)).bit_length())
        drawn = min(high, low << self.random.randrange(steps)) if low else self.random.randrange(high + 1)
        if self.random.random() < 0.1:
            drawn = high
        return max(1, int(drawn * self._scale))

    def one(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def word(self, length: int = 8) -> str:
        return "".join(self.random.choices("abcdefghijklmnopqrstuvwxyz", k=length))


Generator = Callable[[Draw], Case]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one case went. `problem` is empty for a good one."""

    name: str
    seed: int
    attack: str
    seconds: float
    peak: int
    end: str
    problem: str = ""
    scale: float = 1.0

    @property
    def repeat(self) -> str:
        return f"python -m tests.faults.cost {self.name} {self.seed} {self.scale:g}"

    def __str__(self) -> str:
        cost = f"{self.seconds:.2f} s, {self.peak / 2**20:.0f} MB"
        return f"{self.name} {self.seed}: {self.problem or self.end} ({cost}): {self.attack}; repeat: {self.repeat}"
