"""Indexes of vectors beside peers: `python -m benchmarks.indexes`; writes its part of RESULTS.md.

Each contestant makes its index in a process of its own, and answers in another one, on one thread. usearch alone, with
one graph of floats over all vectors, is the bar. Memory is what a process holds beside mapped files.
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

from benchmarks import measure
from benchmarks.format import SILENT, environment
from benchmarks.inputs import CACHE, ROOT
from benchmarks.nearest import NEAREST
from benchmarks.results import put

CLUSTERS = 2_000
LATENT = 64
"""Directions in which vectors differ most, as embeddings do; the rest is noise."""

ASKED = 200
_BLOCK = 1 << 13


class Contestant(NamedTuple):
    """Who, which program, and the numbers of its graph; None is what it has by default."""

    name: str
    program: str
    graph: str | None = None


LIMIT = Contestant("usearch alone, float32", "nearest_usearch", "f32")
CONTESTANTS = (
    LIMIT,
    Contestant("lakebed", "nearest_ours"),
    Contestant("lakebed, float32", "nearest_ours", "f32"),
    Contestant("usearch alone, int8", "nearest_usearch", "i8"),
    Contestant("Lance IVF_HNSW_SQ", "nearest_lance"),
)


def make_data(folder: Path, rows: int, width: int) -> None:
    """Write vectors, vectors that are looked for, and the rows that are nearest to these."""
    rng = np.random.default_rng(7)
    middles = rng.standard_normal((CLUSTERS, LATENT), np.float32)
    directions = rng.standard_normal((LATENT, width), np.float32) / np.float32(np.sqrt(LATENT))

    def some(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        latent = middles[rng.integers(0, CLUSTERS, count)]
        latent = latent + np.float32(0.6) * rng.standard_normal((count, LATENT), np.float32)
        found: np.ndarray[Any, np.dtype[np.float32]] = latent @ directions
        return found + np.float32(0.1) * rng.standard_normal((count, width), np.float32)

    queries = some(ASKED)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (rows, width))
    near, numbers = np.zeros((ASKED, 0), np.float32), np.zeros((ASKED, 0), np.int64)
    for start in range(0, rows, _BLOCK):
        block = some(min(_BLOCK, rows - start))
        vectors[start : start + len(block)] = block
        values = queries @ (block / np.linalg.norm(block, axis=1, keepdims=True)).T
        near = np.concatenate([near, values], axis=1)
        own = np.broadcast_to(np.arange(start, start + len(block)), values.shape)
        numbers = np.concatenate([numbers, own], axis=1)
        best = np.argsort(-near, axis=1)[:, :NEAREST]
        near, numbers = np.take_along_axis(near, best, 1), np.take_along_axis(numbers, best, 1)
    vectors.flush()
    np.save(folder / "queries.npy", queries)
    np.save(folder / "nearest.npy", numbers)


def do(row: Contestant, work: str, folder: Path, repeats: int) -> dict[str, Any]:
    """Let a contestant do one thing, in a fresh process.

    Raises
    ------
    RuntimeError
        If it fails.
    """
    store = folder / f"{row.program}-{row.graph}"
    store.mkdir(exist_ok=True)
    task = {"work": work, "data": str(folder), "store": str(store), "repeats": repeats}
    is_lance = row.program == "nearest_lance"
    python = environment("lance", ["pylance", "numpy"]) if is_lance else sys.executable
    command = [python, "-m", f"benchmarks.peers.{row.program}", json.dumps(task)]
    output = measure.run(command, variables={**SILENT, "GRAPH": row.graph or ""}).output
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def compare(rows: list[Contestant], count: int, width: int, folder: Path, repeats: int) -> list[str]:
    """Return what each took for so many vectors, as lines of a table."""
    make_data(folder, count, width)
    right = np.load(folder / "nearest.npy").tolist()
    built: dict[str, dict[str, Any]] = {}
    asked: dict[str, dict[str, Any]] = {}
    for row in rows:
        try:
            built[row.name] = do(row, "build", folder, 0)
        except RuntimeError as error:
            print(f"without {row.name}, which failed: {str(error).strip().splitlines()[-1]}", flush=True)
            continue
        print(f"{row.name} has made its index of {count:,} x {width}", flush=True)
    for _ in range(2):  # in turns, as a machine is not the same all the time
        for name in built:
            row = next(row for row in rows if row.name == name)
            one = do(row, "ask", folder, repeats)
            asked[name] = min(one, asked.get(name, one), key=lambda found: found["cpu"])
    lines = []
    for name, one in built.items():
        cpu, found = asked[name]["cpu"], asked[name]["found"]
        recall = np.mean([len(set(f) & set(r)) / NEAREST for f, r in zip(found, right, strict=True)])
        ratio = f"{asked[LIMIT.name]['cpu'] / cpu:.2f}" if LIMIT.name in asked else ""
        lines.append(
            f"| {count:,} x {width} | {name} | {one['cpu']:.0f} | {one['peak'] / 1e6:.0f} | {one['size'] / 1e6:.0f} "
            f"| {recall:.3f} | {cpu * 1e3:.2f} | {ratio} |"
        )
    return lines


def main() -> None:
    """Write, measure, print, save."""
    parser = argparse.ArgumentParser(description="Indexes of vectors beside peers.")
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=CACHE / "indexes", help="where datasets are written")
    parser.add_argument("--only", action="append", choices=[row.name for row in CONTESTANTS])
    parser.add_argument("--unsaved", action="store_true", help="leave RESULTS.md as it is")
    given = parser.parse_args()
    os.chdir(ROOT)
    given.folder.mkdir(parents=True, exist_ok=True)
    rows = [row for row in CONTESTANTS if not given.only or row.name in given.only]
    lines = [
        "| vectors | | CPU s to make | MB held | MB on disk | recall of ten | CPU ms a query | rate of the bar |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for count in given.rows:
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=given.folder))
        try:
            lines += compare(rows, count, given.width, folder, given.repeats)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(lines), flush=True)
    if not (given.unsaved or given.only):
        about = (
            f"Measured on {platform.processor() or platform.machine()}, {os.cpu_count()} CPUs, Python "
            f"{platform.python_version()}; the bar is usearch alone with one graph of floats, `expansion_search` 64."
        )
        put("benchmarks.indexes", "Indexes of vectors", [about, "", *lines])


if __name__ == "__main__":
    main()
