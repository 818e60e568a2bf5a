"""Datasets of every htype, compression and layout, and random ones, written by both libraries in turn.

After each program both libraries read every version, and each must see what the model holds.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from integration_tests.interop.datasets.harness import ROOT, Trial, run
from integration_tests.interop.datasets.kinds import Kind, every
from integration_tests.interop.datasets.program import LIBRARIES, covering_programs, random_program

GOLDEN = ROOT / "unit_tests/data/golden-3.9.52.tar.xz"
BATCH = 50
"""Random datasets that one process of 3.9.52 works on."""

SEED = int(os.environ.get("LAKEBED_INTEROP_SEED", "0"))
FEW = int(os.environ.get("LAKEBED_INTEROP_DATASETS", "100"))
MANY = int(os.environ.get("LAKEBED_SOAK_DATASETS", "5000"))
"""Random datasets in `make interop` and in `make soak`."""


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> list[Kind]:
    """All kinds of tensors."""
    home = tmp_path_factory.mktemp("files")
    with tarfile.open(GOLDEN) as archive:
        members = [member for member in archive if "/_files/" in member.name]
        archive.extractall(home, members, filter="data")
    return every(next(home.rglob("_files")))


def complaints(trials: list[Trial]) -> str:
    """What went wrong, for people."""
    return "\n\n".join(f"{trial.program}\n" + "\n".join(trial.wrong) for trial in trials if trial.wrong)


@pytest.mark.interop
@pytest.mark.parametrize("first", LIBRARIES)
def test_every_kind_of_tensor_is_written_by_both_in_turn(
    tmp_path: Path, kinds: list[Kind], first: str
) -> None:
    trials = run(list(covering_programs(kinds, first)), tmp_path)
    found = complaints(trials) or "\n\n".join(trial.given_up for trial in trials if trial.given_up)
    assert not found, found


def _random(home: Path, kinds: list[Kind], start: int, count: int) -> None:
    for batch in range(start, start + count, BATCH):
        folder = home / str(batch)
        folder.mkdir()
        seeds = range(batch, min(batch + BATCH, start + count))
        trials = run([random_program(seed, kinds, LIBRARIES[seed % 2]) for seed in seeds], folder)
        found = complaints(trials)
        assert not found, found
        given_up = [trial.given_up for trial in trials if trial.given_up]
        assert len(given_up) <= BATCH // 10, "\n\n".join(given_up)
        shutil.rmtree(folder)


@pytest.mark.interop
def test_random_datasets_hold_what_a_plain_model_holds(tmp_path: Path, kinds: list[Kind]) -> None:
    _random(tmp_path, kinds, SEED, FEW)


@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_thousands_of_random_datasets_hold_what_a_plain_model_holds(
    tmp_path: Path, kinds: list[Kind]
) -> None:
    _random(tmp_path, kinds, 1_000_000 + SEED, MANY)
