"""YOLO: images, a text file of labels for each, and data.yaml, as the importer ``yolo`` reads them.

    DEST/data.yaml                 splits, names of classes, kpt_shape
    DEST/images/train/1.jpg        images/1.jpg without splits
    DEST/labels/train/1.txt        missing for rows whose boxes are null

Fractions in the dataset are written unchanged, with as many digits as their type has; pixels are divided by the sides
of the image.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import ExportError
from lakebed.exporters.core.media import file_of, is_empty, is_null, suffix_of
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, tensor_of, tensors_of
from lakebed.exporters.core.target import Target
from lakebed.exporters.detection.boxes import IMAGES, as_ltwh

if TYPE_CHECKING:
    import lakebed

_Values = list[tuple[int, NDArray[np.floating[Any]]]]
"""Pairs of the number of an object and its values."""

_TASKS = {"detect": "boxes", "segment": "polygons", "pose": "poses", "obb": "oriented boxes"}
_INSPECTED = 1000
"""Number of rows whose polygons are examined to decide between pixels and fractions, if the info does not say."""
_DROPPED = re.compile(r"(images|JPEGImages|train|val|valid|validation|test)[_-]?\d*", re.IGNORECASE)
"""Folders of a file's name that stand for its split, or for all images."""


@dataclass(frozen=True)
class _Context:
    """Tensors by part, and the meaning of their numbers.

    Parameters
    ----------
    parts
        Tensor with the number of the object of each polygon.
    are_pixels
        Points are pixels, not fractions.
    native
        The importer ``yolo`` made the dataset.
    is_3x
        Folders and files are those of Deep Lake 3.
    """

    task: str
    images: str
    labels: str
    names: Sequence[str]
    boxes: str | None
    polygons: str | None
    parts: str | None
    keypoints: str | None
    confidence: str | None
    file: str | None
    coords: Mapping[str, Any]
    are_pixels: bool
    native: bool
    kpt_shape: Sequence[int]
    flip_idx: Sequence[int]
    is_3x: bool


def plan(
    ds: lakebed.Dataset,
    *,
    task: Literal["auto", "detect", "segment", "pose", "obb"] = "auto",
    images: str | None = None,
    boxes: str | None = None,
    labels: str | None = None,
    polygons: str | None = None,
    keypoints: str | None = None,
    layout: Literal["ultralytics", "3.x"] = "ultralytics",
) -> ExportPlan:
    """Plan an image and a label file for each row.

    Parameters
    ----------
    ds
        The dataset.
    task
        Content of the lines: boxes, polygons, poses, oriented boxes; ``auto`` is the task of an imported dataset,
        otherwise boxes if it has any.
    images
        Tensor of the images.
    boxes
        Tensor of the boxes.
    labels
        Tensor of the classes, one for each object.
    polygons
        Tensor of the polygons, one for each object.
    keypoints
        Tensor of the key points.
    layout
        Folders: as Ultralytics has them, or as ``export_yolo`` of Deep Lake 3.x did.
    """
    image = tensor_of(ds, "images", images, *IMAGES)
    if image is None:
        raise ExportError("YOLO needs images: the dataset has no tensor of htype image")
    box = tensor_of(ds, "boxes", boxes, "bbox")
    chosen = _task(ds, box) if task == "auto" else task
    is_outlined, is_pose = chosen in ("segment", "obb"), chosen == "pose"
    outlines = tensor_of(ds, "polygons", polygons, "polygon") if is_outlined else None
    points = tensor_of(ds, "keypoints", keypoints, "keypoints_coco") if is_pose else None
    first = outlines if is_outlined else box
    if first is None or (is_pose and points is None):
        wanted = {"pose": "bbox and one of htype keypoints_coco", "detect": "bbox"}.get(chosen, "polygon")
        raise ExportError(f"YOLO {_TASKS[chosen]} need a tensor of htype {wanted}, but the dataset has none")
    label = _labels(ds, labels, first)
    native = any(ds[name].info.get("task") in _TASKS for name in (box, outlines) if name)
    context = _Context(
        task=chosen,
        images=image,
        labels=label,
        names=[str(name) for name in ds[label].info.get("class_names") or ()],
        boxes=box,
        polygons=outlines,
        parts=f"{outlines}_object" if f"{outlines}_object" in ds.tensors else None,
        keypoints=points,
        confidence="confidence" if native and "confidence" in ds.tensors else None,
        file="file" if "file" in ds.tensors else None,
        coords=dict(ds[box].info.get("coords") or {}) if box else {},
        are_pixels=_are_pixels(ds, outlines or points),
        native=native,
        kpt_shape=_kpt_shape(ds, points) if points else (),
        flip_idx=list(ds[points].info.get("flip_idx") or ()) if points else (),
        is_3x=layout == "3.x",
    )
    if context.is_3x and not context.names:
        raise ExportError(f"class names are not defined: set ds[{label!r}].info.class_names")
    parts = {"images": image, "labels": label, "boxes": None if is_outlined else box, "polygons": outlines}
    tensors = {part: name for part, name in (*parts.items(), ("keypoints", points)) if name}
    taken = {*tensors.values(), "split", "file", context.confidence, context.parts, box}
    problems = [(name, "this tensor is not written") for name in ds.tensors if name not in taken]
    if outlines and context.parts:
        told = (
            "each of several polygons of an object becomes an object; objects without polygons are left out"
        )
        problems.append((outlines, told))
    return ExportPlan(f"{len(ds):,} images with {_TASKS[chosen]}", tensors, context, problems=problems)


