"""Requests, price and waits of publishes and commits to a bucket: `python -m benchmarks.publishes`, into RESULTS.md.

The bucket is in memory, and behaves as one behind a network: conditional puts, no locks of its own, removal in bulk, a
pause before each answer. Requests are counted by what their object is for. Layouts that the library does not have
(design 055) are simulated by the same syncs: the bucket takes objects of the kinds that they leave out at once and for
nothing, and those of the last publish are paid for by the commit.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any
from unittest import mock

import numpy as np

import lakebed
from benchmarks.results import put
from destination_deeplake.catalog import plans
from destination_deeplake.config import DestinationConfig
from destination_deeplake.lake import Lake
from destination_deeplake.messages import Output
from destination_deeplake.parallel import AT_ONCE
from destination_deeplake.sync import PACE, Pace, Sync
from destination_deeplake.write import begin
from integration_tests.messages import configure, lines, record, stream
from lakebed.config import REQUESTS
from lakebed.storage import memory
from lakebed.storage.base import Data, Stat, StorageTraits, Tail
from lakebed.storage.concurrently import concurrently
from lakebed.storage.stores.batches import put_in_parallel

PLAIN: dict[str, Any] = {"create_id_tensor": False, "create_shape_tensor": False}
COLUMNS = 100
STREAMS = 300
"""Streams of the sync whose requests and price are told; fewer are run."""
CHUNK, SMALL = "chunk", "small metadata"
PUTS = (CHUNK, SMALL, "manifest", "tree", "lock")
KINDS = (*PUTS, "GET", "HEAD", "LIST")
PRICES = {"GET": 0.4, "HEAD": 0.4}
"""Dollars per million requests; 5 for others. Amazon S3, standard storage, us-east-1."""
LAYOUTS: dict[str, tuple[tuple[str, ...], bool]] = {
    "today": ((), True),
    "metadata at the commit": ((SMALL,), True),
    "metadata and chunks at the commit": ((SMALL, CHUNK), True),
    "metadata by an export only": ((SMALL,), False),
}
"""Kinds of objects that a publish does not write, and whether the commit writes them."""


@dataclass(slots=True)
class Count:
    """Requests by kind, and how the bucket treats them.

    Attributes
    ----------
    seconds
        Pause before each answer.
    held
        Kinds of objects that cost nothing.
    owed
        Objects of these kinds since the last publish began.
    """

    requests: Counter[str]
    owed: Counter[str]
    held: tuple[str, ...] = ()
    seconds: float = 0.0

    def take(self) -> Counter[str]:
        """Return the requests since the last call."""
        found, self.requests = self.requests, Counter()
        return found


COUNT = Count(Counter(), Counter())
_mutex = threading.Lock()


def kind_of(key: str) -> str:
    """Return what an object is for."""
    if "/chunks/" in key:
        return CHUNK
    if key.startswith(".lakebed/"):
        return "manifest"
    if key == "version_control_info.json":
        return "tree"
    return "lock" if key.endswith(".lock") else SMALL


def ask(kind: str) -> None:
    """Count a request, and wait for its answer."""
    is_held = kind in COUNT.held
    with _mutex:
        (COUNT.owed if is_held else COUNT.requests)[kind] += 1
    if COUNT.seconds and not is_held:
        time.sleep(COUNT.seconds)


class Bucket(memory.MemoryStorage):
    """A store in memory that counts its requests."""

    traits = StorageTraits(bulk_delete=True)

    def get(self, key: str) -> bytes:
        """Read a whole object."""
        ask("GET")
        return super().get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part of an object."""
        ask("GET")
        return super().get(key)[start : start + length]

    def get_tail(self, key: str, length: int) -> Tail:
        """Read the end of an object."""
        ask("GET")
        return super().get_tail(key, length)

    def put(self, key: str, data: Data) -> str:
        """Write an object."""
        ask(kind_of(key))
        return super().put(key, data)

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        """Write a batch of objects at the same time."""
        put_in_parallel(self.put, items)

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        """Write an object under a condition."""
        ask(kind_of(key))
        return super().put_if(key, data, etag)

    def copy(self, source: str, target: str, *, durable: bool = True) -> None:
        """Copy an object within the store."""
        ask(kind_of(target))
        super().put(target, super().get(source))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects, which stores charge nothing for."""
        for key in keys:
            super().delete(key)

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        """List objects."""
        ask("LIST")
        return super().list(prefix)

    def stat(self, key: str) -> Stat | None:
        """Return the size of an object."""
        ask("HEAD")
        return super().stat(key)


# -- steps of the library ---------------------------------------------------------------------------------------------


def steps(columns: int) -> Iterator[tuple[str, Counter[str]]]:
    """Yield what single steps of a program ask the bucket for."""
    ds = lakebed.empty("mem://steps")
    yield "create", COUNT.take()
    rows = {f"c{i}": np.arange(100) for i in range(columns)}
    with ds:
        for name in rows:
            ds.create_tensor(name, dtype="int64", **PLAIN)
    yield f"create {columns} tensors", COUNT.take()
    for name in ("append and flush", "the same again"):
        ds.extend(rows)
        ds.flush()
        yield name, COUNT.take()
    ds.commit()
    yield "commit", COUNT.take()
    ds.extend(rows)
    ds.commit()
    yield "append and commit", COUNT.take()


# -- syncs ------------------------------------------------------------------------------------------------------------


def catalog(streams: int) -> dict[str, Any]:
    """Return a catalog of streams of integers."""
    fields = {f"c{i}": {"type": "integer"} for i in range(COLUMNS)}
    configured: dict[str, Any] = configure([stream(f"s{number}", **fields) for number in range(streams)])
    return configured


@lru_cache(maxsize=1024)
def _block(first: int, rows: int) -> bytes:
    return lines(
        record("@@", {f"c{i}": 1_000_000 + number + i for i in range(COLUMNS)})
        for number in range(first, first + rows)
    )


def block(name: str, first: int, rows: int) -> bytes:
    """Return records of a stream."""
    return _block(first, rows).replace(b"@@", name.encode())


def sync(streams: int, pace: Pace, feed: Callable[[Sync], None], *, is_owed: bool = True) -> None:
    """Run a sync; held objects are written when it ends, by its commits, if they are owed."""
    wanted = catalog(streams)
    config = DestinationConfig.from_mapping({"destination_path": "s3://lake/x"})
    said = os.memfd_create("stdout")
    with mock.patch.object(Lake, "address", lambda _, plan: f"mem://{plan.name}"):
        running = begin(config, plans(wanted, config.choices), Output(said), pace)
        feed(running)
        running.publish()
        if is_owed:
            COUNT.held = ()
            concurrently([partial(ask, kind) for kind in COUNT.owed.elements()], workers=AT_ONCE * REQUESTS)
        running.complete()
        running.stop()
    os.close(said)


def counted(streams: int, publishes: int) -> Callable[[Sync], None]:
    """Return a feed that publishes all streams a number of times."""

    def feed(running: Sync) -> None:
        for turn in range(publishes):
            COUNT.owed = Counter()  # a later publish replaces what an earlier one has not written yet
            running.feed(b"".join(block(f"s{number}", 3 * turn, 3) for number in range(streams)))
            running.publish()

    return feed


def paced(streams: int, rows: int, at_once: int) -> Callable[[Sync], None]:
    """Return a feed of streams in turns of some rows: all of them is stream after stream."""

    def feed(running: Sync) -> None:
        for first in range(0, rows, at_once):
            for number in range(streams):
                for at in range(first, min(first + at_once, rows), 100):
                    running.feed(block(f"s{number}", at, 100))

    return feed


def dollars(found: Counter[str]) -> float:
    """Return the price of requests."""
    return sum(PRICES.get(kind, 5.0) * count for kind, count in found.items()) / 1e6


def opened(streams: int) -> list[memory.MemoryStorage]:
    """Return buckets with a first sync; they live as long as the list."""
    buckets = [memory.open_memory(f"s{number}") for number in range(streams)]
    sync(streams, PACE, counted(streams, 1))
    COUNT.take()
    return buckets


def by_publishes(streams: int, publishes: int, pause: float) -> list[str]:
    """Run the same sync in each layout; return the cells of one line."""
    cells, first, scale = [str(publishes)], 0, STREAMS / streams
    for held, is_owed in LAYOUTS.values():
        buckets = opened(streams)
        COUNT.held, COUNT.seconds, COUNT.owed = held, pause, Counter()
        begun = time.monotonic()
        sync(streams, PACE, counted(streams, publishes), is_owed=is_owed)
        seconds, found = time.monotonic() - begun, COUNT.take()
        COUNT.held, COUNT.seconds = (), 0.0
        del buckets
        first = first or found.total()
        cells.append(
            f"{found.total() * scale:,.0f}, ${dollars(found) * scale:.2f}, {seconds * scale:,.0f} s, "
            f"{first / found.total():.1f}x"
        )
    return cells


def at_pace(streams: int, rows: int, at_once: int) -> list[str]:
    """Run a sync at the connector's own pace; return publishes, requests and price of each stream."""
    buckets = opened(streams)
    sync(streams, PACE, paced(streams, rows, at_once))
    found = COUNT.take()
    del buckets
    scale = STREAMS / streams
    return [
        f"{found['manifest'] / streams - 1:.1f}",
        f"{found.total() * scale:,.0f}",
        f"${dollars(found) * scale:.2f}",
    ]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---", *["---:"] * (len(head) - 1)], *rows)]


