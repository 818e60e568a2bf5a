"""Newer rows of known keys into a large stream, through the whole connector, beside peers: `make bench`.

A stream of 10,000,000 rows has a key, a cursor, a number, two texts of 36 and 50 characters, and the meta columns.
Syncs of 1,000,000 records follow, of which nine in ten have keys that are there: first random ones, then one in a
hundred keys that come again and again. What counts is CPU seconds of the process from its start to its end, so reading
the messages, learning the keys that there are, publishing, merging and committing are all in it. Peers upsert the same
records into the same rows; none of them has the meta columns, and DuckDB keeps no older version.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from numpy.typing import NDArray

import lakebed
from benchmarks import measure
from benchmarks.format import environment
from benchmarks.inputs import CACHE, ROOT
from benchmarks.sync import OURS, check

PEER = ROOT / "benchmarks/peers/upserting.py"
PACKAGES = ["pylance", "deltalake", "duckdb", "pyarrow"]
PEERS = {
    "duckdb": "DuckDB, MERGE",
    "duckdb-keyed": "DuckDB, primary key",
    "lance": "Lance, merge_insert",
    "delta": "Delta Lake, merge",
}
COLUMNS = {"id": "integer", "updated": "integer", "amount": "number", "name": "string", "note": "string"}
_BLOCK = 500_000
_SEED = 20


P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Sizes:
    """Rows that are there, and records of each sync."""

    rows: int
    records: int


def apart(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do something in a process of its own: the peak of a process counts the memory of the one that started it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def texts(random: np.random.Generator, count: int, width: int) -> pa.Array:
    """Texts of `width` random hexadecimal digits."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    data = digits[random.integers(0, 16, count * width, dtype=np.uint8)]
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def contents(random: np.random.Generator, keys: NDArray[np.int64], updated: int) -> pa.Table:
    """Rows of the stream with random values."""
    count = len(keys)
    return pa.table(
        {
            "id": pa.array(keys),
            "updated": pa.array(np.full(count, updated)),
            "amount": pa.array(random.random(count).round(6)),
            "name": texts(random, count, 36),
            "note": texts(random, count, 50),
        }
    )


def blocks(size: Sizes) -> Iterator[pa.Table]:
    """The rows that are there, in a random order of their keys."""
    random = np.random.default_rng(_SEED)
    keys = random.permutation(size.rows)
    for first in range(0, size.rows, _BLOCK):
        yield contents(random, keys[first : first + _BLOCK], 1)


def one_key(size: Sizes) -> NDArray[np.int64]:
    """The first key."""
    return np.zeros(1, np.int64)


def random_keys(size: Sizes) -> NDArray[np.int64]:
    """Keys of a sync, each once: nine in ten are there, the rest are new."""
    random = np.random.default_rng(_SEED + 1)
    new = size.records // 10
    known = random.choice(size.rows, size.records - new, replace=False)
    keys = np.concatenate([known, np.arange(size.rows, size.rows + new)])
    return random.permutation(keys)


