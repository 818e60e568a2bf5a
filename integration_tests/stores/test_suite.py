"""The tests of all that makes, changes and copies datasets once more, with their datasets on a store."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration_tests.stores.elsewhere import LOCAL_ONLY
from integration_tests.stores.processes import ROOT
from integration_tests.stores.servers import Server

# Each process of the run gives every test folders of its own; a test takes much longer than it would on a disk:
# some copy a dataset again and again, and Azurite answers 200 requests in a second.
AT_ONCE = ("-n", "2", "--dist", "worksteal", "--timeout", "2400", "-rfE")
LIMIT = 7000.0
"""Seconds of a part."""
# Servers for tests look at every key of a bucket to find one, and Azurite at all that it holds: a bucket for few tests,
# a server for few files.
BUCKETS = 60
FILES = 8
FOLDERS = (
    "dataset",
    "session",
    "copying",
    "merging",
    "history",
    "maintenance",
    "verbs",
    "versions",
    "writing",
)
UNIT_TESTS = ROOT / "unit_tests" / "lakebed"


def parts() -> dict[str, list[Path]]:
    """Return the files of each part."""
    found = {}
    for folder in FOLDERS:
        files = sorted((UNIT_TESTS / folder).rglob("test_*.py"))
        for number, first in enumerate(range(0, len(files), FILES), 1):
            found[f"{folder}-{number}"] = files[first : first + FILES]
    return found


PARTS = parts()


def lines_of(file: Path) -> Iterator[str]:
    """Yield the lines of a file of tests behind its name and that of the class; definitions as pytest names tests."""
    within = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(("class ", "def ", "@")):
            within = "".join(f"{name}::" for name in re.findall(r"^class (\w+)", line))
        yield f"{file}::{within}{line.strip().removeprefix('def ')}"


def test_what_is_left_out_on_stores_is_there() -> None:
    """Each test that cannot run on a store is named as it is called now."""
    files = [file for name in FOLDERS for file in (UNIT_TESTS / name).rglob("test_*.py")]
    found = [line for file in files for line in lines_of(file)]
    one_by_one = [
        pattern.replace(choices[0], f"({one})") if choices else pattern
        for pattern in LOCAL_ONLY
        for choices in [re.findall(r"\(.*\)", pattern)]
        for one in (choices[0][1:-1].split("|") if choices else [""])
    ]
    assert [one for one in one_by_one if not any(re.search(one, line) for line in found)] == []


@pytest.mark.stores
@pytest.mark.timeout(LIMIT + 100)
@pytest.mark.parametrize("part", PARTS)
def test_all_of_writing_and_versions_works_on_a_store(
    fresh_store: Server, part: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """What is true of local datasets is true of those in a bucket."""
    urls = [f"{fresh_store.scheme}://{fresh_store.new_bucket()}/suite" for _ in range(BUCKETS)]
    told = json.dumps({"urls": urls, "creds": fresh_store.creds, "environment": fresh_store.environment})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "integration_tests.stores.elsewhere",
        *AT_ONCE,
        *map(str, PARTS[part]),
    ]
    # To a file: of a run that is cut off it is to be seen how far it came.
    report = tmp_path / "report.txt"
    with report.open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "LAKEBED_STORE": told}, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            status = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            process.kill()
    said = report.read_text()
    last = said.strip().rpartition("\n")[2]
    record_property("proof", f"suite on {fresh_store.name}, {part}: {last}")
    assert status == 0, said[-6000:]
    assert (
        int(re.findall(r"(\d+) passed", last)[0]) > 10
    )  # others are left out, each for a reason that is named
