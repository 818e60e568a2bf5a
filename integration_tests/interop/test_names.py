"""The list of names that the unit tests go by is what Deep Lake 3.9.52 has."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

ROOT = Path(__file__).resolve().parent.parent.parent
NOWHERE = "http://127.0.0.1:9"


def test_the_list_of_names_is_complete(tmp_path: Path) -> None:
    interpreter = ROOT / ".cache/venvs/deeplake3/bin/python"
    out = tmp_path / "names.json"
    environment = {**os.environ, "BUGGER_OFF": "true", "https_proxy": NOWHERE, "HTTPS_PROXY": NOWHERE}
    line = [str(interpreter), str(Path(__file__).with_name("names.py")), str(out)]
    subprocess.run(line, env=environment, check=True, capture_output=True)

    assert json.loads(out.read_text()) == json.loads((ROOT / "unit_tests/data/names-3.9.52.json").read_text())
