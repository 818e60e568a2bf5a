"""Annotations of COCO: the tensors of a kind of annotation, and their values in the row of a picture.

`values_of_many` reads the members of many annotations as columns, without a Python object for each annotation. If an
annotation of a picture does not fit, such as a box of three numbers, `values_of` reads this picture and reports why.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError, NotFoundError
from lakebed.importers.core import shares
from lakebed.importers.core.plan import TensorPlan, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.detection.masks import decoded, pycocotools
from lakebed.importers.tables.json_index import JsonFile

Ints = NDArray[np.int64]
Values = dict[str, Any]
Tell = Callable[[str, bool], object]
"""Function that reports a reason; the second argument is True if the whole annotation is left out, not only a value."""

_BAD_VALUE = (LakebedError, LookupError, TypeError, ValueError)
_INT32 = np.iinfo(np.int32)

# Letter of the JSON index -> kind of value; all other letters are kind "other".
_KINDS: Mapping[int, str] = {ord("i"): "int", ord("f"): "float", ord("s"): "text"}
_LISTS: Mapping[int, str] = {ord("I"): "ints", ord("F"): "floats", ord("A"): "other"}
_OBJECT = ord("o")
_NO_OUTLINES = list(b"ifstb")

# Many tools write these keys with empty lists. A key that is empty everywhere makes no tensor.
_MAY_BE_EMPTY = ("bbox", "segmentation", "keypoints")
_OUTLINES = frozenset({"segmentation", "rle_mask"})
# Keys that this module computes; annotations do not have them.
_MADE = ("segmentation_object", "rle_mask", "rle_object", "other")

# Htypes with large samples: reading the shapes from a separate tensor is faster than reading them from the chunks.
_WITH_SHAPES = ("polygon", "binary_mask", "instance_label")

_TOGETHER = 1000
"""Number of annotations that are read at a time while their keys are inspected."""


@dataclass
class Kind:
    """Annotation files of one kind, and the contents of their annotations.

    Parameters
    ----------
    prefix
        Name of the group, with its slash; empty if the files have no group.
    keys
        Key -> kind of value ("int", "float", "text", "ints", "floats", "other") -> number of inspected annotations that
        have it.
    looked, segments_looked
        Numbers of annotations and of panoptic segments that were inspected.
    filled
        Keys of `_MAY_BE_EMPTY` that have a value in at least one annotation.
    """

    name: str
    prefix: str = ""
    count: int = 0
    keys: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    looked: int = 0
    has_rle: bool = False
    has_polygons: bool = False
    segments: dict[str, None] = field(default_factory=dict)
    segments_looked: int = 0
    categories: list[dict[str, Any]] = field(default_factory=list)
    filled: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Reader:
    """Rules by which the annotations of a kind become values of tensors.

    Parameters
    ----------
    names
        Key -> name of its tensor.
    dtypes
        Key -> dtype; if ``category_id`` has no dtype, it becomes the name of its category.
    labels
        Id of a category -> its name.
    known
        Keys that are not part of ``other``.
    """

    names: Mapping[str, str]
    dtypes: Mapping[str, str]
    labels: Mapping[int, str]
    known: frozenset[str]
    is_panoptic: bool

    def is_number(self, key: str) -> bool:
        """Return whether a key holds a number for each annotation."""
        return key in self.dtypes and key not in ("bbox", "keypoints", "segmentation")

    def rest(self, one: Mapping[str, Any]) -> Values:
        """Return the members of an annotation that have no tensor."""
        return {key: value for key, value in one.items() if key not in self.known}


def look(kind: Kind, file: JsonFile, most: int) -> None:
    """Record the keys of the first annotations of a file, and the kinds of their values.

    Raises
    ------
    ModuleNotInstalledException
        If annotations have masks as text, and the package that reads such masks is missing.
    """
    array = file.arrays["annotations"]
    counts = np.bincount(array.numbers[:most], minlength=len(array.shapes)).tolist()
    for number, (shape, count) in enumerate(zip(array.shapes, counts, strict=True)):
        if not count:
            continue
        kind.looked += count if shape.keys else 0
        for key, of in zip(*shape, strict=True):
            if key == "segmentation":
                kind.has_rle |= of == _OBJECT and _has_mask(file, number, most)
                kind.has_polygons |= of in _LISTS
            if key in ("segmentation", "segments_info"):
                kind.keys[key] = Counter()
            else:
                kind.keys[key][_LISTS.get(of) or _KINDS.get(of, "other")] += count
    kind.filled |= {key for key in _MAY_BE_EMPTY if key not in kind.filled and _is_filled(file, key)}
    is_list = np.isin(array.kinds_of("segments_info"), list(_LISTS))
    for one in _elements(file, np.flatnonzero(is_list[array.numbers[:most]])):
        kind.segments_looked += len(one["segments_info"])
        for segment in one["segments_info"]:
            for key, value in segment.items() if isinstance(segment, dict) else ():
                kind.segments[key] = None
                kind.keys[key][_kind_of(value)] += 1


def _elements(file: JsonFile, numbers: Ints) -> Iterator[dict[str, Any]]:
    for start in range(0, len(numbers), _TOGETHER):
        yield from file.elements("annotations", numbers[start : start + _TOGETHER])


def _is_filled(file: JsonFile, key: str) -> bool:
    """Return whether an annotation of a file has a value other than an empty list or null under a key."""
    array = file.arrays["annotations"]
    of = array.kinds_of(key)
    unsure = np.isin(of, [ord("n"), ord("A")])  # null, or an empty list
    if (of[~unsure] != 0).any():
        return True
    numbers = np.flatnonzero(unsure[array.numbers])
    for start in range(0, len(numbers), _TOGETHER):
        (places,), _ = file.columns("annotations", numbers[start : start + _TOGETHER], [key], b"v")
        for begin, end in places.tolist():
            if end - begin > 2 and file.text[begin:end].strip(b"[] \t\r\n") not in (b"", b"null"):
                return True
    return False


def _has_mask(file: JsonFile, shape: int, most: int) -> bool:
    """Return whether one of the first annotations of a shape has a mask, rather than another JSON object."""
    numbers = np.flatnonzero(file.arrays["annotations"].numbers[:most] == shape)[:_TOGETHER]
    outlines = [one["segmentation"] for one in file.elements("annotations", numbers)]
    if any(type(one.get("counts")) is str for one in outlines):
        pycocotools()
    return any("counts" in one for one in outlines)


def _kind_of(value: Any) -> str:
    if type(value) is not list:
        return {int: "int", float: "float", str: "text"}.get(type(value), "other")
    types = set(map(type, value))
    if types == {int}:
        return "ints"
    return "floats" if types and types <= {int, float} else "other"


# -- tensors -----------------------------------------------------------------------------------------------------


def tensors_of(
    kind: Kind, names: Mapping[str, str], ignore: set[str], *, plain: bool
) -> tuple[list[TensorPlan], Reader]:
    """Return the tensors of a kind of annotations, and the reader that makes their values.

    Parameters
    ----------
    names
        Key -> name of its tensor, if that differs from the key.
    ignore
        Keys that are left out.
    plain
        Make the tensors of this library; otherwise the tensors of Deep Lake 3.
    """
    made: dict[str, TensorPlan] = {}
    dtypes: dict[str, str] = {}
    by_key: dict[str, str] = {}
    is_panoptic = bool(kind.segments)
    keys = kind.segments if is_panoptic else kind.keys
    labels = _labels(kind.categories)
    left_out = {*ignore, *(("image_id",) if plain else ()), *(("segments_info",) if is_panoptic else ())}
    if plain and not is_panoptic:
        left_out |= set(_MAY_BE_EMPTY) & keys.keys() - kind.filled

    def add(key: str, **arguments: Any) -> None:
        name = by_key[key] = f"{kind.prefix}{names.get(key, key)}"
        htype = arguments.get("htype")
        if plain and htype not in _WITH_SHAPES:
            arguments["create_shape_tensor"] = False
        # An image has a list with one value per object.
        made[name] = tensor(name, is_list=htype in (None, "class_label"), **arguments)

    real = "float64" if plain else "float32"
    for key in keys:
        if key in left_out:
            continue
        if key == "segmentation":
            dtypes[key] = real
            if kind.has_polygons or not kind.has_rle:
                add("segmentation", htype="polygon", dtype=real)
                add("segmentation_object", dtype="int32")
            if kind.has_rle:
                add("rle_mask", htype="binary_mask", sample_compression="lz4")
                add("rle_object", dtype="int32")
        elif (arguments := _arguments_of(key, kind, labels, real)) is not None:
            if "dtype" in arguments:
                dtypes[key] = arguments["dtype"]
            add(key, **arguments)
    if is_panoptic:
        add("segment_ids", htype="instance_label", dtype="uint32", sample_compression="lz4")
    known = frozenset({*by_key, *({"segmentation"} & keys.keys()), *left_out})
    if is_panoptic or not known.issuperset(keys):
        add("other", htype="json")
    return list(made.values()), Reader(by_key, dtypes, labels, known, is_panoptic)


def _arguments_of(key: str, kind: Kind, labels: Mapping[int, str], real: str) -> dict[str, Any] | None:
    """Return the arguments of the tensor of a key; None if its values fit no tensor."""
    looked = kind.segments_looked if kind.segments else kind.looked
    of = kind.keys.get(key, Counter())

    def mostly(*kinds: str, share: float = shares.MOSTLY) -> bool:
        return shares.mostly(sum(of[one] for one in kinds), looked, share)

    if key == "bbox" and mostly("ints", "floats"):
        return {"htype": "bbox", "dtype": real, "coords": {"type": "pixel", "mode": "LTWH"}}
    if key == "category_id" and labels and mostly("int", "float"):
        info = {"category_ids": list(labels), "categories": kind.categories}
        return {"htype": "class_label", "class_names": list(labels.values()), "info": info}
    if key == "keypoints" and mostly("ints", "floats"):
        points = next((one for one in kind.categories if one.get("keypoints")), {})
        return {
            "htype": "keypoints_coco",
            "dtype": "float64" if "floats" in of else "int32",
            "keypoints": [str(one) for one in points.get("keypoints") or ()],
            "connections": points.get("skeleton") or [],
        }
    if key == "caption" and mostly("text"):
        return {"htype": "sequence[text]"}
    share = shares.MOSTLY if key == "iscrowd" else shares.NEARLY_ALL
    if "float" not in of and mostly("int", share=share):
        return {"dtype": "int64"}
    return {"dtype": "float64"} if "float" in of and mostly("int", "float") else None


def _labels(categories: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return the name of each category by its id; names shared by several categories get the ids appended."""
    names = {one["id"]: str(one.get("name")) for one in categories}
    count = Counter(names.values())
    return {key: name if count[name] == 1 else f"{name} ({key})" for key, name in names.items()}


