"""What users combine works: each way in, with each kind of value, and each way out, in all pairs of what varies."""

from __future__ import annotations

import os
import pickle
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed import config
from unit_tests import effort
from unit_tests.effort import EFFORT
from unit_tests.once import made_once
from unit_tests.proofs.crossings.covering import Pair, Row, pairs_of
from unit_tests.proofs.crossings.program import SPACE, lowered_in, script
from unit_tests.proofs.everyday import constants

PROGRAMS = int(os.environ.get("LAKEBED_CROSSINGS_PROGRAMS", EFFORT.crossings))
"""How many programs are drawn, beside those that cover all pairs."""

Covering = tuple[list[Row], set[Pair]]

PARTS = 30
FIRST_DRAWN = 1_000_000
pytestmark = pytest.mark.filterwarnings("ignore:The tensors differ in length")


@pytest.fixture(scope="module")
def covering(tmp_path_factory: pytest.TempPathFactory) -> Covering:
    """Rows that cover all pairs that can meet, and these pairs."""

    def make(folder: Path) -> None:
        (folder / "covering").write_bytes(pickle.dumps(SPACE.cover(1)))

    found: Covering = pickle.loads((made_once(tmp_path_factory, "crossings", make) / "covering").read_bytes())
    return found


def run(row: Row, seed: int) -> None:
    """Run a program in this process.

    Raises
    ------
    AssertionError
        If it fails, with its text.
    """
    lowered = lowered_in(row, seed)
    text = script(row, seed, lowered)
    try:
        with constants.lowered(lowered):
            exec(compile(text, f"crossing {seed}", "exec"), {"__name__": "__main__"})
    except Exception as error:
        told = "".join(traceback.format_exception(error))
        raise AssertionError(f"{text}\n\n{told}") from error


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "FSYNC", False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def _run(programs: list[tuple[Row, int]]) -> None:
    failures = []
    for row, seed in programs:
        try:
            run(row, seed)
        except AssertionError as failure:
            failures.append(f"{row}\n{failure}")
    assert not failures, f"{len(failures)} of {len(programs)} programs:\n\n" + "\n\n".join(failures[:5])


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_of_all_pairs(part: int, covering: Covering) -> None:
    rows, _ = covering
    seeds = range(part, round(len(rows) * EFFORT.covering), PARTS)
    _run([(rows[seed], seed) for seed in seeds])


def test_every_pair_that_can_meet_is_covered(
    covering: Covering, record_property: Callable[[str, object], None]
) -> None:
    """And what cannot meet is ruled out by what is written in the rules, not by chance."""
    rows, possible = covering
    covered = {pair for row in rows for pair in pairs_of(SPACE, row)}
    every = set(SPACE.pairs())
    assert covered == possible
    for pair in every - possible:
        start = SPACE.begin(pair)
        assert start is None or SPACE.complete(start, lambda _, name: SPACE.factors[name]) is None, pair
    told = (
        f"{len(rows):,} programs cover all {len(possible):,} pairs of levels that can meet, of {len(every):,}; "
        f"{EFFORT.covering:.0%} of them run"
    )
    record_property("proof", told)


@pytest.mark.parametrize("part", range(PARTS))
def test_drawn_programs(part: int, record_property: Callable[[str, object], None]) -> None:
    first = FIRST_DRAWN * effort.seed()
    seeds = range(first + part, first + PROGRAMS, PARTS)
    record_property("proof", f"{len(seeds):,} programs of crossings, each {PARTS}th from seed {first} on")
    _run([(SPACE.draw(seed), seed) for seed in seeds])
