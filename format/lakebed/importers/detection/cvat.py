"""CVAT XML 1.1, for images and for video (docs.cvat.ai, "CVAT format").

    <image id="0" name="1.jpg" width="30" height="20" subset="train">
      <box label="cat" xtl="1" ytl="2" xbr="5" ybr="8" occluded="0" z_order="0" rotation="10"><attribute .../></box>
      <polygon .../> <polyline .../> <points .../> <ellipse .../> <cuboid .../> <mask .../> <skeleton .../> <tag .../>

``polygons`` are the points of a shape, of a box two corners; ``attributes`` the name of the shape, its attributes, and
what else is said of it: occluded, z_order, rotation, group_id, source. Masks are layers of ``rle_mask``, and
``rle_object`` says whose each one is. ``image_labels`` are the tags. A frame of a video has the shapes of its tracks,
with ``track``; those that are outside the picture are left out.

Files may be of any size: a first pass notes where the images lie, and each is read when it is its turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.plan import Media, Plan, Problem, media, tensor
from lakebed.importers.core.source import Source, stem_of
from lakebed.importers.core.splits import SPLITS
from lakebed.importers.detection.cvat_index import SHAPES, Piece, element_of, scanned
from lakebed.importers.detection.markup import plain
from lakebed.importers.detection.objects import (
    Images,
    Object,
    Objects,
    number_of,
    plain_number,
    tensors_of,
    values_of,
)
from lakebed.importers.folders.pictures import kind_of_images
from lakebed.transforms.output import Skipped

_HEAD_BYTES = 4096
_MOST_PIXELS = 1 << 28
_SIDES = ("xtl", "ytl", "xbr", "ybr")
_CORNER = re.compile(r"x([tb][lr])([12])")


class _Row(NamedTuple):
    """An image, by its name in the annotations, and the elements that are of it."""

    name: str
    image: str | None
    pieces: Sequence[Piece]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class _Context:
    """What workers know; of each file of a video (height, width) of its frames."""

    media: Media
    annotations: Source
    tensors: tuple[str, ...]
    sizes: Mapping[str, tuple[str | None, str | None]]


def recognise(source: Source) -> str | None:
    """Say which files there are; None unless one of the first is CVAT's."""
    if source.is_object:
        return None
    names = [name for name in source.with_suffix(".xml")[:5] if _looks_like_cvat(source, name)]
    return f"CVAT annotations: {', '.join(names)}" if names else None


def plan(
    source: Source,
    *,
    images: str | None = None,
    link: bool = False,
    creds_key: str | None = None,
    compression: str | None = None,
) -> Plan:
    """Plan a row for each image or frame.

    Parameters
    ----------
    source
        The folder, or one XML file.
    images
        Another folder with the images; left out, that of the annotations.
    link
        Store links to the images in place of the images.
    creds_key
        Name of the credentials that the links need.
    compression
        Kind of image that is stored; left out, that of the files, and of most of them where they differ.
    """
    names = [name for name in source.with_suffix(".xml") if _looks_like_cvat(source, name)]
    if not names:
        raise IngestionError(f"{source.shown} has no XML files of CVAT")
    pictures = _pictures_of(source, images)
    listed = Images(pictures)
    planner = _Planner(source, listed)
    for name in names:
        try:
            planner.take(name)
        except IngestionError as error:
            if len(names) == 1:
                raise
            planner.problems.append(Problem(name, str(error)))
    items, splits = planner.items()
    used = [item.image for item in items if item.image is not None]
    unlisted = sorted({*listed.names} - {*used})
    if (
        unlisted and source.is_folder and not planner.has_tracks
    ):  # of a video, frames without shapes have no row
        reason = f"{len(unlisted):,} images that no XML file lists are not imported"
        planner.problems.append(Problem(unlisted[0], reason, 0))
    compression = kind_of_images(pictures, used, compression, None if link else planner.problems)
    tensors = [
        media("images", "image", compression=compression, link=link),
        *tensors_of(
            planner.classes, polygons=True, info={"labels": planner.labels} if planner.labels else None
        ),
    ]
    if "mask" in planner.kinds:
        tensors += [
            tensor("rle_mask", "binary_mask", sample_compression="lz4"),
            tensor("rle_object", dtype="int64", is_list=True),
        ]
    if "tag" in planner.kinds:
        tensors.append(tensor("image_labels", "class_label", class_names=planner.classes, is_list=True))
        tensors.append(tensor("image_label_attributes", "json"))
    return Plan(
        f"{len(items):,} images with CVAT annotations",
        tensors,
        items,
        _Context(Media(pictures, link, creds_key), source, tuple(one.name for one in tensors), planner.sizes),
        rows=len(items),
        nbytes=sum(pictures.files[name] for name in used),
        splits=splits,
        problems=planner.problems,
        classes={"labels": planner.classes},
        about={"meta": planner.meta},
    )


