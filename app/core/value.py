"""Immutable values: `@value(frozen=True, slots=True)` in place of the same with `@dataclass`.

A frozen dataclass sets each field by a call of `object.__setattr__`, which costs several times an assignment, and one
streamed answer makes some two hundred such fields. It also compiles six methods for each class when the server starts;
here they share all but `__init__`. To mypy these classes are frozen dataclasses; nothing is paid for it when the
program runs. Not for what hooks and backends of other packages get: their types are checked by nobody.

`@contract_value(frozen=True, slots=True)` is for those: frozen when the program runs as well. `@mutable(slots=True)` is
for what changes. Both share what they can, for a quicker start, and are to mypy what their dataclass would be.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as contract_value
    from dataclasses import dataclass as mutable
    from dataclasses import dataclass as value
else:
    from dataclasses import dataclass, fields
    from operator import attrgetter
    from reprlib import recursive_repr

    def value(*, frozen: bool, slots: bool) -> Any:
        assert frozen and slots, "a value is frozen and has slots"
        return lambda cls: _made(cls, _SHARED, frozen=False)

    def contract_value(*, frozen: bool, slots: bool) -> Any:
        assert frozen and slots, "a value is frozen and has slots"
        return lambda cls: _made(cls, _SHARED, frozen=True)

    def mutable(*, slots: bool) -> Any:
        assert slots, "it has slots"
        return lambda cls: _made(cls, _SHARED_IF_MUTABLE, frozen=False)

    def _made(cls: type, shared: dict[str, Any], *, frozen: bool) -> type:
        for name, method in shared.items():
            if name not in cls.__dict__ or (name == "__hash__" and cls.__dict__[name] is None):
                setattr(cls, name, method)
        # Without one the standard library would write the signature there, which takes as long as the rest.
        cls.__doc__ = cls.__doc__ or cls.__name__
        made = dataclass(slots=True, eq=False, repr=False, frozen=frozen)(cls)
        # The class is among them so that there are at least two, which are read as a tuple.
        made.__compared__ = attrgetter("__class__", *(field.name for field in fields(made) if field.compare))
        return made

    @recursive_repr()
    def _repr(self: Any) -> str:
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
        return f"{self.__class__.__qualname__}({shown})"

    def _equal(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = self.__compared__
        return compared(self) == compared(other)

    def _hash(self: Any) -> int:
        return hash(self.__compared__(self))

    _SHARED = {"__repr__": _repr, "__eq__": _equal, "__hash__": _hash}
    _SHARED_IF_MUTABLE = {"__repr__": _repr, "__eq__": _equal, "__hash__": None}


__all__ = ["contract_value", "mutable", "value"]
