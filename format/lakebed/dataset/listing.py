"""The datasets at and below an address: folders are walked, buckets are listed.

A dataset is one line, that of its main branch; where nothing was written to that, the line of the branch that was
committed to last. Syncs may write to any branch, and to more than one: where they fill a dataset, each branch with rows
of theirs is a line.
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
from lakebed.storage.url import Location, open_storage
from lakebed.versions.tree_file import TREE_KEY

_MAIN = "main"
_OF_SYNCS = "airbyte-"
"""Branches of such names hold what a sync has not brought in yet."""

_UNKNOWN = "branch stream rows tensors branches branch_names commit time message".split()
"""What is not known of a dataset that cannot be opened."""

_SYNCED = "airbyte"
"""Key of ``Dataset.info`` under which a sync keeps the names that the stream of a dataset has at its source."""


class Walk:
    """Which folders, or keys of a bucket, were looked into.

    Attributes
    ----------
    looked : int
        How many so far.
    refused : list of str
        Folders that the operating system does not let us read.
    """

    def __init__(self) -> None:
        self.looked = 0
        self.refused: list[str] = []

    def enter(self, where: str) -> None:
        """Count one more."""
        self.looked += 1

    def refuse(self, error: OSError) -> None:
        """Remember a folder that cannot be read."""
        self.refused.append(str(error.filename))


def datasets(place: Location, name: str, walk: Walk | None = None) -> Iterator[dict[str, Any]]:
    """Yield what there is at an address and below it, see ``lakebed.ls``.

    A dataset that cannot be opened is told as such: the others are listed, too.

    Parameters
    ----------
    name
        What one whose surroundings cannot be listed is called.
    walk
        Hears which folders are looked into.

    Raises
    ------
    InvalidInputError
        If a folder is none.
    """
    walk = Walk() if walk is None else walk
    if place.scheme in ("mem", "http", "https"):  # nothing tells what lies below
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
        raise InvalidInputError(f"{root} is no folder")
    for folder, below, files in os.walk(root, onerror=walk.refuse):
        walk.enter(folder)
        below[:] = sorted(d for d in below if not _is_inside(d))
        if TREE_KEY in files:
            yield from _entries(os.path.relpath(folder, root), replace(place, path=folder, ref=None))


def _in_bucket(place: Location, walk: Walk) -> Iterator[dict[str, Any]]:
    """Look through all keys: a store has no folders to walk."""
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
    """Describe a dataset, and the branches besides the main one that syncs fill."""
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
        # Times are ISO text of whole seconds: of two that are equal, the branch that was made later.
        yield max(reversed(written), key=lambda entry: str(entry["time"]))
        return
    if first["tensors"] or not filled:
        yield first
    yield from filled


def _is_inside(name: str) -> bool:
    """Whether a folder is part of the dataset that it lies in: its versions, side files or saved views."""
    return name == "versions" or name.startswith(".")


def _entry(path: str, ds: Dataset) -> dict[str, Any]:
    """Return what ``lakebed.ls`` tells of the branch that is checked out."""
    commits = ds.commits
    last = commits[0] if commits else {"commit": None, "time": "-", "message": "-"}
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
    """Return what ``lakebed.ls`` tells of a dataset that cannot be opened."""
    what = "damaged" if isinstance(error, CorruptError) else "unreadable"
    nothing = dict.fromkeys(_UNKNOWN)
    return {"path": path, **nothing, "error": f"{what}: {error}"}
