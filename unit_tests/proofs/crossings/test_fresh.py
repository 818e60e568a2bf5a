"""Programs of crossings in interpreters of their own, which have imported nothing of lakebed before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from unit_tests import effort
from unit_tests.effort import EFFORT
from unit_tests.forks import Forks
from unit_tests.proofs.crossings.covering import Row
from unit_tests.proofs.crossings.program import SPACE, script

PROGRAMS = int(os.environ.get("LAKEBED_FRESH_PROGRAMS", EFFORT.fresh_programs))
"""How many programs run."""

CHUNK = 10 if PROGRAMS <= 1_000 else 100
FIRST = 2_000_000

# Constants are left as they are, since lowering them imports their modules.
FRESH = replace(SPACE, factors={**SPACE.factors, "size": ("few", "large", "long")})

TABLES = {
    *("arrow", "chunked", "pandas", "polars", "from rows", "new column"),
    *("import csv", "import jsonl", "import parquet", "import frame"),
    *("to_pandas", "to_polars", "to_duckdb", "scanner", "csv", "taken_over"),
    *("texts", "groups", "grouped", "joined", "chosen", "handed_out", "counted"),
}
"""Levels of ways in and out whose programs make Arrow's arrays from Python's values: PyArrow imports pandas for it."""


@cache
def programs() -> list[tuple[Row, int]]:
    """Rows and seeds: first rows that have each level of each factor, then rows drawn by chance."""
    seed = effort.seed()
    rows = FRESH.cover_levels(seed)
    first = FIRST * seed
    return [
        (rows[number] if number < len(rows) else FRESH.draw(first + number), first + number)
        for number in range(PROGRAMS)
    ]


@pytest.fixture(scope="module")
def interpreters() -> Iterator[tuple[Forks, Forks]]:
    """Processes that fork: one has imported of other packages what `import lakebed` itself does, one pandas as well."""
    options = ("-W", "error", "-W", "ignore:The tensors differ in length")
    with Forks("import numpy", *options) as bare, Forks("import numpy, pandas", *options) as tables:
        yield bare, tables


@pytest.mark.parametrize("part", range((PROGRAMS + CHUNK - 1) // CHUNK))
def test_programs_run_in_fresh_interpreters(
    part: int,
    tmp_path: Path,
    interpreters: tuple[Forks, Forks],
    record_property: Callable[[str, object], None],
) -> None:
    chosen = programs()[part * CHUNK :][:CHUNK]
    record_property(
        "proof", f"{len(chosen)} programs of crossings in fresh interpreters, from seed {chosen[0][1]} on"
    )
    environment = {"TMPDIR": str(tmp_path)}
    failures = []
    for row, seed in chosen:
        text, interpreter = script(row, seed), interpreters[not TABLES.isdisjoint(row.values())]
        failure = interpreter.run(f"assert 'lakebed' not in sys.modules\n{text}", tmp_path, environment)
        if failure is not None:
            failures.append(f"{text}\n\n{failure}")
    assert not failures, f"{len(failures)} of {len(chosen)} programs:\n\n" + "\n\n".join(failures[:3])
