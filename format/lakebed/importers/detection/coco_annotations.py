"""What COCO annotations hold: which tensors a kind of them needs, and what they put into a row."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError, NotFoundError
from lakebed.htypes.rle import decode_rle
from lakebed.importers.core import shares
from lakebed.importers.core.plan import TensorPlan, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.tables.json_index import JsonFile


@dataclass
class Kind:
    """Annotation files of one kind: what their annotations hold.

    Parameters
    ----------
    prefix
        Name of the group, with its slash; empty without one.
    keys
        What each key holds, and in how many of the annotations that were looked at: "int", "float", "text", "ints",
        "floats", "other".
    looked
        How many annotations were looked at.
    segments_looked
        How many panoptic segments.
    filled
        Of the keys that may be empty lists in all annotations of all files, those that are not.
    """

    name: str
    prefix: str = ""
    files: list[str] = field(default_factory=list)
    count: int = 0
    keys: dict[str, dict[str, int]] = field(default_factory=dict)
    looked: int = 0
    has_rle: bool = False
    has_polygons: bool = False
    segments: dict[str, None] = field(default_factory=dict)
    segments_looked: int = 0
    categories: list[dict[str, Any]] = field(default_factory=list)
    filled: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Reader:
    """How the annotations of a kind become values of tensors."""

    prefix: str
    names: Mapping[str, str]
    dtypes: Mapping[str, str]
    labels: Mapping[int, str]
    tensors: frozenset[str]
    known: frozenset[str]
    is_panoptic: bool
    masks: str


# What values of keys are, by the letters of JSON values; the rest is "other".
KINDS: Mapping[int, str] = {ord("i"): "int", ord("f"): "float", ord("s"): "text"}
_LISTS: Mapping[int, str] = {ord("I"): "ints", ord("F"): "floats", ord("A"): "other"}
_OBJECT = ord("o")

# Keys that tools write as empty lists where they have nothing to say: no tensor is made of such a key.
_MAY_BE_EMPTY = ("bbox", "segmentation", "keypoints")

# Htypes whose samples are large enough for a record of their shapes of its own; of numbers chunks tell them as fast.
# Ids, by which versions are merged, all tensors have.
_WITH_SHAPES = ("polygon", "binary_mask", "instance_label")

# Annotations of panoptic segments that are made at a time, to look into them.
_TOGETHER = 1000


def look(kind: Kind, file: JsonFile, most: int) -> None:
    """Note which keys the first annotations of a file have, and what they hold."""
    array = file.arrays["annotations"]
    counts = np.bincount(array.numbers[:most], minlength=len(array.shapes)).tolist()
    shapes = [(number, one) for number, one in enumerate(zip(array.shapes, counts, strict=True)) if one[1]]
    kind.looked += sum(count for _, (shape, count) in shapes if shape.keys)
    for number, (shape, count) in shapes:
        for key, of in zip(*shape, strict=True):
            if key == "segmentation":
                kind.has_rle |= of == _OBJECT and _has_mask(file, number, most)
                kind.has_polygons |= of in _LISTS
                kind.keys.setdefault(key, {})
            elif key != "segments_info":
                _count(kind, key, _LISTS.get(of) or KINDS.get(of, "other"), count)
            else:
                kind.keys.setdefault(key, {})
    kind.filled |= {key for key in _MAY_BE_EMPTY if key not in kind.filled and _is_filled(file, key)}
    _look_at_segments(kind, file, most)


def _is_filled(file: JsonFile, key: str) -> bool:
    """Whether a key is more than an empty list or null in any annotation of a file."""
    array = file.arrays["annotations"]
    of = array.kinds_of(key)
    unsure = np.isin(of, [ord("n"), ord("A")])  # of whose kinds null and an empty list are
    if (of[~unsure] != 0).any():
        return True
    numbers = np.flatnonzero(unsure[array.numbers])
    for start in range(0, len(numbers), _TOGETHER):
        (places,), _ = file.columns("annotations", numbers[start : start + _TOGETHER], [key], b"v")
        for begin, end in places.tolist():
            if end - begin > 2 and file.text[begin:end].strip(b"[] \t\r\n") not in (b"", b"null"):
                return True
    return False


def _count(kind: Kind, key: str, of: str, count: int = 1) -> None:
    known = kind.keys.setdefault(key, {})
    known[of] = known.get(of, 0) + count


def _has_mask(file: JsonFile, shape: int, most: int) -> bool:
    """Whether one of the first annotations of a shape has a mask: an object alone may be anything."""
    numbers = np.flatnonzero(file.arrays["annotations"].numbers[:most] == shape)[:_TOGETHER]
    return any("counts" in one["segmentation"] for one in file.elements("annotations", numbers))


def _look_at_segments(kind: Kind, file: JsonFile, most: int) -> None:
    """Note what the segments of panoptic annotations have."""
    array = file.arrays["annotations"]
    is_list = np.isin(array.kinds_of("segments_info"), list(_LISTS))
    numbers = np.flatnonzero(is_list[array.numbers[:most]]) if is_list.any() else np.zeros(0, np.int64)
    for start in range(0, len(numbers), _TOGETHER):
        for annotation in file.elements("annotations", numbers[start : start + _TOGETHER]):
            for segment in annotation["segments_info"]:
                kind.segments_looked += 1
                for key, value in segment.items() if isinstance(segment, dict) else ():
                    kind.segments[key] = None
                    _count(kind, key, _kind_of(value))


def _kind_of(value: Any) -> str:
    if type(value) is not list:
        return {int: "int", float: "float", str: "text"}.get(type(value), "other")
    types = set(map(type, value))
    if types == {int}:
        return "ints"
    return "floats" if types and types <= {int, float} else "other"


# -- tensors -----------------------------------------------------------------------------------------------------


def tensors_of(
    kind: Kind, names: Mapping[str, str], ignore: set[str], *, dedicated: bool
) -> tuple[list[TensorPlan], Reader]:
    """Return the tensors of a kind of annotations, and what fills them."""
    made: dict[str, TensorPlan] = {}
    dtypes: dict[str, str] = {}
    tensors_by_key: dict[str, str] = {}
    is_panoptic = bool(kind.segments)
    keys = kind.segments if is_panoptic else kind.keys
    labels = _labels(kind.categories)
    empty = set(_MAY_BE_EMPTY) & keys.keys() - kind.filled if dedicated and not is_panoptic else set()

    def add(key: str, **arguments: Any) -> None:
        name = f"{kind.prefix}{names.get(key, key)}"
        tensors_by_key[key] = name
        if dedicated and arguments.get("htype") not in _WITH_SHAPES:
            arguments["create_shape_tensor"] = False
        # What each object has one of, an image has a list of.
        is_list = arguments.get("htype") in (None, "class_label")
        made[name] = tensor(name, is_list=is_list, **arguments)

    looked = kind.segments_looked if is_panoptic else kind.looked
    for key in keys:
        of = kind.keys.get(key, {})

        def mostly(*kinds: str, of: Mapping[str, int] = of, share: float = shares.MOSTLY) -> bool:
            return shares.mostly(sum(of.get(one, 0) for one in kinds), looked, share)

        if key in ignore or key in empty or (key == "image_id" and dedicated):
            continue
        if key == "bbox" and mostly("ints", "floats"):
            dtypes[key] = "float64" if dedicated else "float32"
            add(key, htype="bbox", dtype=dtypes[key], coords={"type": "pixel", "mode": "LTWH"})
        elif key == "category_id" and labels and mostly("int", "float"):
            info = {"category_ids": list(labels), "categories": kind.categories}
            add(key, htype="class_label", class_names=list(labels.values()), info=info)
        elif key == "segmentation":
            dtypes[key] = "float64" if dedicated else "float32"
            _add_segmentation(add, kind, dtypes[key])
        elif key == "keypoints" and mostly("ints", "floats"):
            points = next((one for one in kind.categories if one.get("keypoints")), {})
            dtypes[key] = "float64" if "floats" in of else "int32"
            add(
                key,
                htype="keypoints_coco",
                dtype=dtypes[key],
                keypoints=[str(one) for one in points.get("keypoints") or ()],
                connections=points.get("skeleton") or [],
            )
        elif key == "caption" and mostly("text"):
            add(key, htype="sequence[text]")
        elif "float" not in of and mostly(
            "int", share=shares.MOSTLY if key == "iscrowd" else shares.NEARLY_ALL
        ):
            dtypes[key] = "int64"
            add(key, dtype="int64")
        elif "float" in of and mostly("int", "float"):
            dtypes[key] = "float64"
            add(key, dtype="float64")
    if is_panoptic:
        add("segment_ids", htype="instance_label", dtype="uint32", sample_compression="lz4")
    known = frozenset(
        {
            *tensors_by_key,
            *(("segmentation",) if "segmentation" in keys else ()),
            *ignore,
            *empty,
            *(("image_id",) if dedicated else ()),
        }
    )
    if any(key not in known for key in keys) or (is_panoptic and len(kind.keys) > 0):
        add("other", htype="json")
    reader = Reader(
        kind.prefix, tensors_by_key, dtypes, labels, frozenset(made), known, is_panoptic, kind.name
    )
    return list(made.values()), reader


def _add_segmentation(add: Callable[..., None], kind: Kind, dtype: str) -> None:
    if kind.has_polygons or not kind.has_rle:
        add("segmentation", htype="polygon", dtype=dtype)
        add("segmentation_object", dtype="int32")
    if kind.has_rle:
        add("rle_mask", htype="binary_mask", sample_compression="lz4")
        add("rle_object", dtype="int32")


def _labels(categories: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return the name of each category by its id; names that are there twice get their id behind them."""
    count: dict[str, int] = {}
    for one in categories:
        count[str(one.get("name"))] = count.get(str(one.get("name")), 0) + 1
    return {
        one["id"]: str(one.get("name"))
        if count[str(one.get("name"))] == 1
        else f"{one.get('name')} ({one['id']})"
        for one in categories
    }


