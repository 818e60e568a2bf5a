"""Keys in any buffers: what plain Python reads in them, or refused; nothing is left out of the fuzzing."""

import pytest

from lakebed.native import keys as native
from unit_tests.lakebed.fuzz import keys


@pytest.mark.parametrize("name", keys.CALLS)
def test_contradicting_buffers(name: str) -> None:
    accepted = sum(keys.call(name, number) for number in range(1_000))
    assert 500 < accepted < 1_000


def test_everything_is_fuzzed() -> None:
    offered = {
        name
        for name, value in vars(native).items()
        if name[0] != "_" and getattr(value, "__module__", None) == native.__name__
    }
    assert offered - {"Values"} == set(keys.CALLS)
