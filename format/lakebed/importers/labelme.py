"""LabelMe: a JSON file of shapes for each image (the desktop tool's format).

    photos/1.jpg, photos/1.json       or the image inside the JSON file, as base64 in imageData

``polygons`` are the points of a shape: corners of a polygon, two corners of a rectangle, center and a point of a
circle, points of a line. Its ``attributes`` are shape_type, group_id, flags, description and all else; ``annotation``
is what the file says of the image. An image without a JSON file has nulls.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import lakebed
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.objects import Images, Object, checked, each, tensors_of, values_of
from lakebed.importers.pictures import kind_of_images
from lakebed.importers.plan import Media, Plan, Problem, media
from lakebed.importers.source import Source, stem_of
from lakebed.importers.yolo_layout import by_folder
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
    names = only or [name for name in source.with_suffix(".json") if _looks_like_labelme(source, name)]
    if not names:
        raise IngestionError(f"{source.shown} has no JSON files of LabelMe")
    problems: list[Problem] = []
    rows_of: dict[str, _Row] = {}
    kinds: list[str] = []
    labels: set[str] = set()
    for name, seen in zip(names, each(source, names, lambda one: _look(source, one, images)), strict=True):
        if isinstance(seen, LakebedError):
            problems.append(Problem(name, str(seen)))
        elif seen.image is None and (not seen.inside or link):
            problems.append(Problem(name, "its image is missing"))
        else:
            rows_of[seen.image or name] = _Row(name, seen.image)
            kinds.append(seen.image or seen.inside)
            labels |= seen.labels
    for image in images.names if not only else ():
        if image not in rows_of:
            rows_of[image] = _Row(None, image)
            kinds.append(image)
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


def rows(item: _Row, context: _Context) -> Iterator[Any]:
    """Make the row of an image; shapes that are damaged are left out, each counted."""
    made: dict[str, Any] = {"file": item.image or item.annotation}
    try:
        content = _content(context.media.source, item.annotation) if item.annotation is not None else None
        if item.image is not None:
            made["images"] = context.media.value(item.image)
        elif content is not None:
            made["images"] = lakebed.read(_decoded(content, str(item.annotation)))
        if content is not None:
            objects, bad = _objects(content, str(item.annotation))
            yield from bad
            made.update(values_of(objects, polygons=True))
            made["annotation"] = {
                key: value for key, value in content.items() if key not in ("shapes", "imageData")
            }
    except (LakebedError, OSError, ValueError) as error:
        yield Skipped(str(item), f"{error}")
        return
    yield {name: made.get(name) for name in context.tensors}


def describe(plan: Plan) -> dict[str, Any]:
    """Say how many images have no annotation."""
    return plan.about


def _looks_like_labelme(source: Source, name: str) -> bool:
    with source.open("" if source.is_file else name) as file:
        head = file.read(_HEAD_BYTES)
    return b'"shapes"' in head and any(key in head for key in _KEYS)


def _look(source: Source, name: str, images: Images) -> _Seen:
    """Return what a file says of its image: the name of the file, or what kind is inside."""
    content = _content(source, name)
    folder = name.rpartition("/")[0]
    path = content.get("imagePath")
    image = images.named(path, [folder]) if isinstance(path, str) and path else None
    if image is None:
        image = images.of_stem(stem_of(name), folder, ("images", "data"))
    data = content.get("imageData")
    head = data[:8] if isinstance(data, str) else ""
    inside = next(
        (f"x{suffix}" for magic, suffix in _MAGIC.items() if head.startswith(magic)), "x.png" if head else ""
    )
    shapes = content.get("shapes")
    found = (
        {str(one.get("label")) for one in shapes if isinstance(one, dict)}
        if isinstance(shapes, list)
        else set()
    )
    return _Seen(image, inside, {label for label in found if label})


def _content(source: Source, name: str) -> dict[str, Any]:
    if source.files[name] > _MOST_BYTES:
        raise IngestionError(f"{name} of {source.files[name]:,} bytes is larger than {_MOST_BYTES:,}")
    try:
        content = json.loads(source.read(name))
    except (ValueError, RecursionError) as error:
        raise IngestionError(f"{name} is no JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("shapes"), list):
        raise IngestionError(f"{name} has no list of shapes")
    return content


def _decoded(content: dict[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(content["imageData"], validate=False)
    except (KeyError, TypeError, binascii.Error, ValueError) as error:
        raise IngestionError(f"imageData of {name} is no image: {error}") from error


def _objects(content: dict[str, Any], name: str) -> tuple[list[Object], list[Skipped]]:
    found, bad = [], []
    for number, shape in enumerate(content["shapes"], 1):
        try:
            found.append(_object(shape))
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            bad.append(Skipped(f"{name} shape {number}", f"no object: {error}"))
    return found, bad


def _object(shape: Any) -> Object:
    if not isinstance(shape, dict):
        raise TypeError("it is no JSON object")
    points = [(float(across), float(down)) for across, down in shape["points"]]
    box = None
    if shape.get("shape_type") == "circle":
        if len(points) != 2:
            raise ValueError(f"a circle has 2 points, not {len(points)}")
        (across, down), edge = points
        radius = math.dist((across, down), edge)
        box = (across - radius, down - radius, across + radius, down + radius)
    attributes = {key: value for key, value in shape.items() if key not in ("label", "points")}
    label = shape.get("label")
    return checked(Object("" if label is None else str(label), box, points, attributes))
