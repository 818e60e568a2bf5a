"""The datasets at and below an address: folders are walked, buckets are listed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import lakebed
from lakebed.cli import describe
from lakebed.storage.url import open_storage, parse
from lakebed.versions.tree_file import TREE_KEY


def datasets(url: str) -> Iterator[dict[str, Any]]:
    """Iterate over what ``describe.entry`` tells of each dataset."""
    place = parse(url)
    if place.scheme in ("mem", "http", "https"):  # nothing tells what lies below
        yield describe.entry(url, lakebed.load(url, read_only=True))
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
            yield describe.entry(os.path.relpath(folder, root), lakebed.load(folder, read_only=True))


def _in_bucket(url: str) -> Iterator[dict[str, Any]]:
    """Look through all keys: a store has no folders to walk."""
    keys = (key for key, _ in open_storage(url).list(""))
    folders = [key.removesuffix(TREE_KEY).rstrip("/") for key in keys if f"/{key}".endswith(f"/{TREE_KEY}")]
    for folder in sorted(folders):
        if not any(_is_inside(part) for part in folder.split("/")):
            dataset = lakebed.load(f"{url}/{folder}".rstrip("/"), read_only=True)
            yield describe.entry(folder or ".", dataset)


def _is_inside(name: str) -> bool:
    """Whether a folder is part of the dataset that it lies in: its versions, side files or saved views."""
    return name == "versions" or name.startswith(".")
