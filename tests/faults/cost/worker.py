"""The process that runs pure cases: one line of standard input names a case, one line of output says what it took.

It is meant to die: memory is bounded by the system, and whoever watches it ends it when a case takes too long.
"""

import ctypes
import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import Final

from tests.faults.cost.case import BYTES, Case, Draw
from tests.faults.cost.classes import PURE, SELF_TEST

_STATUS: Final = Path("/proc/self/status")
_PEAK: Final = Path("/proc/self/clear_refs")


def _status(name: str) -> int:
    """A figure of this process in bytes."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {name}")


def measured(case: Case) -> dict[str, object]:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    _PEAK.write_text("5")  # the peak counts anew
    before, hard = _status("VmRSS:"), resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize:") + BYTES, hard))
    started, end, problem = time.process_time(), "", ""
    try:
        end = case.run()
    except MemoryError:
        problem = "out of memory"
    except Exception as error:
        problem = f"an exception that nobody expects: {type(error).__name__}: {str(error)[:200]}"
    finally:
        seconds = time.process_time() - started
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    return {"seconds": seconds, "peak": max(0, _status("VmHWM:") - before), "end": end, "problem": problem}


def main() -> None:
    gc.collect()
    gc.freeze()  # what was imported is not looked through before each case
    classes = {**PURE, **SELF_TEST}
    for line in sys.stdin:
        name, seed, scale = line.split()
        case = classes[name](Draw(name, int(seed), float(scale)))
        print(json.dumps({"attack": case.attack[:300]}), flush=True)
        print(json.dumps(measured(case)), flush=True)


if __name__ == "__main__":
    main()
