"""Transforms leave the same rows, commits and errors as in Deep Lake 3.9.52, which goes on with what they made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from integration_tests.interop.test_interop import assert_all_versions_agree, run

pytestmark = pytest.mark.interop

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
INTERPRETERS = {"deeplake": ROOT / ".cache/venvs/deeplake3/bin/python", "lakebed": Path(sys.executable)}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which both have run all programs."""
    home = tmp_path_factory.mktemp("transforms")
    for i in range(2):
        Image.fromarray(np.full((2, 3, 3), i, np.uint8)).save(home / f"{i}.png")
    environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    environment["LAKEBED_LINK_ROOTS"] = str(home)
    for library, interpreter in INTERPRETERS.items():
        (home / library).mkdir()
        line = [str(interpreter), str(HERE / "programs.py"), library, str(home / library)]
        subprocess.run(line, env=environment, check=True, capture_output=True)
    return home


def test_both_leave_the_same(home: Path) -> None:
    theirs, ours = (json.loads((home / name / "answers.json").read_text()) for name in INTERPRETERS)
    assert theirs.keys() == ours.keys()
    wrong = [f"{name}: {theirs[name]} / {ours[name]}" for name in theirs if theirs[name] != ours[name]]
    assert not wrong, "\n".join(wrong)
    assert sum(one["error"] is not None for one in ours.values()) <= 4


@pytest.mark.parametrize("name", ["one", "kinds2", "ck", "cke", "ignore", "place2"])
def test_both_go_on_with_ours(home: Path, name: str) -> None:
    """3.9.52 reads all versions of what our transforms made, appends and commits, and so do we after it."""
    path = home / "lakebed" / name
    before = assert_all_versions_agree(path)
    for library in ("deeplake", "lakebed"):
        run(library, "extend", path, "main")
    assert assert_all_versions_agree(path) >= before + 1


def test_ours_goes_on_after_checkpoints_of_theirs(home: Path) -> None:
    """Their run ended by an error after four items; the rest of the input is a run of ours."""
    path = home / "deeplake" / "cke"

    @lakebed.compute
    def failing(x: int, out: Any) -> None:
        out.append({"a": x, "b": x})

    ds = lakebed.load(path)
    ds.reset()
    assert ds.a.numpy().ravel().tolist() == [0, 1, 2, 3]
    failing().eval(list(range(10))[4:], ds, checkpoint_interval=4, progressbar=False)
    assert ds.a.numpy().ravel().tolist() == list(range(10))
    ds.commit("done")
    assert assert_all_versions_agree(path) >= 4
