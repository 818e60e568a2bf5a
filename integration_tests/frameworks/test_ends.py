"""However a loop over workers ends, the program ends too, and leaves no process and no shared memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.frameworks

PROGRAM = """
import os, signal, sys
import lakebed
from integration_tests.frameworks import lake
from torch.utils.data import DataLoader

path, context, workers, how, style = sys.argv[1:]
if __name__ == "__main__":
    ds = lakebed.load(path, read_only=True)
    if style == "loader":
        loader = ds.pytorch(lake.broken if how == "error" else lake.same, ["images", "labels"], batch_size=8,
                            processes=int(workers))
    else:
        transform = lake.broken if how == "error" else lake.same
        dataset = ds.torch_dataset(transform, ["images", "labels"], map_style=style == "map", return_index=True)
        loader = DataLoader(dataset, batch_size=8, num_workers=int(workers), multiprocessing_context=context)
    batches = iter(loader)
    next(batches)
    print("begun", flush=True)
    if how == "break":
        sys.exit(0)
    if how == "kill":
        worker = batches._workers[0].pid if style != "loader" else loader.loader._workers._workers[0].process.pid
        os.kill(worker, signal.SIGKILL)
    while True:
        for _ in batches:
            pass
        batches = iter(loader)
"""


def processes_of(session: int) -> list[str]:
    """Return the command lines of the processes of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


# Workers that PyTorch has from a fork server outlive a program that a signal ends, those of any dataset.
CASES = [
    (context, style, how)
    for context in ("fork", "forkserver", "spawn")
    for style in ("iterable", "map")
    for how in ("break", "error", "kill", "interrupt", "terminate")
    if (context, how) != ("forkserver", "terminate")
]
CASES += [("own", "loader", how) for how in ("break", "error", "kill", "interrupt", "terminate")]


@pytest.mark.parametrize(("context", "style", "how"), CASES)
def test_nothing_is_left(path: str, tmp_path: Path, context: str, style: str, how: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    shared = set(os.listdir("/dev/shm"))  # noqa: PTH208
    command = [sys.executable, str(program), path, context, "2", how, style]
    # In a session of its own, so that what it leaves is found; SIGINT goes to all of its group, as from a terminal.
    process = subprocess.Popen(
        command,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    assert process.stdout is not None
    try:
        begun = process.stdout.readline()
        assert begun == "begun\n" or how == "error"  # which may come before the first batch
        if how == "interrupt":
            os.killpg(process.pid, signal.SIGINT)
        elif how == "terminate":
            process.terminate()
        _, errors = process.communicate(timeout=120)
        expected = {"error": "row 40 is broken", "interrupt": "KeyboardInterrupt"}.get(how, "")
        assert expected in errors
        assert (process.returncode == 0) == (how == "break"), errors
        end = time.monotonic() + 20
        while processes_of(process.pid) and time.monotonic() < end:
            time.sleep(0.1)
        assert processes_of(process.pid) == []
        left = {name for name in set(os.listdir("/dev/shm")) - shared if not name.startswith("tests-")}  # noqa: PTH208
        assert not {name for name in left if name.startswith(("torch", "lakebed"))}
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
