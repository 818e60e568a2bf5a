"""LabelMe: a JSON file of shapes for each image (the desktop tool's format).

    photos/1.jpg, photos/1.json       or the image inside the JSON file, as base64 in imageData

``polygons`` are the points of a shape: corners of a polygon, two corners of a rectangle, center and a point of a
circle, points of a line. Its ``attributes`` are shape_type, group_id, flags, description and all else; ``annotation``
is what the file says of the image. An image without a JSON file has nulls; one whose JSON file cannot be read has no
row, as nothing tells what is in it.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import lakebed
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.plan import Media, Plan, Problem, media
from lakebed.importers.core.source import Source, stem_of
from lakebed.importers.detection.objects import (
    Images,
    Object,
    Objects,
    each,
    number_of,
    tensors_of,
    values_of,
)
from lakebed.importers.detection.yolo_layout import by_folder
from lakebed.importers.folders.pictures import kind_of_images
from lakebed.transforms.output import Skipped

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
    """A JSON file and its image; None where it has none (of its own)."""

    annotation: str | None
    image: str | None

    def __str__(self) -> str:
        return str(self.annotation or self.image)


class _Seen(NamedTuple):
    """What a JSON file says of its image and of classes."""

    image: str | None
    inside: str
    labels: set[str]


@dataclass(frozen=True)
class _Context:
    """What workers know."""

    media: Media
    tensors: tuple[str, ...]


def recognise(source: Source) -> str | None:
    """Say how many JSON files there are; None unless one of the first is LabelMe's."""
    if source.is_object:
        return None
    names = source.with_suffix(".json")
    if not any(_looks_like_labelme(source, name) for name in names[:3]):
        return None
    return f"{len(names):,} LabelMe annotations"


def plan(
    source: Source,
    *,
    classes: Sequence[str] = (),
    link: bool = False,
    creds_key: str | None = None,
    compression: str | None = None,
) -> Plan:
    """Plan a row for each JSON file, and for each image without one.

    Parameters
    ----------
    source
        The folder, or one JSON file.
    classes
        Names of classes that come first; others are added.
    link
        Store links to the images in place of the images.
    creds_key
        Name of the credentials that the links need.
    compression
        Kind of image that is stored; left out, that of the files, and of most of them where they differ.
    """
    if source.is_file:
        only = [source.name]
        source = Source.of(source.link("").rpartition("/")[0] or "/", source.creds)
    else:
        only = []
    images = Images(source)
    names = only or _names(source, images)
    if not names:
        raise IngestionError(f"{source.shown} has no JSON files of LabelMe")
    problems: list[Problem] = []
    rows_of, kinds, labels = _rows_of(source, names, images, problems, link=link, alone=not only)
    splits = by_folder(sorted(rows_of))
    items = [rows_of[key] for keys in splits.values() for key in keys]
    ranges: dict[str, range] = {}
    for split, keys in splits.items():
        first = max((one.stop for one in ranges.values()), default=0)
        ranges[split] = range(first, first + len(keys))
    known = [*dict.fromkeys([*classes, *sorted(labels)])]
    compression = kind_of_images(source, kinds, compression, None if link else problems)
    tensors = [
        media("images", "image", compression=compression, link=link),
        *tensors_of(known, polygons=True),
    ]
    return Plan(
        f"{len(items):,} images with LabelMe annotations",
        tensors,
        items,
        _Context(Media(source, link, creds_key), tuple(one.name for one in tensors)),
        rows=len(items),
        nbytes=sum(source.files[item.image or str(item.annotation)] for item in items),
        splits=ranges if set(ranges) != {""} else {},
        problems=problems,
        classes={"labels": known},
        about={"unlabelled": sum(item.annotation is None for item in items)},
    )


def _names(source: Source, images: Images) -> list[str]:
    """Return the JSON files of LabelMe; if there are any, also those beside images, as one that is empty may be."""
    found = source.with_suffix(".json")
    names = {name for name in found if _looks_like_labelme(source, name)}
    return [name for name in found if names and (name in names or _image_beside(name, images) is not None)]


def _rows_of(
    source: Source, names: list[str], images: Images, problems: list[Problem], *, link: bool, alone: bool
) -> tuple[dict[str, _Row], list[str], set[str]]:
    """Return rows by their images or JSON files, what kinds their images are, and all labels.

    Parameters
    ----------
    problems
        Is added to.
    alone
        Images without a JSON file have rows, too.
    """
    found: dict[str, _Row] = {}
    kinds: list[str] = []
    labels: set[str] = set()
    unreadable: set[str | None] = set()
    looks = list(zip(names, each(source, names, lambda one: _look(source, one, images)), strict=True))
    for name, seen in sorted(looks, key=_is_of_another_name):
        if isinstance(seen, LakebedError):
            problems.append(Problem(name, str(seen)))
            unreadable.add(_image_beside(name, images))
        elif seen is None:
            problems.append(Problem(name, "it is no file of LabelMe", 0))
        elif seen.image is None and (not seen.inside or link):
            problems.append(Problem(name, "its image is missing"))
        elif seen.image is not None and seen.image in found:
            problems.append(Problem(name, f"{found[seen.image].annotation} is of the same image"))
        else:
            found[seen.image or name] = _Row(name, seen.image)
            kinds.append(seen.image or seen.inside)
            labels |= seen.labels
    for image in images.names if alone else ():
        if image not in found and image not in unreadable:
            found[image] = _Row(None, image)
            kinds.append(image)
    return found, kinds, labels


