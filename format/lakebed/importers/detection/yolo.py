"""YOLO: a text file of labels for each image (docs.ultralytics.com/datasets, and darknet's form of it).

    0 0.5 0.5 0.2 0.3                      detection: class, center, size; all are fractions of the image's sides
    0 0.1 0.1 0.2 0.3 0.4 0.5              segmentation: class, points of a polygon
    0 0.5 0.5 0.2 0.3 0.4 0.4 2 ...        pose: a box, then points, each with or without its visibility
    0 0.1 0.1 0.2 0.1 0.2 0.2 0.1 0.2      oriented boxes: class, four corners

A row is an image: ``images``, ``file``, ``labels``, ``boxes``, and by task ``polygons`` or ``keypoints``; values are
the float64 of the texts. An image without a label file has nulls, an image with an empty file has no objects. The box
of a polygon is the box around it. If other lines are polygons, a box becomes a polygon of its four corners, beginning
with the upper left one. If other lines are boxes, a polygon of four or more points becomes the box around it, and the
report says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.plan import ImageOptions, Media, Plan, TensorPlan, tensor
from lakebed.importers.core.shares import few
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import ranges_of
from lakebed.importers.detection.yolo_layout import (
    LabelFiles,
    Layout,
    description_of,
    kpt_shape_of,
    layout_of,
    text_of,
)
from lakebed.importers.folders.passed_over import beside_set
from lakebed.importers.folders.pictures import images_of, planned_images
from lakebed.transforms.output import Skipped

TASKS: Mapping[str, str] = {
    "detect": "boxes",
    "segment": "polygons",
    "pose": "poses",
    "obb": "oriented boxes",
}
COORDS = {"type": "fractional", "mode": "CCWH"}

_MOST_BYTES = 1 << 28
"""Maximum size of a label file; 100,000 polygons of 20 points take 40 MB."""
_BOX = 5
"""Number of numbers in a line with a box."""
_MOST_CLASS = 0xFFFFFFFF  # limit of class numbers, because labels are stored as uint32


class Labelled(NamedTuple):
    """An image and its label file; the label file is None if the image has none."""

    image: str
    labels: str | None

    def __str__(self) -> str:
        return self.image


@dataclass(frozen=True)
class Reader:
    """Rules by which lines become objects.

    Parameters
    ----------
    source
        Source of the label files.
    task
        ``detect``, ``segment``, ``pose`` or ``obb``.
    names
        Names of the classes; None keeps their numbers.
    kpt_shape
        Number of points of an object, and number of numbers per point, for poses.
    confidence
        Whether lines end with a confidence.
    """

    source: Source
    task: str
    names: Sequence[str] | None
    kpt_shape: tuple[int, int] | None = None
    confidence: bool = False

    @property
    def has_polygons(self) -> bool:
        """True if objects have points of an outline."""
        return self.task in ("segment", "obb")


@dataclass
class _Objects:
    """The objects of an image."""

    classes: list[int] = field(default_factory=list)
    boxes: list[Sequence[float]] = field(default_factory=list)
    polygons: list[NDArray[np.float64]] = field(default_factory=list)
    points: list[list[float]] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Context:
    """Files and settings that workers need.

    Parameters
    ----------
    tensors
        Part of a row -> its tensor: ``images``, ``file``, ``labels``, ``boxes``, ``polygons``, ``keypoints``,
        ``confidence``.
    dtype
        Type of boxes and points.
    empty
        Whether images without a label file have no objects, instead of nulls.
    """

    media: Media
    reader: Reader
    tensors: Mapping[str, str]
    dtype: str = "float64"
    empty: bool = False


def recognise(source: Source) -> str | None:
    """Count the images, and name the description; None if the source has no labels."""
    if source.is_file:
        is_small = source.suffix in (".yaml", ".yml") and source.files[source.name] < 1 << 20
        head = source.read() if is_small else b""
        return f"YOLO images of {source.name}" if b"names:" in head and b"train:" in head else None
    images = images_of(source)
    if not images:
        return None
    told = f"{len(images):,} YOLO images"
    try:
        description = description_of(source)
    except IngestionError:
        return told
    if description is not None:
        return f"{told} of {description}"
    files = LabelFiles(source)
    labels = (label for label in map(files.of, images) if label is not None and source.files[label])
    is_known = any(_looks_like_labels(source, label) for label in islice(labels, 3))
    return f"{told} with label files" if is_known else None


def plan(
    source: Source,
    *,
    task: Literal["auto", "detect", "segment", "pose", "obb"] = "auto",
    data: str | None = None,
    classes: str | None = None,
    labels: str | None = None,
    kpt_shape: str | None = None,
    inspect: int = 1000,
    **options: Unpack[ImageOptions],
) -> Plan:
    """Plan a row for each image.

    Parameters
    ----------
    source
        The folder of the images, or its data.yaml.
    task
        Content of the lines: boxes, polygons, poses, oriented boxes; ``auto`` looks at them.
    data
        The data.yaml or obj.data to read, if the source has several.
    classes
        A file with a class on each line, in place of those that data.yaml names.
    labels
        Another folder with the label files.
    kpt_shape
        Number of points of an object, and of numbers for each, as in 17,3; by default, those of data.yaml.
    inspect
        Number of label files that are read to find out the task.
    options
        Options of images.
    """
    if source.is_file:
        data = data or source.name
    source = source.folder
    layout = layout_of(source, data, classes)
    shape = layout.kpt_shape if kpt_shape is None else _shape_of(kpt_shape)
    beside = source if labels is None else source.at(labels)
    files = LabelFiles(beside, apart=labels is not None)
    items, splits = ranges_of(
        (split, [Labelled(name, files.of(name)) for name in images])
        for split, images in layout.images.items()
    )
    unlabelled = sum(item.labels is None for item in items)
    if unlabelled == len(items):
        raise IngestionError(
            f"no image of {source.shown} has a label file; the first image is {items[0].image}. Label files are "
            "expected beside the image, or in labels/ in place of images/ in its path; name another folder by "
            "labels=... (--labels)"
        )
    problems = layout.problems
    problems += [*files.unused(source), *beside_set(source)]
    reader = reader_of(beside, items, task, layout.names, shape, inspect)
    images = [item.image for item in items]
    image, held = planned_images(source, images, problems, **options)
    tensors = [image, *_tensors(reader, layout), tensor("file", "text")]
    more = f", {unlabelled:,} of them without a label file" if unlabelled else ""
    return Plan(
        f"{len(items):,} images with {TASKS[reader.task]}{more}",
        tensors,
        items,
        Context(held, reader, {one.name: one.name for one in tensors}),
        rows=len(items),
        nbytes=sum(source.files[image] for image in images),
        splits=splits,
        problems=problems,
        classes={"labels": layout.names or []},
        about={"task": reader.task, "unlabelled": unlabelled, "data": layout.about},
    )


def rows(item: Labelled, context: Context) -> Iterator[Any]:
    """Make the row of an image; damaged lines of its label file are left out and counted."""
    objects = _Objects()
    made: dict[str, Any] = {"images": context.media.value(item.image), "file": item.image}
    if item.labels is not None:
        yield from _read_labels(context.reader, item.labels, objects)
    if item.labels is not None or context.empty:
        made.update(_values(context.reader, objects, context.dtype))
    yield {name: made.get(part) for part, name in context.tensors.items()}


# -- the task ----------------------------------------------------------------------------------------------------


def reader_of(
    source: Source,
    items: Sequence[Labelled],
    task: str,
    names: Sequence[str] | None,
    shape: tuple[int, int] | None,
    inspect: int,
    tasks: Sequence[str] = tuple(TASKS),
) -> Reader:
    """Inspect some label files; return the reader of their lines.

    Parameters
    ----------
    source
        Source of the label files.
    task, names, shape, inspect
        As for ``plan``.
    tasks
        Tasks from which ``auto`` chooses.

    Raises
    ------
    IngestionError
        If the task is poses, and the number of their points is unknown.
    """
    counts = _counts(source, [item.labels for item in items if item.labels is not None], inspect)
    if task == "auto":
        task = _task_of(counts, shape, tasks)
    if task == "pose":
        if shape is None:
            raise IngestionError(
                "poses need kpt_shape (--kpt-shape): numbers of points and of values per point, as 17,3"
            )
        usual = {_BOX + shape[0] * shape[1]}
    else:
        shape = None
        usual = {"detect": {_BOX}, "obb": {9}}.get(task, {count for count in counts if count % 2})
    with_confidence = sum(counts[n + 1] for n in usual)
    return Reader(source, task, names, shape, not few(with_confidence, counts.total()))


def _counts(source: Source, files: list[str], inspect: int) -> Counter[int]:
    """Return {number of values in a line: number of such lines} for some label files."""
    found: Counter[int] = Counter()
    step = max(1, -(-len(files) // max(inspect, 1)))
    for name in files[::step]:
        try:
            text = _labels_of(source, name)
        except (LakebedError, OSError):
            continue  # the error is reported when the row is made
        found.update(len(line.split()) for line in text.splitlines())
    del found[0]
    return found


def _task_of(counts: Counter[int], shape: tuple[int, int] | None, tasks: Sequence[str]) -> str:
    if shape is not None:
        return "pose"
    lines = counts.total()
    if "obb" in tasks and lines and few(lines - counts[9] - counts[10], lines):
        return "obb"
    # A polygon has at least three points after its class: 7 numbers.
    polygons = sum(number for count, number in counts.items() if count >= 7)
    return "detect" if few(polygons, lines) else "segment"


def _labels_of(source: Source, name: str) -> str:
    return text_of(source.document(name, _MOST_BYTES), f"the label file {name}")


def _looks_like_labels(source: Source, name: str) -> bool:
    head = source.start_of(name, 1 << 14).decode("utf-8-sig", "replace").lstrip()
    words = head.split("\n", 1)[0].split()
    try:
        return len(words) >= _BOX and float(words[0]) == int(float(words[0])) and bool([*map(float, words)])
    except (ValueError, OverflowError):
        return False


def _shape_of(text: str) -> tuple[int, int]:
    parts = text.replace("x", ",").split(",")
    return kpt_shape_of([int(part) if part.strip().isdecimal() else part for part in parts], "kpt_shape")


# -- lines -------------------------------------------------------------------------------------------------------


def _read_labels(reader: Reader, name: str, found: _Objects) -> list[Skipped]:
    """Add the objects of a label file; return reports of lines that are left out or changed.

    Raises
    ------
    IngestionError
        If the file is not text.
    """
    told: list[Skipped] = []
    for number, line in enumerate(_labels_of(reader.source, name).splitlines(), 1):
        words = line.split()
        if not words:
            continue
        try:
            change = _take(reader, words, found)
        except ValueError as error:
            told.append(Skipped(f"{name} line {number}", f"no object: {error}"))
        else:
            if change:
                told.append(Skipped(f"{name} line {number}", change, 0, is_change=True))
    return told


def _take(reader: Reader, words: Sequence[str], found: _Objects) -> str | None:
    """Add the object of a line; return text that says how it was changed, or None.

    Raises
    ------
    ValueError
        If the line is not an object.
    """
    number, *values = map(_number, words)
    if number != int(number) or not 0 <= number <= _MOST_CLASS:
        raise ValueError(f"{words[0]} is not a class")
    if reader.names is not None and number >= len(reader.names):
        raise ValueError(f"class {int(number)} has no name: only {len(reader.names):,} classes have names")
    confidence = math.nan
    if reader.confidence and _has_confidence(reader, len(values)):
        confidence = values.pop()
    count = len(values)
    is_outlined = reader.task == "detect" and count >= 8 and not count % 2
    if reader.task == "pose":
        _take_pose(reader, values, found)
    elif (reader.task == "detect" and not is_outlined) or (reader.task == "segment" and count == 4):
        if count != 4:
            raise ValueError(f"a box has 4 numbers, not {count}; task='segment' reads polygons")
        x, y, w, h = _box(values)
        found.boxes.append(values)
        right, left, low, top = x + w / 2, x - w / 2, y + h / 2, y - h / 2
        found.polygons.append(np.array([(left, top), (right, top), (right, low), (left, low)]))
    else:
        if count % 2 or count < 6 or (reader.task == "obb" and count != 8):
            expected = "8" if reader.task == "obb" else "an even number of at least 6"
            more = "; task='segment' reads other polygons" if reader.task == "obb" else ""
            raise ValueError(f"{TASKS[reader.task]} have {expected} numbers, not {count}{more}")
        points = np.array(values).reshape(-1, 2)
        low, high = points.min(0), points.max(0)
        found.polygons.append(points)
        found.boxes.append([*((low + high) / 2), *(high - low)])
    found.classes.append(int(number))
    found.confidences.append(confidence)
    if is_outlined:
        return "polygons among boxes are the boxes around them; task='segment' reads polygons"
    return None


def _number(word: str) -> float:
    try:
        found = float(word.replace("_", "x"))  # reject underscores: 1_0 is a number only in Python
    except ValueError:
        raise ValueError(f"{word[:40]!r} is not a number") from None
    if not math.isfinite(found):
        raise ValueError(f"{word[:40]!r} is not finite")
    return found


def _take_pose(reader: Reader, values: list[float], found: _Objects) -> None:
    points, numbers = reader.kpt_shape or (0, 0)
    expected = 4 + points * numbers
    if len(values) != expected:
        raise ValueError(
            f"a box and {points} points of {numbers} numbers have {expected} numbers, not {len(values)}"
        )
    box, rest = _box(values[:4]), values[4:]
    if numbers == 2:  # without a visibility, a point at (0, 0) is missing
        pairs = zip(rest[::2], rest[1::2], strict=True)
        rest = [one for x, y in pairs for one in (x, y, 2.0 if x or y else 0.0)]
    found.boxes.append(box)
    found.points.append(rest)


def _box(values: list[float]) -> list[float]:
    if values[2] < 0 or values[3] < 0:
        raise ValueError("a box has a negative size")
    return values


def _has_confidence(reader: Reader, count: int) -> bool:
    if reader.task == "segment":
        return count % 2 == 1
    points, numbers = reader.kpt_shape or (0, 0)
    return count == (9 if reader.task == "obb" else _BOX + points * numbers)


# -- tensors -----------------------------------------------------------------------------------------------------


def _tensors(reader: Reader, layout: Layout) -> list[TensorPlan]:
    fractional = {"coords": {"type": "fractional"}}
    found = [
        tensor("labels", "class_label", class_names=list(reader.names or ()), is_list=True),
        tensor("boxes", "bbox", dtype="float64", coords=COORDS, info={"task": reader.task}),
    ]
    if reader.has_polygons:
        found.append(tensor("polygons", "polygon", dtype="float64", info=fractional))
    if reader.kpt_shape is not None:
        known: dict[str, Any] = {
            key: layout.about[key] for key in ("flip_idx", "kpt_names") if key in layout.about
        }
        info: dict[str, Any] = {"kpt_shape": list(reader.kpt_shape), **fractional, **known}
        found.append(tensor("keypoints", "keypoints_coco", dtype="float64", info=info))
    if reader.confidence:
        found.append(tensor("confidence", dtype="float64", is_list=True))
    return found


def _values(reader: Reader, objects: _Objects, dtype: str) -> dict[str, Any]:
    numbers, names = objects.classes, reader.names
    # Use an array even for no numbers, so that the tensor gets its dtype if a dataset has no objects.
    labels: Any = [names[one] for one in numbers] if names and numbers else np.array(numbers, np.uint32)
    found: dict[str, Any] = {
        "labels": labels,
        "boxes": np.array(objects.boxes, dtype).reshape(len(numbers), 4),
    }
    if reader.has_polygons:
        found["polygons"] = [points.astype(dtype) for points in objects.polygons]
    if reader.kpt_shape is not None:
        found["keypoints"] = np.array(objects.points, dtype).reshape(len(numbers), 3 * reader.kpt_shape[0]).T
    if reader.confidence:
        found["confidence"] = np.array(objects.confidences, np.float64)
    return found
