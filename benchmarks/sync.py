"""How fast rows become a published dataset, beside peers on the same messages: `make bench`.

Rates are per CPU second (user + system, of the whole process and its children), medians of interleaved runs, as
a busy machine then disturbs all alike. A rate "with start" divides all records by all CPU seconds; a "marginal"
one is the slope between a sync of the file and one of the file several times over, so that start-up falls out.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import dataclasses
import functools
import json
import os
import shutil
import statistics
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import inputs, measure
from benchmarks.inputs import CACHE, ROOT, Input
from integration_tests.stores.servers import Server, moto

OURS = Path(sys.executable).with_name("destination-deeplake")
PYAIRBYTE = ROOT / ".cache/venvs/pyairbyte/bin/python"
HERE = Path(__file__).parent
LONGER = 3
"""How often the file is sent for the slope between one and more; each publish weighs what it weighs in a long sync."""
HEADER = f"  {'':<28} {'CPU':>9} {'records/s':>12} {'MB/s':>8} {'marginal':>12} {'MB/s':>8}"


@functools.cache
def lakes() -> Path:
    """Folder of this run's lakes; `BENCH_LAKES` names another place for it, such as a file system in memory."""
    folder = Path(tempfile.mkdtemp(prefix="lakes-", dir=os.environ.get("BENCH_LAKES", CACHE)))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@dataclass(frozen=True)
class Rates:
    """Records per CPU second of one destination on one input."""

    given: Input
    whole: float
    """CPU seconds of the whole input, median."""
    marginal: float
    """Records per CPU second, slope."""

    @property
    def with_start(self) -> float:
        return self.given.records / self.whole

    def line(self, name: str) -> str:
        megabytes = self.given.size / self.given.records / 1e6
        return (
            f"  {name:<28} {self.whole:7.2f} s {self.with_start:12,.0f} {self.with_start * megabytes:8,.0f}"
            f" {self.marginal:12,.0f} {self.marginal * megabytes:8,.0f}"
        )


def check(text: str, value: float, bar: float, *, at_most: bool = False) -> None:
    """Print a figure beside its bar."""
    good = value <= bar if at_most else value >= bar
    print(
        f"  {text:<60} {value:8.2f}   bar {'<=' if at_most else '>='} {bar:<6g} {'ok' if good else 'MISSED'}"
    )


Contender = Callable[[Input, int], measure.Cost]


def ours(
    given: Input,
    times: int = 1,
    settings: dict[str, Any] | None = None,
    variables: Mapping[str, str] | None = None,
) -> measure.Cost:
    """One sync into a lake of its own; 0 times sends nothing on standard input.

    The lakes are deleted at the end of all runs: for minutes ext4 passes by the inodes of deleted files, one by one, so
    the next run would pay for the deletion.
    """
    config = CACHE / "destination.json"
    config.write_text(json.dumps(settings or {"destination_path": str(lakes() / uuid.uuid4().hex)}))
    command: list[str | Path] = [OURS, "write", "--config", config, "--catalog", given.catalog]
    return measure.run(command, given.messages if times else None, times, variables)


def by_key(given: Input, times: int = 1, variables: Mapping[str, str] | None = None) -> measure.Cost:
    """One sync with append + deduplication; a file that is sent again brings the same keys again."""
    catalog = json.loads(given.catalog.read_text())
    for configured in catalog["streams"]:
        configured |= {
            "destination_sync_mode": "append_dedup",
            "primary_key": [["id"]],
            "cursor_field": ["updated_at"],
        }
    path = CACHE / "by-key-catalog.json"
    path.write_text(json.dumps(catalog))
    return ours(dataclasses.replace(given, catalog=path), times, variables=variables)