def rows(item: _Row, context: _Context) -> Iterator[Any]:
    """Make the row of an image; shapes that are damaged are left out, each counted."""
    made: dict[str, Any] = {"file": item.image or item.name}
    found = _Shapes()
    try:
        if item.image is not None:
            made["images"] = context.media.value(item.image)
        for piece in item.pieces:
            element = element_of(context.annotations, piece)
            if piece.track is None:
                made["annotation"] = {key: plain_number(value) for key, value in element.attrib.items()}
                found.size = (element.get("height"), element.get("width"))
                for at, child in enumerate(element, 1):
                    found.take(child, {}, f"{piece.file} image {item.name} element {at} ({child.tag[:40]})")
            else:
                found.size = context.sizes.get(piece.file, found.size)
                of = f"track {piece.track.get('id')} ({element.tag})"
                found.take(element, piece.track, f"{piece.file} {item.name} {of}")
        made.update(found.values())
    except (LakebedError, OSError, ValueError) as error:
        yield Skipped(str(item), f"{error}")
        return
    yield from found.objects.told
    yield {name: made.get(name) for name in context.tensors}


def describe(plan: Plan) -> dict[str, Any]:
    """Return what the files say of their tasks."""
    return plan.about


# -- the first pass ----------------------------------------------------------------------------------------------


