"""The search for cycles is as it was after an import, whatever the program has made of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from lakebed.importers.core.collecting import aside, no_search


@pytest.fixture(autouse=True)
def _nothing_is_frozen() -> Iterator[None]:
    """Undo what the run of all tests has frozen."""
    was_frozen = gc.get_freeze_count()
    gc.unfreeze()
    yield
    if was_frozen:
        gc.freeze()


def test_the_search_rests_until_the_last_one_leaves() -> None:
    with no_search():
        with no_search():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_many_objects_that_were_made_meanwhile_are_old() -> None:
    """They are looked at once, not in each search."""
    with no_search():
        made = [[number] for number in range(150_000)]
    assert any(one is made[0] for one in gc.get_objects(generation=2))


def test_a_search_that_the_program_switched_off_stays_off() -> None:
    gc.disable()
    try:
        with no_search():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_was_set_aside_comes_back_after_an_error() -> None:
    found = 0

    def stops() -> None:
        nonlocal found
        with aside(None):
            found = gc.get_freeze_count()
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        stops()
    assert found
    assert not gc.get_freeze_count()


def test_what_the_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        with aside(None):
            pass
        with no_search():
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(("rows", "is_set_aside"), [(10, False), (1_000, True), (None, True)])
def test_a_short_import_sets_nothing_aside(rows: int | None, is_set_aside: bool) -> None:
    with aside(rows):
        assert (gc.get_freeze_count() > 0) == is_set_aside
    assert not gc.get_freeze_count()
