"""A hook in Python: a function that is told what happened and answers what may follow."""

from typing import Any


def observe(subject: dict[str, Any]) -> dict[str, Any]:
    """Results may pass; somebody stricter would look at `output` here."""
    return {"decision": "allow"}
