"""How fast rows become a published dataset, beside peers on the same messages: `make bench`.

Rates are per CPU second (user + system, of the whole process and its children), medians of interleaved
runs, as a busy machine then disturbs all alike. A rate "with start" divides all records by all CPU seconds;
a "marginal" one is the slope between the first tenth of the file and the whole, so that start-up falls out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import inputs, measure
from benchmarks.inputs import CACHE, ROOT, Input

OURS = Path(sys.executable).with_name("destination-deeplake")
PYAIRBYTE = ROOT / ".cache/venvs/pyairbyte/bin/python"
LAKES = CACHE / "lakes"
HERE = Path(__file__).parent
HEADER = f"  {'':<28} {'CPU':>9} {'records/s':>12} {'MB/s':>8} {'marginal':>12} {'MB/s':>8}"


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


def ours(given: Input) -> measure.Cost:
    """One sync into a lake of its own."""
    shutil.rmtree(LAKES, ignore_errors=True)
    return measure.run(write_command(given), given.messages)


def write_command(given: Input) -> list[str | Path]:
    """Command line of a sync of this input."""
    config = CACHE / "destination.json"
    config.write_text(json.dumps({"destination_path": str(LAKES)}))
    return [OURS, "write", "--config", config, "--catalog", given.catalog]


def noop(given: Input) -> measure.Cost:
    """The CDK with a destination that keeps nothing."""
    config = CACHE / "noop.json"
    config.write_text("{}")
    command: list[str | Path] = [sys.executable, HERE / "noop_destination.py", "write", "--config", config]
    return measure.run([*command, "--catalog", given.catalog], given.messages)


def slope(small: Sequence[float], large: Sequence[float], given: Input, part: Input) -> Rates:
    """Rates from the CPU seconds of runs on a part and on the whole."""
    whole = statistics.median(large)
    marginal = (given.records - part.records) / (whole - statistics.median(small))
    return Rates(given, whole, marginal)


def compare(given: Input, runs: int) -> None:
    """Ours beside the no-op destination, interleaved."""
    part = inputs.beginning(given, given.records // 10)
    contenders: dict[str, Callable[[Input], measure.Cost]] = {"ours, written and published": ours}
    contenders["no-op on the plain CDK"] = noop
    seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in contenders}
    for _ in range(runs):
        for name, contender in contenders.items():
            for times, messages in zip(seconds[name], (part, given), strict=True):
                times.append(contender(messages).cpu_seconds)
    rates = {name: slope(*times, given, part) for name, times in seconds.items()}
    size = given.size / given.records
    print(f"\n{given.name}: {given.records:,} records of {size:,.0f} B, {given.size / 1e6:,.0f} MB")
    print(HEADER)
    for name, rate in rates.items():
        print(rate.line(name))
    mine, theirs = rates.values()
    check(f"ours / no-op, {given.name}, with start", mine.with_start / theirs.with_start, 1.5)
    check(f"ours / no-op, {given.name}, marginal", mine.marginal / theirs.marginal, 1.5)


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
    """Ours beside PyAirbyte on the same users."""
    part, given = inputs.beginning(users, records // 5), inputs.beginning(users, records)
    theirs = slope([pyairbyte(part)], [pyairbyte(given)], given, part)
    small, large = ([ours(messages).cpu_seconds for _ in range(runs)] for messages in (part, given))
    mine = slope(small, large, given, part)
    print(f"\nPyAirbyte into its DuckDB cache: {records:,} of the same users, CPU of its read() alone")
    print(HEADER)
    print(mine.line("ours, written and published"))
    print(theirs.line("PyAirbyte, DuckDB"))
    check("ours / PyAirbyte, marginal", mine.marginal / theirs.marginal, 20)


def memory(given: Input) -> None:
    """Peak memory of one and of ten times the input."""
    peaks = []
    for times in (1, 10):
        shutil.rmtree(LAKES, ignore_errors=True)
        cost = measure.run(write_command(given), given.messages, times)
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
    compare(users, given.runs)
    compare(inputs.wide(users, given.wide), given.runs)
    if given.pyairbyte:
        against_pyairbyte(users, given.pyairbyte, given.runs)
    print("\nmemory and start-up")
    memory(users)
    startup(given.runs)
    shutil.rmtree(LAKES, ignore_errors=True)
    print(flush=True)
    print(measure.run([sys.executable, "-m", "benchmarks.scan"]).output.decode(), end="")


if __name__ == "__main__":
    main()