def write(view: lakebed.Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Write the images and labels of some rows; return the highest number of a class."""
    done = Written()
    highest = done.each(view, piece, lambda row, at: _write_row(row, at, piece.split, context, target))
    done.result = max(highest, default=-1)
    return done


def finish(results: Sequence[tuple[Piece, int]], context: _Context, target: Target) -> None:
    """Write data.yaml."""
    highest = max((result for _, result in results), default=-1)
    names = list(context.names)
    names += [str(number) for number in range(len(names), highest + 1)]
    if context.is_3x:
        target.write("classes.names", "".join(f"{name}\n" for name in names).encode())
        return
    splits = list(dict.fromkeys(piece.split for piece, _ in results if len(piece.rows)))
    lines = [f"{split}: images/{split}" for split in splits]
    if splits in ([""], []):
        lines = ["train: images", "val: images"]
    lines.append(f"nc: {len(names)}")
    lines.append("names:" if names else "names: {}")
    lines += [f"  {number}: {_quoted(name)}" for number, name in enumerate(names)]
    if context.kpt_shape:
        lines.append(f"kpt_shape: {json.dumps(list(context.kpt_shape))}")
    if context.flip_idx:
        lines.append(f"flip_idx: {json.dumps([int(one) for one in context.flip_idx])}")
    target.write("data.yaml", "".join(f"{line}\n" for line in lines).encode())


# -- tensors -----------------------------------------------------------------------------------------------------


def _task(ds: lakebed.Dataset, box: str | None) -> str:
    known = str(ds[box].info.get("task")) if box else ""
    if known in _TASKS:
        return known
    return "segment" if box is None and tensors_of(ds, "polygon") else "detect"


def _labels(ds: lakebed.Dataset, given: str | None, first: str) -> str:
    """Return the tensor of the classes: if several exist, the one in the group of the boxes, or ``labels``."""
    group = first.rpartition("/")[0]
    if given is None:
        found = [name for name in tensors_of(ds, "class_label") if name != "split"]
        near = [name for name in found if name.rpartition("/")[0] == group]
        for chosen in (found, near, [name for name in near if name.rpartition("/")[2] == "labels"]):
            if len(chosen) == 1:
                return chosen[0]
        if not found:
            raise ExportError("YOLO needs classes: the dataset has no tensor of htype class_label")
        raise ExportError(
            f"several tensors could be the labels ({', '.join(found)}): say which, labels=... (--labels)"
        )
    return str(tensor_of(ds, "labels", given))


def _are_pixels(ds: lakebed.Dataset, name: str | None) -> bool:
    """Return whether points are pixels. Without info, polygons are fractions if no number is above 1."""
    if name is None:
        return False
    info = ds[name].info
    kind = (info.get("coords") or {}).get("type")
    if info.get("task") in _TASKS or kind is not None or ds[name].htype != "polygon":
        return kind != "fractional" and info.get("task") not in _TASKS
    first = ds[name][:_INSPECTED].numpy(aslist=True)
    return any(bool((np.abs(points) > 1).any()) for polygons in first for points in polygons)


def _kpt_shape(ds: lakebed.Dataset, name: str) -> list[int]:
    known = ds[name].info.get("kpt_shape")
    if known:
        return [int(one) for one in known]
    most: Sequence[int] = ds[name].shape_interval.upper  # lengths of the axes: rows, numbers, objects
    return [int(most[1]) // 3 if len(most) > 1 else 0, 3]


# -- rows --------------------------------------------------------------------------------------------------------


def _write_row(row: lakebed.Dataset, number: int, split: str, context: _Context, target: Target) -> int:
    image = row[context.images]
    if is_empty(image):
        raise ExportError("the image is missing")
    shape = image.shape
    data = file_of(image)
    lines = _lines(row, context, (int(shape[0]), int(shape[1])))
    suffix = suffix_of(image)
    if context.is_3x:
        stem, images, labels = str(number), "images", "annotations"
        suffix = ".jpeg" if suffix == ".jpg" else suffix
    else:
        images, labels = (f"{of}/{split}".rstrip("/") for of in ("images", "labels"))
        stem = _stem(row, number, context)
    path = target.free(f"{labels}/{stem}.txt")
    target.write(f"{images}{path[len(labels) : -4]}{suffix}", data)
    if lines is not None:
        target.put(path, "".join(f"{line}\n" for line in lines).encode())
    return max((int(line.split(" ", 1)[0]) for line in lines or ()), default=-1)


def _stem(row: lakebed.Dataset, number: int, context: _Context) -> str:
    """Return the name of an image without its suffix, and without folders that stand for its split."""
    name = str(row[context.file].text()) if context.file else ""
    *folders, last = name.replace("\\", "/").split("/")
    stem, dot, _ = last.rpartition(".")
    kept = [part for part in folders if not _DROPPED.fullmatch(part)]
    return "/".join([*kept, (stem if dot else last) or f"{number:08d}"])


def _lines(row: lakebed.Dataset, context: _Context, size: tuple[int, int]) -> list[str] | None:
    """Return the label file of a row; None if its objects are unknown."""
    if is_null(row[context.polygons or context.boxes]):
        return [] if context.is_3x else None
    classes = [int(one) for one in np.asarray(row[context.labels].numpy()).reshape(-1)]
    count = len(classes)
    made = (_outlines if context.polygons is not None else _boxes)(row, context, size, count)
    confidences = None
    if context.confidence is not None:
        confidences = np.asarray(row[context.confidence].numpy()).reshape(-1)
    found = []
    for number, values in made:
        words = [str(classes[number]), *map(_word, values)]
        if confidences is not None and len(confidences) == count and np.isfinite(confidences[number]):
            words.append(_word(confidences[number]))
        found.append(" ".join(words))
    return found


def _boxes(row: lakebed.Dataset, context: _Context, size: tuple[int, int], count: int) -> _Values:
    """Return the boxes of the objects, and their key points."""
    height, width = size
    boxes = np.asarray(row[context.boxes].numpy()).reshape(-1, 4)
    _check_count(str(context.boxes), len(boxes), count)
    values = list(fractional_ccwh(boxes, context.coords, size))
    if context.keypoints is not None:
        points = np.asarray(row[context.keypoints].numpy(), np.float64)
        each = points.reshape(points.shape[0], -1).T.reshape(-1, int(context.kpt_shape[0]), 3)
        _check_count(context.keypoints, len(each), count)
        if context.are_pixels:
            each = each / np.array([width, height, 1.0])
        each = each[:, :, : int(context.kpt_shape[1])]
        values = [np.concatenate([box, one.reshape(-1)]) for box, one in zip(values, each, strict=True)]
    return list(enumerate(values))


def _outlines(row: lakebed.Dataset, context: _Context, size: tuple[int, int], count: int) -> _Values:
    """Return the points of the objects; for an object with fewer than three points, the corners of its box.

    If an object was imported as a box among polygons, its polygon is the rectangle of the box; such an object is
    written as a box again.
    """
    boxes = None
    if context.boxes is not None and context.parts is None:
        boxes = np.asarray(row[context.boxes].numpy()).reshape(-1, 4)
    polygons = row[context.polygons].numpy()
    owners = list(range(len(polygons)))
    if context.parts is not None:
        owners = [int(one) for one in np.asarray(row[context.parts].numpy()).reshape(-1)]
    else:
        _check_count(str(context.polygons), len(owners), count)
    found = []
    for owner, all_of in zip(owners, polygons, strict=True):
        points = np.asarray(all_of)[:, :2]
        if context.task == "obb" and len(points) != 4:
            raise ExportError(f"object {owner} has {len(points)} corners, but an oriented box has 4")
        box = boxes[owner] if boxes is not None and owner < len(boxes) else None
        is_native = context.native and context.task == "segment"
        if is_native and box is not None and _is_rectangle_of(points, box):
            found.append((owner, box))
            continue
        if len(points) < 3 and not context.native:
            points = _corners(owner, points, boxes, context, size)
        if context.are_pixels:
            points = points / np.array(size[::-1])
        found.append((owner, points.reshape(-1)))
    return found


def _corners(
    owner: int, points: NDArray[Any], boxes: NDArray[Any] | None, context: _Context, size: tuple[int, int]
) -> NDArray[Any]:
    """Return the corners of an object's box, or of the box around its points, in the units of the points."""
    low, high = points.min(0), points.max(0)
    if boxes is not None:
        box = as_ltwh(boxes, context.coords, size)[owner]
        low, high = box[:2], box[:2] + box[2:]
        if not context.are_pixels:
            low, high = low / size[::-1], high / size[::-1]
    if not (high > low).all():
        raise ExportError(f"object {owner} is a point or a line, which has no area")
    return np.array([low, (high[0], low[1]), high, (low[0], high[1])])


def _is_rectangle_of(points: NDArray[Any], box: NDArray[Any]) -> bool:
    """Return whether points are the corners of a box of center and size, from the upper left one on."""
    (x, y), (w, h) = box[:2], box[2:] / 2
    corners = np.array([(x - w, y - h), (x + w, y - h), (x + w, y + h), (x - w, y + h)], points.dtype)
    return points.shape == (4, 2) and bool(np.array_equal(points, corners))


def fractional_ccwh(
    boxes: NDArray[Any], coords: Mapping[str, Any], size: tuple[int, int]
) -> NDArray[np.floating[Any]]:
    """Return boxes as centers and sizes that are fractions of the image; boxes in this form are returned unchanged.

    Parameters
    ----------
    boxes
        Shape (n, 4).
    coords
        Info of the tensor: unit and form of the boxes; see :func:`as_ltwh`.
    size
        Height and width of the image.
    """
    if coords.get("type") == "fractional" and coords.get("mode") == "CCWH":
        return boxes
    height, width = size
    found = as_ltwh(boxes, coords, size)
    found[:, :2] += found[:, 2:] / 2
    return found / np.array([width, height, width, height], np.float64)


def _check_count(name: str, count: int, classes: int) -> None:
    if count != classes:
        raise ExportError(f"{name} has {count} objects, and the row has {classes} labels")


def _word(value: Any) -> str:
    """Return the shortest text from which a number of this type is read back unchanged."""
    if isinstance(value, np.float32 | np.float16):
        return str(value)
    found = float(value)
    return repr(int(found)) if found == int(found) else repr(found)


def _quoted(text: str) -> str:
    """Return text in the double quotes of YAML."""
    found = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in found)