def hot_keys(size: Sizes) -> NDArray[np.int64]:
    """Keys of a sync of which a hundredth of all that are there take all updates; a tenth of the records is new."""
    random = np.random.default_rng(_SEED + 2)
    new = size.records // 10
    hot = random.choice(size.rows, size.rows // 100, replace=False)
    first = size.rows + size.records // 10
    keys = np.concatenate([random.choice(hot, size.records - new), np.arange(first, first + new)])
    return random.permutation(keys)


def write_messages(path: Path, make: Callable[[Sizes], NDArray[np.int64]], size: Sizes, updated: int) -> None:
    """Write the records of a sync, a state after every 10,000 of them."""
    keys = make(size)
    table = contents(np.random.default_rng(updated), keys, updated)
    columns = [column.to_pylist() for column in table.columns]
    with path.open("w") as out:
        for i, (key, cursor, amount, name, note) in enumerate(zip(*columns, strict=True)):
            data = f'"id":{key},"updated":{cursor},"amount":{amount!r},"name":"{name}","note":"{note}"'
            out.write(
                f'{{"type":"RECORD","record":{{"stream":"items","emitted_at":1790000000000,"data":{{{data}}}}}}}\n'
            )
            if i % 10_000 == 9_999:
                out.write(state(i))


def state(number: int) -> str:
    """A message that asks whether all before it is durable."""
    stream = {"stream_descriptor": {"name": "items"}, "stream_state": {"n": number}}
    return json.dumps({"type": "STATE", "state": {"type": "STREAM", "stream": stream}}) + "\n"


def write_catalog(path: Path, sync_id: int) -> None:
    """Write the catalog of a sync that keeps one row for each key."""
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in COLUMNS.items()}}
    stream = {
        "stream": {"name": "items", "json_schema": schema, "supported_sync_modes": ["incremental"]},
        "sync_mode": "incremental",
        "destination_sync_mode": "append_dedup",
        "primary_key": [["id"]],
        "cursor_field": ["updated"],
        "generation_id": 1,
        "minimum_generation_id": 0,
        "sync_id": sync_id,
    }
    path.write_text(json.dumps({"streams": [stream]}))


KEYS = {"random keys": random_keys, "hot keys": hot_keys}


class Lake:
    """A lake with one stream, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "config.json"
        self.config.write_text(json.dumps({"destination_path": str(folder / "lake")}))
        self.sync_id = 0

    @property
    def path(self) -> str:
        """Address of the stream's dataset."""
        found = (self.folder / "lake").rglob("version_control_info.json")
        return str(min(found, key=lambda path: len(path.parts)).parent)

    def sync(self, messages: Path) -> measure.Cost:
        """Run the connector."""
        self.sync_id += 1
        catalog = self.folder / "catalog.json"
        write_catalog(catalog, self.sync_id)
        command: list[str | Path] = [OURS, "write", "--config", self.config, "--catalog", catalog]
        return measure.run(command, messages)

    def fill(self, size: Sizes) -> str:
        """Make the stream and its rows; return the commit that has them."""
        first = self.folder / "first.jsonl"
        write_messages(first, one_key, size, 0)
        self.sync(first)
        return apart(fill, self.path, size)

    def bytes(self) -> int:
        """Size of all files."""
        return sum(path.stat().st_size for path in (self.folder / "lake").rglob("*") if path.is_file())


def fill(path: str, size: Sizes) -> str:
    """Put the rows into the dataset that the connector has made, without going through messages."""
    with lakebed.load(path, read_only=False) as dataset:
        dataset.pop(0)
        for block in blocks(size):
            columns = {name: block[name].combine_chunks() for name in block.column_names}
            dataset.extend(columns | meta_columns(block.num_rows))
        return dataset.commit("rows that are there")


def meta_columns(count: int) -> dict[str, pa.Array]:
    """The columns that the connector adds."""
    meta = pa.array(['{"sync_id":0,"changes":[]}'] * count)
    return {
        "_airbyte_raw_id": texts(np.random.default_rng(count), count, 36),
        "_airbyte_extracted_at": pa.array(np.full(count, 1_780_000_000_000_000)),
        "_airbyte_meta": pa.ExtensionArray.from_storage(pa.json_(), meta),
        "_airbyte_generation_id": pa.array(np.ones(count, np.int64)),
    }


def digest(path: str) -> str:
    """Checksum of all rows of a version, in their order."""
    sums: dict[str, xxhash.xxh3_128] = {}
    for batch in pa.RecordBatchReader.from_stream(lakebed.load(path, read_only=True)):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            data = pa.concat_arrays([column, column.slice(0, 0)])  # without what lies before and behind it
            for buffer in data.buffers():
                sums.setdefault(name, xxhash.xxh3_128()).update(b"" if buffer is None else buffer)
    return " ".join(f"{name}={sums[name].hexdigest()}" for name in sorted(sums))


