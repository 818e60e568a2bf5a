"""Imports beside their limits: `LAKEBED_COCO=FOLDER python -m benchmarks.imports`; writes its part of RESULTS.md.

FOLDER is a small COCO data set, of which `importing.py` makes larger ones. Every pass is a fresh process; contestants
take turns in rounds, and medians of CPU seconds count: user and system time of all threads, without start-up and
imports. The programs are `peers/import_*.py`. Of `tar` all of the process counts, as it starts in no time.

    coco      limit: read all files, parse the annotations by `json`, write as many bytes in files of the size of chunks
    folder    limit: `tar cf`, into memory as the import
    table     limit: pyarrow reads the Parquet file and writes it again
    memory    peak of the process, and at twice the size
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import measure
from benchmarks.format import SILENT
from benchmarks.importing import KINDS, Task, make_coco, make_folder, make_table
from benchmarks.inputs import CACHE, ROOT
from benchmarks.results import put
from benchmarks.table import machine

DATA = CACHE / "imports"
MEMORY = Path("/dev/shm")
DEEPLAKE3 = ROOT / ".cache/venvs/deeplake3/bin/python"

Found = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Contestant:
    """A program of `peers`, or tar; ``source`` and ``rows`` if it is given others than the workload says.

    ``workers`` is how many threads import; None is what `import_from` takes by itself.
    """

    name: str
    program: str
    source: str = ""
    rows: int = 0
    workers: int | None = None


@dataclass(frozen=True)
class Workload:
    """What is imported, by whom, and what is asked of us.

    Parameters
    ----------
    source, warm
        Names in the folder of the data.
    target
        Folder that is written to.
    bars
        What is told, what is to be reached (negative: at most so much), and how it follows from medians.
    """

    name: str
    what: str
    work: str
    source: str
    warm: str
    rows: int
    target: Path
    rows_of: tuple[Contestant, ...]
    bars: tuple[tuple[str, float, Callable[[Found], float]], ...]


PART = "part of 500 pictures"
ALONE = "lakebed, one worker as the limit"
WORKLOADS = (
    Workload(
        "coco",
        "5,000 pictures with 36,000 objects (polygons, crowds as RLE), key points and captions, onto the disk, waiting "
        f"for it; Deep Lake 3.9.52 and lakebed also a {PART} without crowds, on which 3.9.52 fails, and captions, "
        "which it does not take",
        "coco",
        "coco-5000",
        "coco-20",
        5_000,
        CACHE,
        (
            Contestant("lakebed", "ours"),
            Contestant(ALONE, "ours", workers=1),
            Contestant("limit", "limit"),
            Contestant(f"lakebed, {PART}", "ours", "coco-500-objects", 500),
            Contestant(f"Deep Lake 3.9.52, {PART}", "deeplake3", "coco-500-objects", 500),
        ),
        (
            ("speed of the limit, one worker", 0.7, lambda f: f["limit"]["cpu"] / f[ALONE]["cpu"]),
            ("speed of the limit, wall time", 0.7, lambda f: f["limit"]["wall"] / f["lakebed"]["wall"]),
            (
                "speed of Deep Lake 3.9.52",
                5.0,
                lambda f: f[f"Deep Lake 3.9.52, {PART}"]["cpu"] / f[f"lakebed, {PART}"]["cpu"],
            ),
        ),
    ),
    Workload(
        "folder",
        "20,000 JPEG files in a hundred folders, into memory (/dev/shm)",
        "folder",
        "folder-20000",
        "folder-20",
        20_000,
        MEMORY,
        (Contestant("lakebed", "ours"), Contestant("tar", "tar")),
        (("CPU seconds of tar", -1.5, lambda f: f["lakebed"]["cpu"] / f["tar"]["cpu"]),),
    ),
    Workload(
        "table",
        "Parquet of 1,000,000 rows: integers, floats, texts with nulls, times, lists; onto the disk, waiting for it",
        "parquet",
        "table-1000000.parquet",
        "table-100.parquet",
        1_000_000,
        CACHE,
        (Contestant("lakebed", "ours"), Contestant("pyarrow", "limit")),
        (("speed of pyarrow", 0.5, lambda f: f["pyarrow"]["cpu"] / f["lakebed"]["cpu"]),),
    ),
)
TWICE = {
    "coco": ("coco-10000", 10_000),
    "folder": ("folder-40000", 40_000),
    "table": ("table-2000000.parquet", 2_000_000),
}
MOST_MEMORY = 400


def made(coco: Path, name: str) -> Path:
    """Return a source, which is made if it is not there."""
    path = DATA / name
    if path.exists():
        return path
    print(f"making {name}", flush=True)
    count = int("".join(letter for letter in name if letter.isdigit()))
    partial = DATA / f"partial-{name}"
    shutil.rmtree(partial, ignore_errors=True)
    if name.endswith("-objects"):
        make_coco(coco, partial, count, 36 * count // 5, KINDS[:2], crowds=False)
    elif name.startswith("coco"):
        make_coco(coco, partial, count, 36 * count // 5)
    elif name.startswith("folder"):
        make_folder(coco, partial, count)
    else:
        make_table(partial, count)
    partial.rename(path)
    return path


def _files(source: Path) -> list[Path]:
    return [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else [source]


def _own_memory(path: Path, size: int) -> None:
    """Write a file of a size and delete it, so that each contestant finds as much memory that the machine has.

    A virtual machine gives free memory back to its host within seconds. To get it again costs as much as the copy
    into it: who came after a long pass paid for it, and who came after one that had just deleted as much did not.
    """
    block = bytes(1 << 20)
    with path.open("wb", buffering=0) as file:
        for _ in range(size // len(block) + 1):
            file.write(block)
        os.fsync(file.fileno())
    path.unlink()
    os.sync()


def do(workload: Workload, row: Contestant, coco: Path, folder: Path) -> dict[str, float]:
    """Let a contestant import once, in a fresh process; the figures are CPU and wall seconds, and MB at the peak."""
    source = made(coco, row.source or workload.source)
    store = folder / row.program
    _own_memory(folder / "memory", sum(path.stat().st_size for path in _files(source)))
    if row.program == "tar":
        cost = measure.run(["tar", "cf", store, "-C", source.parent, source.name])
        found = {"wall": cost.wall_seconds, "cpu": cost.cpu_seconds}
    else:
        warm = made(coco, "coco-20-objects" if row.source.endswith("-objects") else workload.warm)
        task = Task(workload.work, str(source), str(store), str(warm), row.rows or workload.rows, row.workers)
        python = DEEPLAKE3 if row.program == "deeplake3" else sys.executable
        command = [python, "-m", f"benchmarks.peers.import_{row.program}", json.dumps(task.__dict__)]
        cost = measure.run(command, variables=SILENT)
        found = json.loads(cost.output.splitlines()[-1])
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return {**found, "peak": cost.peak_bytes / 1e6}


def measured(workload: Workload, coco: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return medians by contestant."""
    several: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="imports-", dir=workload.target) as folder:
        for turn in range(rounds):
            at = turn % len(workload.rows_of)
            for row in (*workload.rows_of[at:], *workload.rows_of[:at]):
                if row.program == "deeplake3" and not DEEPLAKE3.exists():
                    continue
                figures = do(workload, row, coco, Path(folder))
                print(
                    f"  {row.name}: {figures['cpu']:.2f} s of CPU, {figures['wall']:.2f} s, {figures['peak']:.0f} MB",
                    flush=True,
                )
                several.setdefault(row.name, []).append(figures)
    return {
        name: {figure: statistics.median(one[figure] for one in all_) for figure in all_[0]}
        for name, all_ in several.items()
    }


