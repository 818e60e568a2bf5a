"""Transforms beside their peers: `python -m benchmarks.transform`; writes its part of RESULTS.md.

Every pass is a fresh process in an environment of its own; contestants take turns in rounds, and medians count. The
programs are `peers/transform_*.py`; `transforming.py` is what they share. What the work costs without any library is
the bare loop over a pool of processes, which writes a file for each photo.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure
from benchmarks.format import SILENT, environment
from benchmarks.inputs import CACHE
from benchmarks.loader import environment as with_torch
from benchmarks.loader import make_data
from benchmarks.results import put
from benchmarks.table import machine
from benchmarks.transforming import Task

PHOTOS = CACHE / "loader" / "data"
PEERS = ["datasets", "ray[data]", "dask", "numpy", "simplejpeg", "pillow", "pyarrow"]

Found = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Contestant:
    """A program and how many workers it has."""

    name: str
    program: str
    workers: int


@dataclass(frozen=True)
class Workload:
    """Contestants, items, and what is asked of us."""

    name: str
    what: str
    count: int
    rows: tuple[Contestant, ...]
    bars: tuple[tuple[str, float, Callable[[Found], float]], ...]


def _contestants(workers: int, *programs: str) -> tuple[Contestant, ...]:
    names = {
        "ours": "lakebed",
        "pool": "bare loop",
        "deeplake3": "Deep Lake 3.9.52",
        "hugging_face": "Hugging Face datasets",
        "ray": "Ray Data",
        "dask": "Dask",
    }
    return tuple(Contestant(f"{names[program]}, {workers} workers", program, workers) for program in programs)


WORKLOADS = (
    Workload(
        "photos",
        "JPEG files of about 375x500: decode, resize to 224x224, encode, store",
        20_000,
        (
            *_contestants(1, "ours", "pool"),
            *_contestants(2, "ours", "pool", "deeplake3", "hugging_face", "ray", "dask"),
        ),
        (
            (
                "2 workers against 1",
                1.9,
                lambda f: f["lakebed, 1 workers"]["wall"] / f["lakebed, 2 workers"]["wall"],
            ),
            (
                "speed of the bare loop",
                0.9,
                lambda f: f["bare loop, 2 workers"]["wall"] / f["lakebed, 2 workers"]["wall"],
            ),
            (
                "the same by CPU",
                0.9,
                lambda f: f["bare loop, 2 workers"]["cpu"] / f["lakebed, 2 workers"]["cpu"],
            ),
        ),
    ),
    Workload(
        "rows",
        "small rows (an integer, a float, a text) through a function",
        100_000,
        (*_contestants(0, "ours"), *_contestants(2, "ours", "deeplake3", "hugging_face", "ray", "dask")),
        (
            (
                "speed of Deep Lake 3.9.52",
                3.0,
                lambda f: f["Deep Lake 3.9.52, 2 workers"]["wall"] / f["lakebed, 2 workers"]["wall"],
            ),
            (
                "the same by CPU",
                3.0,
                lambda f: f["Deep Lake 3.9.52, 2 workers"]["cpu"] / f["lakebed, 2 workers"]["cpu"],
            ),
        ),
    ),
    Workload(
        "empty",
        "a function that appends its item, one by one; µs of CPU a row",
        500_000,
        _contestants(0, "ours", "hugging_face"),
        (("µs a row", -15.0, lambda f: f["lakebed, 0 workers"]["cpu"] / 0.5),),
    ),
    Workload(
        "batches",
        "the same in batches of 1,000",
        5_000_000,
        _contestants(0, "ours", "hugging_face"),
        (("µs a row", -0.5, lambda f: f["lakebed, 0 workers"]["cpu"] / 5.0),),
    ),
)


def interpreter(program: str) -> Path:
    """Return the Python of a contestant."""
    if program in ("ours", "pool"):
        return Path(sys.executable)
    if program == "deeplake3":
        return with_torch("loading-deeplake3")
    return environment("transform", PEERS)


def do(row: Contestant, task: Task) -> dict[str, float]:
    """Let a contestant do one thing in a fresh process."""
    os.sync()
    command: list[str | Path] = [
        interpreter(row.program),
        "-m",
        f"benchmarks.peers.transform_{row.program}",
        json.dumps(task.__dict__),
    ]
    cost = measure.run(command, variables=SILENT)
    found: dict[str, float] = json.loads(cost.output.splitlines()[-1])
    return found


def measured(workload: Workload, rounds: int, share: float) -> dict[str, dict[str, float]]:
    """Return medians of wall and CPU seconds by contestant."""
    several: dict[str, list[dict[str, float]]] = {}
    gone: set[str] = set()
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        for turn in range(rounds):
            for row in (*workload.rows[turn:], *workload.rows[:turn]):
                if row.name in gone:
                    continue
                task = Task(
                    workload.name,
                    str(PHOTOS),
                    f"{folder}/{row.program}",
                    int(workload.count * share),
                    row.workers,
                )
                try:
                    figures = do(row, task)
                except RuntimeError as error:
                    if row.program in ("ours", "pool"):
                        raise
                    print(f"  without {row.name}: {str(error).strip().splitlines()[-1]}", flush=True)
                    gone.add(row.name)
                    continue
                print(f"  {row.name}: {figures['wall']:.2f} s, CPU {figures['cpu']:.2f} s", flush=True)
                several.setdefault(row.name, []).append(figures)
    return {
        name: {figure: statistics.median(one[figure] for one in all_) / share for figure in all_[0]}
        for name, all_ in several.items()
    }


def markdown(workload: Workload, found: Found) -> list[str]:
    """Return a workload's part of RESULTS.md."""
    lines = [f"**{workload.name}**: {workload.count:,} items; {workload.what}.", ""]
    lines += ["| | wall s | CPU s | items/s |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {one['wall']:.2f} | {one['cpu']:.2f} | {workload.count / one['wall']:,.0f} |"
        for name, one in found.items()
    ]
    lines.append("")
    for what, bar, ratio in workload.bars:
        try:
            value = ratio(found)
        except KeyError:
            continue
        reached = value >= bar if bar > 0 else value <= -bar
        sign = "at least" if bar > 0 else "at most"
        lines.append(
            f"* {what}: {value:.2f}; asked for: {sign} {abs(bar)}, {'reached' if reached else 'missed'}"
        )
    return [*lines, ""]


def main() -> None:
    """Run, print, and write the results down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[workload.name for workload in WORKLOADS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--share", type=float, default=1.0, help="part of the items; nothing is written down below 1"
    )
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    make_data(PHOTOS, 10_000, 1024)
    text: list[str] = []
    for workload in WORKLOADS:
        if options.only in (None, workload.name):
            print(f"{workload.name}: {workload.what}", flush=True)
            found = measured(workload, options.rounds, options.share)
            lines = markdown(workload, found)
            print("\n".join(lines), flush=True)
            text += lines
    if options.only is None and options.share == 1:
        load = os.getloadavg()[0]
        where = f"Machine: {machine(CACHE)}; load at the end {load:.1f}; medians of {options.rounds} rounds."
        put(
            "benchmarks.transform",
            "Transforms",
            [f"{where} The CPU seconds of Ray Data are those of its driver alone.", "", *text],
        )


if __name__ == "__main__":
    main()