def is_right(path: str, size: Sizes, syncs: int) -> bool:
    """Tell whether every key is there once, with the cursor of its newest row, after so many syncs."""
    expected = np.zeros(size.rows + 2 * size.records, np.int64)
    expected[: size.rows] = 1
    for number, make in enumerate(list(KEYS.values())[:syncs]):
        expected[make(size)] = number + 2
    reader = pa.RecordBatchReader.from_stream(lakebed.load(path, read_only=True)[["id", "updated"]])
    table = reader.read_all()
    ids, updated = (table[name].to_numpy() for name in ("id", "updated"))
    found = np.zeros_like(expected)
    found[ids] = updated
    return len(ids) == np.count_nonzero(expected) and np.array_equal(found, expected)


def ours(size: Sizes, inputs: dict[str, Path], folder: Path) -> dict[str, float]:
    """Run the syncs one after the other, each on what the one before left; return CPU seconds."""
    lake, seconds = Lake(folder), {}
    commit = lake.fill(size)
    before = f"{lake.path}@{commit}"
    rows = apart(digest, before)
    for number, (name, messages) in enumerate(inputs.items()):
        held = lake.bytes()
        cost = lake.sync(messages)
        seconds[name] = cost.cpu_seconds
        rate = size.records / cost.cpu_seconds
        print(
            f"\n{name}: {size.records:,} records, {messages.stat().st_size / 1e6:,.0f} MB, into {size.rows:,} rows: "
            f"CPU {cost.cpu_seconds:.1f} s, {cost.wall_seconds:.1f} s; {(lake.bytes() - held) / 1e6:,.0f} MB written"
        )
        # In a small stream the start of the process weighs more.
        check(
            f"records per CPU second, in thousands, {name}",
            rate / 1000,
            100 if size.rows >= 10_000_000 else 40,
        )
        check(f"peak memory, MiB, {name}", cost.peak_bytes / (1 << 20), 1024, at_most=True)
        right = apart(is_right, lake.path, size, number + 1)
        check(f"every key once, with its newest row, {name}", right, 1)
        check(f"the commit before the syncs reads as before, {name}", apart(digest, before) == rows, 1)
    return seconds


def write_rows(path: Path, size: Sizes) -> None:
    """Write the rows that are there for the peers."""
    with pq.ParquetWriter(path, next(blocks(Sizes(1, 0))).schema) as writer:
        for block in blocks(size):
            writer.write_table(block)


def peers(size: Sizes, inputs: dict[str, Path], folder: Path, mine: dict[str, float]) -> None:
    """Let the peers upsert the same records into the same rows."""
    python = environment("upserts", PACKAGES)
    rows = folder / "rows.parquet"
    apart(write_rows, rows, size)
    print("\npeers: the same records into the same rows, from the start of the process to its end")
    print(f"  {'':<24} {'':<14} {'CPU s':>8} {'records/s':>10} {'peak MiB':>9}  speed, ours / theirs")
    for name, title in PEERS.items():
        store = folder / name
        measure.run([python, PEER, name, "fill", store, rows])
        for kind, messages in inputs.items():
            cost = measure.run([python, PEER, name, "upsert", store, messages])
            rate = size.records / cost.cpu_seconds
            print(
                f"  {title:<24} {kind:<14} {cost.cpu_seconds:8.1f} {rate:10,.0f} {cost.peak_bytes / (1 << 20):9,.0f}"
                f"  {cost.cpu_seconds / mine[kind]:.2f}",
                flush=True,
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Upserts by key through the whole connector, beside peers.")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows that are there")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of each sync")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, and no peers")
    given = parser.parse_args()
    size = Sizes(given.rows // 10, given.records // 10) if given.quick else Sizes(given.rows, given.records)
    CACHE.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="upserts-", dir=os.environ.get("BENCH_LAKES", CACHE)))
    try:
        inputs = {}
        for number, (name, make) in enumerate(KEYS.items()):
            inputs[name] = folder / f"{number}.jsonl"
            apart(write_messages, inputs[name], make, size, number + 2)
        mine = ours(size, inputs, folder)
        if not given.quick:
            peers(size, inputs, folder, mine)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