def main() -> None:
    """Measure, and write the part of RESULTS.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=8, help="streams of syncs with a number of publishes")
    parser.add_argument("--pause", type=float, default=30.0, help="milliseconds to an answer")
    parser.add_argument("--rows", type=int, default=1_000, help="rows of each stream at the connector's pace")
    given = parser.parse_args()
    text = [
        (
            f"`python -m benchmarks.publishes`, {time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}. "
            "Prices are those of Amazon S3: $5 per million PUT and LIST, $0.40 per million GET and HEAD."
        ),
        "",
        f"Requests of single steps on {COLUMNS} columns:",
        "",
    ]
    with mock.patch.object(memory, "MemoryStorage", Bucket):
        rows = [
            [name, f"{found.total():,}", *(f"{found[kind] or ''}" for kind in KINDS)]
            for name, found in steps(COLUMNS)
        ]
        text += [
            *table(["", "requests", *KINDS], rows),
            "",
            (
                f"A second sync of {STREAMS} streams of {COLUMNS} columns, by publishes of each stream: requests, "
                f"their price, seconds with {given.pause:g} ms to each answer, and requests today / requests (run with "
                f"{given.streams} streams, and multiplied):"
            ),
            "",
        ]
        rows = [by_publishes(given.streams, count, given.pause / 1000) for count in (1, 2, 4, 10)]
        text += [
            *table(["publishes", *LAYOUTS], rows),
            "",
            f"The same with {given.rows:,} rows for each stream, as a source sends them, at the connector's own pace:",
            "",
        ]
        print("\n".join(text), flush=True)
        turns = {"stream after stream": given.rows, "in turns of 100 rows": 100}
        rows = [[name, *at_pace(STREAMS, given.rows, at_once)] for name, at_once in turns.items()]
        text += table(["rows come", "publishes of a stream", "requests", "price"], rows)
    print("\n".join(text[-4:]))
    put("benchmarks.publishes", "Requests of a sync to a bucket", text)


if __name__ == "__main__":
    main()
