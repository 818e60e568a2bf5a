"""lakebed: `import_from`, with what it does by itself."""

from __future__ import annotations

import lakebed
from benchmarks.importing import Task, main


def _imported(task: Task) -> int:
    report = lakebed.import_from(task.work, task.source, task.store, workers=task.workers, progressbar=False)
    if report.skipped or report.problems:
        raise RuntimeError(f"{report.skipped} left out, {report.problems}")
    return report.written


if __name__ == "__main__":
    main({"coco": _imported, "folder": _imported, "parquet": _imported})
