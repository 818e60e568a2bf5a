"""``scripts/mutants.py`` tells changes that tests notice from those that they do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "mutants.py"
SOURCE = """
def compared(a, b):
    return a < b

def unseen(a):
    return a + 1

def never(a):
    return not a
"""
TESTS = """
from lakebed_like import compared, unseen

def test_compared():
    assert not compared(1, 1)

def test_unseen():
    assert unseen(1)
"""


def test_changes_and_their_fates(tmp_path: Path) -> None:
    (tmp_path / "lakebed_like.py").write_text(SOURCE)
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, str(SCRIPT), "lakebed_like.py", "test_it.py"]

    def run(*options: str) -> str:
        environment = {**os.environ, "PYTHONPATH": "."}
        return subprocess.run(
            [*command, *options], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        ).stdout

    run("--write", "fates.json")
    fates = {each["change"]: each["fate"] for each in json.loads((tmp_path / "fates.json").read_text())}
    assert fates == {
        "a < b -> a <= b": "caught",
        "a + 1 -> a - 1": "caught",
        "1 -> 2": "missed",
        "not a -> a": "not entered",
    }

    (tmp_path / "test_it.py").write_text(TESTS.replace("compared(1, 1)", "compared(2, 1)"))
    (tmp_path / "lakebed_like.py").write_text(SOURCE.replace("a + 1", "1 + a"))
    printed = run("--again", "fates.json")
    assert "1 of 2 changes are no longer lines of the library" in printed
    assert "missed       lakebed_like.py compared: a < b -> a <= b" in printed
