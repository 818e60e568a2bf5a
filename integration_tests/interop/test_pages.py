"""Deep Lake 3.9.52 on datasets whose chunk index lakebed keeps in pages: both read, append and commit in turns."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import lakebed
from integration_tests.interop.test_interop import (
    INTERPRETERS,
    NOWHERE,
    assert_all_versions_agree,
    assert_both_see_the_same,
    run,
)
from lakebed.documents.indexes import pages
from lakebed.versions import chunk_table, publish, write_pages

pytestmark = pytest.mark.interop


def test_both_go_on_with_a_dataset_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "PAGED_FROM", 8)
    monkeypatch.setattr(write_pages, "_MOST_LOOSE", 3)
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


REFUSED = {
    "open": "pass",
    "read": "ds.x[0].numpy()",
    "read all": "ds.x.numpy()",
    "iterate": "[s.x.numpy() for s in ds]",
    "append": "ds.x.append(np.zeros(10, 'int64'))",
    "append rows": "ds.append({'x': np.zeros(10, 'int64'), 'y': 1})",
    "skip rows": "ds.extend({'x': np.zeros((2, 10), 'int64'), 'y': [1, 2]}, skip_ok=True)",
    "update": "ds.x[0] = np.zeros(10, 'int64')",
    "pop": "ds.pop(0)",
    "delete": "ds.delete_tensor('x', large_ok=True)",
    "commit": "ds.commit(allow_empty=True)",
    "branch": "ds.checkout('side', create=True)",
    "reset": "ds.reset(force=True)",
    "copy": "deeplake.deepcopy(ds.path, ds.path + '-copy', progressbar=False)",
    "rechunk": "ds.rechunk(progressbar=False)",
}
DONE = {"len": "assert len(ds.x) == 31", "others": "ds.y.append(1)", "info": "ds.x.info.update(a=1)"}


def test_a_tensor_with_a_stub_is_refused_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "PAGED_FROM", 4)
    monkeypatch.setattr(write_pages, "_MOST_LOOSE", 3)
    monkeypatch.setattr(pages, "SPREAD", 4)
    monkeypatch.setattr(chunk_table, "MOST_WHOLE", 12)
    path = tmp_path / "source"
    ds = lakebed.empty(path)
    ds.create_tensor("x", dtype="int64", max_chunk_size=100)
    ds.create_tensor("y", dtype="int64")
    rows = np.repeat(np.arange(31), 10).reshape(-1, 10)
    ds.extend({"x": rows[:30], "y": np.arange(30)})
    ds.commit()
    ds.append({"x": rows[30], "y": 30})
    ds.close()
    program = "import os, sys, traceback\nimport deeplake\nimport numpy as np\n"
    for name, step in {**REFUSED, **DONE}.items():
        place = tmp_path / name.replace(" ", "-")
        shutil.copytree(path, place)
        is_checked = name == "open"  # 3.9.52 checks datasets of few tensors when it opens them
        program += (
            f"try:\n ds = deeplake.load({str(place)!r}, check_integrity={is_checked}, verbose=False)\n {step}\n"
            f" ds.flush()\n print('done: {name}')\nexcept Exception as error:\n print('refused: {name}')\n"
        )
    environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    found = subprocess.run(
        [INTERPRETERS["deeplake"], "-c", program], env=environment, capture_output=True, check=True, text=True
    )
    told = [line for line in found.stdout.splitlines() if line.startswith(("done", "refused"))]
    assert told == [*(f"refused: {name}" for name in REFUSED), *(f"done: {name}" for name in DONE)]
    for name in (*REFUSED, *DONE):
        ds = lakebed.load(tmp_path / name.replace(" ", "-"))
        assert np.array_equal(ds.x.numpy(), rows), name
        ds.x.append(rows[0])
        ds.commit()
        assert lakebed.verify(tmp_path / name.replace(" ", "-")).is_sound, name
