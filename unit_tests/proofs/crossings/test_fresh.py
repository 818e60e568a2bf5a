"""Programs of crossings in interpreters of their own, which have imported nothing before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from unit_tests import effort
from unit_tests.effort import EFFORT
from unit_tests.proofs.crossings.covering import Row
from unit_tests.proofs.crossings.program import SPACE, script

PROGRAMS = int(os.environ.get("LAKEBED_FRESH_PROGRAMS", EFFORT.fresh_programs))
"""How many programs run."""

CHUNK = 10 if PROGRAMS <= 1_000 else 100
FIRST = 2_000_000

# Constants are left as they are, since lowering them imports their modules.
FRESH = replace(SPACE, factors={**SPACE.factors, "size": ("few", "large", "long")})


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


@pytest.mark.parametrize("part", range((PROGRAMS + CHUNK - 1) // CHUNK))
def test_programs_run_in_fresh_interpreters(
    part: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    chosen = programs()[part * CHUNK :][:CHUNK]
    record_property(
        "proof", f"{len(chosen)} programs of crossings in fresh interpreters, from seed {chosen[0][1]} on"
    )
    failures = []
    for row, seed in chosen:
        text = script(row, seed)
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-W", "ignore:The tensors differ in length", "-"],
            input=text,
            capture_output=True,
            text=True,
            timeout=effort.PATIENCE,
            check=False,
            env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        if ended.returncode:
            failures.append(f"{text}\n\nexit status {ended.returncode}\n{ended.stderr}")
    assert not failures, f"{len(failures)} of {len(chosen)} programs:\n\n" + "\n\n".join(failures[:3])
