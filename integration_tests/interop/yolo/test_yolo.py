"""The same calls of ``ingest_yolo`` and ``export_yolo`` under Deep Lake 3.9.52 and under lakebed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from integration_tests.interop.test_interop import INTERPRETERS, NOWHERE, ROOT

pytestmark = pytest.mark.interop

CALLS = Path(__file__).with_name("calls.py")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    found = {}
    for library, python in INTERPRETERS.items():
        folder = tmp_path_factory.mktemp(library)
        out = folder / "out.json"
        environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
        environment["PYTHONPATH"] = f"{ROOT / 'format'}" if library == "lakebed" else ""
        command = [str(python), str(CALLS), library, str(folder), str(out)]
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()[-4000:]
        found[library] = json.loads(out.read_text())
    return found


def test_both_make_the_same(results: dict[str, dict[str, Any]]) -> None:
    theirs, ours = results["deeplake"], results["lakebed"]
    for name in ("polygons", "polygons by htype"):
        # A box among polygons is two "points" there, one of which is its size; here it is its rectangle.
        row = theirs[name]["value"]["rows"]["21"]
        assert row["polygons"] == [[0.5, 0.5, 0.25, 0.125]]
        row["polygons"] = [[0.375, 0.4375, 0.625, 0.4375, 0.625, 0.5625, 0.375, 0.5625]]
    different = {name: (theirs[name], ours[name]) for name in theirs if not same(theirs[name], ours[name])}
    assert not different, json.dumps(different)[:6000]


def same(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """An error of ours is one of theirs, or a more special one."""
    if "error" in theirs:
        return "error" in ours and theirs["error"][0] in ours["error"]
    return theirs == ours
