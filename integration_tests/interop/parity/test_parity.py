"""Every statement of the cases gives under lakebed what it gives under Deep Lake 3.9.52."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from integration_tests.interop.parity.compare import differences
from integration_tests.interop.parity.execute import Json, cases
from integration_tests.interop.parity.known import KNOWN

pytestmark = pytest.mark.interop

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
INTERPRETERS = {"deeplake": ROOT / ".cache/venvs/deeplake3/bin/python", "lakebed": Path(sys.executable)}
GOLDEN = ROOT / "unit_tests/data/golden-3.9.52.tar.xz"
NOWHERE = "http://127.0.0.1:9"
NAMES = [name for name, _ in cases(HERE / "cases")]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[Json]]]:
    """What each library gave, by case."""
    home = tmp_path_factory.mktemp("parity")
    with tarfile.open(GOLDEN) as archive:
        members = [member for member in archive if "/_files/" in member.name]
        archive.extractall(home, members, filter="data")
    files = next(home.rglob("_files"))
    environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    environment["LAKEBED_AUTHOR"] = "public"  # as everybody is called in 3.9.52 who is not logged in
    environment["LAKEBED_LINK_ROOTS"] = str(home)
    found = {}
    for library, interpreter in INTERPRETERS.items():
        out = home / f"{library}.json"
        line = [interpreter, HERE / "execute.py", library, HERE / "cases", files, out]
        subprocess.run([str(word) for word in line], env=environment, check=True, capture_output=True)
        found[library] = json.loads(out.read_text())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_gives_the_same(records: dict[str, dict[str, list[Json]]], name: str) -> None:
    found = list(differences(name, records["deeplake"][name], records["lakebed"][name]))
    wrong = [difference for difference in found if not any(known.covers(difference) for known in KNOWN)]
    assert not wrong, f"{len(wrong)} differences\n" + "\n".join(map(str, wrong))


def test_every_known_difference_is_still_there(records: dict[str, dict[str, list[Json]]]) -> None:
    found = [
        difference
        for name in NAMES
        for difference in differences(name, records["deeplake"][name], records["lakebed"][name])
    ]
    assert not [known for known in KNOWN if not any(known.covers(difference) for difference in found)]
