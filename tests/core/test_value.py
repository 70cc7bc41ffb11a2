"""A value behaves as the frozen dataclass that mypy takes it for, but for being changed, which only mypy refuses.

That of a contract refuses it by itself; what changes behaves as the dataclass that it is to mypy.
"""

import copy
import dataclasses
from dataclasses import field

import pytest

from app.core.value import contract_value, mutable, value


@value(frozen=True, slots=True)
class Point:
    x: float
    label: str = "here"
    note: str = field(default="", compare=False, repr=False)


@value(frozen=True, slots=True)
class Place:
    """With one field."""

    name: str


@value(frozen=True, slots=True)
class Nothing:
    """Without fields."""


@value(frozen=True, slots=True)
class Near(Point):
    distance: int = 0

    def __repr__(self) -> str:
        return "near"


@value(frozen=True, slots=True)
class Branch:
    children: list["Branch"]


@contract_value(frozen=True, slots=True)
class Given:
    x: int
    note: str = field(default="", compare=False, repr=False)


@mutable(slots=True)
class Tally:
    count: int = 0
    names: list[str] = field(default_factory=list)


def test_values_with_equal_fields_are_equal_and_have_the_same_hash() -> None:
    assert Point(1, note="a") == Point(1, note="b") != Point(2)
    assert hash(Point(1, note="a")) == hash(Point(1, note="b"))
    assert len({Point(1), Point(1), Point(1, "there")}) == 2
    assert Nothing() == Nothing()
    assert {Nothing(): 1}[Nothing()] == 1


def test_values_of_different_classes_are_not_equal() -> None:
    assert Point(1) != Near(1)
    assert Place.__eq__(Place("a"), "a") is NotImplemented


def test_a_field_that_is_the_same_object_is_equal_as_in_a_tuple() -> None:
    number = float("nan")
    assert Point(number) == Point(number)
    assert Point(number) != Point(float("nan"))


def test_a_value_shows_its_fields() -> None:
    assert repr(Point(1.5)) == "Point(x=1.5, label='here')"
    assert repr(Nothing()) == "Nothing()"
    assert repr(Near(1)) == "near"


def test_a_value_that_contains_itself_is_shown() -> None:
    root = Branch([])
    root.children.append(root)
    assert repr(root) == "Branch(children=[...])"


def test_a_value_with_fields_that_have_no_hash_has_none() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Branch([]))


def test_a_value_is_a_dataclass_with_slots() -> None:
    assert dataclasses.replace(Point(1), label="there") == Point(1, "there")
    assert [one.name for one in dataclasses.fields(Near)] == ["x", "label", "note", "distance"]
    assert not hasattr(Point(1), "__dict__")
    assert Point.__match_args__ == ("x", "label", "note")


def test_a_value_of_a_contract_cannot_be_changed() -> None:
    given = Given(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        given.x = 2  # type: ignore[misc]  # what nobody checks in other packages
    with pytest.raises(dataclasses.FrozenInstanceError):
        del given.x
    assert given == Given(1, "else") != Given(2)
    assert len({given, Given(1, "else")}) == 1
    assert repr(given) == "Given(x=1)"
    assert dataclasses.replace(given, x=2) == Given(2)
    assert copy.copy(given) == given


def test_what_changes_is_compared_by_its_fields_and_has_no_hash() -> None:
    tally = Tally()
    tally.count += 1
    assert tally == Tally(1) != Tally(2)
    assert repr(tally) == "Tally(count=1, names=[])"
    assert not hasattr(tally, "__dict__")
    with pytest.raises(TypeError, match="unhashable"):
        hash(tally)