# -- values of one picture ---------------------------------------------------------------------------------------


def values_of(
    found: list[dict[str, Any]], reader: Reader, size: tuple[int, int], panoptic: Source | None, tell: Tell
) -> Values:
    """Return the values of a kind's tensors for a picture.

    Parameters
    ----------
    size
        Height and width of the picture.
    panoptic
        Source of the PNG files of panoptic segments.
    """
    row: Values = {}
    whole = found
    if reader.is_panoptic:
        found, row = _segments(found, reader, panoptic)
    found = _usable(found, reader, size, tell)
    for key, name in reader.names.items():
        if key == "bbox":
            row[name] = np.array([one["bbox"] for one in found], reader.dtypes[key]).reshape(len(found), 4)
        elif key == "category_id" and key not in reader.dtypes:
            row[name] = [reader.labels[one[key]] for one in found] or np.zeros(0, np.uint32)
        elif key == "keypoints":
            points = np.array([one["keypoints"] for one in found], reader.dtypes[key])
            row[name] = points.T if found else None
        elif key == "caption":
            row[name] = [one["caption"] for one in found]
        elif reader.is_number(key):
            row[name] = np.array([one[key] for one in found], reader.dtypes[key])
        elif key == "other":
            row[name] = [reader.rest(one) for one in (whole if reader.is_panoptic else found)]
    if reader.names.keys() & _OUTLINES:
        _put_outlines([one.get("segmentation") for one in found], reader, row)
    return row


