"""Deep Lake 3.9.52 on datasets whose rows were updated, removed and widened in bulk."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from integration_tests.interop.test_interop import (
    INTERPRETERS,
    assert_all_versions_agree,
    assert_both_see_the_same,
    run,
)
from lakebed import config
from lakebed.writing import diffs, rewriting

pytestmark = pytest.mark.interop

ROWS = 120


def columns(numbers: np.ndarray, *, every: int) -> dict[str, Any]:
    """A value for each number; every n-th number is null. 3.9.52 knows no other nulls than those of numbers."""
    return {
        "n": pa.array(numbers, mask=numbers % every == 0),
        "f": pa.array(numbers / 4),
        "t": pa.array(["x" * (n % 7) for n in numbers]),
        "j": pa.ExtensionArray.from_storage(pa.json_(), pa.array([f'{{"n": {n}}}' for n in numbers])),
        "a": [np.arange(n % 5 + 1, dtype=np.int16) for n in numbers],
        "c": [("ant", "bee", "cat")[n % 3] for n in numbers],
        "s": [list(range(n % 3)) for n in numbers],
    }


@pytest.fixture(params=[diffs.MOST_LISTED, 20], ids=["listed", "flagged"])
def changed(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset with bulk updates and removals in committed versions, and in an uncommitted head."""
    monkeypatch.setattr(config, "FSYNC", False)
    monkeypatch.setattr(rewriting, "MANY", 2)
    monkeypatch.setattr(diffs, "MOST_LISTED", request.param)
    path = tmp_path / "changed"
    ds = lakebed.empty(path)
    for name, dtype in {"n": "int64", "f": "float64", "a": "int16"}.items():
        ds.create_tensor(name, dtype=dtype, max_chunk_size=400)
    for name, htype in {"t": "text", "j": "json", "c": "class_label", "s": "sequence"}.items():
        ds.create_tensor(name, htype=htype, max_chunk_size=400)
    ds.extend(columns(np.arange(ROWS), every=7))
    ds.commit("made")
    rows = np.arange(0, ROWS, 3)
    ds.update_rows(rows, columns(rows + 1, every=4))
    ds.commit("updated")
    ds.update_rows(rows[:20], {"t": ["longer than before"] * 20, "n": np.zeros(20, np.int64)})
    ds.pop_rows(np.arange(1, ROWS, 5))
    ds.commit("updated and removed")
    ds.update_rows(rows[:30], columns(rows[:30], every=3))
    ds.close()
    return path


def test_both_read_and_write_on(changed: Path) -> None:
    """Every version reads the same in both; 3.9.52 shows the differences, appends and commits."""
    assert assert_all_versions_agree(changed) == 4
    code = f"import deeplake; ds = deeplake.load({str(changed)!r}); ds.diff(ds.commits[-1]['commit'])"
    done = subprocess.run(
        [INTERPRETERS["deeplake"], "-c", code], capture_output=True, check=False, env={"BUGGER_OFF": "true"}
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    assert b"Deleted 24 samples" in done.stdout
    for library in ("deeplake", "lakebed"):
        run(library, "extend", changed, "main")
    assert assert_all_versions_agree(changed) == 6


def test_both_read_and_write_on_after_a_change_of_type(changed: Path) -> None:
    """Tensors that got wider types read the same in both, in old and new versions, and can be appended to."""
    ds = lakebed.load(changed)
    ds.change_type("n", dtype="float64")
    ds.change_type("t", htype="json")
    ds.change_type("c", htype="text")
    ds.change_type("a", htype="json")
    ds.commit("widened")
    ds.change_type("f", htype="text")
    ds.close()
    assert assert_all_versions_agree(changed) >= 5
    for library in ("deeplake", "lakebed"):
        run(library, "extend", changed, "main")
    found = assert_both_see_the_same(changed, "main")
    assert {name: tensor["htype"] for name, tensor in found["tensors"].items()} == {
        "n": "generic",
        "f": "text",
        "a": "json",
        "t": "json",
        "j": "json",
        "c": "text",
        "s": "sequence[generic]",
    }
    assert_all_versions_agree(changed)
