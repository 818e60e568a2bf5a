"""The datasets at and below an address: folders are walked, buckets are listed.

A dataset is one entry, which describes its main branch; if the main branch is empty, the entry describes the branch
with the newest commit. In a dataset filled by syncs, each branch that syncs have filled is an entry.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakebed.dataset.dataset import Dataset
from lakebed.dataset.open import open_at
from lakebed.errors import CorruptError, InvalidInputError, LakebedError
from lakebed.history.commits import commit_entry, last_commit
from lakebed.storage.url import Location, open_storage
from lakebed.versions.tree_file import TREE_KEY

_MAIN = "main"
_OF_SYNCS = "airbyte-"
"""Prefix of the names of branches on which a sync is still working."""

_UNKNOWN = "branch stream rows tensors branches branch_names commit time message".split()
"""Keys that are None for a dataset that cannot be opened."""

_SYNCED = "airbyte"
"""Key of ``Dataset.info`` under which a sync stores the names of the stream at its source."""


class Walk:
    """Progress of a walk through folders or the keys of a bucket.

    Attributes
    ----------
    looked : int
        Number of folders or keys that were read so far.
    refused : list of str
        Folders that cannot be read.
    """

    def __init__(self) -> None:
        self.looked = 0
        self.refused: list[str] = []

    def enter(self, where: str) -> None:
        """Count a folder or key."""
        self.looked += 1

    def refuse(self, error: OSError) -> None:
        """Record a folder that cannot be read."""
        self.refused.append(str(error.filename))


def datasets(place: Location, name: str, walk: Walk | None = None) -> Iterator[dict[str, Any]]:
    """Yield the datasets at an address and below it, see ``lakebed.ls``.

    Datasets that cannot be opened have an error in their entry.

    Parameters
    ----------
    name
        Name of a dataset at an address that cannot be listed.
    walk
        Counts the folders or keys that are read, and records folders that cannot be read.

    Raises
    ------
    InvalidInputError
        If the path is not a folder.
    """
    walk = Walk() if walk is None else walk
    if place.scheme in ("mem", "http", "https"):  # these stores cannot be listed
        yield from _branches(name, _opened(place))
    elif place.scheme == "file":
        yield from _in_folder(place, walk)
    else:
        yield from _in_bucket(place, walk)


def _opened(place: Location) -> Dataset:
    return Dataset(open_at(place, read_only=True))


def _in_folder(place: Location, walk: Walk) -> Iterator[dict[str, Any]]:
    root = place.path
    if not Path(root).is_dir():
        raise InvalidInputError(f"{root} is not a folder")
    for folder, below, files in os.walk(root, onerror=walk.refuse):
        walk.enter(folder)
        below[:] = sorted(d for d in below if not _is_inside(d))
        if TREE_KEY in files:
            yield from _entries(os.path.relpath(folder, root), replace(place, path=folder, ref=None))


def _in_bucket(place: Location, walk: Walk) -> Iterator[dict[str, Any]]:
    """Yield the datasets in a bucket from a list of all its keys, because an object store has no folders to walk."""
    folders = []
    for key, _ in open_storage(place).list(""):
        walk.enter(key)
        if f"/{key}".endswith(f"/{TREE_KEY}"):
            folders.append(key.removesuffix(TREE_KEY).rstrip("/"))
    for folder in sorted(folders):
        if not any(_is_inside(part) for part in folder.split("/")):
            below = replace(place, ref=None, path=f"{place.path.rstrip('/')}/{folder}".rstrip("/"))
            yield from _entries(folder or ".", below)


def _entries(path: str, place: Location) -> list[dict[str, Any]]:
    try:
        return list(_branches(path, _opened(place)))
    except LakebedError as error:
        return [_unreadable(path, error)]


def _branches(path: str, dataset: Dataset) -> Iterator[dict[str, Any]]:
    """Describe a dataset, and its other branches that syncs fill."""
    first = _entry(path, dataset)
    names = [name for name in dataset.branches if name != _MAIN and not name.startswith(_OF_SYNCS)]
    others: list[dict[str, Any]] = []
    if dataset.branch == _MAIN and names and (first["stream"] or not first["tensors"]):
        for name in names:
            dataset.checkout(name)
            others.append(_entry(path, dataset))
    filled = [entry for entry in others if entry["stream"]]
    written = [entry for entry in others if entry["tensors"]]
    if not first["tensors"] and not filled and written:
        # Times are texts in whole seconds; if two times are equal, the branch that was made later wins.
        yield max(reversed(written), key=lambda entry: str(entry["time"]))
        return
    if first["tensors"] or not filled:
        yield first
    yield from filled


def _is_inside(name: str) -> bool:
    """Return whether a folder is a part of the dataset that contains it: versions, side files or saved views."""
    return name == "versions" or name.startswith(".")


def _entry(path: str, ds: Dataset) -> dict[str, Any]:
    """Return the entry of ``lakebed.ls`` for the branch that is checked out."""
    session = ds._session  # noqa: SLF001 - the parts of one facade
    commit = last_commit(session.tree, session.snapshot.version_id)
    last = {"commit": None, "time": "-", "message": "-"}
    if commit is not None:
        last = commit_entry(session.tree.commits[commit])
    about = ds.info.get(_SYNCED)
    stream = (
        {key: about.get(key) for key in ("namespace", "stream", "mode")} if isinstance(about, dict) else None
    )
    return {
        "path": path,
        "branch": ds.branch,
        "stream": stream,
        "rows": ds.max_len,
        "tensors": len(ds.tensors),
        "branches": len(ds.branches),
        "branch_names": ds.branches,
        "commit": last["commit"],
        "time": last["time"],
        "message": last["message"],
        "error": None,
    }


def _unreadable(path: str, error: LakebedError) -> dict[str, Any]:
    """Return the entry of ``lakebed.ls`` for a dataset that cannot be opened."""
    what = "damaged" if isinstance(error, CorruptError) else "unreadable"
    nothing = dict.fromkeys(_UNKNOWN)
    return {"path": path, **nothing, "error": f"{what}: {error}"}
