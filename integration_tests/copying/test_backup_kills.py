"""Backups of a dataset that goes on, killed at any moment: the place holds the old points or the new one as well."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed import config
from lakebed.maintenance.verify import verify
from unit_tests.effort import IS_SOAK, seed

KILLS = 100 if IS_SOAK else 12
TENSORS, ROWS, KEPT = 5, 6, 3

SCRIPT = f"""
import sys
import lakebed
from lakebed.copying import repository, transfer

transfer._TOGETHER, repository._EVERY = 3, 0.01
print("begun", flush=True)
lakebed.backup(sys.argv[1], sys.argv[2], keep_last={KEPT}, progressbar=False)
print("done", flush=True)
"""

Rows = dict[str, Any]


class Place:
    """A dataset and its backups, and what each of these should hold."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.dice, self.rng = dice, np.random.default_rng(dice.randrange(1 << 30))
        self.ds, self.backups, self.copy = (str(folder / name) for name in ("ds", "backups", "copy"))
        with lakebed.empty(self.ds) as ds:
            for number in range(TENSORS):
                ds.create_tensor(
                    f"t{number}", dtype="uint8", create_id_tensor=False, create_shape_tensor=False
                )
        self.commits = 0

    def change(self) -> Rows:
        """Append rows to all tensors, and commit, and now and then make a branch; return what there is."""
        with lakebed.load(self.ds) as ds:
            rows = self.rng.integers(0, 255, (TENSORS, ROWS, 4000), dtype=np.uint8)
            for number in range(TENSORS):
                ds[f"t{number}"].extend(rows[number])
            ds.commit(f"commit {self.commits}")
            self.commits += 1
            if self.commits % 10 == 0:
                ds.checkout(f"side-{self.commits}", create=True)
                ds.t0.append(rows[0][0])
                ds.checkout("main")
        return rows_of(self.ds)

    def points(self) -> list[str]:
        try:
            return [point.id for point in lakebed.backups(self.backups)]
        except lakebed.errors.DatasetNotFoundError:
            return []

    def start(self) -> subprocess.Popen[bytes]:
        """Start a backup, and wait until it begins."""
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, self.ds, self.backups],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        return process

    def finish(self) -> float:
        """Make a backup that nothing disturbs; return how long it took."""
        process, begun = self.start(), time.monotonic()
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()
        return time.monotonic() - begun

    def check(self, point: str, wanted: Rows) -> None:
        """Restore a point, and compare everything."""
        shutil.rmtree(self.copy, ignore_errors=True)
        lakebed.restore(self.backups, self.copy, at=point, progressbar=False).close()
        assert rows_of(self.copy) == wanted


def rows_of(url: str) -> Rows:
    """Every branch with all rows, and its commits."""
    ds = lakebed.load(url, read_only=True)
    found: Rows = {}
    for branch in ds.branches:
        ds.checkout(branch)
        rows = {name: sha256(ds[name].numpy().tobytes()).hexdigest() for name in ds.tensors}
        lengths = {name: len(ds[name]) for name in ds.tensors}
        found[branch] = (rows, lengths, [commit["commit"] for commit in ds.commits])
    return found


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_killed_backup_leaves_the_old_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kill at a random moment; then the next one goes on, or one ends; the dataset changes all the time."""
    monkeypatch.setattr(config, "FSYNC", False)  # here; backups wait for the disk
    dice = random.Random(seed())
    place = Place(tmp_path, dice)
    states: dict[str, Rows] = {}
    now = place.change()
    duration = place.finish()
    states[place.points()[-1]] = now
    cut_off = published = 0
    for kill in range(KILLS):
        if dice.random() < 0.7:
            now = place.change()
        before = place.points()
        process = place.start()
        time.sleep(dice.uniform(0, 1.1 * duration))
        process.kill()
        process.communicate()
        after = place.points()
        told = f"kill {kill}; LAKEBED_SEED={seed()}"
        if after == before:
            cut_off += 1
        else:
            assert after[:-1] == before[-len(after[:-1]) :], told
            assert len(after) <= KEPT, told
            states[after[-1]] = now
            published += 1
        place.check(after[-1], states[after[-1]])
        if kill % 10 == 0:
            assert lakebed.verify_backups(place.backups, progressbar=False).is_sound, told
            for point in after[:-1]:
                place.check(point, states[point])
        if dice.random() < 0.2:
            duration = place.finish()
            states[place.points()[-1]] = now
            place.check(place.points()[-1], now)
    assert cut_off > KILLS // 4, "hardly a kill came before the end"
    assert published, "no kill came near the end"
    place.finish()
    place.check(place.points()[-1], now)
    assert verify(lakebed.load(place.copy, read_only=True).storage, deep=True).is_sound
    assert clean(Path(place.backups))


def clean(backups: Path) -> bool:
    """Tell whether nothing lies about that no point needs."""
    from lakebed.copying.repository import Repository
    from lakebed.storage.url import open_storage

    found = Repository(open_storage(backups))
    wanted = {key for point in found.catalog().points for key in found.files(point.id).objects}
    here = {str(path.relative_to(backups)) for path in (backups / "objects").rglob("*") if path.is_file()}
    return here == wanted and not [path for path in (backups / "runs").rglob("*") if path.is_file()]