@functools.cache
def bucket() -> Server:
    """S3 as moto speaks it; a process of its own, whose CPU seconds are not counted."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(moto())


def into_bucket(given: Input, times: int = 1) -> measure.Cost:
    """One sync into a bucket."""
    server = bucket()
    keys = {name: server.creds[name] for name in ("aws_access_key_id", "aws_secret_access_key")}
    settings = {
        "destination_path": server.url("lake"),
        "endpoint_url": server.endpoint,
        "credentials": {"method": "aws_keys", **keys},
    }
    return ours(given, times, settings)


def on_the_cdk(program: str, given: Input, times: int = 1) -> measure.Cost:
    """One sync into a destination that one of the programs here makes out of the CDK."""
    config = CACHE / "on-the-cdk.json"
    config.write_text(json.dumps({"path": str(lakes() / uuid.uuid4().hex)}))
    command: list[str | Path] = [sys.executable, "-m", f"benchmarks.{program}", "write", "--config", config]
    return measure.run([*command, "--catalog", given.catalog], given.messages, times)


MINE: dict[str, Contender] = {"ours, written and published": ours}
NOOP: dict[str, Contender] = {"no-op on the plain CDK": functools.partial(on_the_cdk, "noop_destination")}
MORE_OF_MINE: dict[str, Contender] = {
    "ours, append + deduplication": by_key,
    "ours, into S3 (moto)": into_bucket,
}
PEERS: dict[str, tuple[Contender, float]] = {
    "raw JSON in SQLite, CDK": (functools.partial(on_the_cdk, "sqlite_destination"), 5),
    "Python columns, CDK, Parquet": (functools.partial(on_the_cdk, "columns_destination"), 3),
}
"""And how many times as fast ours is to be."""


def measured(given: Input, runs: int, contenders: Mapping[str, Contender]) -> dict[str, Rates]:
    """Let them run in turn, and print their rates."""
    seconds: dict[str, dict[int, list[float]]] = {name: {1: [], LONGER: []} for name in contenders}
    for _ in range(runs):
        for name, contender in contenders.items():
            for times, taken in seconds[name].items():
                taken.append(contender(given, times).cpu_seconds)
    rates = {}
    for name, taken_by_times in seconds.items():
        once, longer = map(statistics.median, taken_by_times.values())
        rates[name] = Rates(given, once, given.records * (LONGER - 1) / (longer - once))
    size = given.size / given.records
    print(f"\n{given.name}: {given.records:,} records of {size:,.0f} B, {given.size / 1e6:,.0f} MB")
    print(HEADER)
    for name, rate in rates.items():
        print(rate.line(name))
    return rates


def compare(given: Input, runs: int, more: Mapping[str, Contender] | None = None) -> None:
    """Ours, also by key and into a bucket, beside the no-op destination and others, interleaved."""
    rates = measured(given, runs, {**MINE, **NOOP, **(more or {})})
    (first, _), (noop, _) = (*MINE.items(), *NOOP.items())
    for name in (name for name in rates if name in MINE or name in MORE_OF_MINE):
        mine, theirs = rates[name], rates[noop]
        what = f"{name.removeprefix('ours, ')} / no-op, {given.name}"
        check(f"{what}, with start", mine.with_start / theirs.with_start, 1.5)
        check(f"{what}, marginal", mine.marginal / theirs.marginal, 1.5)
    for name in (name for name in rates if name in PEERS):
        check(
            f"ours / {name}, {given.name}, marginal",
            rates[first].marginal / rates[name].marginal,
            PEERS[name][1],
        )


def pyairbyte(given: Input) -> float:
    """CPU seconds of PyAirbyte's read into its DuckDB cache, without its start and its imports."""
    for left in CACHE.glob("pyairbyte.duckdb*"):
        left.unlink()
    program: list[str | Path] = [PYAIRBYTE, "-W", "ignore", HERE / "pyairbyte_duckdb.py"]
    output = measure.run([*program, given.messages, given.catalog, CACHE / "pyairbyte.duckdb"]).output
    (result,) = [line.split() for line in output.decode().splitlines() if line.startswith("RESULT")]
    assert int(result[1]) == given.records, result
    return float(result[2])


def against_pyairbyte(users: Input, records: int, runs: int) -> None:
    """Ours beside PyAirbyte on the same users; PyAirbyte is slow, so it gets a part of them."""
    part, given = inputs.beginning(users, records // 5), inputs.beginning(users, records)
    once, longer = pyairbyte(part), pyairbyte(given)
    theirs = Rates(given, longer, (given.records - part.records) / (longer - once))
    whole = statistics.median(ours(users).cpu_seconds for _ in range(runs))
    beginning = statistics.median(ours(given).cpu_seconds for _ in range(runs))
    mine = Rates(users, whole, (users.records - given.records) / (whole - beginning))
    print(f"\nPyAirbyte into its DuckDB cache: {records:,} of these users, CPU of its read() alone")
    print(HEADER)
    print(mine.line("ours, written and published"))
    print(theirs.line("PyAirbyte, DuckDB"))
    check("ours / PyAirbyte, marginal", mine.marginal / theirs.marginal, 20)


def memory(given: Input) -> None:
    """Peak memory of one and of ten times the input."""
    peaks = []
    for times in (1, 10):
        cost = ours(given, times)
        peaks.append(cost.peak_bytes / 1e6)
        size = times * given.size / 1e6
        print(f"  {size:8,.0f} MB of input: peak {peaks[-1]:,.0f} MB, {cost.wall_seconds:.1f} s")
    check("peak memory, MB", max(peaks), 400, at_most=True)
    check("peak of 10x the input / peak of 1x", peaks[1] / peaks[0], 1.25, at_most=True)


def startup(runs: int) -> None:
    """Wall and CPU seconds of `spec`."""
    costs = [measure.run([OURS, "spec"]) for _ in range(runs)]
    wall = statistics.median(cost.wall_seconds for cost in costs)
    cpu = statistics.median(cost.cpu_seconds for cost in costs)
    print(f"  spec: {wall:.2f} s, CPU {cpu:.2f} s")
    check("start-up of spec, seconds", wall, 1.5, at_most=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Speed and memory of a sync, and of reading, beside peers.")
    parser.add_argument("--runs", type=int, default=5, help="interleaved runs of which the median counts")
    parser.add_argument("--narrow", type=int, default=200_000, help="user records")
    parser.add_argument("--wide", type=int, default=18_000, help="wide records")
    parser.add_argument("--pyairbyte", type=int, default=50_000, help="users for PyAirbyte; 0: none")
    given = parser.parse_args()
    users = inputs.narrow(given.narrow)
    compare(users, given.runs, {**MORE_OF_MINE, **{name: peer for name, (peer, _) in PEERS.items()}})
    compare(inputs.wide(users, given.wide), given.runs)
    if given.pyairbyte:
        against_pyairbyte(users, given.pyairbyte, given.runs)
    print("\nmemory and start-up")
    memory(users)
    startup(given.runs)
    print(flush=True)
    print(measure.run([sys.executable, "-m", "benchmarks.scan"]).output.decode(), end="")


if __name__ == "__main__":
    main()
