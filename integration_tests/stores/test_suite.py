"""The tests of datasets, versions and writing once more, with their datasets on a store."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from integration_tests.stores.processes import ROOT
from integration_tests.stores.servers import Server

# Each process of the run gives every test folders of its own; a test may take longer than it would on a disk.
AT_ONCE = ("-n", "2", "--dist", "worksteal", "--timeout", "600", "-rfE")
# A server that looks at every key of a bucket to list a folder would be slower with every test.
BUCKETS = 32
TESTS = ROOT / "unit_tests" / "lakebed"
PARTS = {
    "dataset, first half": (TESTS / "dataset").glob("test_[a-m]*.py"),
    "dataset, second half": (TESTS / "dataset").glob("test_[n-z]*.py"),
    "versions": (TESTS / "versions").glob("test_*.py"),
    "writing": (TESTS / "writing").glob("test_*.py"),
}


@pytest.mark.stores
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("files", [pytest.param(sorted(files), id=part) for part, files in PARTS.items()])
def test_all_of_writing_and_versions_works_on_a_store(
    fresh_store: Server, files: list[Path], record_property: Callable[[str, object], None]
) -> None:
    """What is true of local datasets is true of those in a bucket."""
    urls = [f"{fresh_store.scheme}://{fresh_store.new_bucket()}/suite" for _ in range(BUCKETS)]
    told = json.dumps({"urls": urls, "creds": fresh_store.creds, "environment": fresh_store.environment})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "integration_tests.stores.elsewhere",
        *AT_ONCE,
        *map(str, files),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "LAKEBED_STORE": told},
        capture_output=True,
        text=True,
        timeout=3500,
        check=False,
    )
    last = done.stdout.strip().rpartition("\n")[2]
    record_property("proof", f"suite on {fresh_store.name}: {last}")
    assert done.returncode == 0, done.stdout[-6000:]
    assert int(re.findall(r"(\d+) passed", last)[0]) > 100
