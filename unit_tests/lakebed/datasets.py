"""Datasets over chosen storages, and ways to end a writer without its farewell."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import lakebed
from lakebed.session.handle import Handle
from lakebed.session.process.open_sessions import sessions_at
from lakebed.session.session import Session
from lakebed.storage.base import Storage
from lakebed.storage.memory import MemoryStorage, open_memory
from lakebed.versions.create import create

_NUMBER = itertools.count()


def open_on(storage: Storage, ref: str | None = None, *, read_only: bool = False) -> lakebed.Dataset:
    """Open the dataset in a storage, as `load` does for an address."""
    return lakebed.Dataset(Handle(Session(storage, ref, read_only=read_only)))


def create_on(storage: Storage) -> lakebed.Dataset:
    """Make an empty dataset in a storage, as `empty` does at an address."""
    create(storage)
    return open_on(storage)


def new_memory() -> MemoryStorage:
    """A named memory storage that nobody else has."""
    return open_memory(f"test-{next(_NUMBER)}")


def copy_of(storage: Storage) -> MemoryStorage:
    """A storage with the same objects under another name, without the writers' lock files."""
    copied = new_memory()
    for key, _ in storage.list():
        copied.put(key, storage.get(key))
    return copied


def objects(storage: Storage) -> dict[str, bytes]:
    """Every object but the lock files, by key."""
    return {key: storage.get(key) for key, _ in storage.list() if not key.endswith(".lock")}


def kill(storage: Storage) -> None:
    """End all writers of a storage as SIGKILL would: nothing more is published, and their locks are freed."""
    for session in sessions_at(storage):
        session.abandon()


def content(ds: lakebed.Dataset) -> dict[str, Any]:
    """Everything a reader sees: infos, rows of every tensor (hidden ones too), commits."""
    schema = ds._session.schema()
    tensors = {}
    for name in schema.names(hidden=True):
        values = [v.tolist() if isinstance(v, np.ndarray) else v for v in ds[name].values()]
        tensors[name] = (ds[name].htype, values, dict(ds[name].info))
    commits = [(c["commit"], c["message"]) for c in ds.commits]
    return {"info": dict(ds.info), "tensors": tensors, "groups": sorted(ds.meta.groups), "commits": commits}


def visible(ds: lakebed.Dataset) -> dict[str, Any]:
    """What of the content can be compared between datasets: no random ids."""
    seen = content(ds)
    seen["tensors"] = {name: value for name, value in seen["tensors"].items() if not name.endswith("_id")}
    seen["commits"] = [message for _, message in seen["commits"]]
    return seen
