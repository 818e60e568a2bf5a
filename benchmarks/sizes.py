"""How large a stream is on disk beside Parquet, and what the compression costs: `python -m benchmarks.sizes`.

200,000 orders of a shop, 17 columns and the four of the connector, go through the whole connector with each choice of
`chunk_compression`. The same rows, as the dataset gives them back, go into Parquet with Snappy and with Zstandard:
once as they are, and once with ids of chance (version 4), as other destinations make them and Parquet cannot make
small. CPU seconds are medians of interleaved runs: of the sync, of one with append + deduplication that meets known
keys, of reading the whole table, and of reading 20 batches of 64 random rows.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import statistics
import struct
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakebed
from benchmarks import measure
from benchmarks.inputs import CACHE, Input, configured
from benchmarks.results import put
from benchmarks.sync import OURS

ROWS = 200_000
CHOICES = ("none", "auto", "lz4")
WORKS = ("sync", "known keys", "scan", "batches")
ID = "_airbyte_raw_id"
Seconds = dict[tuple[str, str], list[float]]
BAR = 1.5
STATE_EVERY = 5_000
BASE = 1_700_000_000

TEXT, INTEGER, NUMBER = ({"type": ["null", name]} for name in ("string", "integer", "number"))
MOMENT = {**TEXT, "format": "date-time", "airbyte_type": "timestamp_with_timezone"}
ORDERS = {
    "id": INTEGER,
    "order_number": TEXT,
    "customer_id": INTEGER,
    "email": TEXT,
    "customer_name": TEXT,
    "status": TEXT,
    "payment_method": TEXT,
    "currency": TEXT,
    "quantity": INTEGER,
    "subtotal": NUMBER,
    "shipping": NUMBER,
    "total": NUMBER,
    "is_gift": {"type": ["null", "boolean"]},
    "created_at": MOMENT,
    "updated_at": MOMENT,
    "shipping_address": {"type": ["null", "object"]},
    "note": TEXT,
}
NAMES = (
    "Anna Ben Carla David Elif Farid Greta Hugo Ines Jonas Katarzyna Liam Maria Noah Olga Paul Quentin Rosa Samir Tove"
).split()
SURNAMES = (
    "Smith Johnson Garcia Mueller Nguyen Kowalski Rossi Silva Ivanova Yilmaz Andersson Dubois O'Neill Papadopoulos Kim"
).split()
STREETS = "Main Street|Oak Avenue|Station Road|Church Lane|Park Boulevard|Mill Way|Victoria Terrace|High Street".split(
    "|"
)
CITIES = (
    "Berlin London Paris Madrid Warszawa Roma Lisboa Istanbul Stockholm Athens Dublin Wien Praha Oslo".split()
)
NOTES = [
    "please leave it with the neighbour",
    "gift wrap",
    "call before delivery",
    "second attempt, was not at home",
]


def orders(count: int) -> Iterator[dict[str, Any]]:
    """Yield orders of a shop, in the order in which they came."""
    random = np.random.default_rng(1)
    moment = BASE * 1000
    pick = random.choice
    for number in range(1, count + 1):
        customer = int(random.zipf(1.3) * 7919 % 60_000) + 1000
        person = np.random.default_rng(customer)
        name, surname = NAMES[person.integers(len(NAMES))], SURNAMES[person.integers(len(SURNAMES))]
        moment += int(random.exponential(120_000))
        quantity = int(random.geometric(0.5))
        subtotal = round(quantity * float(random.integers(200, 20_000)) / 100, 2)
        shipping = (0.0, 4.99, 9.99)[random.integers(3)]
        age = int(random.exponential(86_400_000))
        yield {
            "id": number,
            "order_number": f"SO-{number:08}",
            "customer_id": customer,
            "email": f"{name}.{surname}{customer}@example.{('com', 'org', 'net')[customer % 3]}".lower(),
            "customer_name": f"{name} {surname}",
            "status": str(
                pick(["delivered", "shipped", "paid", "pending", "cancelled", "refunded"], p=STATUS)
            ),
            "payment_method": ("credit_card", "paypal", "invoice", "bank_transfer")[random.integers(4)],
            "currency": ("EUR", "EUR", "EUR", "GBP", "USD")[random.integers(5)],
            "quantity": quantity,
            "subtotal": subtotal,
            "shipping": shipping,
            "total": round(subtotal + shipping, 2),
            "is_gift": bool(random.random() < 0.05),
            "created_at": iso(moment),
            "updated_at": iso(moment + age),
            "shipping_address": {
                "street": f"{person.integers(1, 200)} {STREETS[person.integers(len(STREETS))]}",
                "city": CITIES[person.integers(len(CITIES))],
                "zip": f"{person.integers(10_000, 99_999)}",
                "country": ("DE", "GB", "FR", "ES", "PL")[person.integers(5)],
            },
            "note": NOTES[random.integers(len(NOTES))] if random.random() < 0.1 else None,
        }


STATUS = (0.7, 0.1, 0.08, 0.05, 0.04, 0.03)


def iso(milliseconds: int) -> str:
    """Spell a moment as databases do."""
    return str(np.datetime64(milliseconds, "ms")) + "Z"


def messages(count: int) -> Input:
    """The orders as messages of a source; made once."""
    made = Input("orders", CACHE / f"orders-{count}.jsonl", CACHE / "orders-catalog.json", count)
    if made.messages.exists():
        return made
    CACHE.mkdir(parents=True, exist_ok=True)
    stream = {
        "name": "orders",
        "supported_sync_modes": ["full_refresh"],
        "json_schema": {"properties": ORDERS},
    }
    made.catalog.write_text(json.dumps(configured(stream)))
    partial = made.messages.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as out:
        for number, order in enumerate(orders(count), 1):
            record = {"stream": "orders", "data": order, "emitted_at": BASE * 1000 + number // 10}
            out.write(json.dumps({"type": "RECORD", "record": record}, separators=(",", ":")) + "\n")
            if number % STATE_EVERY == 0:
                inner = {"stream_descriptor": {"name": "orders"}, "stream_state": {"id": number}}
                state = {"type": "STATE", "state": {"type": "STREAM", "stream": inner}}
                out.write(json.dumps(state, separators=(",", ":")) + "\n")
    partial.rename(made.messages)
    return made


def sync(given: Input, folder: Path, compression: str, *, by_key: bool = False) -> float:
    """One sync into a folder; its CPU seconds."""
    catalog = given.catalog
    if by_key:
        described = json.loads(catalog.read_text())
        described["streams"][0] |= {
            "destination_sync_mode": "append_dedup",
            "primary_key": [["id"]],
            "cursor_field": ["updated_at"],
        }
        catalog = CACHE / "orders-by-key-catalog.json"
        catalog.write_text(json.dumps(described))
    config = folder.with_suffix(".json")
    config.write_text(json.dumps({"destination_path": str(folder), "chunk_compression": compression}))
    command: list[str | Path] = [OURS, "write", "--config", config, "--catalog", catalog]
    return measure.run(command, given.messages).cpu_seconds


def spent(work: Callable[[], object]) -> float:
    """CPU seconds of some work in this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def scan(path: Path) -> None:
    """Read every column of every row."""
    dataset = lakebed.load(path, read_only=True)
    dataset.read_columns(0, len(dataset), None)


