"""Descriptions that TensorFlow Datasets writes beside its TFRecord files.

dataset_info.json    name, version, description, citation; splits with the numbers of records of their files
features.json        tree of features with their types, shapes and dtypes
label.labels.txt     names of the classes of the feature ``label``, one a line; ``objects-label.labels.txt``
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakebed.errors import LakebedError
from lakebed.importers.core.source import Source

_INFO, _FEATURES = "dataset_info.json", "features.json"
_MAX_BYTES = 64 << 20
_MAX_DEPTH = 32
_ABOUT = ("name", "version", "description", "citation")


@dataclass(frozen=True)
class FeatureTold:
    """Description of a feature.

    Parameters
    ----------
    dtype, shape
        Dtype and shape of the feature's arrays, -1 for a varying axis; "" and () if unknown.
    classes
        Names of the feature's classes; None if it has no classes.
    is_boxes
        True if the values are boxes: top, left, bottom, right, as fractions.
    """

    dtype: str = ""
    shape: tuple[int, ...] = ()
    classes: tuple[str, ...] | None = None
    is_boxes: bool = False


@dataclass(frozen=True)
class Told:
    """Description of a dataset.

    Parameters
    ----------
    splits
        Names of the splits.
    rows
        Number of records in all files; None if unknown.
    files
        Names of the files.
    """

    features: Mapping[str, FeatureTold] = field(default_factory=dict)
    splits: tuple[str, ...] = ()
    rows: int | None = None
    files: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)


def told_of(source: Source) -> Told:
    """Return the description of a dataset; an empty one if its files are missing or in several folders."""
    folders = [name.removesuffix(_INFO) for name in source.files if name.rpartition("/")[2] == _INFO]
    if not source.is_folder or len(folders) != 1:
        return Told()
    folder = folders[0]
    info = _document(source, f"{folder}{_INFO}")
    tree = _document(source, f"{folder}{_FEATURES}")
    features = {name: found for name, found in _walk(tree, "", (), source, folder, _MAX_DEPTH) if name}
    splits = info.get("splits")
    splits = [one for one in splits if isinstance(one, Mapping)] if isinstance(splits, list) else []
    names = [str(one["name"]) for one in splits if isinstance(one.get("name"), str)]
    about = {key: info[key] for key in _ABOUT if isinstance(info.get(key), str)}
    rows, count = _rows(splits)
    inside = [name for name in source.files if name.startswith(folder) and ".tfrecord-" in name]
    return Told(features, tuple(names), rows if len(inside) == count else None, tuple(inside), about)


def _rows(splits: list[Any]) -> tuple[int | None, int]:
    """Return the number of records, None if unknown, and the number of files."""
    lengths = [
        length for one in splits for length in one.get("shardLengths") or () if isinstance(length, str | int)
    ]
    numbers = [int(length) for length in lengths if str(length).isdecimal() and len(str(length)) < 16]
    return (sum(numbers) if numbers and len(numbers) == len(lengths) else None), len(lengths)


def _text(source: Source, name: str) -> str:
    """Return the text of a file; an empty one if it is missing, too large or damaged."""
    if not 0 < source.files.get(name, 0) <= _MAX_BYTES:
        return ""
    try:
        return source.read(name).decode()
    except (LakebedError, UnicodeDecodeError):
        return ""


def _document(source: Source, name: str) -> Mapping[str, Any]:
    try:
        return source.json(name, _MAX_BYTES)
    except LakebedError:
        return {}


def _walk(
    node: Any, path: str, before: tuple[int, ...], source: Source, folder: str, depth: int
) -> Iterator[tuple[str, FeatureTold]]:
    """Yield (name, description) of the features in a tree; axes of sequences come before the axes of their features."""
    if not isinstance(node, Mapping) or depth == 0:
        return
    features = node.get("featuresDict")
    if isinstance(features, Mapping) and isinstance(features.get("features"), Mapping):
        for key, child in features["features"].items():
            yield from _walk(child, f"{path}/{key}" if path else str(key), before, source, folder, depth - 1)
        return
    sequence = node.get("sequence")
    if isinstance(sequence, Mapping):
        yield from _walk(sequence.get("feature"), path, (-1, *before), source, folder, depth - 1)
        return
    kind = str(node.get("pythonClassName") or "").rpartition(".")[2]
    told = node.get("tensor")
    if "classLabel" in node:
        names = _text(source, f"{folder}{path.replace('/', '-')}.labels.txt")
        yield path, FeatureTold(classes=tuple(names.splitlines()))
    elif kind == "BBoxFeature":
        yield path, FeatureTold(is_boxes=len(before) <= 1)
    elif isinstance(told, Mapping) and str(told.get("encoding") or "none").lower() == "none":
        shape = _shape(told.get("shape"))
        yield path, FeatureTold(_dtype(told.get("dtype")), () if shape is None else (*before, *shape))


def _shape(told: Any) -> tuple[int, ...] | None:
    dimensions = told.get("dimensions") if isinstance(told, Mapping) else None
    if not isinstance(dimensions, list):
        return ()
    lengths = [
        int(one) for one in dimensions if str(one).removeprefix("-").isdecimal() and len(str(one)) < 10
    ]
    return tuple(max(length, -1) for length in lengths) if len(lengths) == len(dimensions) else None


def _dtype(told: Any) -> str:
    try:
        found = np.dtype(told if isinstance(told, str) else "O")
    except TypeError:
        return ""
    return found.name if found.kind in "iufb" else ""
