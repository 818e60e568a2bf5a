"""Deep Lake 3.9.52 on datasets whose chunk index lakebed keeps in pages: both read, append and commit in turns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lakebed
from integration_tests.interop.test_interop import assert_all_versions_agree, assert_both_see_the_same, run
from lakebed.documents.indexes import pages
from lakebed.versions import paged, publish

pytestmark = pytest.mark.interop


def test_both_go_on_with_a_dataset_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "PAGED_FROM", 8)
    monkeypatch.setattr(paged, "_MOST_LOOSE", 3)
    monkeypatch.setattr(pages, "SPREAD", 4)
    path = tmp_path / "paged"
    ds = lakebed.empty(path)
    ds.create_tensor("n", dtype="int64", max_chunk_size=800)
    ds.create_tensor("t", htype="text")
    for number in range(30):
        ds.n.extend(np.arange(number * 100, number * 100 + 100))
        ds.t.extend([f"row {number}"] * 100)
        ds.flush()
        if number == 20:
            ds.commit("halfway")
            ds.n[3] = -3
    ds.close()
    assert any((path / ".lakebed/pages").iterdir())
    del ds
    for library in ("deeplake", "lakebed", "deeplake"):
        run(library, "extend", path, "main")
        assert_both_see_the_same(path, "main")
        lakebed.gc(path, grace=0)
    assert assert_all_versions_agree(path) > 0
