"""Queries beside peers: `python -m benchmarks.query`; writes its part of RESULTS.md.

Every contestant is a program in an environment of its own; they take turns in rounds, and the least CPU time counts.
NumPy, PyArrow and DuckDB are the bars: they have the values in files that fit the question, in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks import measure
from benchmarks.format import SILENT, environment
from benchmarks.inputs import CACHE, ROOT
from benchmarks.results import put
from benchmarks.static_s3 import program, serving
from integration_tests.stores.servers import faults

LATENCY = 0.02
MEMORY = 200e6


class Contestant(NamedTuple):
    """Who, which program, and where."""

    name: str
    program: str
    environment: str | None


PACKAGES = {
    "query": ["numpy", "pyarrow", "duckdb"],
    "query-deeplake4": ["deeplake==4.7.*", "numpy"],
    "lance": ["pylance", "numpy"],
}
OURS = Contestant("lakebed", "query_ours", None)
LIMIT = Contestant("NumPy, PyArrow, DuckDB", "query_limit", "query")
CONTESTANTS = (
    OURS,
    LIMIT,
    Contestant("Deep Lake 4.7", "query_deeplake4", "query-deeplake4"),
    Contestant("Lance", "query_lance", "lance"),
)


class Work(NamedTuple):
    """A question, who answers it, and how much of the time of the bar lakebed may take."""

    name: str
    title: str
    programs: tuple[str, ...]
    most: float


WORKS = (
    Work("labels", "`labels == 7` over 1,000,000, in any order", ("query_deeplake4", "query_lance"), 1.5),
    Work("sorted labels", "`labels == 7` over 1,000,000, sorted", ("query_deeplake4", "query_lance"), 0.4),
    Work("boxes", "`any(boxes[:, 2] > 100)` over 118,000 ragged sets", (), 1 / 0.5),
    Work("titles", "`contains(title, ...)` over 1,000,000", ("query_lance",), 1 / 0.7),
    Work("join", "join of 1,000,000 x 100,000, two columns read", (), 1 / 0.3),
    Work("group", "sums of 1,000,000 by 1,000 keys", (), 1 / 0.3),
)

Found = dict[str, dict[str, dict[str, Any]]]


def make_data(folder: Path) -> None:
    """Write the values that everybody asks."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 1_000, 1_000_000).astype(np.uint32)
    counts = generator.poisson(7.3, 118_000)
    words = np.array(
        "red blue green small large old new wren kite gull heron finch stork swift crane".split()
    )
    chosen = words[generator.integers(0, len(words), (1_000_000, 5))]
    titles = [" ".join(row) for row in chosen.tolist()]
    for row in np.flatnonzero(generator.random(1_000_000) < 0.01).tolist():
        titles[row] += " kestrel"
    values: dict[str, np.ndarray[Any, Any]] = {
        "labels": labels,
        "sorted": np.sort(labels),
        "counts": counts,
        "boxes": (generator.random((int(counts.sum()), 4)) * 120).astype(np.float32),
        "keys": generator.integers(0, 100_000, 1_000_000),
        "values": generator.integers(0, 1_000, 1_000_000),
        "weights": generator.integers(0, 1_000, 100_000),
    }
    for name, array in values.items():
        np.save(folder / f"{name}.npy", array)
    table = pa.table({"title": titles})
    with pa.OSFile(str(folder / "titles.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)


def do(row: Contestant, work: str, folder: Path, repeats: int, endpoint: str = "") -> dict[str, Any]:
    """Let a contestant do one thing, in a fresh process.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    store = folder / row.program
    store.mkdir(exist_ok=True)
    task = {
        "work": work,
        "data": str(folder / "data"),
        "store": str(store),
        "endpoint": endpoint,
        "repeats": repeats,
    }
    python = environment(row.environment, PACKAGES[row.environment]) if row.environment else sys.executable
    command = [python, "-m", f"benchmarks.peers.{row.program}", json.dumps(task)]
    output = measure.run(command, variables=SILENT).output
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def compare(rows: list[Contestant], folder: Path, rounds: int, repeats: int) -> Found:
    """Let contestants take turns; the least of each figure counts."""
    found: Found = {}
    for number in range(rounds):
        for work in WORKS:
            taking = [row for row in rows if row in (OURS, LIMIT) or row.program in work.programs]
            for row in taking[number % len(taking) :] + taking[: number % len(taking)]:
                one = do(row, work.name, folder, repeats)
                old = found.setdefault(work.name, {}).get(row.name)
                if old is not None:
                    one = {**one, "cpu": min(one["cpu"], old["cpu"]), "wall": min(one["wall"], old["wall"])}
                found[work.name][row.name] = one
            answers = {name: one["check"] for name, one in found[work.name].items()}
            if len(set(answers.values())) > 1:
                raise RuntimeError(f"{work.name}: the contestants did not find the same: {answers}")
    return found


def table(found: Found) -> list[str]:
    """Return the figures, and the ratios to what each question is compared with."""
    lines = ["| | CPU ms | of the bar | may be |", "|---|---|---|---|"]
    for work in WORKS:
        times = found[work.name]
        bar = times[LIMIT.name]["cpu"]
        for name, one in times.items():
            may_be = f"{work.most:.2f}" if name == OURS.name else ""
            lines.append(
                f"| {work.title}: {name} | {one['cpu'] * 1e3:.2f} | {one['cpu'] / bar:.2f} | {may_be} |"
            )
    return lines


def own(folder: Path) -> list[str]:
    """Return what lakebed holds in memory, and what it asks a bucket for."""
    peak = do(OURS, "memory", folder, 1)["peak"]
    text = "* A query of labels in 400 chunks, beside as many chunks as 100 GB of images have: "
    lines = [f"{text}{peak / 1e6:.0f} MB, of which {MEMORY / 1e6:.0f} may be."]
    if program() is None:
        return [*lines, "* Without nginx nothing is asked over a network."]
    with serving(folder / OURS.program) as port, faults(port) as network:
        network.set(latency=LATENCY)
        asked = do(OURS, "bucket", folder, 3, network.endpoint)["check"]
    ratio = asked["seconds"] / (asked["requests"] * LATENCY)
    text = (
        f"* `labels == 7`, sorted, in a bucket with {LATENCY * 1e3:.0f} ms to an answer: "
        f"{asked['requests']:.0f} requests for {asked['chunks']:.0f} of {asked['of']:.0f} chunks and the "
        f"statistics, {asked['seconds'] * 1e3:.0f} ms, {ratio:.2f} of requests x latency, of which 1.2 may be."
    )
    return [*lines, text]


def save(lines: list[str]) -> None:
    """Replace this program's part of RESULTS.md."""
    about = (
        f"Measured on {platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python "
        f"{platform.python_version()}; least CPU time of several answers, one before."
    )
    put("benchmarks.query", "Queries", [about, "", *lines])


def main() -> None:
    """Write, measure, print, save."""
    parser = argparse.ArgumentParser(description="Queries beside peers.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--folder", type=Path, default=CACHE / "query", help="where datasets are written")
    parser.add_argument("--only", action="append", choices=[row.name for row in CONTESTANTS[2:]])
    parser.add_argument("--quick", action="store_true", help="one round, no peers, nothing saved")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.repeats = 1, 5
    os.chdir(ROOT)
    given.folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=given.folder))
    try:
        (folder / "data").mkdir()
        make_data(folder / "data")
        peers = [] if given.quick else [r for r in CONTESTANTS[2:] if not given.only or r.name in given.only]
        rows = [OURS, LIMIT]
        for row in [OURS, *peers]:
            try:
                do(row, "write", folder, 0)
            except RuntimeError as error:
                if row == OURS:
                    raise
                print(f"without {row.name}, which failed: {str(error).strip().splitlines()[-1]}", flush=True)
            else:
                rows += [row] if row != OURS else []
        lines = [*table(compare(rows, folder, given.rounds, given.repeats)), "", *own(folder)]
        print("\n".join(lines), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if not (given.quick or given.only):
        save(lines)


if __name__ == "__main__":
    main()