# -- rows --------------------------------------------------------------------------------------------------------


def values_of(
    found: list[dict[str, Any]],
    reader: Reader,
    size: tuple[int, int],
    panoptic: Source | None,
    told: Callable[[str, bool], object],
) -> dict[str, Any]:
    """Return the values of a kind's tensors for a picture.

    Parameters
    ----------
    told
        Is told what is wrong with an annotation, and whether it is left out for that; else only the value is.
    """
    row: dict[str, Any] = {}
    whole: list[dict[str, Any]] = found
    if reader.is_panoptic:
        found, row = _segments(whole, reader, panoptic)
        found = _usable(found, reader, size, told)
    else:
        found = whole = _usable(found, reader, size, told)
    name = reader.names
    for key, full in name.items():
        if key == "bbox":
            row[full] = _boxes(found, reader.dtypes[key])
        elif key == "category_id" and key not in reader.dtypes:
            row[full] = [reader.labels[one[key]] for one in found] or np.zeros(0, np.uint32)
        elif key == "keypoints":
            points = np.array([one["keypoints"] for one in found], reader.dtypes[key])
            row[full] = points.T if found else None
        elif key == "caption":
            row[full] = [one["caption"] for one in found]
        elif key in reader.dtypes and key != "segmentation":
            row[full] = np.array([one[key] for one in found], reader.dtypes[key])
    if name.keys() & {"segmentation", "rle_mask"}:
        _segmentations(found, reader, size, row)
    if "other" in name:
        of = whole if reader.is_panoptic else found
        known = reader.known | {"segments_info"} if reader.is_panoptic else reader.known
        row[name["other"]] = [{key: value for key, value in one.items() if key not in known} for one in of]
    return row