class _Planner:
    """What annotation files have."""

    def __init__(self, source: Source, images: Images) -> None:
        self._source = source
        self._images = images
        self._rows: dict[str, dict[str, _Row]] = {}
        self.problems: list[Problem] = []
        self.classes: list[str] = []
        self.labels: list[Any] = []
        self.meta: dict[str, Any] = {}
        self.has_tracks = False
        self.sizes: dict[str, tuple[str | None, str | None]] = {}
        self.kinds: set[str] = set()

    def take(self, name: str) -> None:
        """Take the images and tracks of a file."""
        found = scanned(self._source, name)
        self.kinds |= found.kinds
        if found.meta is not None:
            meta = element_of(self._source, found.meta)
            self.meta[name] = plain(meta)
            size = meta.find(".//original_size")
            if size is not None:
                self.sizes[name] = size.findtext("height"), size.findtext("width")
            for label in meta.iter("label"):
                text = (label.findtext("name") or "").strip()
                if text and text not in self.classes:
                    self.classes.append(text)
                    self.labels.append(plain(label))
        self.classes += [label for label in found.labels if label.strip() and label not in self.classes]
        folder = name.rpartition("/")[0]
        for attributes, piece in found.images:
            subset = attributes.get("subset") or stem_of(name)  # other tools write a file for each
            split = SPLITS.get(subset.lower(), "")
            self._add(split, attributes.get("name", ""), folder, [piece], missing=True)
        frames: dict[int, list[Piece]] = {}
        self.has_tracks |= bool(found.shapes)
        for frame, piece in found.shapes:
            frames.setdefault(frame, []).append(piece)
        for frame in sorted(frames):
            self._add("", f"frame_{frame:06d}", folder, frames[frame], missing=False)
        self.problems += [Problem(f"{name} line {line}", reason) for line, reason in found.bad]
        if found.outside:
            reason = f"{found.outside:,} shapes of tracks are outside their frames and are left out"
            self.problems.append(Problem(name, reason, 0))

    def _add(self, split: str, name: str, folder: str, pieces: list[Piece], *, missing: bool) -> None:
        if missing:
            image = (
                self._images.named(
                    name, (folder, *(f"{folder}/{one}".lstrip("/") for one in ("images", "data")))
                )
                if name
                else None
            )
        else:
            image = self._images.of_stem(name, f"{folder}/images".lstrip("/"), ("data", ""))
        if image is None and missing:
            self.problems.append(Problem(f"{pieces[0].file} image {name!r}", "the image is missing"))
            return
        rows_of = self._rows.setdefault(split, {})
        key = image or f"{pieces[0].file}/{name}"
        if key in rows_of:
            self.problems.append(Problem(f"{pieces[0].file} image {name!r}", "it is listed twice"))
            return
        rows_of[key] = _Row(name, image, pieces)

    def items(self) -> tuple[list[_Row], dict[str, range]]:
        """Return the rows of all splits, in order."""
        if set(self._rows) == {"", *(split for split in self._rows if split)} and len(self._rows) > 1:
            together = [row for rows_of in self._rows.values() for row in rows_of.values()]
            return together, {}  # some images are of no split
        items: list[_Row] = []
        ranges: dict[str, range] = {}
        for split in sorted(self._rows, key=["train", "val", "test", ""].index):
            first = len(items)
            items += self._rows[split].values()
            ranges[split] = range(first, len(items))
        return items, ranges if "" not in ranges else {}


def _looks_like_cvat(source: Source, name: str) -> bool:
    with source.open("" if source.is_file else name) as file:
        return b"<annotations" in file.read(_HEAD_BYTES)


def _pictures_of(source: Source, images: str | None) -> Source:
    if images is not None:
        return source.at(images)
    if source.is_file:
        return Source.of(source.link("").rpartition("/")[0] or "/", source.creds)
    return source


# -- shapes ------------------------------------------------------------------------------------------------------


class _Shapes:
    """The shapes and tags of an image."""

    def __init__(self) -> None:
        self.objects = Objects()
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.masks: list[tuple[int, NDArray[np.bool_]]] = []
        self.size: tuple[str | None, str | None] = (None, None)

    def take(self, element: Element, track: Mapping[str, str], where: str) -> None:
        """Add a shape or a tag."""
        if element.tag == "tag":
            if element.get("label", "").strip():
                self.tags.append((element.attrib["label"], _attributes(element, {"label"})))
            else:
                self.objects.told.append(Skipped(where, "no tag: it has no class"))
            return
        at = len(self.objects.found)
        if self.objects.add(where, partial(_object, element, track)) is not None and element.tag == "mask":
            try:
                self.masks.append((at, _mask(element, self.size)))
            except ValueError as error:
                self.objects.told.append(Skipped(where, f"its mask is left out: {error}", 0))

    def values(self) -> dict[str, Any]:
        """Return the values of the row."""
        found = values_of(self.objects.found, polygons=True)
        found["image_labels"] = [label for label, _ in self.tags]
        found["image_label_attributes"] = [attributes for _, attributes in self.tags]
        if self.masks:
            found["rle_mask"] = np.stack([mask for _, mask in self.masks], axis=-1)
        found["rle_object"] = np.array([number for number, _ in self.masks], np.int64)
        return found


