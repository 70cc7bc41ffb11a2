"""Graphs that stay built from one run to the next, because building one may cost more than running it.

A graph finds the run that it acts for when it is called, so it depends only on what it was built from. Bounded.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from cachetools import LRUCache
from langgraph.pregel import Pregel

from app.backends.bridge import Bridge

MAX_GRAPHS: Final = 64
"""Of all agents and versions of the workspace."""

Graph: TypeAlias = Pregel[Any, Any, Any, Any]


class BuiltGraphs:
    def __init__(self) -> None:
        self._built: LRUCache[tuple[str, str, str, frozenset[str]], Graph] = LRUCache(MAX_GRAPHS)

    def __len__(self) -> int:
        return len(self._built)

    def of(self, bridge: Bridge, build: Callable[[], Graph], instructions: str = "") -> Graph:
        """By workspace, agent and tools, to which a client may add, and by the instructions if they are built in. What
        a tool takes is not part of it, because the gate offers and checks that."""
        ctx = bridge.ctx
        key = ctx.workspace.digest, ctx.agent, instructions, ctx.tools
        found = self._built.get(key)
        if found is None:
            found = self._built[key] = build()
        return found
