"""What clients change of an agent's kept state between its runs: the state as it was, and the updates to apply to it.

Leaves to the backend: applying them, which takes the graph's own rules.
"""

from typing import Any, Final

FORMAT: Final = "holdfast.updates/1"


def updated_state(state: Any, payload: dict[str, Any]) -> Any:
    """The state after `runtime.thread.state.updated` of the agent; a large one stays a reference to its blob."""
    if payload.get("restores") is not None:
        state = payload.get("state")
    if payload.get("values") is None:
        return state
    base, updates = split_state(state)
    update = {"values": payload["values"], "asNode": payload.get("asNode")}
    return {"format": FORMAT, "base": base, "updates": [*updates, update]}


def split_state(state: Any) -> tuple[Any, list[dict[str, Any]]]:
    """The state that a run left, and the updates that nobody has applied to it yet."""
    if isinstance(state, dict) and state.get("format") == FORMAT:
        return state["base"], state["updates"]
    return state, []
