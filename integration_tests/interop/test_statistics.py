"""Deep Lake 3.9.52 writes between the queries of lakebed: statistics of chunks never hide, or show, a row wrongly."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lakebed
from integration_tests.interop.histories.harness import INTERPRETERS, NOWHERE
from lakebed.documents import chunk_statistics

pytestmark = pytest.mark.interop

STEPS = """
import sys, numpy as np, deeplake
ds = deeplake.load(sys.argv[1], verbose=False)
for step in sys.argv[2:]:
    what, _, rest = step.partition("=")
    if what == "extend":
        ds.x.extend([np.int32(n) for n in range(*map(int, rest.split(",")))])
    elif what == "set":
        row, value = map(int, rest.split(","))
        ds.x[row] = np.int32(value)
    elif what == "pop":
        ds.pop(int(rest))
    elif what == "commit":
        ds.commit("by 3.9.52")
    elif what == "branch":
        ds.checkout(rest, create=True)
ds.flush()
"""


def other(path: Path, *steps: str) -> None:
    """Let Deep Lake 3.9.52 change the dataset."""
    environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    line = [str(INTERPRETERS["deeplake"]), "-c", STEPS, str(path), *steps]
    subprocess.run(line, env=environment, check=True, capture_output=True, timeout=120)


def check(path: str, model: list[int]) -> None:
    """Hold queries, each asked twice, against a list of the values."""
    ds = lakebed.load(path)
    assert ds.x.numpy().reshape(-1).tolist() == model
    for value in (0, 5, 47, 111, 300, 301, 999):
        for _ in range(2):
            found = [int(row) for row in ds.query(f"SELECT * WHERE x == {value}").sample_indices]
            assert found == [i for i, v in enumerate(model) if v == value]
            found = [int(row) for row in ds.query(f"SELECT * WHERE NOT x < {value}").sample_indices]
            assert found == [i for i, v in enumerate(model) if v >= value]
    ds.close()


def test_statistics_stay_true_beside_deep_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_statistics, "PIECE", 8)
    path = tmp_path / "ds"
    ds = lakebed.empty(path)
    ds.create_tensor("x", dtype="int32", max_chunk_size=200)
    ds.x.extend(np.arange(200, dtype=np.int32))
    ds.commit("by lakebed")
    ds.close()
    model = list(range(200))
    check(str(path), model)
    assert list((path / ".lakebed").glob("statistics-*"))

    other(path, "set=5,300", "extend=300,320")
    model[5:6] = [300]
    model += range(300, 320)
    check(str(path), model)
    other(path, "pop=47", "commit", "set=0,999")
    del model[47]
    model[0] = 999
    check(str(path), model)
    with lakebed.load(path) as ds:
        ds.x.extend(np.full(30, 111, np.int32))
        ds.x[3] = np.int32(47)
        ds.commit()
    model += [111] * 30
    model[3] = 47
    check(str(path), model)
    other(path, "branch=side", "set=7,301", "commit")
    check(str(path), model)
    model[7] = 301
    check(f"{path}@side", model)
