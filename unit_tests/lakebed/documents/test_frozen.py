"""Values that are made when they are asked for."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakebed.documents.frozen import OnDemand


def test_each_value_is_made_once_and_only_when_it_is_asked_for() -> None:
    """All that ask get the same object; whether there is a name is known without its value."""
    made: list[str] = []

    def make(name: str) -> list[str]:
        made.append(name)
        return [name]

    found = OnDemand(["b", "a", "b"], make)
    assert list(found) == ["b", "a"]
    assert len(found) == 2
    assert "a" in found
    assert "c" not in found
    assert made == []
    assert found["a"] is found["a"]
    assert made == ["a"]
    assert found == {"b": ["b"], "a": ["a"]}
    with pytest.raises(KeyError, match="c"):
        found["c"]
    assert found.get("c") is None


def test_threads_get_the_same_object() -> None:
    """Also if they ask at the same time."""
    for _ in range(20):
        found = OnDemand(["a"], lambda _: object())
        with ThreadPoolExecutor(4) as pool:
            assert len({id(value) for value in pool.map(lambda _, found=found: found["a"], range(8))}) == 1


def test_an_error_is_raised_to_everybody_who_asks() -> None:
    """And other values are there all the same."""

    def make(name: str) -> int:
        if name == "bad":
            raise ValueError(name)
        return 1

    found = OnDemand(["bad", "good"], make)
    for _ in range(2):
        with pytest.raises(ValueError, match="bad"):
            found["bad"]
    assert found["good"] == 1


def test_copies_are_dictionaries() -> None:
    """What makes the values need not travel with them."""
    found = OnDemand(["a"], lambda name: name * 2)
    assert pickle.loads(pickle.dumps(found)) == {"a": "aa"}
    assert copy.copy(found) == {"a": "aa"}
