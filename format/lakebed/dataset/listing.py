"""The datasets at and below an address: folders are walked, buckets are listed.

A dataset is one line, that of its main branch. Syncs may write to any branch, and to more than one: where they fill a
dataset, each branch with rows of theirs is a line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakebed.dataclass import replace
from lakebed.dataset.dataset import Dataset
from lakebed.dataset.open import open_at
from lakebed.errors import CorruptError, InvalidInputError, LakebedError
from lakebed.storage.url import Location, open_storage
from lakebed.versions.tree_file import TREE_KEY

_MAIN = "main"
_OF_SYNCS = "airbyte-"
"""Branches of such names hold what a sync has not brought in yet."""

_SYNCED = "airbyte"
"""Key of ``Dataset.info`` under which a sync keeps the names that the stream of a dataset has at its source."""


def datasets(place: Location, name: str) -> Iterator[dict[str, Any]]:
    """Yield what there is at an address and below it, see ``lakebed.ls``.

    A dataset that cannot be opened is told as such: the others are listed, too.

    Parameters
    ----------
    name
        What one whose surroundings cannot be listed is called.

    Raises
    ------
    InvalidInputError
        If a folder is none.
    """
    if place.scheme in ("mem", "http", "https"):  # nothing tells what lies below
        yield from _branches(name, _opened(place))
    elif place.scheme == "file":
        yield from _in_folder(place)
    else:
        yield from _in_bucket(place)


def _opened(place: Location) -> Dataset:
    return Dataset(open_at(place, read_only=True))


def _in_folder(place: Location) -> Iterator[dict[str, Any]]:
    root = place.path
    if not Path(root).is_dir():
        raise InvalidInputError(f"{root} is no folder")
    for folder, below, files in os.walk(root):
        below[:] = sorted(d for d in below if not _is_inside(d))
        if TREE_KEY in files:
            yield from _entries(os.path.relpath(folder, root), replace(place, path=folder, ref=None))


def _in_bucket(place: Location) -> Iterator[dict[str, Any]]:
    """Look through all keys: a store has no folders to walk."""
    keys = (key for key, _ in open_storage(place).list(""))
    folders = [key.removesuffix(TREE_KEY).rstrip("/") for key in keys if f"/{key}".endswith(f"/{TREE_KEY}")]
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
    others = [name for name in dataset.branches if name != _MAIN and not name.startswith(_OF_SYNCS)]
    filled: list[dict[str, Any]] = []
    if dataset.branch == _MAIN and others and (first["stream"] or not first["tensors"]):
        for name in others:
            dataset.checkout(name)
            filled.append(_entry(path, dataset))
    filled = [entry for entry in filled if entry["stream"]]
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
        "commit": last["commit"],
        "time": last["time"],
        "message": last["message"],
        "error": None,
    }


def _unreadable(path: str, error: LakebedError) -> dict[str, Any]:
    """Return what ``lakebed.ls`` tells of a dataset that cannot be opened."""
    what = "damaged" if isinstance(error, CorruptError) else "unreadable"
    nothing = dict.fromkeys(("branch", "stream", "rows", "tensors", "branches", "commit", "time", "message"))
    return {"path": path, **nothing, "error": f"{what}: {error}"}
