"""The texts of a JSON value: each with its JSON pointer, and the value again with pieces of them replaced."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from app.policy.guardrails.contract import Position

KEY: Final = "~key"
"""After the pointer of an object's member: its name, not its value. No pointer contains this."""


def texts_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in the value, names of members included, in the order in which JSON would write them."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            below = f"{path}/{_escaped(name)}"
            yield below + KEY, name
            yield from texts_of(item, below)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from texts_of(item, f"{path}/{number}")


def replaced(value: Any, positions: Iterable[Position]) -> Any:
    """The value with `[REDACTED:label]` at each position; containers are rebuilt, never changed in place."""
    by_path: dict[str, list[Position]] = {}
    for position in positions:
        by_path.setdefault(position.path, []).append(position)
    return _replaced(value, "", by_path) if by_path else value


def replaced_text(text: str, positions: Iterable[Position]) -> str:
    """Overlapping pieces become one, named after the first."""
    made: list[str] = []
    done = 0
    for _, start, end, label in sorted(positions, key=lambda p: (p.start, -p.end)):
        if start >= done:
            made += [text[done:start], replacement(label)]
        done = max(done, end)
    return "".join([*made, text[done:]])


def replacement(label: str) -> str:
    return f"[REDACTED:{label}]"


def _replaced(value: Any, path: str, by_path: Mapping[str, list[Position]]) -> Any:
    if isinstance(value, str):
        return replaced_text(value, by_path[path]) if path in by_path else value
    if isinstance(value, Mapping):
        made = {}
        for name, item in value.items():
            below = f"{path}/{_escaped(name)}"
            renamed = replaced_text(name, by_path[below + KEY]) if below + KEY in by_path else name
            made[renamed] = _replaced(item, below, by_path)
        return made
    if isinstance(value, list | tuple):
        return [_replaced(item, f"{path}/{number}", by_path) for number, item in enumerate(value)]
    return value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