def _put_outlines(outlines: Sequence[Any], reader: Reader, row: Values) -> None:
    parts = [(part, owner) for owner, of in enumerate(outlines) if type(of) is list for part in of]
    masks = [(of, owner) for owner, of in enumerate(outlines) if type(of) is np.ndarray]
    name, dtype = reader.names, reader.dtypes["segmentation"]
    if "segmentation" in name:
        row[name["segmentation"]] = [np.array(part, dtype).reshape(-1, 2) for part, _ in parts]
        row[name["segmentation_object"]] = np.array([owner for _, owner in parts], np.int32)
    if "rle_mask" in name:
        row[name["rle_mask"]] = _stacked([mask for mask, _ in masks])
        row[name["rle_object"]] = np.array([owner for _, owner in masks], np.int32)


def _stacked(masks: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_] | None:
    """Return masks of one size as layers, shape (height, width, masks); None for no masks."""
    if len(masks) == 1:
        return masks[0][:, :, np.newaxis]
    return np.stack(masks, axis=2) if masks else None


def _usable(
    found: list[dict[str, Any]], reader: Reader, size: tuple[int, int], tell: Tell
) -> list[dict[str, Any]]:
    """Return the annotations that fit the tensors; single values that do not fit are removed."""
    usable = []
    for one in found:
        if not isinstance(one, dict):
            tell(f"an annotation is {str(one)[:80]}, not an object", True)
            continue
        try:
            usable.append(_mended(one, reader, size, tell))
        except ValueError as error:
            tell(f"{_named(one)}: {error}", True)
    if "keypoints" not in reader.names:
        return usable
    lengths = [len(one["keypoints"]) for one in usable]
    usual = max(set(lengths), key=lengths.count, default=0)
    for one, length in zip(usable, lengths, strict=True):
        if length != usual:
            tell(f"{_named(one)}: keypoints has {length} numbers, and others of the picture {usual}", True)
    return [one for one, length in zip(usable, lengths, strict=True) if length == usual]


