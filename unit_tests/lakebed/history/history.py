"""A dataset with a history of known times, and what tests ask of it."""

from __future__ import annotations

from pathlib import Path

import lakebed
from lakebed.runtime import clock
from lakebed.testing.clock import VirtualClock

HOUR = 3600.0
START = 1_000_000.0


def three_commits(path: Path) -> str:
    """Make three commits an hour apart, with as many rows, and an uncommitted fourth row; return the address."""
    with clock.replaced(VirtualClock(start=START)), lakebed.empty(path) as ds:
        ds.create_tensor("x", create_shape_tensor=False, create_id_tensor=False)
        for i in range(3):
            ds.x.append(i)
            ds.commit(f"commit {i}")
            clock.sleep(HOUR)
        ds.x.append(3)
    return str(path)


def ids(url: str) -> list[str]:
    """Return the commits of the main line, oldest first."""
    return [entry["commit"] for entry in lakebed.load(url, read_only=True).commits][::-1]


def rows(ds: lakebed.Dataset) -> int:
    """Count the rows."""
    return len(ds.x)
