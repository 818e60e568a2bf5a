"""Icechunk, with Zarr arrays: commits, branches, opening; it does not wait for the disk."""

from __future__ import annotations

from pathlib import Path

import icechunk
import numpy as np
import zarr

from benchmarks.history import ROWS_PER_CHUNK, Story, main


def _storage(path: Path) -> icechunk.Storage:
    return icechunk.local_filesystem_storage(str(path))


def tell(story: Story) -> None:
    """Take a repository through its history."""
    repo = icechunk.Repository.create(_storage(story.out / "wide"))
    session = repo.writable_session("main")
    group = zarr.group(session.store)
    for name in story.names:
        array = group.create_array(name, shape=(story.rows,), chunks=(ROWS_PER_CHUNK,), dtype="int64")
        array[:] = np.arange(story.rows)
    first = session.commit("bulk")

    def change(number: int) -> None:
        session = repo.writable_session("main")
        zarr.open_group(session.store)[story.names[0]][number] = -1
        session.commit(f"change {number}")

    def empty(number: int) -> None:
        session = repo.writable_session("main")
        zarr.open_group(session.store).attrs["n"] = number  # it commits nothing without a change
        session.commit(f"attribute {number}")

    story.step("commit", empty)
    story.step("change one sample, commit", change)
    story.step("branch", lambda i: repo.create_branch(f"side {i}", repo.lookup_branch("main")))
    story.step(
        "checkout",
        lambda i: zarr.open_group(
            (repo.readonly_session(snapshot_id=first) if i % 2 else repo.readonly_session("main")).store,
            mode="r",
        ),
    )
    _many(story)


def _many(story: Story) -> None:
    path = story.out / "long"
    repo = icechunk.Repository.create(_storage(path))
    session = repo.writable_session("main")
    zarr.group(session.store).create_array("n", shape=(100_000,), chunks=(1_000,), dtype="int64")
    session.commit("bulk")

    def one(number: int) -> None:
        session = repo.writable_session("main")
        zarr.open_group(session.store)["n"][number % 100_000] = number
        session.commit(f"commit {number}")

    def opened() -> icechunk.Repository:
        repo = icechunk.Repository.open(_storage(path))
        zarr.open_group(repo.readonly_session("main").store, mode="r")
        return repo

    done = 0
    for target in story.commits:
        while done < target:
            one(done)
            done += 1
        story.step(f"commit at {target}", one, times=5)
        done += 5
        story.step(f"open at {target}", lambda _: opened(), times=20)
        story.step(f"log at {target}", lambda _: list(opened().ancestry(branch="main")), times=3)


if __name__ == "__main__":
    main(tell)
