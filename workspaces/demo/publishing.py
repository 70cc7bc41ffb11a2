"""The demo's own tool: what a workspace adds in Python."""

from typing import Any


def publish(title: str, text: str) -> dict[str, Any]:
    """Pretends to publish a text. A real one would send it somewhere."""
    return {"published": bool(text), "title": title}