def _usable(
    found: list[dict[str, Any]], reader: Reader, size: tuple[int, int], told: Callable[[str, bool], object]
) -> list[dict[str, Any]]:
    """Return the annotations that fit the tensors, without single values that do not."""
    usable = []
    for one in found:
        if not isinstance(one, dict):
            told(f"an annotation is {str(one)[:80]}, and no object", True)
            continue
        try:
            usable.append(_mended(one, reader, size, told))
        except ValueError as error:
            told(f"{_named(one)}: {error}", True)
    lengths = [len(one["keypoints"]) for one in usable] if "keypoints" in reader.names else []
    if len(set(lengths)) > 1:
        usual = max(set(lengths), key=lengths.count)
        for one, length in zip(usable, lengths, strict=True):
            if length != usual:
                told(
                    f"{_named(one)}: keypoints has {length} numbers, and others of the picture {usual}", True
                )
        usable = [one for one, length in zip(usable, lengths, strict=True) if length == usual]
    return usable


def _mended(
    one: dict[str, Any], reader: Reader, size: tuple[int, int], told: Callable[[str, bool], object]
) -> dict[str, Any]:
    """Return an annotation with values that the tensors take.

    Raises
    ------
    ValueError
        If it has none for one that needs a value of each annotation.
    """
    found = dict(one)
    for key in reader.names:
        value = one.get(key)
        if key == "bbox":
            if type(value) is not list or len(value) != 4 or not all(map(_is_number, value)):
                raise ValueError(f"bbox is {_shown(one, key)}, and not four numbers")
        elif key == "category_id" and key not in reader.dtypes:
            if not _is_number(value) or value not in reader.labels:
                raise ValueError(f"category_id {_shown(one, key)} is none of the categories'")
        elif key == "keypoints":
            if type(value) is not list or len(value) % 3 or not all(map(_is_number, value)):
                raise ValueError(f"keypoints is {_shown(one, key)}, and no numbers in threes")
            if reader.dtypes[key] == "int32" and any(n != int(n) or abs(n) >= 1 << 31 for n in value):
                raise ValueError(f"keypoints is {_shown(one, key)}, and the others are whole numbers")
        elif key == "caption":
            if type(value) is not str:
                raise ValueError(f"caption is {_shown(one, key)}, and no text")
        elif key in reader.dtypes and key != "segmentation":
            found[key] = _number_of(one, key, reader.dtypes[key], told)
    if reader.names.keys() & {"segmentation", "rle_mask"} and one.get("segmentation") is not None:
        try:
            found["segmentation"] = _outline_of(one["segmentation"], size, reader)
        except (LakebedError, LookupError, TypeError, ValueError) as error:
            told(f"{_named(one)}: its segmentation is left out: {error}", False)
            found["segmentation"] = None
    return found