def _mended(one: dict[str, Any], reader: Reader, size: tuple[int, int], tell: Tell) -> dict[str, Any]:
    """Return an annotation whose values fit the tensors: convert values, and remove those that do not fit.

    Raises
    ------
    ValueError
        If the annotation lacks a value that each annotation must have.
    """
    found = dict(one)
    for key in reader.names:
        value: Any = one.get(key)
        if key == "bbox":
            if not _are_numbers(value) or len(value) != 4:
                raise ValueError(f"bbox is {_shown(one, key)}, not four numbers")
        elif key == "category_id" and key not in reader.dtypes:
            if not _is_number(value) or value not in reader.labels:
                raise ValueError(f"category_id {_shown(one, key)} is not the id of a category")
        elif key == "keypoints":
            if not _are_numbers(value) or len(value) % 3:
                raise ValueError(f"keypoints is {_shown(one, key)}, not numbers in threes")
            if reader.dtypes[key] == "int32" and any(n != int(n) or abs(n) >= 1 << 31 for n in value):
                raise ValueError(
                    f"keypoints is {_shown(one, key)}, but those of other annotations are whole numbers"
                )
        elif key == "caption":
            if type(value) is not str:
                raise ValueError(f"caption is {_shown(one, key)}, not text")
        elif reader.is_number(key):
            found[key] = _number_of(one, key, reader.dtypes[key], tell)
    if reader.names.keys() & _OUTLINES and one.get("segmentation") is not None:
        try:
            found["segmentation"] = _outline_of(one["segmentation"], size, reader)
        except _BAD_VALUE as error:
            tell(f"{_named(one)}: its segmentation is left out: {error}", False)
            found["segmentation"] = None
    return found


