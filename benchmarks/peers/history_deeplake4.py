"""Deep Lake 4: commits of another format; it does not wait for the disk."""

from __future__ import annotations

from typing import Any

import deeplake
import numpy as np
from deeplake import types

from benchmarks.history import Story, main


def tell(story: Story) -> None:
    """Take a dataset through its history."""
    path = str(story.out / "wide")
    ds = deeplake.create(path)
    for name in story.names:
        ds.add_column(name, types.Int64())
    ds.append({name: np.arange(story.rows) for name in story.names})
    ds.commit("bulk")
    first = ds.version
    one = {name: np.arange(1) for name in story.names}

    def append(number: int) -> None:
        ds.append(one)
        ds.commit(f"row {number}")

    def change(number: int) -> None:
        ds[story.names[0]][number] = -1
        ds.commit(f"change {number}")

    story.step("append a row, commit", append)
    story.step("change one sample, commit", change)
    story.step("branch", lambda i: ds.branch(f"side{i}"))
    story.step("checkout", lambda i: _version(ds, first) if i % 2 else deeplake.open_read_only(path))
    _many(story)


def _version(ds: Any, name: str) -> Any:
    return ds.history[name].open()


def _many(story: Story) -> None:
    ds = deeplake.create(str(story.out / "long"))
    ds.add_column("n", types.Int64())
    done = 0

    def more(number: int) -> None:
        ds.append({"n": np.array([number])})
        ds.commit("more")

    for target in story.commits:
        while done < target:
            more(done)
            done += 1
        story.step(f"commit at {target}", more, times=5)
        done += 5
        story.step(f"open at {target}", lambda _: deeplake.open_read_only(str(story.out / "long")), times=20)
        story.step(f"log at {target}", lambda _: len(list(ds.history)), times=3)


if __name__ == "__main__":
    main(tell)
