"""A tool that nobody should get to call."""

from typing import Any


def delete(name: str) -> dict[str, Any]:
    """Pretends to delete something."""
    return {"deleted": name}
