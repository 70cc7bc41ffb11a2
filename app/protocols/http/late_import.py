"""Modules that are imported when they are first needed, so that a server that nobody asks for them starts without.

Leaves to the caller: the import statement itself, which is free from then on.
"""

import asyncio
import importlib
from typing import Final

_done: Final[set[str]] = set()


async def loaded(module: str) -> None:
    """Returns when the module is imported; in a thread, since compiling it would hold up everybody else."""
    if module not in _done:
        await asyncio.to_thread(importlib.import_module, module)
        _done.add(module)
