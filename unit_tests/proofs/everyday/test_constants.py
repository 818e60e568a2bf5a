"""No constant switches a path that no everyday program takes on both sides."""

from __future__ import annotations

import random
from importlib import import_module
from pathlib import Path

import pytest

import lakebed
from lakebed.storage.memory import open_memory
from unit_tests.proofs.everyday import constants
from unit_tests.proofs.everyday.program import Program


def test_every_constant_has_a_case_or_a_reason() -> None:
    """A new one goes into constants.txt: what programs lower it to, or why none can tell its value."""
    missing = sorted(constants.in_code() - constants.table().keys())
    assert not missing, f"{constants.TABLE.name} says nothing of {missing}"


def test_the_table_names_nothing_that_is_gone() -> None:
    gone = sorted(constants.table().keys() - constants.in_code())
    assert not gone, f"{constants.TABLE.name} names {gone}, which the code has no more"


LOWERED = sorted(key for key, entry in constants.table().items() if entry.reason == constants.LOWERED)


def test_lowered_constants_are_seen_wherever_they_were_imported_to_and_come_back() -> None:
    before = {key: _now(key) for key in LOWERED}
    with constants.lowered(dict.fromkeys(LOWERED, 7)):
        assert {_now(key) for key in LOWERED} == {7}
        assert import_module("lakebed.chunks.pack").LARGE == 7
    assert {key: _now(key) for key in LOWERED} == before


def _now(key: constants.Key) -> float:
    file, name = key
    return float(getattr(import_module(".".join(["lakebed", *Path(file).with_suffix("").parts])), name))


@pytest.mark.parametrize("key", LOWERED, ids=":".join)
@pytest.mark.filterwarnings("ignore:The tensors differ in length")
def test_programs_run_at_both_ends_of_each_constant(key: constants.Key) -> None:
    """The same program with the constant as low and as high as the table says, and nothing else changed."""
    entry = constants.table()[key]
    seed = random.Random(":".join(key)).randrange(10_000)
    for share in (0.0, 1.0):
        value = constants.between(entry, share, getattr(import_module(constants.module_of(key[0])), key[1]))
        kept = open_memory(
            f"everyday-{':'.join(key)}-{share}"
        )  # threads may hold the one before for a moment
        with constants.lowered({key: value}):
            Program(lakebed, kept.url, seed, ways=4).run()
        del kept
