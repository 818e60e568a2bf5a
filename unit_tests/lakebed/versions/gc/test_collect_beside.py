"""Garbage is collected while other processes read and write, as early as the rules allow: nobody misses anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed import config
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import LakebedError, LockedException
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from lakebed.versions.gc import collect as collect_module
from lakebed.versions.gc import sweep as sweep_module
from lakebed.versions.gc.sweep import Sweep
from unit_tests.effort import PATIENCE

ROWS = 25
LEAST = 5
"""Rounds of each part, however slow the machine is."""


def hasty() -> None:
    """Collect at every publish whatever no reader holds."""
    config.FSYNC = False
    config.KEEP_HEADS = 0
    collect_module._EVERY = 1
    collect_module.YOUNG_SECONDS = 0.0


def write(path: str, branch: str, seconds: float) -> int:
    """Publish rows that say where they are; commit now and then."""
    done, stop = 0, time.monotonic() + seconds
    ds = lakebed.load(f"{path}@{branch}", read_only=False)
    while done < LEAST or time.monotonic() < stop:
        rows = len(ds.n)
        ds.n.extend(np.arange(rows, rows + ROWS))
        ds.flush()
        done += 1
        if done % 23 == 0:
            ds.commit(f"after {done}")
        if done % 31 == 0:
            ds.close()
            ds = lakebed.load(f"{path}@{branch}", read_only=False)
    ds.close()
    return done


def read(path: str, branch: str, seconds: float) -> int:
    """Open, wait a little, and read everything: it must be a whole number of publishes, each row in its place."""
    done, stop = 0, time.monotonic() + seconds
    while done < LEAST or time.monotonic() < stop:
        ds = lakebed.load(f"{path}@{branch}", read_only=True)
        rows = len(ds.n)
        assert rows % ROWS == 0
        time.sleep(0.003 * (done % 10))
        found = ds.n.numpy().ravel()
        assert np.array_equal(found, np.arange(rows)), (rows, found[:5])
        done += 1
    return done


def collect(path: str, branch: str, seconds: float) -> int:
    """Sweep without a grace period."""
    del branch
    done, stop = 0, time.monotonic() + seconds
    while done < LEAST or time.monotonic() < stop:
        lakebed.gc(path, grace=0)
        done += 1
    return done


def main() -> None:
    """Play one part, given on the command line, and print how often."""
    role, path, branch, seconds = sys.argv[1:]
    hasty()
    played = {"write": write, "read": read, "collect": collect}[role]
    try:
        sys.stdout.write(json.dumps({"role": role, "done": played(path, branch, float(seconds))}))
    except (LakebedError, AssertionError) as error:
        sys.stdout.write(json.dumps({"role": role, "error": f"{type(error).__name__}: {error}"}))
        raise


CAST = [
    ("write", "main"),
    ("write", "side"),
    ("read", "main"),
    ("read", "side"),
    ("collect", "main"),
]


@pytest.mark.parametrize("seconds", [1.0, pytest.param(120, marks=pytest.mark.soak)])
def test_readers_and_writers_do_not_notice_collections(tmp_path: Path, seconds: float) -> None:
    """Two writers, two readers and a collector at once: no error, no row lost, and in the end no garbage is left."""
    path = tmp_path / "d"
    ds = lakebed.empty(path)
    ds.create_tensor("n", dtype="int64")
    ds.commit("empty", allow_empty=True)
    ds.checkout("side", create=True)
    ds.close()
    del ds
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)])}
    command = [sys.executable, "-c", f"from {__name__} import main; main()"]
    running = [
        subprocess.Popen(
            [*command, role, str(path), branch, str(seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for role, branch in CAST
    ]
    told = [process.communicate(timeout=seconds + PATIENCE) for process in running]
    assert all(process.returncode == 0 for process in running), "\n".join(o + e for o, e in told)
    done = [json.loads(output.splitlines()[-1])["done"] for output, _ in told]
    assert min(done) >= LEAST, done
    for branch, publishes in (("main", done[0]), ("side", done[1])):
        ds = lakebed.load(f"{path}@{branch}", read_only=True)
        assert np.array_equal(ds.n.numpy().ravel(), np.arange(publishes * ROWS))
    del ds
    lakebed.gc(path, grace=0)
    storage = LocalStorage(path)
    assert verify(storage, None, deep=True).is_sound
    assert lakebed.gc(path, grace=0).removed == []
    known = set(lakebed.load(path, read_only=True)._session.tree.commits)
    assert {p.name for p in (path / "versions").iterdir() if (p / "dataset_meta.json").exists()} <= known


def test_a_writer_keeps_its_lock_while_others_collect(tmp_path: Path) -> None:
    """A collection takes no lock that a writer needs, and none that it holds."""
    ds = lakebed.empty(tmp_path / "d")
    ds.create_tensor("n", dtype="int64")
    with ds:
        ds.n.extend(np.arange(5))
        lakebed.gc(tmp_path / "d", grace=0)
        with pytest.raises(LockedException):
            lakebed.load(tmp_path / "d", read_only=False).n.append(1)
    assert len(lakebed.load(tmp_path / "d", read_only=True).n) == 5


@pytest.mark.parametrize("recent", [False, True])
def test_a_version_that_comes_and_goes_while_a_sweep_looks_keeps_what_its_reader_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recent: bool
) -> None:
    """It is in no listing and no tree that the sweep reads; a chunk that it inherits lies with a version that goes."""
    ds = lakebed.empty(tmp_path / "d")
    for name in "ab":
        ds.create_tensor(name, dtype="int64")
    ds.commit("empty", allow_empty=True)
    ds.a.extend(np.arange(9))
    ds.flush()
    ds.b.append(1)
    ds.flush()
    readers: list[lakebed.Dataset] = []
    judged = Sweep._stable_tree

    def publish_first(sweep: Sweep) -> VersionTree:
        ds.b.append(2)
        ds.flush()
        readers.append(lakebed.load(tmp_path / "d", read_only=True))
        ds.a.append(9)  # takes the rows of the small chunk into a new one
        ds.flush()
        return judged(sweep)

    monkeypatch.setattr(Sweep, "_stable_tree", publish_first)
    monkeypatch.setattr(sweep_module, "YOUNG_SECONDS", -1.0)
    sweep = Sweep(LocalStorage(tmp_path / "d"), grace=0, keep=0, mine="main", recent=recent)
    for _ in sweep.steps():
        pass
    assert sweep.ended
    (reader,) = readers
    assert reader.a.numpy().ravel().tolist() == list(range(9))
    assert reader.b.numpy().ravel().tolist() == [1, 2]
    assert ds.a.numpy().ravel().tolist() == list(range(10))
