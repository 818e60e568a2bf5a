"""The dataclasses of the library are those of the standard library, which is the oracle here; only cheaper to make."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
import threading
import weakref
from typing import Any, ClassVar

import pytest

from lakebed.dataclass import dataclass, field, replace

OPTIONS: dict[str, dict[str, bool]] = {
    "plain": {},
    "frozen": {"frozen": True},
    "slots": {"slots": True},
    "frozen with slots": {"frozen": True, "slots": True},
    "compared by identity": {"frozen": True, "slots": True, "eq": False},
    "with weak references": {"slots": True, "weakref_slot": True, "eq": False},
    "without repr": {"frozen": True, "repr": False},
    "keywords only": {"frozen": True, "slots": True, "kw_only": True},
}


def made(decorator: Any, **options: bool) -> tuple[type, type]:
    """A class with fields of all kinds, and one that inherits and redefines some of them."""

    @decorator(**options)
    class Base:
        """Has a docstring."""

        x: int
        name: str = "a"
        items: list[int] = field(default_factory=list, compare=False)
        hidden: int = field(default=3, repr=False)
        later: Any = field(default=None, init=False)
        fresh: list[int] = field(default_factory=lambda: [7], init=False, compare=False)
        kind: ClassVar[str] = "class"

        def double(self) -> int:
            return 2 * self.x

    @decorator(**options)
    class Derived(Base):
        """Has another default for what it inherits."""

        more: float = 1.5
        name: str = "b"

    for cls in (Base, Derived):
        cls.__qualname__ = cls.__name__
    return Base, Derived


def _takes_weak_references(instance: Any) -> bool:
    try:
        weakref.ref(instance)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_instances_are_those_of_the_standard_library(options: dict[str, bool]) -> None:
    for ours, theirs in zip(made(dataclass, **options), made(dataclasses.dataclass, **options), strict=True):
        one, other = ours(x=1, items=[2]), theirs(x=1, items=[2])
        values = {name: getattr(one, name) for name in dataclasses.asdict(one)}
        assert values == {name: getattr(other, name) for name in dataclasses.asdict(other)}
        assert dataclasses.asdict(one) == dataclasses.asdict(other)
        assert [f.name for f in dataclasses.fields(one)] == [f.name for f in dataclasses.fields(other)]
        assert ours.__match_args__ == theirs.__match_args__
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
        assert hasattr(one, "__dict__") == hasattr(other, "__dict__")
        assert _takes_weak_references(one) == _takes_weak_references(other)
        assert (one == ours(x=1, items=[9])) == (other == theirs(x=1, items=[9]))
        assert one != ours(x=2)
        assert (ours.__hash__ is None) == (theirs.__hash__ is None)
        if ours.__hash__ is not None and options.get("eq", True):
            assert hash(one) == hash(other)
        if options.get("repr", True):
            assert repr(one) == repr(other)
        for change in (replace, dataclasses.replace):
            assert change(one, x=5).double() == 10
            assert change(one, x=5).items is one.items
            with pytest.raises((TypeError, ValueError)):
                change(one, later=1)


def test_what_is_frozen_refuses_as_the_standard_library_does() -> None:
    for slots in (False, True):
        for decorator in (dataclass, dataclasses.dataclass):
            _, derived = made(decorator, frozen=True, slots=slots)
            value = derived(1)
            with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
                value.x = 2
            with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'name'"):
                del value.name
            with pytest.raises(TypeError, match=r"Derived\.__init__\(\) missing 1 required positional"):
                derived()


@dataclass(frozen=True, slots=True)
class Point:
    """Can be found by pickle."""

    x: int
    y: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("left of the origin")


def test_values_travel_and_are_checked() -> None:
    for moved in (
        pickle.loads(pickle.dumps(Point(3, 4))),
        copy.copy(Point(3, 4)),
        copy.deepcopy(Point(3, 4)),
    ):
        assert (moved.x, moved.y) == (3, 4)
    assert Point(3, 4).__getstate__() == [3, 4]
    assert {Point(3, 4)} == {Point(3, 5)}
    with pytest.raises(ValueError, match="left of"):
        Point(-1)
    if sys.version_info >= (3, 13):
        assert copy.replace(Point(3, 4), y=5).y == 5


def test_a_class_of_the_standard_library_may_inherit() -> None:
    """Whoever extends the library writes what he always writes; the other way round is refused."""

    @dataclasses.dataclass(frozen=True)
    class Theirs(Point):
        z: int = 9

    assert dataclasses.asdict(replace(Theirs(1, 2, 3), x=4)) == {"x": 4, "y": 2, "z": 3}
    assert repr(Theirs(1)).endswith("Theirs(x=1, y=0, z=9)")
    with pytest.raises(TypeError, match="other kind of dataclass"):
        dataclass(type("Ours", (Theirs,), {}))


def test_methods_of_the_class_stay() -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

        def __repr__(self) -> str:
            return "own"

    assert Own(1) == 5
    assert (hash(Own(1)), repr(Own(1))) == (1, "own")
    with pytest.raises(TypeError, match="says itself how attributes are set"):
        dataclass(frozen=True)(type("Sets", (), {"__setattr__": object.__setattr__}))
    with pytest.raises(ValueError, match="use default_factory"):
        dataclass(type("Shares", (), {"__annotations__": {"x": "list"}, "x": []}))


def test_the_first_instances_may_come_in_several_threads() -> None:
    """Each compiles what it finds missing; all get the same."""
    for _ in range(20):
        cls, _ = made(dataclass, frozen=True, slots=True)
        start, found = threading.Barrier(4), []

        def make(cls: Any = cls, start: threading.Barrier = start, found: list[Any] = found) -> None:
            start.wait()
            found.append(cls(1))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 1
        assert len(found) == 4
