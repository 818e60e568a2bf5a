"""Deep Lake 3.9.52: `ingest_coco`, with what it does by itself."""

from __future__ import annotations

from pathlib import Path

import deeplake

from benchmarks.importing import Task, main


def _coco(task: Task) -> int:
    files = [str(path) for path in sorted(Path(task.source, "annotations").iterdir())]
    ds = deeplake.ingest_coco(f"{task.source}/val2017", files, task.store, progressbar=False)
    return len(ds)


if __name__ == "__main__":
    main({"coco": _coco})
