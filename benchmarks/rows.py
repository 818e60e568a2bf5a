"""Many rows of a large table replaced, removed and read at once: `python -m benchmarks.rows`.

A table of 10,000,000 rows has three columns of int64, two of float64, two texts of 36 characters and two JSON documents
of about 30. 1,000,000 random rows of it get new values, which touches every chunk; then 100,000 random rows are
removed. What counts is CPU seconds, those of the system included, beside the least that such a change costs: to read
the files of the chunks and to write as many bytes, and to copy as many in memory.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import lakebed
from benchmarks.inputs import CACHE
from benchmarks.sync import check

TENSORS: dict[str, dict[str, Any]] = {
    **{name: {"dtype": "int64"} for name in ("key", "count", "size")},
    **{name: {"dtype": "float64"} for name in ("price", "share")},
    **{name: {"htype": "text"} for name in ("uuid", "name")},
    **{name: {"htype": "json"} for name in ("place", "tags")},
}
_PLAIN: dict[str, Any] = {
    "create_shape_tensor": False,
    "create_id_tensor": False,
    "create_sample_info_tensor": False,
}
_BLOCK = 500_000
_PIECE = 8_000_000


def texts(random: np.random.Generator, count: int) -> pa.Array:
    """Texts of 36 random hexadecimal digits."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    data = digits[random.integers(0, 16, count * 36, dtype=np.uint8)]
    offsets = np.arange(0, (count + 1) * 36, 36, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def documents(random: np.random.Generator, count: int) -> pa.Array:
    """JSON objects of about 30 characters."""
    first, second = (pa.array(random.integers(0, high, count)).cast(pa.string()) for high in (10**9, 10**6))
    written = pc.binary_join_element_wise('{"id":', first, ',"list":[', second, "]}", "")
    return pa.ExtensionArray.from_storage(pa.json_(), written)


def columns(random: np.random.Generator, count: int, first: int = 0) -> dict[str, pa.Array]:
    """Random rows; their keys count up."""
    return {
        "key": pa.array(np.arange(first, first + count)),
        **{name: pa.array(random.integers(0, 10**9, count)) for name in ("count", "size")},
        **{name: pa.array(random.random(count)) for name in ("price", "share")},
        **{name: texts(random, count) for name in ("uuid", "name")},
        **{name: documents(random, count) for name in ("place", "tags")},
    }


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process for some work, those of the system included."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def made(path: Path, rows: int) -> lakebed.Dataset:
    """The table, committed."""
    random = np.random.default_rng(1)
    dataset = lakebed.empty(path)
    for name, kind in TENSORS.items():
        dataset.create_tensor(name, **kind, **_PLAIN)
    for first in range(0, rows, _BLOCK):
        dataset.extend(columns(random, min(_BLOCK, rows - first), first))
    dataset.commit("made")
    return dataset


def pieces(size: int) -> Iterator[int]:
    """Sizes of pieces that add up to so many bytes."""
    yield from (min(_PIECE, size - start) for start in range(0, size, _PIECE))


def files_again(folder: Path, size: int) -> None:
    """Write and read so many bytes in files as large as chunks."""
    buffer = bytearray(os.urandom(_PIECE))
    for number, part in enumerate(pieces(size)):
        (folder / str(number)).write_bytes(memoryview(buffer)[:part])
    for number, _ in enumerate(pieces(size)):
        with (folder / str(number)).open("rb", buffering=0) as file:
            file.readinto(buffer)


def copied(size: int) -> None:
    """Copy so many bytes in memory, a chunk at a time."""
    source, target = np.ones(_PIECE, np.uint8), np.empty(_PIECE, np.uint8)
    for part in pieces(size):
        np.copyto(target[:part], source[:part])


def scanned(dataset: lakebed.Dataset) -> None:
    """Read a column of numbers as Arrow arrays, touching every value."""
    for batch in pa.RecordBatchReader.from_stream(dataset[["count"]]):
        pc.max(batch.column(0))


def measured(folder: Path, rows: int, changed: int) -> None:
    """Make the table, change it, and print what it took."""
    dataset = made(folder / "table", rows)
    random = np.random.default_rng(2)
    chosen: NDArray[np.int64] = np.sort(random.choice(rows, changed, replace=False))
    new = columns(random, changed)
    size = dataset.size_approx()
    bare = folder / "bare"
    bare.mkdir()
    least = cpu_seconds(lambda: files_again(bare, size))
    shutil.rmtree(bare)
    memory = cpu_seconds(lambda: copied(size))
    spent = {
        name: cpu_seconds(partial(dataset.update_rows, chosen, {name: column}))
        for name, column in new.items()
    }
    spent["flush"] = cpu_seconds(dataset.flush)
    print(f"\n{changed:,} of {rows:,} rows, {size / 1e6:,.0f} MB: CPU seconds")
    print("  " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in spent.items()))
    print(f"  writing and reading as many bytes {least:.2f}, copying them in memory {memory:.2f}")
    total = sum(spent.values())
    check("CPU seconds to update", total, 3 * rows / 10_000_000, at_most=True)
    check("times the CPU of writing and reading the bytes", total / least, 3, at_most=True)
    gone: NDArray[np.int64] = np.sort(random.choice(rows, changed // 10, replace=False))
    print(f"  removing {len(gone):,} rows: {cpu_seconds(lambda: dataset.pop_rows(gone)):.2f}")
    print(f"  scanning a column of numbers: {cpu_seconds(lambda: scanned(dataset)):.3f}")
    taken = cpu_seconds(lambda: dataset.take_rows(chosen[: changed // 2], ["key", "uuid", "place"]))
    print(f"  taking {changed // 2:,} rows of three columns: {taken:.2f}")
    dataset.flush()
    check("rows that are left", len(dataset), rows - len(gone))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="Bulk updates and removals of rows.")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--changed", type=int, default=1_000_000)
    given = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="rows-", dir=os.environ.get("BENCH_LAKES", CACHE)))
    try:
        measured(folder, given.rows, given.changed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