def batches(path: Path) -> None:
    """Read random rows, as a training loop does."""
    dataset = lakebed.load(path, read_only=True)
    random = np.random.default_rng(2)
    for _ in range(20):
        dataset.take_rows(np.sort(random.integers(0, len(dataset), 64)), ["id", "total", "status"])


def on_disk(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def headers(folder: Path) -> int:
    """Bytes of the tables that chunks begin with, which the format leaves uncompressed."""
    total = 0
    for path in folder.rglob("chunks/*"):
        with path.open("rb") as chunk:
            at = 1 + chunk.read(1)[0]
            chunk.seek(at)
            rows, columns = struct.unpack("<ii", chunk.read(8))
            chunk.seek(at := at + 8 + 4 * rows * columns)
            total += at + 4 + 12 * struct.unpack("<i", chunk.read(4))[0]
    return total


def parquet(table: pa.Table, codec: str) -> int:
    """Bytes of a table as Parquet."""
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        pq.write_table(table, file.name, compression=codec)
        return Path(file.name).stat().st_size


def measured(given: Input, runs: int, folder: Path) -> tuple[dict[str, tuple[int, int]], Seconds]:
    """Sizes and headers in bytes by choice, and CPU seconds of every run by choice and work."""
    sizes: dict[str, tuple[int, int]] = {}
    seconds: Seconds = defaultdict(list)
    for run, choice in itertools.product(range(runs), CHOICES):
        lake, keyed = folder / f"{choice}-{run}", folder / f"{choice}-{run}-keyed"
        seconds[choice, "sync"].append(sync(given, lake, choice))
        sync(given, keyed, choice, by_key=True)
        seconds[choice, "known keys"].append(sync(given, keyed, choice, by_key=True))
        seconds[choice, "scan"].append(spent(functools.partial(scan, lake / "orders")))
        seconds[choice, "batches"].append(spent(functools.partial(batches, lake / "orders")))
        sizes[choice] = on_disk(lake), headers(lake)
    return sizes, seconds


def of_parquet(orders: pa.Table) -> dict[str, int]:
    """Bytes of the same rows as Parquet."""
    column = orders.schema.get_field_index(ID)
    by_chance = orders.set_column(column, ID, pa.array([str(uuid.uuid4()) for _ in range(len(orders))]))
    return {
        f"Parquet, {codec}{what}": parquet(rows, codec)
        for what, rows in (("", by_chance), (", ids that count up", orders))
        for codec in ("snappy", "zstd")
    }


def table(sizes: Mapping[str, tuple[int, int]], seconds: Seconds, peers: Mapping[str, int]) -> list[str]:
    """Lines of the result, in Markdown."""
    snappy, zstd, *_ = peers.values()
    lines = ["|  | MB | headers | / Snappy | / zstd | " + " | ".join(WORKS) + " |", "|---|" + "---:|" * 8]
    for choice, (size, header) in sizes.items():
        spans = " | ".join(f"{statistics.median(seconds[choice, work]):.2f}" for work in WORKS)
        ratios = f"{size / snappy:.2f} | {size / zstd:.2f}"
        lines.append(f"| **{choice}** | {size / 1e6:.1f} | {header / 1e6:.1f} | {ratios} | {spans} |")
    for peer, size in peers.items():
        ratios = f"{size / snappy:.2f} | {size / zstd:.2f}"
        lines.append(f"| {peer} | {size / 1e6:.1f} |  | {ratios} |" + "  |" * len(WORKS))
    ratio = sizes["auto"][0] / zstd
    verdict = "reached" if ratio <= BAR else "**MISSED**"
    return [*lines, "", f"* auto / Parquet with zstd: {ratio:.2f}, bar <= {BAR:g}: {verdict}"]


def save(lines: list[str], given: Input, runs: int) -> None:
    """Put the table into RESULTS.md, at the end or in the place of the one before."""
    about = (
        f"`python -m benchmarks.sizes`, {time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}. "
        f"{given.records:,} orders of 17 columns and the four of the connector, {given.size / 1e6:.0f} MB of messages, "
        f"with each value of `chunk_compression`; medians of {runs} rounds, CPU seconds of the sync, of one with "
        "append + deduplication that replaces every row, of a scan of all columns and of 20 batches of 64 random rows. "
        "Headers: the tables that chunks begin with, 12 bytes for each text of another length than the last, which "
        "the format leaves uncompressed: less than these is not possible with texts that Deep Lake 3.9.52 reads. "
        "Parquet has record ids of chance, as other destinations make them, where it says nothing else."
    )
    put("benchmarks.sizes", "Size on disk beside Parquet", [about, "", *lines])


def main() -> None:
    """Write, measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    given = messages(options.rows)
    with tempfile.TemporaryDirectory(prefix="sizes-", dir=CACHE) as name:
        sizes, seconds = measured(given, options.runs, Path(name))
        rows = pa.table(lakebed.load(Path(name, f"{CHOICES[-1]}-0", "orders"), read_only=True))
        lines = table(sizes, seconds, of_parquet(rows))
    print("\n".join(lines))
    if options.rows == ROWS:
        save(lines, given, options.runs)


if __name__ == "__main__":
    main()