def _number_of(one: Mapping[str, Any], key: str, dtype: str, tell: Tell) -> int | float:
    """Return a value of a column of numbers; NaN stands for a missing float."""
    value: Any = one.get(key)
    if key == "iscrowd":
        value = int(value) if type(value) is bool else one.get(key, 0)  # as in pycocotools
    if dtype == "float64":
        if _is_number(value) and abs(value) <= sys.float_info.max:
            return float(value)
        tell(f"{_named(one)}: {key} is {_shown(one, key)}, not a number", False)
        return math.nan
    if type(value) is bool or (_is_number(value) and value == int(value) and -(1 << 63) <= value < 1 << 63):
        return int(value)
    raise ValueError(f"{key} is {_shown(one, key)}, not a whole number")


def _outline_of(value: Any, size: tuple[int, int], reader: Reader) -> list[Any] | NDArray[np.bool_]:
    """Return polygons as lists of numbers, or a mask.

    Raises
    ------
    LakebedError, LookupError, TypeError, ValueError
        If the value is neither polygons nor a mask.
    """
    if type(value) is dict and "rle_mask" in reader.names:
        return decoded(value, size)
    if type(value) is not list:
        raise ValueError(f"it is {str(value)[:80]}, neither polygons nor a mask")
    if value and _are_numbers(value):  # many tools write one polygon as a plain list of numbers
        if len(value) < 6:
            raise ValueError(
                f"a list of {len(value)} numbers is not a polygon, which needs x and y of at least three points"
            )
        value = [value]
    parts = [_flat(part) for part in value]
    if not all(_are_numbers(part) and len(part) % 2 == 0 for part in parts):
        raise ValueError("it is not a list of polygons, each of x and y in turns")
    return [part for part in parts if part]


def _flat(part: Any) -> Any:
    """Return a polygon of points, each a list of x and y, as a flat list of numbers; other values unchanged."""
    if type(part) is list and part and all(type(one) is list and len(one) == 2 for one in part):
        return [number for one in part for number in one]
    return part


def _are_numbers(value: Any) -> bool:
    return type(value) is list and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _shown(one: Mapping[str, Any], key: str) -> str:
    return str(one[key])[:80] if key in one else "missing"


def _named(one: Mapping[str, Any]) -> str:
    return f"annotation {one['id']}" if "id" in one else "an annotation"


def _segments(
    found: list[dict[str, Any]], reader: Reader, panoptic: Source | None
) -> tuple[list[dict[str, Any]], Values]:
    """Return the segments of a picture, and the map of their ids from its PNG file: R + 256 G + 65536 B."""
    if not found:
        return [], {}
    if len(found) > 1 or panoptic is None:
        raise IngestionError("a picture can have only one panoptic annotation")
    for key, of in (("segments_info", list), ("file_name", str)):
        if type(found[0].get(key)) is not of:
            raise IngestionError(f"{_named(found[0])}: {key} is {_shown(found[0], key)}")
    pixels = panoptic.media(_png_of(panoptic, str(found[0]["file_name"]))).array.astype(np.uint32)
    ids = pixels[..., 0] + (pixels[..., 1] << 8) + (pixels[..., 2] << 16)
    return list(found[0]["segments_info"]), {reader.names["segment_ids"]: ids}


