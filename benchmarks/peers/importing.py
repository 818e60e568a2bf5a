"""Start an interpreter that imports the package named by the option, or nothing."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.contest import Task, main


def start(task: Task) -> None:
    """Start it several times."""
    for _ in range(task.repeats):
        with task.measured():
            subprocess.run([sys.executable, "-c", f"import {task.option or 'sys'}"], check=True)


if __name__ == "__main__":
    main(globals())
