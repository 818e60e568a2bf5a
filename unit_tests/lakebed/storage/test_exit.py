"""What was written is published when the interpreter exits, however many files that takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lakebed
from unit_tests.effort import PATIENCE

PROGRAM = """
import sys, lakebed
ds = lakebed.empty(sys.argv[1])
for i in range(30):
    ds.create_tensor(f"t{i}", dtype="int64")
ds.extend({f"t{i}": range(3) for i in range(30)})
"""


def test_exit_publishes_many_files_when_no_thread_can_start_any_more(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "ds")],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    ds = lakebed.load(tmp_path / "ds")
    assert len(ds.tensors) == 30
    assert all(tensor.numpy().ravel().tolist() == [0, 1, 2] for tensor in ds.tensors.values())
