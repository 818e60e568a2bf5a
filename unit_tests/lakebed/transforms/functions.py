"""Functions that tests transform with; worker processes import them from here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

import lakebed


@lakebed.compute
def pair(item: Any, out: Any, factor: int = 1) -> None:
    """One row an item."""
    out.append({"a": item * factor, "b": f"item {item}"})


@lakebed.compute
def copies(item: Any, out: Any) -> None:
    """As many rows as the item says."""
    for i in range(item):
        out.a.append(item)
        out.b.append(f"{item}.{i}")


@lakebed.compute
def fails_at(item: Any, out: Any, bad: Any) -> None:
    """One row an item, but for one that fails."""
    if item == bad:
        raise KeyError(f"no {item}")
    out.append({"a": item, "b": "good"})


@lakebed.compute
def unencodable_at(item: Any, out: Any, bad: Any) -> None:
    """One row an item, of which one does not fit its tensor."""
    out.append({"a": "text" if item == bad else item, "b": "good"})


@lakebed.compute
def dies_at(item: Any, out: Any, bad: Any, flag: str, times: int) -> None:
    """One row an item; one of them kills its process, so many times."""
    if item == bad:
        deaths = Path(flag)
        before = len(deaths.read_text()) if deaths.exists() else 0
        if before < times:
            deaths.write_text("x" * (before + 1))
            os.kill(os.getpid(), signal.SIGKILL)
    out.append({"a": item, "b": "good"})


@lakebed.compute
def images(item: int, out: Any) -> None:
    """Photos of varying width."""
    rng = np.random.default_rng(item)
    out.images.append(rng.integers(0, 255, (40, 30 + item % 7, 3), np.uint8))
    out.labels.append(("cat", "dog", "emu")[item % 3] if item % 5 else "zebra")


@lakebed.compute
def plus_one(row: Any, out: Any) -> None:
    """A row of a dataset, with more in a tensor."""
    out.a.append(row.a.numpy() + 1)
    out.b.append(row.b.numpy())


@lakebed.compute
def slow(item: Any, out: Any, seconds: float) -> None:
    """One row an item, which takes a while."""
    time.sleep(seconds)
    out.append({"a": item, "b": "slow"})


@lakebed.compute
def process_of(item: Any, out: Any) -> None:
    """The process that did an item."""
    out.append({"a": os.getpid(), "b": str(item)})


class Unpicklable(Exception):
    """An error that does not come back from its arguments."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


@lakebed.compute
def raises_unpicklable(item: Any, out: Any) -> None:
    """Fails with an error that cannot be sent as it is."""
    raise Unpicklable(1, 2)


def squares(batch: Any) -> dict[str, Any]:
    """Columns of a batch."""
    return {"a": np.asarray(batch) ** 2, "b": [str(v) for v in batch]}


def doubled(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a dataset as a dictionary."""
    return {"a": row["a"] * 2, "b": row["b"]}
