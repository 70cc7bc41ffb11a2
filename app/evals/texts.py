"""Outputs as text and as JSON, for evaluators that compare them."""

from typing import Any, Final

from app.core import json
from app.policy.evaluator import NotEvaluated

MAX_TEXT: Final = 1024 * 1024
"""Characters of an output that are compared; a longer one is not evaluated."""


def text_of(value: Any) -> str:
    text = value if isinstance(value, str) else "" if value is None else json.canonical(value).decode()
    if len(text) > MAX_TEXT:
        raise NotEvaluated(f"the output is longer than {MAX_TEXT} characters")
    return text


def json_of(value: Any) -> Any:
    """The output as a JSON value: text is parsed, and text that is not JSON is not evaluated as JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads_strict(text_of(value).encode())
    except json.JsonError:
        raise NotJson from None


class NotJson(Exception):
    """The output is not JSON."""


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: true is not 1, and the order of keys does not count."""
    return json.canonical({"value": left}) == json.canonical({"value": right})


def includes(given: Any, wanted: Any) -> bool:
    """Whether an object has at least the wanted fields, at every level."""
    if isinstance(wanted, dict):
        return isinstance(given, dict) and all(name in given and includes(given[name], wanted[name]) for name in wanted)
    return same(given, wanted)