def rows(item: _Row, context: _Context) -> Iterator[Any]:
    """Make the row of an image; shapes that are damaged are left out, each counted."""
    made: dict[str, Any] = {"file": item.image or item.annotation}
    objects = Objects()
    try:
        content = _content(context.media.source, item.annotation) if item.annotation is not None else None
        if item.image is not None:
            made["images"] = context.media.value(item.image)
        elif content is not None:
            made["images"] = lakebed.read(_decoded(content, str(item.annotation)))
        if content is not None:
            _check(content, str(item.annotation))
            for at, shape in enumerate(content["shapes"], 1):
                objects.add(f"{item.annotation} shape {at}", partial(_object, shape))
            made.update(values_of(objects.found, polygons=True))
            made["annotation"] = {
                key: value for key, value in content.items() if key not in ("shapes", "imageData")
            }
    except (LakebedError, OSError, ValueError) as error:
        yield Skipped(str(item), f"{error}")
        return
    yield from objects.told
    yield {name: made.get(name) for name in context.tensors}


def describe(plan: Plan) -> dict[str, Any]:
    """Say how many images have no annotation."""
    return plan.about


def _looks_like_labelme(source: Source, name: str) -> bool:
    with source.open("" if source.is_file else name) as file:
        head = file.read(_HEAD_BYTES)
    # Where keys are sorted, an image comes before the shapes.
    return b'"imageData"' in head or (b'"shapes"' in head and any(key in head for key in _KEYS))


def _is_of_another_name(look: tuple[str, _Seen | LakebedError | None]) -> bool:
    """Whether a file names an image of another name, which may have a file of its own name."""
    name, seen = look
    return isinstance(seen, _Seen) and seen.image is not None and stem_of(seen.image) != stem_of(name)


def _image_beside(name: str, images: Images) -> str | None:
    return images.of_stem(stem_of(name), name.rpartition("/")[0], ("images", "data"))


def _look(source: Source, name: str, images: Images) -> _Seen | None:
    """Return what a file says of its image: the name of the file, or what kind is inside; None of another format."""
    content = _content(source, name)
    if "shapes" not in content:
        return None
    _check(content, name)
    folder = name.rpartition("/")[0]
    path = content.get("imagePath")
    image = images.named(path, [folder]) if isinstance(path, str) and path else None
    if image is None:
        image = _image_beside(name, images)
    data = content.get("imageData")
    head = data[:8] if isinstance(data, str) else ""
    inside = next(
        (f"x{suffix}" for magic, suffix in _MAGIC.items() if head.startswith(magic)), "x.png" if head else ""
    )
    labels = {_label_of(one) for one in content["shapes"] if isinstance(one, dict)}
    return _Seen(image, inside, {label for label in labels if label.strip()})


def _label_of(shape: dict[str, Any]) -> str:
    """Return the label of a shape, empty if it is neither text nor a number."""
    label = shape.get("label")
    if isinstance(label, float) and not math.isfinite(label):
        return ""
    return str(label) if isinstance(label, str | int | float) and type(label) is not bool else ""


def _content(source: Source, name: str) -> dict[str, Any]:
    if source.files[name] > _MOST_BYTES:
        raise IngestionError(f"{name} of {source.files[name]:,} bytes is larger than {_MOST_BYTES:,}")
    try:
        content = json.loads(source.read(name))
    except (ValueError, RecursionError) as error:
        raise IngestionError(f"{name} is no JSON: {error}") from error
    return content if isinstance(content, dict) else {}


def _check(content: dict[str, Any], name: str) -> None:
    if not isinstance(content.get("shapes"), list):
        raise IngestionError(f"{name} has no list of shapes")


def _decoded(content: dict[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(content["imageData"], validate=False)
    except (KeyError, TypeError, binascii.Error, ValueError) as error:
        raise IngestionError(f"imageData of {name} is no image: {error}") from error


def _object(shape: Any) -> Object:
    if not isinstance(shape, dict):
        raise ValueError(  # noqa: TRY004 - of a file, not of the caller
            f"it is {str(shape)[:80]}, and no JSON object"
        )
    if shape.get("label") and not _label_of(shape):
        raise ValueError(f"its label is {str(shape['label'])[:80]}, and no text")
    given = shape.get("points")
    if not isinstance(given, list) or not all(isinstance(one, list) and len(one) == 2 for one in given):
        told = str(given)[:80] if "points" in shape else "missing"
        raise ValueError(f"its points is {told}, and no list of pairs of numbers")
    points = [
        (
            across if type(across) is float else number_of(across, "point"),
            down if type(down) is float else number_of(down, "point"),
        )
        for across, down in given
    ]
    box = None
    if shape.get("shape_type") == "circle":
        if len(points) != 2:
            raise ValueError(f"a circle has 2 points, not {len(points)}")
        (across, down), edge = points
        radius = math.dist((across, down), edge)
        box = (across - radius, down - radius, across + radius, down + radius)
    attributes = {key: value for key, value in shape.items() if key not in ("label", "points")}
    return Object(_label_of(shape), box, points, attributes)