def at_twice(workload: Workload, coco: Path) -> float:
    """Return the MB at the peak of an import of twice the size."""
    name, rows = TWICE[workload.name]
    with tempfile.TemporaryDirectory(prefix="imports-", dir=CACHE) as folder:
        return do(workload, Contestant("lakebed", "ours", name, rows), coco, Path(folder))["peak"]


def markdown(workload: Workload, found: Found, twice: float | None) -> list[str]:
    """Return a workload's part of RESULTS.md."""
    lines = [
        f"**{workload.name}**: {workload.what}.",
        "",
        "| | CPU s | wall s | peak MB |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {one['cpu']:.2f} | {one['wall']:.2f} | {one['peak']:.0f} |"
        for name, one in found.items()
    ]
    lines.append("")
    for what, bar, ratio in workload.bars:
        try:
            value = ratio(found)
        except KeyError:
            lines.append(f"* {what}: not measured")
            continue
        reached = value >= bar if bar > 0 else value <= -bar
        sign = ">=" if bar > 0 else "<="
        lines.append(
            f"* {what}: {value:.2f}, bar {sign} {abs(bar)}: {'reached' if reached else '**MISSED**'}"
        )
    if twice is not None:
        most = max(twice, found["lakebed"]["peak"])
        verdict = "reached" if most <= MOST_MEMORY else "**MISSED**"
        told = f"{found['lakebed']['peak']:.0f}, and {twice:.0f} at twice the size"
        lines.append(f"* MB at the peak, {told}, bar <= {MOST_MEMORY}: {verdict}")
    return [*lines, ""]


def main() -> None:
    """Run, print, and write the results down."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=[workload.name for workload in WORKLOADS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-memory", action="store_true", help="leave out the imports of twice the size")
    options = parser.parse_args()
    given = os.environ.get("LAKEBED_COCO")
    if not given:
        raise SystemExit(
            "LAKEBED_COCO names a folder with COCO pictures and annotations; see the module's docstring"
        )
    coco = Path(given).resolve()
    DATA.mkdir(parents=True, exist_ok=True)
    text: list[str] = []
    for workload in WORKLOADS:
        if options.only in (None, workload.name):
            print(f"{workload.name}: {workload.what}", flush=True)
            found = measured(workload, coco, options.rounds)
            lines = markdown(workload, found, None if options.no_memory else at_twice(workload, coco))
            print("\n".join(lines), flush=True)
            text += lines
    if options.only is None and not options.no_memory:
        load = os.getloadavg()[0]
        where = f"Machine: {machine(CACHE)}; load at the end {load:.1f}; medians of {options.rounds} rounds."
        put(
            "benchmarks.imports",
            "Imports",
            ["`LAKEBED_COCO=FOLDER python -m benchmarks.imports`.", "", where, "", *text],
        )


if __name__ == "__main__":
    main()
