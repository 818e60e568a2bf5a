"""Ordinary programs do what plain Python does: each value is read back as it was given, in every way."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import lakebed
from lakebed import config
from lakebed.storage.memory import open_memory
from unit_tests import effort
from unit_tests.effort import EFFORT, IS_SOAK
from unit_tests.proofs.everyday.constants import choice, lowered
from unit_tests.proofs.everyday.program import LARGE, MEDIUM, SMALL, Program, Size

FIRST = int(os.environ.get("LAKEBED_EVERYDAY_SEED", 1_000_000 + effort.seed() if IS_SOAK else 0))
PROGRAMS = int(os.environ.get("LAKEBED_EVERYDAY_PROGRAMS", EFFORT.programs))
"""The first seed, and how many programs run."""

PARTS = 30
pytestmark = pytest.mark.filterwarnings("ignore:The tensors differ in length")


def size_of(seed: int) -> Size:
    """Most programs are small; a few have what takes thousands of rows, or megabytes in one sample."""
    if seed % 750 == 274:
        return LARGE
    return MEDIUM if seed % 100 == 99 else SMALL


def run(seed: int, folder: Path, ways: int | None) -> None:
    """Run the program of a seed: in memory, or one in eight in a folder."""
    kept = open_memory(f"everyday-{seed}")
    place = str(folder / str(seed)) if seed % 8 == 7 else kept.url
    with lowered(choice(seed) if size_of(seed) is SMALL else {}):
        Program(lakebed, place, seed, size_of(seed), ways).run()
    del kept


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "FSYNC", False)


def _run(seeds: range, folder: Path, ways: int | None) -> None:
    failures = []
    for seed in seeds:
        try:
            run(seed, folder, ways)
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, f"{len(failures)} of {len(seeds)} programs:\n\n" + "\n\n".join(failures[:5])


@pytest.mark.parametrize("part", range(PARTS))
def test_programs_read_back_what_they_gave(
    part: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """A soak reads each tensor in every way, the suite in two."""
    seeds = range(FIRST + part, FIRST + PROGRAMS, PARTS)
    record_property("proof", f"{len(seeds):,} everyday programs, each {PARTS}th from seed {seeds.start} on")
    _run(seeds, tmp_path, ways=None if IS_SOAK else 2)
