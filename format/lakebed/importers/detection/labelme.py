"""LabelMe: a JSON file of shapes for each image (the desktop tool's format).

    photos/1.jpg, photos/1.json       or the image inside the JSON file, as base64 in imageData

``polygons`` are the points of a shape: corners of a polygon, two corners of a rectangle, center and a point of a
circle, points of a line. ``attributes`` has the other members of the shape: shape_type, group_id, flags, description;
``annotation`` has the other members of the file. An image without a JSON file has nulls. An image whose JSON file
cannot be read has no row, because its objects are unknown.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Unpack

import lakebed
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.contents import document
from lakebed.importers.core.packages import damaged
from lakebed.importers.core.plan import ImageOptions, Plan, Problem
from lakebed.importers.core.source import Source, stem_of
from lakebed.importers.core.splits import ranges_of
from lakebed.importers.detection.objects import (
    Context,
    Images,
    Object,
    Objects,
    annotated,
    by_folder,
    each,
    number_of,
    plan_of,
)

_MOST_BYTES = 1 << 29
_HEAD_BYTES = 1 << 14
_KEYS = (b'"flags"', b'"version"', b'"imagePath"', b'"imageData"')
_MAGIC = {
    "/9j/": ".jpg",
    "iVBORw": ".png",
    "R0lGOD": ".gif",
    "Qk": ".bmp",
    "SUkq": ".tif",
    "TU0A": ".tif",
    "UklGR": ".webp",
}
"""Beginning of an image as base64 -> suffix."""


class _Row(NamedTuple):
    """A JSON file and its image; either may be missing."""

    annotation: str | None
    image: str | None

    def __str__(self) -> str:
        return str(self.annotation or self.image)


class _Seen(NamedTuple):
    """A JSON file: name of its image, or the kind of the image inside the file; and the classes of its shapes."""

    name: str
    image: str | None
    inside: str
    labels: set[str]


def recognise(source: Source) -> str | None:
    """Count the JSON files; None if the first files are not of LabelMe."""
    names = source.with_suffix(".json")
    is_known = any(_looks_like_labelme(source, name) for name in names[:3])
    return f"{len(names):,} LabelMe annotations" if is_known else None


def plan(source: Source, *, classes: Sequence[str] = (), **options: Unpack[ImageOptions]) -> Plan:
    """Plan a row for each JSON file, and for each image without a JSON file.

    Parameters
    ----------
    source
        The folder, or one JSON file.
    classes
        Names of classes that come first; others are added.
    options
        Options of images.
    """
    only = [source.name] if source.is_file else []
    source = source.folder
    images = Images(source)
    names = only or _names(source, images)
    if not names:
        raise IngestionError(f"{source.shown} has no JSON files of LabelMe")
    problems: list[Problem] = []
    is_link = options.get("link", False)
    rows_of, kinds, labels = _rows_of(source, names, images, problems, link=is_link, alone=not only)
    by_split = by_folder(sorted(rows_of))
    items, splits = ranges_of((split, [rows_of[key] for key in keys]) for split, keys in by_split.items())
    return plan_of(
        "LabelMe",
        source,
        items,
        kinds,
        list(dict.fromkeys([*classes, *sorted(labels)])),
        problems,
        nbytes=sum(source.files[item.image or str(item.annotation)] for item in items),
        splits=splits,
        about={"unlabelled": sum(item.annotation is None for item in items)},
        **options,
    )


def rows(item: _Row, context: Context) -> Iterator[Any]:
    """Make the row of an image; damaged shapes are left out and counted."""
    row, objects = context.begun(item.image, str(item.image or item.annotation)), Objects()
    if item.annotation is not None:
        content = _content(context.media.source, item.annotation)
        if item.image is None:
            row["images"] = lakebed.read(_decoded(content, item.annotation))
        for at, shape in enumerate(_shapes(content, item.annotation), 1):
            objects.add(f"{item.annotation} shape {at}", _object, shape)
        rest = {key: value for key, value in content.items() if key not in ("shapes", "imageData")}
        row.update(objects.values(), annotation=rest)
    yield from context.finished(row, objects)


# -- files -------------------------------------------------------------------------------------------------------


def _names(source: Source, images: Images) -> list[str]:
    """Return the JSON files of LabelMe; if any exist, also all JSON files beside images, which may have no shapes."""
    found = source.with_suffix(".json")
    names = {name for name in found if _looks_like_labelme(source, name)}
    return [name for name in found if names and (name in names or _image_beside(name, images) is not None)]


def _looks_like_labelme(source: Source, name: str) -> bool:
    head = source.start_of(name, _HEAD_BYTES)
    # If the keys are sorted, "imageData" comes before "shapes", and its value may fill the rest of the head.
    return b'"imageData"' in head or (b'"shapes"' in head and any(key in head for key in _KEYS))


def _image_beside(name: str, images: Images) -> str | None:
    return images.of_stem(stem_of(name), name.rpartition("/")[0], ("images", "data"))


def _rows_of(
    source: Source, names: list[str], images: Images, problems: list[Problem], *, link: bool, alone: bool
) -> tuple[dict[str, _Row], list[str], set[str]]:
    """Return {image or JSON file: row}, names whose suffixes are the kinds of the images, and all labels.

    Parameters
    ----------
    problems
        List to which problems are added.
    alone
        Whether images without a JSON file have rows, too.
    """
    looked = dict(zip(names, each(source, names, lambda one: _look(source, one, images)), strict=True))
    problems += [
        Problem(name, "it is not a file of LabelMe", 0) for name, seen in looked.items() if seen is None
    ]
    ours = [(name, seen) for name, seen in looked.items() if seen is not None]
    found, unreadable = annotated(
        sorted(ours, key=_is_of_another_name),
        lambda seen: seen.image or (seen.name if seen.inside and not link else None),
        lambda name: _image_beside(name, images),
        problems,
    )
    rows = {key: _Row(name, seen.image) for key, (name, seen) in found.items()}
    kinds = [seen.image or seen.inside for _, seen in found.values()]
    labels = {label for _, seen in found.values() for label in seen.labels}
    others = [image for image in images.names if alone and image not in rows and image not in unreadable]
    rows |= {image: _Row(None, image) for image in others}
    return rows, kinds + others, labels


def _is_of_another_name(look: tuple[str, _Seen | LakebedError]) -> bool:
    """Return whether a file names an image with another stem; such an image may have its own annotation file."""
    name, seen = look
    return isinstance(seen, _Seen) and seen.image is not None and stem_of(seen.image) != stem_of(name)


def _look(source: Source, name: str, images: Images) -> _Seen | None:
    """Return the image and the labels of a file; None if the file is of another format."""
    content = _content(source, name)
    if "shapes" not in content:
        return None
    path = content.get("imagePath")
    image = images.named(path, [name.rpartition("/")[0]]) if isinstance(path, str) and path else None
    if image is None:
        image = _image_beside(name, images)
    data = content.get("imageData")
    head = data[:8] if isinstance(data, str) else ""
    known = [f"x{suffix}" for magic, suffix in _MAGIC.items() if head.startswith(magic)]
    inside = [*known, "x.png"][0] if head else ""
    labels = {_label_of(one) for one in _shapes(content, name) if isinstance(one, dict)}
    return _Seen(name, image, inside, {label for label in labels if label.strip()})


def _content(source: Source, name: str) -> dict[str, Any]:
    content = document(source.document(name, _MOST_BYTES))
    return content if isinstance(content, dict) else {}


def _shapes(content: dict[str, Any], name: str) -> list[Any]:
    shapes = content.get("shapes")
    if not isinstance(shapes, list):
        raise IngestionError(f"{name} has no list of shapes")
    return shapes


def _decoded(content: dict[str, Any], name: str) -> bytes:
    with damaged(f"imageData of {name} is not an image", KeyError, TypeError, ValueError):
        return base64.b64decode(content["imageData"], validate=False)


# -- shapes ------------------------------------------------------------------------------------------------------


def _label_of(shape: dict[str, Any]) -> str:
    """Return the label of a shape; empty if it is neither text nor a number."""
    label = shape.get("label")
    if isinstance(label, float) and not math.isfinite(label):
        return ""
    return str(label) if isinstance(label, str | int | float) and type(label) is not bool else ""


def _object(shape: Any) -> Object:
    if not isinstance(shape, dict):
        raise ValueError(f"it is {str(shape)[:80]}, not a JSON object")  # noqa: TRY004 - the file is wrong
    if shape.get("label") and not _label_of(shape):
        raise ValueError(f"its label is {str(shape['label'])[:80]}, not text")
    given = shape.get("points")
    if not isinstance(given, list) or not all(isinstance(one, list) and len(one) == 2 for one in given):
        told = str(given)[:80] if "points" in shape else "missing"
        raise ValueError(f"its points is {told}, not a list of pairs of numbers")
    points = [[one if type(one) is float else number_of(one, "point") for one in pair] for pair in given]
    box = None
    if shape.get("shape_type") == "circle":
        if len(points) != 2:
            raise ValueError(f"a circle has 2 points, not {len(points)}")
        (across, down), edge = points
        radius = math.dist((across, down), edge)
        box = (across - radius, down - radius, across + radius, down + radius)
    attributes = {key: value for key, value in shape.items() if key not in ("label", "points")}
    return Object(_label_of(shape), box, points, attributes)