def _png_of(panoptic: Source, name: str) -> str:
    try:
        return panoptic.find(name)
    except NotFoundError:
        last = name.rpartition("/")[2]
        near = [one for one in panoptic.with_suffix(".png") if one.rpartition("/")[2] == last]
        if len(near) == 1:
            return near[0]
        raise


# -- values of many pictures -------------------------------------------------------------------------------------


def values_of_many(
    file: JsonFile, numbers: Sequence[Sequence[int]], reader: Reader, sizes: Sequence[tuple[int, int]]
) -> list[Values | None]:
    """Return the values of a kind's tensors for pictures; None for pictures that `values_of` must read.

    Parameters
    ----------
    file
        File of the annotations.
    numbers
        Numbers of the annotations of each picture.
    sizes
        Height and width of each picture.
    """
    flat = np.concatenate([np.asarray(of, np.int64) for of in numbers])
    if reader.is_panoptic or not len(flat):
        return [None] * len(numbers)
    bounds = _ends([len(of) for of in numbers])
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
    """Values of pictures by tensor.

    Attributes
    ----------
    odd
        Annotations that do not fit the tensors.
    """

    def __init__(self, file: JsonFile, numbers: Ints, bounds: Ints, reader: Reader) -> None:
        self._file, self._numbers, self._reader = file, numbers, reader
        self._bounds = bounds
        self._pairs = list(pairwise(bounds.tolist()))
        self.columns: dict[str, Sequence[Any]] = {}
        asked = [key for key in reader.names if key not in _MADE]
        kinds = "".join(_column_of(key, reader) for key in asked)
        found, self.odd = file.columns("annotations", numbers, asked, kinds.encode())
        array = file.arrays["annotations"]
        if reader.names.keys() & _OUTLINES:
            self._kinds = array.kinds_of("segmentation")[array.numbers[numbers]]
            wrong = _NO_OUTLINES if "rle_mask" in reader.names else [*_NO_OUTLINES, _OBJECT]
            self.odd |= np.isin(self._kinds, wrong)
        makers: Mapping[str, Callable[[str, Any], Sequence[Any]]] = {
            "bbox": self._boxes,
            "category_id": self._labels,
            "keypoints": self._keypoints,
            "caption": self._texts,
            "segmentation": self._polygons,
        }
        for key, column in zip(asked, found, strict=True):
            make = self._plain if reader.is_number(key) else makers[key]
            self.columns[reader.names[key]] = make(key, column)
        if "other" in reader.names:
            of = [reader.rest(one) for one in file.elements("annotations", numbers)]
            self.columns[reader.names["other"]] = self._by_picture(of)

    def _by_picture(self, column: Any) -> list[Any]:
        return [column[start:stop] for start, stop in self._pairs]

    def _plain(self, _: str, column: NDArray[Any]) -> list[Any]:
        if column.dtype.kind == "f":
            self.odd |= ~np.isfinite(column)
        return self._by_picture(column)

    def _labels(self, _: str, column: Ints) -> list[Any]:
        ids = np.array(list(self._reader.labels), np.int64)
        order = np.argsort(ids)
        ids, names = ids[order], np.array(list(self._reader.labels.values()), object)[order]
        at = np.minimum(np.searchsorted(ids, column), len(ids) - 1)
        self.odd |= ids[at] != column
        return [of or np.zeros(0, np.uint32) for of in self._by_picture(names[at].tolist())]

    def _boxes(self, key: str, column: tuple[NDArray[np.float64], Ints]) -> list[Any]:
        values, counts = column
        self.odd |= counts != 4
        self._mark_odd(~np.isfinite(values), counts)
        with np.errstate(over="ignore"):
            values = values.astype(self._reader.dtypes[key])
        of = [values[first:last] for first, last in pairwise(_ends(counts)[self._bounds].tolist())]
        return [
            one.reshape(stop - start, 4) if len(one) == 4 * (stop - start) else None
            for one, (start, stop) in zip(of, self._pairs, strict=True)
        ]

    def _keypoints(self, key: str, column: tuple[NDArray[Any], Ints]) -> list[Any]:
        values, counts = column
        ends = _ends(counts)
        beyond = ~np.isfinite(values)
        if self._reader.dtypes[key] == "int32":
            beyond |= (values < _INT32.min) | (values > _INT32.max)
        self._mark_odd(beyond, counts)
        values = np.where(beyond, 0, values).astype(self._reader.dtypes[key])
        found: list[Any] = []
        for start, stop in self._pairs:
            each = counts[start] if start < stop else 0
            is_even = bool((counts[start:stop] == each).all())
            if not is_even:
                self.odd[start] = True
            points = values[ends[start] : ends[stop]]
            found.append(points.reshape(stop - start, each).T if is_even and start < stop else None)
        return found

    def _mark_odd(self, which: NDArray[np.bool_], counts: Ints) -> None:
        """Mark annotations as odd if one of their values is odd; `counts` has the number of values per annotation."""
        self.odd[np.searchsorted(_ends(counts), np.flatnonzero(which), side="right") - 1] = True

    def _texts(self, _: str, column: Ints) -> list[Any]:
        texts = self._file.between(column[:, 0], column[:, 1])
        self.odd |= np.fromiter((type(text) is not str for text in texts), np.bool_, len(texts))
        return self._by_picture(texts)

    def _polygons(self, key: str, column: tuple[NDArray[np.float64], Ints, Ints]) -> list[Any]:
        values, sizes, counts = column
        self._mark_odd(sizes == 0, counts)
        with np.errstate(over="ignore"):
            points = values.astype(self._reader.dtypes[key]).reshape(-1, 2)
        parts = [points[start:stop] for start, stop in pairwise(_ends(sizes // 2).tolist())]
        owners = np.arange(len(counts)) - np.repeat(self._bounds[:-1], np.diff(self._bounds))
        owners = np.repeat(owners, counts).astype(np.int32)
        of = list(pairwise(_ends(counts)[self._bounds].tolist()))
        owner = self._reader.names["segmentation_object"]
        self.columns[owner] = [owners[start:stop] for start, stop in of]
        return [parts[start:stop] for start, stop in of]

    def add_masks(self, found: list[Values | None], sizes: Sequence[tuple[int, int]]) -> None:
        """Put the masks of pictures into their rows; a damaged mask makes its annotation odd."""
        which = np.flatnonzero(self._kinds == _OBJECT)
        pictures = (np.searchsorted(self._bounds, which, side="right") - 1).tolist()
        masks: dict[int, list[NDArray[np.bool_]]] = {}
        owners: dict[int, list[int]] = {}
        of = self._file.elements("annotations", self._numbers[which])
        for picture, at, one in zip(pictures, which.tolist(), of, strict=True):
            owners.setdefault(picture, []).append(at - self._pairs[picture][0])
            try:
                masks.setdefault(picture, []).append(decoded(one["segmentation"], sizes[picture]))
            except _BAD_VALUE:
                self.odd[at] = True
        name = self._reader.names
        for picture, row in enumerate(found):
            layers = masks.get(picture, [])
            if len({layer.shape for layer in layers}) > 1:
                self.odd[self._pairs[picture][0]] = True
            elif row is not None:
                row[name["rle_mask"]] = _stacked(layers)
                row[name["rle_object"]] = np.array(owners.get(picture, ()), np.int32)


def _column_of(key: str, reader: Reader) -> str:
    """Return the letter of the column type into which a key is read."""
    fixed = {"bbox": "F", "segmentation": "P", "caption": "v"}
    if key in fixed:
        return fixed[key]
    if key == "keypoints":
        return "I" if reader.dtypes[key] == "int32" else "F"
    return "i" if reader.dtypes.get(key, "int64") == "int64" else "f"


def _ends(counts: Any) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
