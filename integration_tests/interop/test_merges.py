"""Deep Lake 3.9.52 and lakebed merge in turns, and go on with what the other one merged."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

import lakebed
from integration_tests.interop.test_interop import (
    INTERPRETERS,
    LIBRARIES,
    NOWHERE,
    assert_all_versions_agree,
)

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("merges.py")
TURNS = 6


def run(library: str, command: str, *arguments: str | Path | int) -> None:
    """Run a command of the program under a library."""
    environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    line = [str(INTERPRETERS[library]), str(PROGRAM), library, command, *map(str, arguments)]
    done = subprocess.run(line, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, f"{library} {command} {arguments}: {done.stderr.decode()[-3000:]}"


def marks(path: Path, branch: str) -> list[int]:
    """The rows of a branch by what makes them unlike others; all columns of a row say the same."""
    ds = lakebed.load(f"{path}@{branch}", read_only=True)
    found = [int(n) for n in ds.n.numpy().ravel()]
    assert [f"row {mark}" for mark in found] == ds.t.data()["value"]
    assert [int(x[0]) for x in ds.lz.numpy()] == found
    assert [int(x[0]) for x in ds.big.numpy()] == [mark % 251 for mark in found]
    changed = [mark % 100 == 50 for mark in found]
    untouched = [mark for mark, is_changed in zip(found, changed, strict=True) if not is_changed]
    documents = [d["mark"] for d in ds.j.data()["value"]]
    labels = [x.data()["text"][0] for x in ds.label]
    for mark, document, label, is_changed in zip(found, documents, labels, changed, strict=True):
        assert is_changed or document == mark
        assert label == f"class {document // 100}"
    assert len(untouched) == len(set(untouched))
    return found


@pytest.mark.parametrize(("first", "seed"), [(LIBRARIES[0], 1), (LIBRARIES[1], 2)])
def test_both_merge_in_turns(tmp_path: Path, first: str, seed: int) -> None:
    """However the turns fall, both lines hold all rows and all changes after merging, and both libraries read them."""
    choose = random.Random(f"{first} {seed}")
    path = tmp_path / "ds"
    run(first, "create", path)
    lines: dict[str, set[int]] = {"main": {0}}
    for turn in range(1, TURNS + 1):
        branch = ("side", "main")[turn % 2]
        run(choose.choice(LIBRARIES), "work", path, branch, turn)
        lines.setdefault(branch, set(lines["main"])).add(turn)
        if turn > 1 and choose.random() < 0.7:
            into = choose.choice(["main", "side"])
            other = "side" if into == "main" else "main"
            run(choose.choice(LIBRARIES), "merge", path, into, other)
            lines[into] |= lines[other]
        for name, turns in lines.items():
            assert set(marks(path, name)) == expected(turns), f"{name} after turn {turn}"
    run("deeplake", "merge", path, "main", "side")
    run("lakebed", "merge", path, "side", "main")
    assert sorted(marks(path, "main")) == sorted(marks(path, "side"))
    assert set(marks(path, "main")) == expected(set(range(TURNS + 1)))
    assert_all_versions_agree(path)


def expected(turns: set[int]) -> set[int]:
    """Rows of turns that a line has: turn 0 made eight, of which turn n changed row n; others added two each."""
    start = {t for t in range(8) if t not in turns or t == 0}
    added = {100 * turn + i for turn in turns if turn for i in range(2)}
    return start | added | {100 * turn + 50 for turn in turns if turn}
