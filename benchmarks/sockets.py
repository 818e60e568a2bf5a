"""The same syncs over sockets: messages of Protocol Buffers beside lines of JSON on standard input.

`python -m benchmarks.sockets`; `benchmarks.sync` has the peers. Rates are per CPU second of the connector alone: what
writes to the sockets is a process of its own.
"""

from __future__ import annotations

import argparse
import functools
import json
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import inputs, measure
from benchmarks.inputs import CACHE, Input
from benchmarks.sync import LONGER, NOOP, Contender, by_key, check, measured, ours
from destination_deeplake.airbyte_types import columns
from destination_deeplake.catalog import plans
from destination_deeplake.columns import Lanes, PartitionIds, RecordTable
from destination_deeplake.wire import Wire
from integration_tests.messages import parse
from integration_tests.sockets.encode import Encoder, delimited
from integration_tests.sockets.model import frames
from integration_tests.sockets.schema import AirbyteMessage

_SENT = 1 << 20
_MOST_SOCKETS = 4


def framed(given: Input, sockets: int, times: int) -> list[Path]:
    """The messages of an input in Protocol Buffers, a file for each socket; made once.

    A partition is what lies between two states, all of it on one socket; the partitions go from one to the next.
    """
    made = [given.messages.with_suffix(f".{sockets}-{number}-{times}.pb") for number in range(sockets)]
    if all(path.exists() for path in made):
        return made
    print(f"encoding {given.records * times:,} records for {sockets} sockets, once", flush=True)
    catalog = json.loads(given.catalog.read_text())
    (name,) = [configured["stream"]["name"] for configured in catalog["streams"]]
    encoder = Encoder(catalog)
    partial = [path.with_suffix(".partial") for path in made]
    files = [path.open("wb") for path in partial]
    partition, records = 1, 0

    def end(state: dict[str, Any]) -> None:
        nonlocal partition, records
        state |= {"id": partition, "partition_id": f"{partition}", "sourceStats": {"recordCount": records}}
        files[partition % sockets].write(delimited(encoder.encode({"type": "STATE", "state": state})))
        partition, records = partition + 1, 0

    for _ in range(times):
        with given.messages.open("rb") as lines:
            for line in lines:
                message = parse(line)
                if message["type"] == "STATE":
                    end(message["state"])
                    continue
                message["record"]["partition_id"] = f"{partition}"
                files[partition % sockets].write(delimited(encoder.encode(message)))
                records += 1
    if records:
        descriptor = {"stream_descriptor": {"name": name}}
        end({"type": "STREAM", "stream": descriptor})
    status = {"stream_descriptor": {"name": name}, "status": "COMPLETE"}
    complete = {"type": "TRACE", "trace": {"type": "STREAM_STATUS", "emitted_at": 1, "stream_status": status}}
    for file in files:
        file.write(delimited(encoder.encode(complete)))
        file.close()
    for source, target in zip(partial, made, strict=True):
        source.rename(target)
    return made


@contextmanager
def listening(files: list[Path]) -> Iterator[list[str]]:
    """Sockets of a process of its own that each send a file to whoever connects."""
    with tempfile.TemporaryDirectory(prefix="sockets-") as folder:
        paths = [f"{folder}/{number}" for number in range(len(files))]
        command = [sys.executable, "-m", "benchmarks.sockets", "--feed", *paths, *map(str, files)]
        thread = threading.Thread(target=measure.run, args=(command,))
        thread.start()
        yield paths
        thread.join()