def _number_of(
    one: Mapping[str, Any], key: str, dtype: str, told: Callable[[str, bool], object]
) -> int | float:
    """Return a value of a column of numbers; NaN stands for none among floats."""
    value: Any = one.get(key)
    if dtype == "float64":
        if _is_number(value) and abs(value) <= sys.float_info.max:
            return float(value)
        told(f"{_named(one)}: {key} is {_shown(one, key)}, and no number", False)
        return float("nan")
    if type(value) is bool or (_is_number(value) and value == int(value) and -(1 << 63) <= value < 1 << 63):
        return int(value)
    if key == "iscrowd" and key not in one:
        return 0  # as in pycocotools
    raise ValueError(f"{key} is {_shown(one, key)}, and no whole number")


def _outline_of(value: Any, size: tuple[int, int], reader: Reader) -> Any:
    """Return polygons as lists of numbers, or a mask, which is decoded once to see that it can be.

    Raises
    ------
    LakebedError, LookupError, TypeError, ValueError
        If it is neither.
    """
    if type(value) is dict and "rle_mask" in reader.names:
        decode_rle(value, size)
        return value
    if type(value) is not list:
        raise ValueError(f"it is {str(value)[:80]}, and neither polygons nor a mask")
    parts = value
    if value and all(map(_is_number, value)):
        if len(value) < 6:
            raise ValueError(f"{len(value)} numbers in a row are no polygon")
        parts = [value]  # one polygon, as many tools write it
    parts = [_flat(part) for part in parts]
    for part in parts:
        if type(part) is not list or len(part) % 2 or not all(map(_is_number, part)):
            raise ValueError("it is no list of polygons, each a list of x and y in turns")
    return [part for part in parts if part]


