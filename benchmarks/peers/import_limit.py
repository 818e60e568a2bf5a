"""What an import takes without any library: read the files, parse what must be parsed, write as many bytes.

What is written is forced to disk, as imports do; it is no dataset: nothing says what lies where, nothing is checked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.importing import PART_BYTES, Task, files_below, main


class _Parts:
    """Files of a size, one behind the other."""

    def __init__(self, folder: str) -> None:
        self._folder, self._number, self._held = folder, 0, 0
        self._pieces: list[bytes] = []
        Path(folder).mkdir(parents=True)

    def add(self, data: bytes) -> None:
        self._pieces.append(data)
        self._held += len(data)
        if self._held >= PART_BYTES:
            self.end()

    def end(self) -> None:
        if not self._pieces:
            return
        name = f"{self._folder}/{self._number:06d}"
        with open(name, "wb", buffering=0) as out:  # noqa: PTH123
            out.write(b"".join(self._pieces))
            os.fsync(out.fileno())
        self._pieces, self._held = [], 0
        self._number += 1


def _pictures(folder: str) -> Iterator[bytes]:
    for entry in sorted(files_below(folder), key=lambda entry: entry.path):
        if entry.name.endswith(".jpg"):
            with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123
                yield file.read()


def _coco(task: Task) -> int:
    """Read and parse the annotations; write them as they came, and the pictures."""
    parts, rows = _Parts(task.store), 0
    for path in sorted(Path(task.source, "annotations").iterdir()):
        data = path.read_bytes()
        json.loads(data)
        parts.add(data)
    for picture in _pictures(f"{task.source}/val2017"):
        parts.add(picture)
        rows += 1
    parts.end()
    return rows


def _folder(task: Task) -> int:
    parts, rows = _Parts(task.store), 0
    for picture in _pictures(task.source):
        parts.add(picture)
        rows += 1
    parts.end()
    return rows


def _parquet(task: Task) -> int:
    """pyarrow: read the file and write it again, a row group at a time."""
    import pyarrow.parquet as pq

    rows = 0
    with pq.ParquetFile(task.source) as file, pq.ParquetWriter(task.store, file.schema_arrow) as out:
        for number in range(file.num_row_groups):
            table = file.read_row_group(number)
            out.write_table(table)
            rows += len(table)
    fd = os.open(task.store, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
    return rows


if __name__ == "__main__":
    main({"coco": _coco, "folder": _folder, "parquet": _parquet})
