"""Annotations of many pictures at once: what :func:`coco_annotations.values_of` makes of each, without an object each.

Members of annotations go from the text of their file into columns, of which a picture takes a part. What is not as the
annotations before it promised, such as a box of three numbers, is left to :func:`~coco_annotations.values_of`, which
tells what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import LakebedError
from lakebed.htypes.rle import decode_rle
from lakebed.importers.detection.coco_annotations import Reader, stacked
from lakebed.importers.tables.json_index import JsonFile

Ints = NDArray[np.int64]
Marks = NDArray[np.bool_]
Values = dict[str, Any]

_INT32 = np.iinfo(np.int32)
# What is no outline: numbers, texts and truth values.
_NO_OUTLINES = list(b"ifstb")
# Lists of numbers, which are no lists of polygons; an empty list is one of whole numbers.
_FLAT = list(b"IF")
# Keys of readers that are no keys of annotations.
_MADE = ("segmentation_object", "rle_mask", "rle_object", "other")


def values_of_many(
    file: JsonFile, numbers: Sequence[Sequence[int]], reader: Reader, sizes: Sequence[tuple[int, int]]
) -> list[Values | None]:
    """Return the values of a kind's tensors for pictures; None for those that need a closer look.

    Parameters
    ----------
    file
        Where their annotations lie.
    numbers
        By picture the numbers of its annotations.
    sizes
        (height, width) by picture.
    """
    flat = np.concatenate([np.asarray(of, np.int64) for of in numbers])
    if reader.is_panoptic or not len(flat):
        return [None] * len(numbers)
    bounds = np.concatenate([[0], np.cumsum([len(of) for of in numbers])]).astype(np.int64)
    made = _Columns(file, flat, bounds, reader)
    found: list[Values | None] = [{} for _ in numbers]
    for name, values in made.columns.items():
        for row, value in zip(found, values, strict=True):
            if row is not None:
                row[name] = value
    if "rle_mask" in reader.names:
        made.add_masks(found, sizes)
    for picture in np.unique(np.searchsorted(bounds, np.flatnonzero(made.odd), side="right") - 1).tolist():
        found[picture] = None
    return found


class _Columns:
    """Values of pictures by tensor, and which annotations are odd."""

    def __init__(self, file: JsonFile, numbers: Ints, bounds: Ints, reader: Reader) -> None:
        self._file, self._numbers, self._reader = file, numbers, reader
        self._bounds = bounds
        self._pairs = list(pairwise(bounds.tolist()))
        self.columns: dict[str, Sequence[Any]] = {}
        asked = [key for key in reader.names if key not in _MADE]
        kinds = "".join(_kind_of(key, reader) for key in asked)
        found, self.odd = file.columns("annotations", numbers, asked, kinds.encode())
        array = file.arrays["annotations"]
        if {"segmentation", "rle_mask"} & reader.names.keys():
            wrong = _NO_OUTLINES if "rle_mask" in reader.names else [*_NO_OUTLINES, ord("o")]
            self.odd |= np.isin(array.kinds_of("segmentation"), wrong)[array.numbers[numbers]]
        take: Mapping[str, Callable[[str, Any], object]] = {
            "bbox": self._boxes,
            "category_id": self._labels,
            "keypoints": self._keypoints,
            "caption": self._texts,
            "segmentation": self._polygons,
        }
        for key, column in zip(asked, found, strict=True):
            is_number = key == "category_id" and key in reader.dtypes  # without categories that name it
            put: Callable[[str, Any], object] = (
                self._numbers_of if is_number else take.get(key, self._numbers_of)
            )
            put(key, column)
        if "other" in reader.names:
            self._others()

    def _put(self, key: str, values: Sequence[Any]) -> None:
        self.columns[self._reader.names[key]] = values

    def _numbers_of(self, key: str, column: NDArray[Any]) -> None:
        if column.dtype.kind == "f":
            self.odd |= ~np.isfinite(column)
        self._put(key, [column[start:stop] for start, stop in self._pairs])

    def _labels(self, key: str, column: Ints) -> None:
        ids = np.array(list(self._reader.labels), np.int64)
        order = np.argsort(ids)
        ids, names = ids[order], np.array(list(self._reader.labels.values()), object)[order]
        at = np.minimum(np.searchsorted(ids, column), len(ids) - 1)
        self.odd |= ids[at] != column
        of = names[at].tolist()
        self._put(key, [of[start:stop] or np.zeros(0, np.uint32) for start, stop in self._pairs])

    def _boxes(self, key: str, column: tuple[NDArray[np.float64], Ints]) -> None:
        values, counts = column
        self.odd |= counts != 4
        self._odd_where(~np.isfinite(values), counts)
        with np.errstate(over="ignore"):
            values = values.astype(self._reader.dtypes[key])
        ends = _ends(counts)
        self._put(
            key,
            [
                values[first:last].reshape(stop - start, 4) if last - first == 4 * (stop - start) else None
                for (start, stop), (first, last) in zip(
                    self._pairs, pairwise(ends[self._bounds].tolist()), strict=True
                )
            ],
        )

    def _keypoints(self, key: str, column: tuple[NDArray[Any], Ints]) -> None:
        values, counts = column
        ends = _ends(counts)
        beyond = ~np.isfinite(values)
        if self._reader.dtypes[key] == "int32":
            beyond |= (values < _INT32.min) | (values > _INT32.max)
        if self._odd_where(beyond, counts):
            values = np.where(beyond, 0, values)
        values = values.astype(self._reader.dtypes[key])
        found: list[Any] = []
        for start, stop in self._pairs:
            if start == stop:
                found.append(None)
                continue
            each = counts[start]
            if (counts[start:stop] != each).any():
                self.odd[start] = True
                found.append(None)
            else:
                found.append(values[ends[start] : ends[stop]].reshape(stop - start, each).T)
        self._put(key, found)

    def _odd_where(self, which: Marks, counts: Ints) -> bool:
        """Mark annotations as odd that have one of these numbers, of which each has as many as counted."""
        if not which.any():
            return False
        self.odd[np.searchsorted(_ends(counts), np.flatnonzero(which), side="right") - 1] = True
        return True

    def _texts(self, key: str, column: Ints) -> None:
        texts = self._file.between(column[:, 0], column[:, 1])
        self.odd |= np.fromiter((type(text) is not str for text in texts), np.bool_, len(texts))
        self._put(key, [texts[start:stop] for start, stop in self._pairs])

    def _polygons(self, key: str, column: tuple[NDArray[np.float64], Ints, Ints]) -> None:
        values, sizes, counts = column
        array = self._file.arrays["annotations"]
        of = array.kinds_of("segmentation")[array.numbers[self._numbers]]
        self.odd |= np.isin(of, _FLAT) & (counts > 0)
        empty = np.flatnonzero(sizes == 0)  # polygons without points
        self.odd[np.searchsorted(_ends(counts), empty, side="right") - 1] = True
        with np.errstate(over="ignore"):
            points = values.astype(self._reader.dtypes[key]).reshape(-1, 2)
        parts = [points[start:stop] for start, stop in pairwise(_ends(sizes // 2).tolist())]
        first = _ends(counts)
        at = first[self._bounds].tolist()
        lengths = np.diff(self._bounds)
        owners = np.arange(len(counts)) - np.repeat(self._bounds[:-1], lengths)
        owners = np.repeat(owners, counts).astype(np.int32)
        self._put(key, [parts[start:stop] for start, stop in pairwise(at)])
        self._put("segmentation_object", [owners[start:stop] for start, stop in pairwise(at)])

    def _others(self) -> None:
        known = self._reader.known
        of = [
            {key: value for key, value in one.items() if key not in known}
            for one in self._file.elements("annotations", self._numbers)
        ]
        self._put("other", [of[start:stop] for start, stop in self._pairs])

    def add_masks(self, found: list[Values | None], sizes: Sequence[tuple[int, int]]) -> None:
        """Decode masks, each by itself; a picture whose masks are damaged needs a closer look."""
        name, array = self._reader.names, self._file.arrays["annotations"]
        is_mask = array.kinds_of("segmentation") == ord("o")
        which = np.flatnonzero(is_mask[array.numbers[self._numbers]])
        pictures = (np.searchsorted(self._bounds, which, side="right") - 1).tolist()
        masks: dict[int, list[NDArray[np.bool_]]] = {}
        owners: dict[int, list[int]] = {}
        of = self._file.elements("annotations", self._numbers[which])
        for picture, at, one in zip(pictures, which.tolist(), of, strict=True):
            try:
                masks.setdefault(picture, []).append(decode_rle(one["segmentation"], sizes[picture]))
            except (LakebedError, LookupError, TypeError, ValueError):
                self.odd[at] = True
            owners.setdefault(picture, []).append(at - self._pairs[picture][0])
        for picture, row in enumerate(found):
            if row is not None:
                layers = masks.get(picture, [])
                if len({layer.shape for layer in layers}) > 1:
                    self.odd[self._pairs[picture][0]] = True
                    continue
                row[name["rle_mask"]] = stacked(layers)
                row[name["rle_object"]] = np.array(owners.get(picture, ()), np.int32)


def _kind_of(key: str, reader: Reader) -> str:
    """Return what column a key is read into."""
    if key == "bbox":
        return "F"
    if key == "keypoints":
        return "I" if reader.dtypes[key] == "int32" else "F"
    if key == "segmentation":
        return "P"
    if key == "caption":
        return "v"
    return "i" if reader.dtypes.get(key, "int64") == "int64" else "f"


def _ends(counts: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
