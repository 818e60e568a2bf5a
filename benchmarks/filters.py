"""Filters over a million rows: `ds.query` beside DuckDB over the same dataset, in CPU time of one process.

``python -m benchmarks.filters``. Both hand out all values of the rows that they find: as a table of Arrow, and DuckDB's
few rows as Python objects. The last column is DuckDB's own share: the same query on the found rows in memory.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

import lakebed
from benchmarks.results import put

ROWS = 1_000_000
IDS = (5, 777_777, 123_456, 999_999, 500_000)
QUESTIONS = {
    "5 rows by id, all columns": f"SELECT * {{}} WHERE id IN {IDS}",
    "7 % of the rows, two columns": "SELECT id, x {} WHERE x > 1.5",
}


def made(path: Path) -> lakebed.Dataset:
    """Write a million rows of numbers, labels and texts."""
    rng = np.random.default_rng(0)
    ds = lakebed.empty(str(path))
    ds.create_tensor("id", dtype="int64")
    ds.create_tensor("x", dtype="float64")
    ds.create_tensor("label", htype="class_label", class_names=[f"class {i}" for i in range(20)])
    ds.create_tensor("text", htype="text")
    with ds:
        ds.extend(
            {
                "id": np.arange(ROWS),
                "x": rng.normal(size=ROWS),
                "label": rng.integers(0, 20, ROWS).astype(np.uint32),
                "text": [f"row {i}" for i in range(ROWS)],
            }
        )
    ds.update_statistics()
    return lakebed.load(ds.path, read_only=True)


def milliseconds(call: Callable[[], object], runs: int = 60) -> float:
    """Return the CPU time of the fastest of some calls."""
    found = []
    for _ in range(runs):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found) * 1e3


def main() -> None:
    """Measure, print, save."""
    about = (
        f"`python -m benchmarks.filters`, load {os.getloadavg()[0]:.1f}. {ROWS:,} rows of int64, float64, labels and "
        "texts on a disk; CPU time of the fastest of 60 calls, values included."
    )
    lines = [
        about,
        "",
        "| filter | `ds.query` | DuckDB | ratio (bar 1.3) | DuckDB, those rows from memory |",
        "|---|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        ds = made(Path(folder) / "ds")
        ds.to_duckdb(connection=connection).create_view("v")
        for name, text in QUESTIONS.items():
            found = ds.query(text.format("")).to_arrow()
            connection.register("memory", found)

            def ours(text: str = text) -> object:
                return ds.query(text.format("")).to_arrow()

            def theirs(table: str, text: str = text, is_few: bool = len(found) < 100) -> object:
                relation = connection.sql(text.format(f"FROM {table}"))
                return relation.fetchall() if is_few else relation.to_arrow_table()

            times = [
                milliseconds(ours),
                milliseconds(lambda: theirs("v")),
                milliseconds(lambda: theirs("memory")),
            ]
            one, two, floor = times
            lines.append(f"| {name} | {one:.1f} ms | {two:.1f} ms | **{two / one:.2f}** | {floor:.1f} ms |")
    print("\n".join(lines))
    put("benchmarks.filters", "Filters by DuckDB", lines)


if __name__ == "__main__":
    main()
