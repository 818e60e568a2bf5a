"""Deep Lake 3.9.52 on datasets whose rows were written by several processes and adopted by one."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.interop.test_interop import assert_all_versions_agree, run
from lakebed.session.parts import Part, PartTarget, PartWriter, adopt, writing_parts

pytestmark = pytest.mark.interop


def columns(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    return {
        "im": [rng.integers(0, 255, (8 + number, 20 + i, 3), np.uint8) for i in range(30)],
        "n": np.arange(30, dtype=np.int64) + 100 * number,
        "a": [np.arange(i % 4, dtype=np.float32) for i in range(30)],
        "t": [f"row {i} of part {number}" for i in range(30)],
        "c": [f"class {i % (number + 2)}" for i in reversed(range(30))],
        "s": [[np.full((1, 4), i, np.float32)] * (i % 3) for i in range(30)],
        "j": [{"part": number, "row": i} for i in range(30)],
    }


def write(target: PartTarget, number: int) -> Part:
    with PartWriter(target) as writer:
        writer.extend(columns(number))
        return writer.finish()


def test_both_read_and_write_on(tmp_path: Path) -> None:
    """Parts with chunks large and small, in three versions; 3.9.52 reads all of them, appends and commits."""
    path = tmp_path / "parts"
    ds = lakebed.empty(path)
    ds.create_tensor("im", htype="image", sample_compression="png", max_chunk_size=100_000)
    ds.create_tensor("n", dtype="int64", max_chunk_size=400)
    ds.create_tensor("a", dtype="float32")
    for name, htype in {"t": "text", "c": "class_label", "s": "sequence[bbox]", "j": "json"}.items():
        ds.create_tensor(name, htype=htype)
    ds.extend(columns(0))
    ds.commit("first")
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for numbers in ((1, 2, 3), (4, 5)):
            with writing_parts(ds._table()) as target:
                adopt(ds._session, pool.map(write, [target] * len(numbers), numbers))
            ds.commit(f"parts {numbers}")
    ds.close()
    lakebed.gc(path, grace=0)

    assert assert_all_versions_agree(path) >= 3
    for library in ("deeplake", "lakebed"):
        run(library, "extend", path, "main")
    assert assert_all_versions_agree(path) >= 5
