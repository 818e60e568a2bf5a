"""Random histories that both libraries write in turn: commits, branches, merges, resets, deleted branches, tags.

After every turn both read every version of every branch: values, infos, commits with authors and times, and what `diff`
says and prints. What one library did, the other does to a copy: it must come to the same.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration_tests.interop.histories.harness import Library, Trial, run
from integration_tests.interop.histories.programs import LIBRARIES, Program

SEED = int(os.environ.get("LAKEBED_INTEROP_SEED", "0"))
FEW = int(os.environ.get("LAKEBED_INTEROP_HISTORIES", "16"))
MANY = int(os.environ.get("LAKEBED_SOAK_HISTORIES", "1000"))
"""Random histories in `make interop` and in `make soak`."""


@pytest.fixture(scope="module")
def libraries() -> Iterator[dict[str, Library]]:
    """A process of each library."""
    found = {name: Library(name) for name in LIBRARIES}
    yield found
    for library in found.values():
        library.close()


def _random(home: Path, libraries: dict[str, Library], seeds: list[int]) -> None:
    given_up, compared = [], 0
    for seed in seeds:
        trial = Trial(Program.random(seed), home / str(seed))
        run(trial, libraries)
        assert not trial.wrong, "\n".join(trial.wrong)
        given_up += [trial.given_up] if trial.given_up else []
        compared += trial.compared
        shutil.rmtree(trial.path, ignore_errors=True)
    assert compared > 5 * len(seeds)
    assert len(given_up) <= 1 + len(seeds) // 8, "\n\n".join(given_up)


@pytest.mark.interop
def test_histories_of_both_libraries_in_turn(tmp_path: Path, libraries: dict[str, Library]) -> None:
    """What one writes the other reads, goes on with, and would have written itself."""
    _random(tmp_path, libraries, list(range(SEED, SEED + FEW)))


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_thousands_of_histories(tmp_path: Path, libraries: dict[str, Library]) -> None:
    """The same for other seeds."""
    _random(tmp_path, libraries, list(range(1_000_000 + SEED, 1_000_000 + SEED + MANY)))
