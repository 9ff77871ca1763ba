"""`dataclass`, where a frozen one is made in a quarter of the time.

The library compiles six methods for each frozen class, which took a fifth of the time of `sase check` and `explain`: a
compiler has two hundred such classes, and most commands use each of them a few times. Here only `__init__` is compiled,
and the other methods are the same for all classes.

They do what the library's do, for what a compiler asks for: `frozen` and `repr`, and fields that are set when an
instance is made, by default or not. A frozen class can be no base of a frozen one of the library, nor the other way
around, and none has slots.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


def _frozen(cls: type[Any], repr: bool) -> type[Any]:
    given = dict(cls.__dict__)
    made = dataclasses.dataclass(eq=False, repr=False)(cls)
    fields = dataclasses.fields(made)
    known = frozenset(field.name for field in fields)
    values = _values([field.name for field in fields if field.compare])

    def __setattr__(self: Any, name: str, value: Any) -> None:
        # `__init__` sets each field, once; a subclass that is no dataclass may have more.
        refused = name in self.__dict__ if name in known else type(self) is made
        if refused:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        self.__dict__[name] = value

    def __delattr__(self: Any, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    def __repr__(self: Any) -> str:
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields if field.repr)
        return f"{self.__class__.__qualname__}({shown})"

    methods: list[Any] = [__setattr__, __delattr__, __eq__, __hash__, *([__repr__] if repr else [])]
    for method in methods:
        if given.get(method.__name__) is None:  # a class with an `__eq__` of its own has None for `__hash__`
            setattr(made, method.__name__, method)
    return made


def _values(names: list[str]) -> Callable[[Any], Any]:
    """A tuple of the fields, also of one, or none."""
    if len(names) < 2:
        return lambda self: tuple(getattr(self, name) for name in names)
    return attrgetter(*names)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, repr=True):
        if not frozen:
            return dataclasses.dataclass(cls, repr=repr)
        return _frozen(cls, repr) if cls is not None else lambda cls: _frozen(cls, repr)