def _flat(part: Any) -> Any:
    """Return a polygon of points, each a list of x and y, as numbers in a row; others as they are."""
    if type(part) is list and part and all(type(one) is list and len(one) == 2 for one in part):
        return [number for one in part for number in one]
    return part


def _is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _shown(one: Mapping[str, Any], key: str) -> str:
    return str(one[key])[:80] if key in one else "missing"


def _boxes(found: list[dict[str, Any]], dtype: str) -> NDArray[Any]:
    return np.array([one["bbox"] for one in found], dtype).reshape(len(found), 4)


def _named(one: Mapping[str, Any]) -> str:
    return f"annotation {one['id']}" if "id" in one else "an annotation"


def _segmentations(
    found: list[dict[str, Any]], reader: Reader, size: tuple[int, int], row: dict[str, Any]
) -> None:
    name, dtype = reader.names, reader.dtypes["segmentation"]
    parts: list[Any] = []
    owners: list[int] = []
    masks: list[NDArray[np.bool_]] = []
    mask_owners: list[int] = []
    for number, one in enumerate(found):
        of = one.get("segmentation")
        if type(of) is list:
            parts += of
            owners += [number] * len(of)
        elif type(of) is dict:
            masks.append(decode_rle(of, size))
            mask_owners.append(number)
    if "segmentation" in name:
        row[name["segmentation"]] = _polygons(parts, dtype)
        row[name["segmentation_object"]] = np.array(owners, np.int32)
    if "rle_mask" in name:
        row[name["rle_mask"]] = stacked(masks)
        row[name["rle_object"]] = np.array(mask_owners, np.int32)


def stacked(masks: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_] | None:
    """Return masks of one size as layers: shape (height, width, masks); None of none."""
    if len(masks) == 1:
        return masks[0][:, :, np.newaxis]
    return np.stack(masks, axis=2) if masks else None


def _polygons(parts: list[Any], dtype: str) -> list[NDArray[Any]]:
    """Return the points of polygons, each given as numbers in a row: shape (points, 2)."""
    if not parts:
        return []
    flat = array("d")
    ends = [0]
    try:
        for part in parts:
            flat.extend(part)
            ends.append(len(flat))
    except (TypeError, OverflowError):  # not numbers in a row, which NumPy may yet understand
        return [np.array(part, dtype).reshape(-1, 2) for part in parts]
    if any(end % 2 for end in ends):
        raise ValueError("a polygon has half a point")
    points = np.array(flat, dtype).reshape(-1, 2)
    return [points[start // 2 : end // 2] for start, end in pairwise(ends)]


def _segments(
    found: list[dict[str, Any]], reader: Reader, panoptic: Source | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the segments of a picture, and its map of ids, which its PNG file tells (R + 256 G + 65536 B)."""
    if not found:
        return [], {}
    if len(found) > 1 or panoptic is None:
        raise IngestionError("a picture has one panoptic annotation")
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
        near = [
            one for one in panoptic.with_suffix(".png") if one.rpartition("/")[2] == name.rpartition("/")[2]
        ]
        if len(near) == 1:
            return near[0]
        raise
