"""One life of a loader, as a program: how its process was started, who does the work, and how it ends.

`python lifecycle.py DATASET METHOD THREADS PROCESSES SHUFFLE END` writes what is left as JSON: threads of the loader,
worker processes that live, and open files beside those of before. What interrupts and kills is this program too.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

ENDS = ("whole", "break", "drop", "error", "interrupt", "kill", "close")


def same(sample: dict[str, Any]) -> dict[str, Any]:
    """Take a little time."""
    time.sleep(0.001)
    return sample


def fail(sample: dict[str, Any]) -> dict[str, Any]:
    """Fail in the middle."""
    if int(sample["number"][0]) == 70:
        raise ValueError("in the middle")
    return sample


def live(path: str, threads: int, processes: int, shuffle: str, end: str) -> dict[str, Any]:
    """Live, and tell what is left."""
    import gc

    import lakebed
    from lakebed.errors import WorkerDied

    ds = lakebed.load(path, read_only=True)
    list(lakebed.Loader(ds, 8, threads=threads, processes=processes, transform=same))
    gc.collect()
    files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    loader = lakebed.Loader(
        ds,
        8,
        threads=threads,
        processes=processes,
        shuffle=False if shuffle == "none" else shuffle,  # type: ignore[arg-type]
        transform=fail if end == "error" else same,
    )
    outcome, rows = "", 0
    try:
        for batch in loader:
            rows += len(batch.rows)
            if batch.step == 3:
                if end in ("break", "drop", "close"):
                    break
                if end == "interrupt":
                    os.kill(os.getpid(), signal.SIGINT)
                if end == "kill" and loader._workers is not None:
                    os.kill(loader._workers._workers[0].process.pid, signal.SIGKILL)
    except (ValueError, KeyboardInterrupt, WorkerDied) as error:
        outcome = type(error).__name__
        del error
    if end == "close":
        loader.close()
    else:
        del loader
    batch = None
    gc.collect()
    return {
        "outcome": outcome,
        "rows": rows,
        "threads": [t.name for t in threading.enumerate() if t.name.startswith("lakebed-loader")],
        "children": _children(),
        "files": len(os.listdir("/proc/self/fd")) - files,  # noqa: PTH208
    }


def _children() -> list[str]:
    """Return the processes that transform samples for this one: children of its fork server, or of its own."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            above = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if state != "Z" and str(os.getpid()) == above and any(b"forkserver" in part for part in command):
            found.append(process.name)
    return found


def _child(pipe: Any, *given: Any) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pipe.send(live(*given))


def main() -> None:
    """Live in a process that was started as the arguments say."""
    path, method, threads, processes, shuffle, end = sys.argv[1:]
    given = path, int(threads), int(processes), shuffle, end
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if method == "main":
        sys.stdout.write(json.dumps(live(*given)))
        return
    context = multiprocessing.get_context(method)
    mine, its = context.Pipe()
    child = context.Process(target=_child, args=(its, *given))  # type: ignore[attr-defined]
    child.start()
    its.close()  # so that the end of the child is seen
    sys.stdout.write(json.dumps(mine.recv()))
    child.join()


if __name__ == "__main__":
    main()
