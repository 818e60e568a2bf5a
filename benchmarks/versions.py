"""Versions beside their peers: `python -m benchmarks.versions`; writes its part of RESULTS.md.

A commit and a branch of 30 tensors, a checkout, opening after so many commits, and one more commit then; files and
bytes that each of them writes. Every contestant is a program in an environment of its own; they take turns in rounds,
and the best round counts, as the machine may be busy with other things.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import measure
from benchmarks.format import SILENT, environment
from benchmarks.history import ROWS_PER_CHUNK
from benchmarks.inputs import CACHE, ROOT
from benchmarks.results import put


class Contestant(NamedTuple):
    """A column of the table: who, which program, where, with hidden companions, waiting for the disk."""

    name: str
    program: str
    environment: str | None
    hidden: bool
    durable: bool
    most_commits: int


PACKAGES = {
    "deeplake3": ["deeplake==3.9.52", "numpy<2", "setuptools"],
    "icechunk": ["icechunk", "zarr", "numpy"],
    "lance": ["pylance", "numpy"],
    "deeplake4": ["deeplake>=4", "numpy"],
}
CONTESTANTS = (
    Contestant("lakebed", "history_ours", None, False, False, 10_000),
    Contestant("lakebed, fsync", "history_ours", None, False, True, 100),
    Contestant("lakebed, with hidden tensors", "history_ours", None, True, False, 100),
    Contestant("Deep Lake 3.9.52", "history_deeplake3", "deeplake3", False, False, 1_000),
    Contestant("Deep Lake 3.9.52, with hidden tensors", "history_deeplake3", "deeplake3", True, False, 100),
    Contestant("icechunk", "history_icechunk", "icechunk", False, False, 1_000),
    Contestant("Lance", "history_lance", "lance", False, False, 1_000),
    Contestant("Deep Lake 4", "history_deeplake4", "deeplake4", False, False, 1_000),
)

Found = dict[str, dict[str, dict[str, float]]]


def _shown(folder: Path) -> str:
    """Return a folder as the repository sees it."""
    return str(folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder)


def once(
    row: Contestant, given: argparse.Namespace, chunks: int, folder: Path
) -> dict[str, dict[str, float]]:
    """Let one contestant go through its story."""
    out = Path(tempfile.mkdtemp(prefix=f"{row.program}-", dir=folder))
    commits = [n for n in given.commits if n <= row.most_commits]
    task = {
        "out": str(out),
        "tensors": given.tensors,
        "chunks": chunks,
        "commits": commits if chunks == given.chunks[0] else [],
        "repeats": given.repeats,
    }
    python = environment(row.environment, PACKAGES[row.environment]) if row.environment else sys.executable
    variables = {**SILENT, "BENCH_HIDDEN": str(int(row.hidden)), "LAKEBED_FSYNC": str(int(row.durable))}
    os.sync()
    try:
        command = [python, "-m", f"benchmarks.peers.{row.program}", json.dumps(task)]
        found: dict[str, dict[str, float]] = json.loads(
            measure.run(command, variables=variables).output.splitlines()[-1]
        )
        return found
    finally:
        shutil.rmtree(out, ignore_errors=True)


def better(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Join two rounds: the lower of each figure."""
    if old is None:
        return new
    return {step: {name: min(value, old[step][name]) for name, value in new[step].items()} for step in new}


def compare(given: argparse.Namespace, chunks: int, folder: Path) -> Found:
    """Let all contestants take turns."""
    found: Found = {}
    rows = [row for row in CONTESTANTS if not given.only or row.name in given.only]
    for number in range(given.rounds):
        for row in rows[number % len(rows) :] + rows[: number % len(rows)]:
            try:
                found[row.name] = better(found.get(row.name), once(row, given, chunks, folder))
            except RuntimeError as error:
                print(
                    f"  without {row.name}, which failed: {str(error).strip().splitlines()[-1]}", flush=True
                )
    return {row.name: found[row.name] for row in rows if row.name in found}


def tables(found: Found) -> list[str]:
    """Return a table per step that anybody did: milliseconds, ratio to lakebed, files and kB written."""
    steps = list(dict.fromkeys(step for one in found.values() for step in one))
    lines = []
    for step in steps:
        ours = found.get("lakebed", {}).get(step)
        lines += [f"\n**{step}**\n", "|  | CPU ms | wall ms | wall / lakebed | files | kB |"]
        lines += ["|---|---:|---:|---:|---:|---:|"]
        for name, one in found.items():
            if step not in one:
                continue
            value = one[step]
            ratio = f"{value['wall'] / ours['wall']:.1f}" if ours else ""
            shown = f"**{name}**" if name == "lakebed" else name
            writes = (
                [f"{value['files']:.0f}", f"{value['kB']:,.1f}"]
                if "commit" in step or "branch" in step
                else ["", ""]
            )
            reads = step.startswith(("open", "log", "checkout"))
            lines.append(
                f"| {shown} | {value['cpu']:.2f} | {value['wall']:.2f} | {ratio} | "
                + " | ".join(["", ""] if reads else writes)
                + " |"
            )
    return lines


def write(found: dict[int, Found], given: argparse.Namespace) -> None:
    """Put the tables into RESULTS.md, at the end or in the place of those before."""
    lines = []
    machine = f"{os.cpu_count()} cores of {platform.machine()}, {platform.system()} {platform.release()}"
    when = f"{time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}"
    lines.append(
        f"`python -m benchmarks.versions`, {when} on {machine}, "
        f"in `{_shown(given.folder)}`. Best of {given.rounds} rounds of several repetitions each; "
        f"{given.tensors} tensors of int64, {ROWS_PER_CHUNK * 8 // 1000} kB a chunk. "
        "Nobody but lakebed with fsync waits for the disk. "
        "Lance has neither chunks nor empty commits: its commit appends a row; that of icechunk sets an attribute."
    )
    for chunks, one in found.items():
        lines += ["", f"### {given.tensors} tensors, {chunks:,} chunks", *tables(one)]
    put("benchmarks.versions", "Versions", lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="The cost of versions beside peers'.")
    parser.add_argument("--tensors", type=int, default=30)
    parser.add_argument("--chunks", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--commits", type=int, nargs="+", default=[1, 100, 1_000, 10_000])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=CACHE / "versions", help="where datasets are written")
    parser.add_argument("--only", action="append", choices=[row.name for row in CONTESTANTS])
    parser.add_argument("--quick", action="store_true", help="one round, at most 100 commits, nothing saved")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.repeats = 1, 5
        given.commits = [n for n in given.commits if n <= 100]
    os.chdir(ROOT)
    given.folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for chunks in given.chunks:
        print(f"\n{given.tensors} tensors, {chunks:,} chunks", flush=True)
        found[chunks] = compare(given, chunks, given.folder)
        print("\n".join(tables(found[chunks])), flush=True)
    if not given.quick:
        write(found, given)


if __name__ == "__main__":
    main()
