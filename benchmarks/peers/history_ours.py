"""lakebed: commits, branches, opening, publishing."""

from __future__ import annotations

import os

import numpy as np

import lakebed
from benchmarks.history import MERGED, ROWS_PER_CHUNK, Story, main

HIDDEN = os.environ.get("BENCH_HIDDEN") == "1"


def tell(story: Story) -> None:
    """Take a dataset through its history."""
    path = str(story.out / "wide")
    ds = lakebed.empty(path)
    with ds:
        for name in story.names:
            ds.create_tensor(
                name,
                dtype="int64",
                max_chunk_size=ROWS_PER_CHUNK * 16,
                create_id_tensor=HIDDEN,
                create_shape_tensor=HIDDEN,
            )
        ds.extend({name: np.arange(story.rows) for name in story.names})
    first = ds.commit("bulk")
    with ds:
        story.step("commit", lambda i: ds.commit(f"empty {i}", allow_empty=True))

        def change(number: int) -> None:
            ds[story.names[0]][number] = -1
            ds.commit(f"change {number}")

        story.step("change one sample, commit", change)
        story.step("branch", lambda i: ds.checkout(f"side {i}", create=True))
        ds.checkout("main")
    story.step("checkout", lambda i: ds.checkout(first if i % 2 else "main"))
    _many(story)
    if not HIDDEN:
        _merges(story)


def _many(story: Story) -> None:
    path = str(story.out / "long")
    ds = lakebed.empty(path)
    ds.create_tensor("n", dtype="int64", create_id_tensor=HIDDEN, create_shape_tensor=HIDDEN)
    done = 0
    for target in story.commits:
        with ds:
            while done < target:
                ds.n.append(done)
                ds.commit(f"commit {done}")
                done += 1
            story.step(f"commit at {target}", lambda i: (ds.n.append(i), ds.commit("more")), times=5)
            done += 5
        story.step(f"open at {target}", lambda _: lakebed.load(path, read_only=True), times=20)
        story.step(f"log at {target}", lambda _: lakebed.load(path, read_only=True).commits, times=3)


def _merges(story: Story) -> None:
    """Bring in branches of many new rows: by their ids, so with hidden tensors."""
    ds = lakebed.empty(str(story.out / "merged"))
    with ds:
        for name in ("a", "b"):
            ds.create_tensor(name, dtype="int64")
            ds[name].extend(np.arange(MERGED))
    ds.commit("start")

    def write(number: int) -> None:
        ds.checkout(f"side {number}", create=True)
        with ds:
            for name in ("a", "b"):
                ds[name].extend(np.arange(MERGED))
        ds.commit("new rows")
        ds.checkout("main")

    story.step(f"merge {MERGED:,} new rows", lambda i: ds.merge(f"side {i}"), before=write, times=3)


if __name__ == "__main__":
    main(tell)