def _object(element: Element, track: Mapping[str, str]) -> Object:
    tag, given = element.tag, element.attrib
    box: Sequence[float] | None = None
    points: Sequence[Sequence[float]] = ()
    used = {"label", "points"}
    if tag == "box":
        box = [_number(element, side) for side in _SIDES]
        points = (box[:2], box[2:])
        used |= {*_SIDES}
    elif tag == "ellipse":
        across, down, rx, ry = (_number(element, key) for key in ("cx", "cy", "rx", "ry"))
        box = [across - rx, down - ry, across + rx, down + ry]
    elif tag == "mask":
        left, top, width, height = (_number(element, key) for key in ("left", "top", "width", "height"))
        box = [left, top, left + width, top + height]
        used.add("rle")
    elif tag == "cuboid":
        corners = [key[1:] for key in given if _CORNER.fullmatch(key)]
        points = [(_number(element, f"x{one}"), _number(element, f"y{one}")) for one in corners]
        used |= {f"{axis}{one}" for one in corners for axis in "xy"}
    elif tag == "skeleton":
        points = [point for part in element.iter("points") for point in _points(part.get("points", ""))]
    elif tag in SHAPES:
        points = _points(given.get("points", ""))
    else:
        raise ValueError("it is no known shape")
    attributes = {"shape": tag, **_attributes(element, used)}
    if track:
        attributes["track"] = {key: plain_number(value) for key, value in track.items() if key != "label"}
    return Object(given.get("label") or track.get("label", ""), box, points, attributes)


def _attributes(element: Element, used: set[str]) -> dict[str, Any]:
    """Return what is said of a shape besides its place."""
    found: dict[str, Any] = {
        key: plain_number(value) for key, value in element.attrib.items() if key not in used
    }
    values: dict[str, Any] = {}
    for one in element.findall("attribute"):
        name, value = one.get("name", ""), plain_number(one.text or "")
        if name in values and values[name] != value:
            earlier = values[name]
            values[name] = [*(earlier if isinstance(earlier, list) else [earlier]), value]
        else:
            values[name] = value
    if values:
        found["attributes"] = values
    parts = [plain(child) for child in element if child.tag != "attribute"]
    if parts:
        found["elements"] = parts
    return found


def _number(element: Element, key: str) -> float:
    return number_of(element.get(key), key)


def _points(text: str) -> list[tuple[float, float]]:
    found = []
    for pair in text.strip().removesuffix(";").split(";"):
        across, comma, down = pair.partition(",")
        if not comma:
            raise ValueError(
                f"{pair[:40]!r} of its points is no point" if text.strip() else "it has no points"
            )
        found.append((number_of(across, "point"), number_of(down, "point")))
    return found


def _mask(element: Element, of_image: tuple[str | None, str | None]) -> NDArray[np.bool_]:
    """Return the mask of a shape in the whole image: counts of zeros and ones in turn, along the rows of its box."""
    left, top, width, height = (int(_number(element, key)) for key in ("left", "top", "width", "height"))
    sides = [
        number_of(side, f"image's {key}") for side, key in zip(of_image, ("height", "width"), strict=True)
    ]
    if min(sides) < 1 or any(side % 1 for side in sides) or sides[0] * sides[1] > _MOST_PIXELS:
        raise ValueError(f"its image has no proper size: {of_image}")
    size = int(sides[0]), int(sides[1])
    try:
        counts = np.array([int(one) for one in element.get("rle", "").split(",")], np.int64)
    except (ValueError, OverflowError):
        raise ValueError("its run lengths are no numbers") from None
    if min(left, top, width, height) < 0 or left + width > size[1] or top + height > size[0]:
        raise ValueError("it lies outside its image")
    if counts.min() < 0 or counts.max() > _MOST_PIXELS or int(counts.sum()) != width * height:
        raise ValueError(f"its run lengths cover {counts.sum()} pixels of {width} x {height}")
    flat = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    found = np.zeros(size, np.bool_)
    found[top : top + height, left : left + width] = flat.reshape(height, width)
    return found
