"""The datasets at and below an address: folders are walked, buckets are listed.

A dataset is one line, that of its main branch. Syncs may write to any branch, and to more than one: where they fill a
dataset, each branch with rows of theirs is a line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import lakebed
from lakebed.cli import describe
from lakebed.dataset.dataset import Dataset
from lakebed.errors import LakebedError
from lakebed.storage.url import open_storage, parse
from lakebed.versions.tree_file import TREE_KEY

_MAIN = "main"
_OF_SYNCS = "airbyte-"
"""Branches of such names hold what a sync has not brought in yet."""


def datasets(url: str) -> Iterator[dict[str, Any]]:
    """Iterate over what ``describe.entry`` tells of each dataset, or of its branches.

    One that can not be opened is told as such: the others want to be listed, too.
    """
    place = parse(url)
    if place.scheme in ("mem", "http", "https"):  # nothing tells what lies below
        yield from _branches(url, lakebed.load(url, read_only=True))
    elif place.scheme == "file":
        yield from _in_folder(place.path)
    else:
        yield from _in_bucket(url.rstrip("/"))


def _in_folder(root: str) -> Iterator[dict[str, Any]]:
    if not Path(root).is_dir():
        raise click.ClickException(f"{root} is no folder")
    for folder, below, files in os.walk(root):
        below[:] = sorted(d for d in below if not _is_inside(d))
        if TREE_KEY in files:
            yield from _entries(os.path.relpath(folder, root), folder)


def _in_bucket(url: str) -> Iterator[dict[str, Any]]:
    """Look through all keys: a store has no folders to walk."""
    keys = (key for key, _ in open_storage(url).list(""))
    folders = [key.removesuffix(TREE_KEY).rstrip("/") for key in keys if f"/{key}".endswith(f"/{TREE_KEY}")]
    for folder in sorted(folders):
        if not any(_is_inside(part) for part in folder.split("/")):
            yield from _entries(folder or ".", f"{url}/{folder}".rstrip("/"))


def _entries(path: str, url: str) -> list[dict[str, Any]]:
    try:
        return list(_branches(path, lakebed.load(url, read_only=True)))
    except LakebedError as error:
        return [describe.unreadable(path, error)]


def _branches(path: str, dataset: Dataset) -> Iterator[dict[str, Any]]:
    """Describe a dataset, and the branches besides the main one that syncs fill."""
    first = describe.entry(path, dataset)
    others = [name for name in dataset.branches if name != _MAIN and not name.startswith(_OF_SYNCS)]
    filled: list[dict[str, Any]] = []
    if dataset.branch == _MAIN and others and (first["stream"] or not first["tensors"]):
        for name in others:
            dataset.checkout(name)
            filled.append(describe.entry(path, dataset))
    filled = [entry for entry in filled if entry["stream"]]
    if first["tensors"] or not filled:
        yield first
    yield from filled


def _is_inside(name: str) -> bool:
    """Whether a folder is part of the dataset that it lies in: its versions, side files or saved views."""
    return name == "versions" or name.startswith(".")
