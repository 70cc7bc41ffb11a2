"""Immutable values for the hot path: `@value(frozen=True, slots=True)` in place of the same with `@dataclass`.

A frozen dataclass sets each field by a call of `object.__setattr__`, which costs several times an assignment, and one
streamed answer makes some two hundred such fields. To mypy these classes are frozen dataclasses; nothing is paid for it
when the program runs. Not for what hooks and backends of other packages get: their types are checked by nobody.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:
    from dataclasses import dataclass

    def value(*, frozen: bool, slots: bool) -> Any:
        assert frozen and slots, "a value is frozen and has slots"
        return dataclass(slots=True, unsafe_hash=True)


__all__ = ["value"]
