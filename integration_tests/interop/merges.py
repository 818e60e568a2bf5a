"""Work on branches and merge them, under Deep Lake 3.9.52 or under lakebed: merges.py LIBRARY COMMAND PATH...

    create PATH                   rows of many kinds, committed
    work   PATH BRANCH TURN       add rows that tell the turn, change one old row, commit; makes the branch if need be
    merge  PATH INTO FROM         merge FROM into INTO

Run by the interpreter of either environment: NumPy and the standard library are all that is there besides.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

ROWS = 8
"""Rows at the beginning; turn n changes row n."""

deeplake: Any = importlib.import_module(sys.argv[1])


def row(turn: int, number: int) -> dict[str, Any]:
    """One row that no other turn makes."""
    mark = 100 * turn + number
    return {
        "n": np.int64(mark),
        "ragged": np.full((mark % 4, 2), mark, "float32"),
        "t": f"row {mark}",
        "j": {"mark": mark},
        "label": f"class {turn}",
        "g/im": np.full((4 + number, 5, 3), mark % 256, "uint8"),
        "lz": np.full((3,), mark, "uint16"),
        "big": np.full((40_000,), mark % 251, "uint8"),  # chunks of these are worth naming instead of copying
        "s": [np.full((2,), mark, "int32")] * (mark % 3),
    }


def create(path: str) -> None:
    """Make the dataset."""
    dataset = deeplake.empty(path)
    with dataset:
        dataset.create_tensor("n", dtype="int64")
        dataset.create_tensor("ragged", dtype="float32")
        dataset.create_tensor("t", htype="text")
        dataset.create_tensor("j", htype="json", sample_compression="lz4")
        # All names at once: 3.9.52 forgets to store those that its merge adds.
        names = [f"class {turn}" for turn in range(ROWS)]
        dataset.create_tensor("label", htype="class_label", class_names=names)
        dataset.create_tensor("g/im", htype="image", sample_compression="png")
        dataset.create_tensor("lz", dtype="uint16", chunk_compression="lz4")
        dataset.create_tensor("big", dtype="uint8")
        dataset.create_tensor("s", htype="sequence", dtype="int32")
        for number in range(ROWS):
            dataset.append(row(0, number))
    dataset.commit("start")


def work(path: str, branch: str, turn: str) -> None:
    """Add two rows and change one."""
    dataset = deeplake.load(path, read_only=False)
    if dataset.branch != branch:
        dataset.checkout(branch, create=branch not in dataset.branches)
    number = int(turn)
    with dataset:
        for i in range(2):
            dataset.append(row(number, i))
        changed = row(number, 50)
        for name in ("n", "t", "lz", "g/im", "big"):
            dataset[name][number % ROWS] = changed[name]
    dataset.commit(f"turn {turn}")


def merge(path: str, into: str, other: str) -> None:
    """Merge a branch."""
    dataset = deeplake.load(path, read_only=False)
    if dataset.branch != into:
        dataset.checkout(into)
    # After a reload 3.9.52 takes rows that it has merged itself for rows that both lines changed.
    dataset.merge(other, conflict_resolution="ours" if sys.argv[1] == "deeplake" else None)


if __name__ == "__main__":
    command, *arguments = sys.argv[2:]
    commands: dict[str, Callable[..., None]] = {"create": create, "work": work, "merge": merge}
    commands[command](*arguments)
