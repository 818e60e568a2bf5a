"""What COCO annotations hold: which tensors a kind of them needs, and what they put into a row."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, NotFoundError
from lakebed.htypes.rle import decode_rle
from lakebed.importers.json_index import JsonFile
from lakebed.importers.plan import TensorPlan, tensor
from lakebed.importers.source import Source


@dataclass
class Kind:
    """Annotation files of one kind: what their annotations hold.

    Parameters
    ----------
    prefix
        Name of the group, with its slash; empty without one.
    keys
        What each key holds in all annotations so far: "int", "float", "numbers", "text", "other".
    """

    name: str
    prefix: str = ""
    files: list[str] = field(default_factory=list)
    count: int = 0
    keys: dict[str, set[str]] = field(default_factory=dict)
    present: dict[str, int] = field(default_factory=dict)
    has_rle: bool = False
    has_polygons: bool = False
    segments: dict[str, None] = field(default_factory=dict)
    categories: list[dict[str, Any]] = field(default_factory=list)


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

# Htypes whose samples are large enough for a record of their shapes of its own; of numbers chunks tell them as fast.
# Ids, by which versions are merged, all tensors have.
_WITH_SHAPES = ("polygon", "binary_mask", "instance_label")

# Annotations of panoptic segments that are made at a time, to look into them.
_TOGETHER = 1000


def look(kind: Kind, file: JsonFile, most: int) -> None:
    """Note which keys the first annotations of a file have, and what they hold."""
    array = file.arrays["annotations"]
    counts = np.bincount(array.numbers[:most], minlength=len(array.shapes)).tolist()
    shapes = [(shape, count) for shape, count in zip(array.shapes, counts, strict=True) if count]
    for shape, _ in shapes:
        for key, of in zip(*shape, strict=True):
            if key == "segmentation":
                kind.has_rle |= of == _OBJECT
                kind.has_polygons |= of in _LISTS
                kind.keys.setdefault(key, set())
            elif key != "segments_info" and of in _LISTS and not _is_settled(kind, key):
                kind.keys.setdefault(key, set()).add(_LISTS[of])
    _look_at_segments(kind, file, most)
    for shape, count in shapes:
        for key, of in zip(*shape, strict=True):
            kind.present[key] = kind.present.get(key, 0) + count
            if of not in _LISTS:
                kind.keys.setdefault(key, set()).add(KINDS.get(of, "other"))


def _look_at_segments(kind: Kind, file: JsonFile, most: int) -> None:
    """Note what the segments of panoptic annotations have."""
    array = file.arrays["annotations"]
    is_list = np.isin(array.kinds_of("segments_info"), list(_LISTS))
    numbers = np.flatnonzero(is_list[array.numbers[:most]]) if is_list.any() else np.zeros(0, np.int64)
    for start in range(0, len(numbers), _TOGETHER):
        for annotation in file.elements("annotations", numbers[start : start + _TOGETHER]):
            for segment in annotation["segments_info"]:
                for key, value in segment.items() if isinstance(segment, dict) else ():
                    kind.segments[key] = None
                    kind.keys.setdefault(key, set()).add(_kind_of(value))


def _is_settled(kind: Kind, key: str) -> bool:
    """Whether no list of a key can say anything new."""
    known = kind.keys.get(key, ())
    return "other" in known or ("floats" in known and key in ("bbox", "keypoints"))


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

    def add(key: str, **arguments: Any) -> None:
        name = f"{kind.prefix}{names.get(key, key)}"
        tensors_by_key[key] = name
        if dedicated and arguments.get("htype") not in _WITH_SHAPES:
            arguments["create_shape_tensor"] = False
        # What each object has one of, an image has a list of.
        is_list = arguments.get("htype") in (None, "class_label")
        made[name] = tensor(name, is_list=is_list, **arguments)

    for key in keys:
        of = kind.keys.get(key, set())
        everywhere = is_panoptic or kind.present.get(key, 0) == kind.count
        if key in ignore or (key == "image_id" and dedicated):
            continue
        if key == "bbox" and of <= {"ints", "floats"} and everywhere:
            dtypes[key] = "float64" if dedicated else "float32"
            add(key, htype="bbox", dtype=dtypes[key], coords={"type": "pixel", "mode": "LTWH"})
        elif key == "category_id" and of <= {"int", "float"} and labels and everywhere:
            info = {"category_ids": list(labels), "categories": kind.categories}
            add(key, htype="class_label", class_names=list(labels.values()), info=info)
        elif key == "segmentation":
            dtypes[key] = "float64" if dedicated else "float32"
            _add_segmentation(add, kind, dtypes[key])
        elif key == "keypoints" and of <= {"ints", "floats"} and everywhere:
            points = next((one for one in kind.categories if one.get("keypoints")), {})
            dtypes[key] = "int32" if of == {"ints"} else "float64"
            add(
                key,
                htype="keypoints_coco",
                dtype=dtypes[key],
                keypoints=[str(one) for one in points.get("keypoints") or ()],
                connections=points.get("skeleton") or [],
            )
        elif key == "caption" and of == {"text"} and everywhere:
            add(key, htype="sequence[text]")
        elif of == {"int"} and everywhere:
            dtypes[key] = "int64"
            add(key, dtype="int64")
        elif of <= {"int", "float"} and everywhere:
            dtypes[key] = "float64"
            add(key, dtype="float64")
    if is_panoptic:
        add("segment_ids", htype="instance_label", dtype="uint32", sample_compression="lz4")
    known = frozenset(
        {
            *tensors_by_key,
            *(("segmentation",) if "segmentation" in keys else ()),
            *ignore,
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
    found: list[dict[str, Any]], reader: Reader, size: tuple[int, int], panoptic: Source | None
) -> dict[str, Any]:
    """Return the values of a kind's tensors for a picture."""
    row: dict[str, Any] = {}
    whole: list[dict[str, Any]] = found
    if reader.is_panoptic:
        found, row = _segments(whole, reader, panoptic)
    name = reader.names
    for key, full in name.items():
        if key == "bbox":
            row[full] = _boxes(found, reader.dtypes[key])
        elif key == "category_id" and key not in reader.dtypes:
            row[full] = [_label(one, reader.labels) for one in found] or np.zeros(0, np.uint32)
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


def _boxes(found: list[dict[str, Any]], dtype: str) -> NDArray[Any]:
    for one in found:
        box = one["bbox"]
        if type(box) is not list or len(box) != 4:
            raise IngestionError(f"{_named(one)}: bbox is {str(box)[:80]}, and not four numbers")
    return np.array([one["bbox"] for one in found], dtype).reshape(len(found), 4)


def _label(one: dict[str, Any], labels: Mapping[int, str]) -> str:
    found = labels.get(one["category_id"])
    if found is None:
        raise IngestionError(f"{_named(one)}: category_id {one['category_id']!r} is none of the categories'")
    return found


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
            if any(type(part) is not list for part in of):
                raise IngestionError(
                    f"{_named(one)}: segmentation is no list of polygons, each a list of x and y in turns"
                )
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
