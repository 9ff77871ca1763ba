"""The compiler's frozen dataclasses behave as those of the library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, replace
from functools import cached_property
from typing import Any

import pytest

from sase.compiler.core import dataclass as ours


class _Point:
    x: int
    y: int | None = None
    """Of which some have none."""
    label: str = field(default="", compare=False)
    parts: list[int] = field(default_factory=list, repr=False, compare=False)

    @cached_property
    def sum(self) -> int:
        return self.x + (self.y or 0)


class _Named:
    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


class _Alike:
    """With an equality of its own, and the hash of its fields."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))


class _Nothing:
    pass


Making = Callable[[type[Any]], Any]
MAKING: dict[str, Making] = {
    "the library's": dataclass(frozen=True),
    "ours": lambda cls: ours.dataclass(frozen=True)(cls),
}


@pytest.fixture(params=MAKING)
def made(request: pytest.FixtureRequest) -> Making:
    """Makes a dataclass of another class with the same body."""
    making = MAKING[request.param]

    def of_body(cls: type[Any]) -> Any:
        body = {name: value for name, value in cls.__dict__.items() if name not in ("__dict__", "__weakref__")}
        return making(type(cls.__name__, cls.__bases__, body))

    return of_body


def test_fields_are_told_and_compared(made: Making) -> None:
    point = made(_Point)
    assert point(1) == point(1, None, "origin", [1]) != point(1, 2)
    assert point(1) != point(1, 0) and point(1) != (1, None) and point(1) != made(_Point)(1)
    assert hash(point(1, 2)) == hash(point(1, 2, "there")) and len({point(1), point(1), point(2)}) == 2
    assert repr(point(1, label="a")) == "_Point(x=1, y=None, label='a')"
    assert [each.name for each in dataclasses.fields(point)] == ["x", "y", "label", "parts"]
    assert dataclasses.asdict(point(1)) == {"x": 1, "y": None, "label": "", "parts": []}
    assert point(1).parts is not point(1).parts
    match point(3, 4):
        case point(x, y):
            assert (x, y) == (3, 4)


def test_nothing_is_changed(made: Making) -> None:
    one = made(_Point)(1)
    for change in (lambda: setattr(one, "x", 2), lambda: setattr(one, "new", 2), lambda: delattr(one, "x")):
        with pytest.raises(FrozenInstanceError):
            change()
    with pytest.raises(TypeError, match="x"):
        made(_Point)()
    assert one.sum == one.sum == 1 and one.x == 1
    assert replace(one, y=2) == type(one)(1, 2) and replace(one, y=2).sum == 3
    assert copy.copy(one) == one == copy.deepcopy(one)


def test_methods_of_a_class_stay(made: Making) -> None:
    named, alike = made(_Named), made(_Alike)
    assert named("A") == named("a") and len({named("A"), named("a")}) == 1 and repr(named("A")) == "<A>"
    assert alike("a") == alike("b") and hash(alike("a")) == hash(alike("a")) != hash(alike("b"))
    nothing = made(_Nothing)
    assert nothing() == nothing() and hash(nothing()) == hash(()) and repr(nothing()) == "_Nothing()"


def test_a_class_may_have_another_for_its_base(made: Making) -> None:
    base = made(_Point)
    more = made(type("More", (base,), {"__annotations__": {"z": "int"}, "z": 9}))
    assert more(1) != base(1) and more(1) == more(1, z=9) != more(1, z=8)
    assert repr(more(1)) == "More(x=1, y=None, label='', z=9)"
    with pytest.raises(FrozenInstanceError):
        more(1).z = 3


def test_one_field_is_compared_as_one_of_several_is(made: Making) -> None:
    nothing = float("nan")
    one, two = made(type("One", (), {"__annotations__": {"x": "float"}})), made(_Point)
    assert one(nothing) == one(nothing) and two(nothing) == two(nothing)


def test_a_subclass_that_is_no_dataclass_may_have_more(made: Making) -> None:
    class Beside(made(_Point)):  # type: ignore[misc]
        pass

    one = Beside(1)
    one.more = 2
    assert one.more == 2
    with pytest.raises(FrozenInstanceError):
        one.x = 2


def test_what_is_not_frozen_is_the_library_s() -> None:
    @ours.dataclass
    class Growing:
        size: int

    growing = Growing(1)
    growing.size += 1
    assert growing == Growing(2) and repr(growing).endswith("Growing(size=2)")


@ours.dataclass(frozen=True, repr=False)
class Quiet:
    x: int


def test_instances_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Quiet(1))) == Quiet(1)
    assert repr(Quiet(1)).startswith("<")
