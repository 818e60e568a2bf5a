"""However a loader was started and however it ends, it ends, and nothing is left of it."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import lakebed
from unit_tests.lakebed.loaders.lifecycle import ENDS

PROGRAM = Path(__file__).with_name("lifecycle.py")
ROWS = 120

LIVES = [
    life
    for life in itertools.product(
        ("main", "fork", "forkserver", "spawn"), (0, 2), (0, 2), ("none", "window", "exact"), ENDS
    )
    if life[2] or life[-1] != "kill"  # there is nothing to kill
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    ds = lakebed.empty(str(tmp_path_factory.mktemp("lives") / "ds"))
    ds.create_tensor("image", htype="image", sample_compression="jpeg")
    ds.create_tensor("number", dtype="int64")
    with ds:
        for row in range(ROWS):
            ds.append({"image": np.full((32, 32, 3), row, np.uint8), "number": row})
    return ds.path


def _live(path: str, life: tuple[object, ...]) -> None:
    """Live one life in a session of its own, with temporary files of its own."""
    # Names of sockets lie there, which must be short.
    with tempfile.TemporaryDirectory(prefix="life-", dir="/tmp") as folder:
        _live_in(path, life, folder)


def _live_in(path: str, life: tuple[object, ...], folder: str) -> None:
    before = set(os.listdir("/dev/shm"))  # noqa: PTH208
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), path, *map(str, life)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        start_new_session=True,
        env={**os.environ, "TMPDIR": folder},
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    found = json.loads(ended.stdout)
    expected = {"error": "ValueError", "interrupt": "KeyboardInterrupt", "kill": "WorkerDied"}
    assert found["outcome"] == expected.get(str(life[-1]), ""), found
    assert found["rows"] == ROWS or life[-1] != "whole"
    assert (found["threads"], found["children"]) == ([], [])
    assert found["files"] <= 0
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "lakebed" in name]  # noqa: PTH208
    assert not [name for name in os.listdir(folder) if not name.startswith("pymp-")]  # noqa: PTH208


@pytest.mark.parametrize("life", LIVES[5::37], ids=lambda life: "-".join(map(str, life)))
def test_nothing_is_left(path: str, life: tuple[object, ...]) -> None:
    _live(path, life)


@pytest.mark.soak
@pytest.mark.parametrize("life", LIVES, ids=lambda life: "-".join(map(str, life)))
def test_nothing_is_left_of_any(path: str, life: tuple[object, ...]) -> None:
    _live(path, life)


def test_there_are_enough_lives() -> None:
    assert len(LIVES) >= 300
