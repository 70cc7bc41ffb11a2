"""How many generated examples a property is tried with: a third in the ordinary suite, all in `make faults`."""

import os
from typing import Final

ALL: Final = os.environ.get("TEST_EXAMPLES") == "all"
_LEAST: Final = 10


def examples(count: int) -> int:
    """For hypothesis; outside CI each run draws others, so that many runs together try more than one would."""
    return count if ALL else max(_LEAST, count // 3)