def feed(paths: list[str], files: list[str]) -> None:
    """Listen on every path, and send each its file."""

    def send(path: str, file: str) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            client, _ = server.accept()
        with client, Path(file).open("rb") as content:
            while block := content.read(_SENT):
                client.sendall(block)

    threads = [threading.Thread(target=send, args=pair) for pair in zip(paths, files, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def over_sockets(
    sockets: int, sync: Callable[..., measure.Cost], given: Input, times: int = 1
) -> measure.Cost:
    """One sync over so many sockets."""
    with listening(framed(given, sockets, times)) as paths:
        variables = {
            "DATA_CHANNEL_MEDIUM": "SOCKET",
            "DATA_CHANNEL_FORMAT": "PROTOBUF",
            "DATA_CHANNEL_SOCKET_PATHS": ",".join(paths),
        }
        return sync(given, 0, variables=variables)


def compare(given: Input, runs: int) -> None:
    """Standard input beside one, two and four sockets."""
    contenders: dict[str, Contender] = {
        "standard input": ours,
        **{
            f"{sockets} socket{'s' if sockets > 1 else ''}": functools.partial(over_sockets, sockets, ours)
            for sockets in (1, 2, _MOST_SOCKETS)
        },
    }
    rates = measured(given, runs, {**contenders, **NOOP})
    mine, one = rates["standard input"], rates["1 socket"]
    check(f"1 socket / standard input, {given.name}, marginal", one.marginal / mine.marginal, 2.0)
    for noop in NOOP:
        check(f"1 socket / {noop}, {given.name}, marginal", one.marginal / rates[noop].marginal, 8.0)
    walls = {
        sockets: statistics.median(
            over_sockets(sockets, ours, given, LONGER).wall_seconds for _ in range(runs)
        )
        for sockets in (1, 2, _MOST_SOCKETS)
    }
    print("  wall: " + ", ".join(f"{sockets} sockets {wall:.2f} s" for sockets, wall in walls.items()))
    check(f"wall of 1 socket / 2 sockets, {given.name}", walls[1] / walls[2], 1.6)


def keyed(given: Input, runs: int) -> None:
    """Append + deduplication."""
    contenders: dict[str, Contender] = {
        "by key, standard input": by_key,
        "by key, 1 socket": functools.partial(over_sockets, 1, by_key),
    }
    mine, one = measured(given, runs, contenders).values()
    check(f"by key: 1 socket / standard input, {given.name}, marginal", one.marginal / mine.marginal, 1.4)


def peaks(given: Input, times: int) -> None:
    """Peak memory of the same rows by both ways."""
    mine, one = ours(given, times).peak_bytes / 1e6, over_sockets(1, ours, given, times).peak_bytes / 1e6
    print(f"  {times * given.size / 1e6:,.0f} MB of lines: peak {mine:,.0f} MB, over a socket {one:,.0f} MB")
    check("peak over a socket / standard input", one / mine, 1.1, at_most=True)


def decoding(given: Input, runs: int) -> None:
    """Decoding alone, beside the package `protobuf` and beside copying the bytes."""
    (file,) = framed(given, 1, 1)
    data = file.read_bytes()
    messages = list(frames(data))
    (plan,) = plans(json.loads(given.catalog.read_text()))
    found = [column.column for column in columns(plan.json_schema)]

    def decode() -> None:
        lanes = Lanes((), PartitionIds.PROTOBUF)
        table = RecordTable(found, sync_id=1, generation_id=1, fields=plan.field_order, lanes=lanes)
        wire = Wire({plan.key: table}, protobuf=True)
        for start in range(0, len(data), _SENT):
            for _ in wire.feed(memoryview(data)[start : start + _SENT]):
                pass
        assert table.rows == given.records

    def upb() -> None:
        read: Callable[[bytes], Any] = AirbyteMessage.FromString
        for message in messages:
            read(message)

    def copy() -> None:
        bytes(memoryview(data))

    works = {"ours": decode, "protobuf (upb)": upb, "memcpy": copy}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            began = time.thread_time()
            work()
            seconds[name].append(time.thread_time() - began)
    print(f"\ndecoding alone, {given.name}: {len(data) / given.records:,.0f} B a record")
    best = {name: min(taken) for name, taken in seconds.items()}
    for name, taken in best.items():
        print(
            f"  {name:<28} {taken / given.records * 1e9:8,.0f} ns a record, {len(data) / taken / 1e6:8,.0f} MB/s"
        )
    check(f"protobuf (upb) / ours, {given.name}", best["protobuf (upb)"] / best["ours"], 3.0)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Syncs over sockets beside standard input.")
    parser.add_argument("--runs", type=int, default=5, help="interleaved runs of which the median counts")
    parser.add_argument("--narrow", type=int, default=200_000, help="user records")
    parser.add_argument("--wide", type=int, default=18_000, help="wide records")
    parser.add_argument(
        "--feed", nargs="+", help="sockets, then as many files: what this program starts itself"
    )
    given = parser.parse_args()
    if given.feed:
        half = len(given.feed) // 2
        feed(given.feed[:half], given.feed[half:])
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    users = inputs.narrow(given.narrow)
    wide = inputs.wide(users, given.wide)
    for one in (users, wide):
        decoding(one, given.runs)
    for one in (users, wide):
        compare(one, given.runs)
    keyed(users, given.runs)
    print("\nmemory")
    peaks(users, 10)


if __name__ == "__main__":
    main()
