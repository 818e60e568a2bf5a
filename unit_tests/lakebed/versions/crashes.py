"""Run an operation on a copy of a dataset and let the process end after the n-th change of storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from lakebed.dataset.dataset import Dataset
from lakebed.dataset.session import Handle, Session, _sessions
from lakebed.storage.base import Storage
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import Crash, FaultyStorage

Operation = Callable[[Dataset], None]


def open_on(storage: Storage, ref: str | None = None) -> Dataset:
    """Open the dataset of a storage, bypassing the registry of addresses."""
    return Dataset(Handle(Session(storage, ref)))


def end_process(ds: Dataset) -> None:
    """Forget a dataset, and what was opened from it, as the end of its process would: nothing more is published."""
    for session in list(_sessions.get(ds.path, ())):
        session._draft = session._unpublished.draft = None
        if session._lock is not None:
            session._lock.release()
            session._lock = None


def copy_of(storage: MemoryStorage, name: str) -> MemoryStorage:
    """Return an independent storage with the same objects."""
    copied = MemoryStorage(name)
    for key, _ in storage.list(""):
        copied.put(key, storage.get(key))
    return copied


def every_crash(
    base: MemoryStorage, operation: Operation, name: str
) -> Iterator[tuple[int, MemoryStorage, bool]]:
    """Yield (changes made, storage left behind, whether the operation was complete) for every prefix of its changes."""
    for changes in range(10_000):
        storage = copy_of(base, f"{name}-{changes}")
        faulty = FaultyStorage(storage, changes)
        ds = open_on(faulty)
        complete = True
        try:
            operation(ds)
        except Crash:
            complete = False
        end_process(ds)
        yield changes, storage, complete
        if complete:
            return


def content(ds: Dataset) -> dict[str, Any]:
    """Return everything a reader sees of one version: rows, info and schema."""
    return {
        "columns": {name: [plain(v) for v in tensor.values()] for name, tensor in ds.tensors.items()},
        "info": dict(ds.info),
        "class_names": {n: t.info.get("class_names") for n, t in ds.tensors.items()},
    }


def history(storage: Storage) -> dict[str, Any]:
    """Return everything a reader sees of a dataset: each branch and each commit."""
    ds = open_on(storage)
    branches = {name: content(open_on(storage, name)) for name in sorted(ds.branches)}
    commits = {
        (c["message"], branch): content(open_on(storage, c["commit"]))
        for branch in sorted(ds.branches)
        for c in open_on(storage, branch).commits
    }
    return {"branches": branches, "commits": commits}


def plain(value: Any) -> Any:
    """Return a sample that compares by value."""
    return (value.dtype.name, value.shape, value.tolist()) if hasattr(value, "dtype") else value
