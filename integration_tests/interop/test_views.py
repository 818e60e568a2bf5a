"""Saved views of lakebed in Deep Lake 3.9.52, and the other way round."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.interop.test_interop import INTERPRETERS, NOWHERE

pytestmark = pytest.mark.interop

SHOW = """
import json, sys, deeplake, numpy as np
path, outside = sys.argv[1:3]
ds = deeplake.load(path, verbose=False)
found = {}
for entry in ds.get_views():
    view = entry.load(verbose=False)
    found[entry.id] = {
        "x": np.ravel(view.x.numpy()).tolist(), "index": view.index.to_json()[1:], "virtual": entry.virtual,
        "message": entry.message, "commit": entry.commit_id, "rows": len(view), "shape": list(view.x.numpy().shape),
    }
view = deeplake.load(outside, verbose=False)
found["outside"] = {"x": np.ravel(view.x.numpy()).tolist()}
"""
CHANGE = """
ds[[1, 2]].save_view(id="theirs", message="m")
ds[3].save_view(id="their row")
ds[2:5, 0].save_view(id="their parts")
ds[[5, 0]].save_view(id="their copy", optimize=True)
ds[[True, False] * 5].save_view(id="their mask")
ds[:2].save_view()
ds[[7, 6]].save_view(path=outside + "2")
ds.get_view("order").optimize()
ds.delete_view("row")
ds.delete_view("copied row")
"""


def deeplake(script: str, *arguments: str | Path) -> dict[str, Any]:
    environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    line = [INTERPRETERS["deeplake"], "-c", script + "\nprint('\\n' + json.dumps(found))", *arguments]
    done = subprocess.run(line, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.decode().splitlines()[-1])
    return found


def flat(view: lakebed.Dataset) -> list[int]:
    return [int(n) for n in np.ravel(view.x.numpy())]


def test_views_go_both_ways(tmp_path: Path) -> None:
    path, outside = tmp_path / "ds", tmp_path / "outside"
    ds = lakebed.empty(path)
    ds.create_tensor("x", dtype="int64")
    ds.x.extend(np.arange(20).reshape(10, 2))
    ds.commit("ten")
    ds[[7, 2, 9, 2]].save_view(id="order", message="in another order")
    ds[4].save_view(id="row")
    ds[1:4, 0].save_view(id="parts")
    ds[3:3].save_view(id="none")
    ds[[8, 1, 1]].save_view(id="copied", optimize=True, verbose=False)
    ds[6].save_view(id="copied row", optimize=True, verbose=False)
    ds[:3].save_view()
    ds.checkout("side", create=True)
    ds.x[0] = np.array([70, 71])
    side = ds.commit("side")
    ds[[0]].save_view(id="side")
    ds.checkout("main")
    ds[[5, 4]].save_view(path=outside)
    ours = {entry.id: entry for entry in ds.get_views()}
    ds.close()

    seen = deeplake(SHOW, path, outside)

    assert seen.keys() == {*ours, "outside"}
    for name, entry in ours.items():
        view, shown = entry.load(), seen[name]
        assert shown["x"] == flat(view), name
        assert shown["shape"] == list(view.x.numpy().shape) or name == "none", name
        assert (shown["virtual"], shown["message"]) == (entry.virtual, entry.message), name
        assert (shown["commit"], shown["rows"]) == (entry.commit_id, len(view)), name
    assert (seen["side"]["commit"], seen["side"]["x"]) == (side, [70, 71])
    assert seen["outside"]["x"] == [10, 11, 8, 9]

    seen = deeplake(SHOW + CHANGE + SHOW.partition("ds = ")[2].join(["ds = ", ""]), path, outside)

    ds = lakebed.load(path)
    theirs = {entry.id: entry for entry in ds.get_views()}
    assert seen.keys() == {*theirs, "outside"}
    assert theirs.keys().isdisjoint(("row", "copied row"))
    for name, entry in theirs.items():
        if name != "their mask":  # it stores the zeros and ones as rows
            assert flat(entry.load()) == seen[name]["x"], name
    assert flat(ds.load_view("their mask")) == [n for i in range(0, 10, 2) for n in (2 * i, 2 * i + 1)]
    assert theirs["order"].virtual is False
    assert flat(lakebed.load(f"{outside}2")) == [14, 15, 12, 13]
    ds.delete_view("their copy")
    ds[[9]].save_view(id="theirs", overwrite=True)
    ds.close()
    last = deeplake(SHOW, path, outside)
    assert last["theirs"]["x"] == [18, 19]
    assert "their copy" not in last
