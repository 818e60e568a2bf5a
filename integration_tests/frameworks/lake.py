"""The dataset that the frameworks train on: small pictures of two classes, one dark and one bright."""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Callable
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import numpy as np

import lakebed

ROWS = 97


def make(path: Path, rows: int = ROWS) -> str:
    """Write the dataset and return its address."""
    ds = lakebed.empty(str(path))
    ds.create_tensor("images", htype="image", sample_compression="png")
    ds.create_tensor("labels", htype="class_label", class_names=["dark", "bright"])
    ds.create_tensor("texts", htype="text")
    ds.create_tensor("facts", htype="json")
    ds.create_tensor("boxes", htype="bbox")
    rng = np.random.default_rng(0)
    label = np.arange(rows) % 2
    ds.extend(
        {
            "images": [
                rng.integers(0, 100, (8, 8, 3), dtype=np.uint8) + 120 * bright
                for bright in label.astype(np.uint8)
            ],
            "labels": label.astype(np.uint32),
            "texts": [f"row {row}" for row in range(rows)],
            "facts": [{"row": row} for row in range(rows)],
            "boxes": [np.full((row % 3, 4), row, np.float32) for row in range(rows)],
        }
    )
    ds.commit("pictures")
    return str(path)


def together(work: Callable[..., Any], world: int, *given: Any) -> list[Any]:
    """Return what ``work(rank, world, *given)`` returns in processes that train together, by rank."""
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    processes = [
        context.Process(target=_one, args=(work, rank, world, given, found)) for rank in range(world)
    ]
    for process in processes:
        process.start()
    parts = dict(found.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return [parts[rank] for rank in range(world)]


def free_port() -> int:
    """Return a port of this machine on which nothing listens."""
    with socket.create_server(("localhost", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _one(work: Callable[..., Any], rank: int, world: int, given: tuple[Any, ...], found: Queue[Any]) -> None:
    found.put((rank, work(rank, world, *given)))


def check_shares(parts: list[list[int]], rows: int = ROWS) -> None:
    """The processes have all rows together, equally many each, and no more of them twice than makes them even."""
    every = [row for part in parts for row in part]
    assert set(every) == set(range(rows))
    assert len({len(part) for part in parts}) == 1
    assert len(every) - rows < len(parts)


def ready(sample: Any) -> dict[str, Any]:
    """Make pixels and classes of a sample; a function of a module, so that other processes find it."""
    return {"pixels": (sample["images"].astype(np.float32) - 110) / 60, "labels": int(sample["labels"][0])}


def same(sample: Any) -> Any:
    """Return the sample."""
    return sample


def broken(sample: Any) -> Any:
    """Fail at one row."""
    if sample["labels"].size and sample["index"][0] == 40:
        raise RuntimeError("row 40 is broken")
    return sample
