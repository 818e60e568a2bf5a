"""Names of credentials that lakebed writes mean the same to Deep Lake 3.9.52, and the other way round."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import lakebed
from integration_tests.interop.test_interop import INTERPRETERS, NOWHERE
from integration_tests.messages import Json

pytestmark = pytest.mark.interop

BUILD = """
ds = deeplake.empty("ds")
for name in ("A", "B", "C", "\\u00fc"):
    ds.add_creds_key(name)
for name in ("A", "B"):
    ds.populate_creds(name, {})
ds.create_tensor("l", htype="link[image]", sample_compression="png")
for key in (None, "B", "A", "B"):
    ds.l.append(deeplake.link("x.png", creds_key=key))
ds.update_creds_key("A", "renamed")
ds.commit("linked")
"""
"""The same calls under either library."""

LOOK = """
ds = deeplake.load("ds", read_only=True)
found = {"names": ds.link_creds.creds_keys, "keys": sorted(ds.get_creds_keys())}
found["used"] = sorted(ds.link_creds.used_creds_keys)
found["of samples"] = [ds.l[i].creds_key() for i in range(len(ds.l))]
for name in found["used"]:
    ds.populate_creds(name, {})
found["shapes"] = [list(ds.l[i].numpy().shape) for i in range(len(ds.l))]
print("FOUND " + json.dumps(found))
"""

GO_ON = """
ds = deeplake.load("ds", read_only=False)
for name in ("renamed", "B"):
    ds.populate_creds(name, {})
ds.add_creds_key("later")
ds.populate_creds("later", {})
ds.l.append(deeplake.link("x.png", creds_key="later"))
ds.update_creds_key("B", "B2")
ds.commit("more")
"""


def run(library: str, program: str, folder: Path) -> str:
    """Run a program under a library and return what it prints."""
    text = f"import json, {library} as deeplake\n{program}"
    environment = {
        "BUGGER_OFF": "true",
        "https_proxy": NOWHERE,
        "HOME": str(folder),
        "LAKEBED_LINK_ROOTS": str(folder),
        "PATH": "/usr/bin:/bin",
    }
    line = [str(INTERPRETERS[library]), "-c", text]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def seen(library: str, folder: Path) -> Json:
    """What a library sees of names, codes and samples."""
    lines = run(library, LOOK, folder).splitlines()
    return json.loads(next(line for line in lines if line.startswith("FOUND ")).removeprefix("FOUND "))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(tmp_path / "x.png")
    return tmp_path


@pytest.mark.parametrize(("writer", "other"), [("lakebed", "deeplake"), ("deeplake", "lakebed")])
def test_names_codes_and_samples_are_the_same(folder: Path, writer: str, other: str) -> None:
    run(writer, BUILD, folder)
    file = folder / "ds" / "linked_creds.json"
    document = json.loads(file.read_bytes())
    assert (document["creds_keys"], set(document["used_creds_keys"])) == (
        ["renamed", "B", "C", "ü"],
        {"renamed", "B"},
    )
    assert file.read_bytes() == json.dumps(document).encode()
    wanted = {
        "names": ["renamed", "B", "C", "ü"],
        "keys": ["B", "C", "renamed", "ü"],
        "used": ["B", "renamed"],
        "of samples": [None, "B", "renamed", "B"],
        "shapes": [[4, 5, 3]] * 4,
    }
    for library in (writer, other):
        assert seen(library, folder) == wanted, library
    run(other, GO_ON, folder)
    wanted = {
        "names": ["renamed", "B2", "C", "ü", "later"],
        "keys": ["B2", "C", "later", "renamed", "ü"],
        "used": ["B2", "later", "renamed"],
        "of samples": [None, "B2", "renamed", "B2", "later"],
        "shapes": [[4, 5, 3]] * 5,
    }
    for library in (writer, other):
        assert seen(library, folder) == wanted, library


def test_managed_names_do_not_keep_the_other_from_opening(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.9.52 has no service for them here, and opens, reads and changes the dataset all the same."""
    monkeypatch.setenv("LAKEBED_CREDS_M", '{"token": "x"}')
    ds = lakebed.empty(folder / "ds")
    ds.add_creds_key("M", managed=True)
    ds.create_tensor("l", htype="link[image]", sample_compression="png", verify=False)
    ds.l.append(lakebed.link(f"{folder}/x.png"))
    ds.commit("one")
    ds.close()
    assert seen("deeplake", folder)["names"] == ["M"]
    run(
        "deeplake",
        'ds = deeplake.load("ds"); ds.add_creds_key("N"); ds.commit("two", allow_empty=True)',
        folder,
    )
    again = lakebed.load(folder / "ds")
    assert (again.get_creds_keys(), again.get_managed_creds_keys()) == ({"M", "N"}, ["M"])
