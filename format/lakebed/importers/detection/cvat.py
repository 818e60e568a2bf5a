"""CVAT XML 1.1, for images and for video (docs.cvat.ai, "CVAT format").

    <image id="0" name="1.jpg" width="30" height="20" subset="train">
      <box label="cat" xtl="1" ytl="2" xbr="5" ybr="8" occluded="0" z_order="0" rotation="10"><attribute .../></box>
      <polygon .../> <polyline .../> <points .../> <ellipse .../> <cuboid .../> <mask .../> <skeleton .../> <tag .../>

``polygons`` are the points of a shape; a box has two corners. ``attributes`` has the name of the shape, its attributes,
and its other values: occluded, z_order, rotation, group_id, source. Masks are layers of ``rle_mask``; ``rle_object``
has the object of each mask. ``image_labels`` are the tags. A frame of a video has the shapes of its tracks, with the
attribute ``track``, except shapes outside the picture.

Files may be of any size: a first pass records the place of each image, and the image is read when its row is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Unpack
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError
from lakebed.importers.core.plan import ImageOptions, Plan, Problem, tensor
from lakebed.importers.core.source import Source, check_size, stem_of
from lakebed.importers.core.splits import SPLITS, in_order, ranges_of
from lakebed.importers.detection.markup import new_parser, parse_xml, parsing, plain
from lakebed.importers.detection.masks import mask_of
from lakebed.importers.detection.objects import (
    Context,
    Images,
    Object,
    Objects,
    number_of,
    plain_number,
    plan_of,
)
from lakebed.transforms.output import Skipped

_HEAD_BYTES = 4096
_READ_BYTES = 1 << 18
_MOST_ELEMENT_BYTES = 1 << 27
_MOST_DEPTH = 32
_MOST_DIGITS = 10
"""Maximum number of digits in the number of a frame."""
_MOST_PIXELS = 1 << 28

_SHAPES = ("box", "polygon", "polyline", "points", "ellipse", "cuboid", "mask", "skeleton")
_SIDES = ("xtl", "ytl", "xbr", "ybr")
_CORNER = re.compile(r"x([tb][lr])([12])")


class _Piece(NamedTuple):
    """Place of an element in a file; for a shape of a track, also the attributes of the track."""

    file: str
    start: int
    stop: int
    encoding: str | None
    track: Mapping[str, str] | None = None


class _Row(NamedTuple):
    """An image, by its name in the annotations, and its elements."""

    name: str
    image: str | None
    pieces: Sequence[_Piece]

    def __str__(self) -> str:
        return self.name


_Size = tuple[str | None, str | None]
"""Height and width of an image, as texts of the XML file."""


class _Known(NamedTuple):
    """The source of the annotations, and the size of the frames of each file of a video."""

    annotations: Source
    sizes: Mapping[str, _Size]


def recognise(source: Source) -> str | None:
    """Name the files of CVAT among the first XML files; None if none of them is from CVAT."""
    names = [name for name in source.with_suffix(".xml")[:5] if _looks_like_cvat(source, name)]
    return f"CVAT annotations: {', '.join(names)}" if names else None


def plan(source: Source, *, images: str | None = None, **options: Unpack[ImageOptions]) -> Plan:
    """Plan a row for each image or frame.

    Parameters
    ----------
    source
        The folder, or one XML file.
    images
        Another folder with the images; left out, that of the annotations.
    options
        Options of images.
    """
    names = [name for name in source.with_suffix(".xml") if _looks_like_cvat(source, name)]
    if not names:
        raise IngestionError(f"{source.shown} has no XML files of CVAT")
    pictures = source.at(images) if images is not None else source.folder
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
    # If there are tracks, images may be frames of a video without annotations, which are not listed in the XML file.
    if unlisted and source.is_folder and not planner.has_tracks:
        reason = f"{len(unlisted):,} images that no XML file lists are not imported"
        planner.problems.append(Problem(unlisted[0], reason, 0))
    more = []
    if "mask" in planner.kinds:
        more.append(tensor("rle_mask", "binary_mask", sample_compression="lz4"))
        more.append(tensor("rle_object", dtype="int64", is_list=True))
    if "tag" in planner.kinds:
        more.append(tensor("image_labels", "class_label", class_names=planner.classes, is_list=True))
        more.append(tensor("image_label_attributes", "json"))
    return plan_of(
        "CVAT",
        pictures,
        items,
        used,
        planner.classes,
        planner.problems,
        info={"labels": planner.labels} if planner.labels else None,
        more=more,
        known=_Known(source, planner.sizes),
        splits=splits,
        about={"meta": planner.meta},
        **options,
    )


def rows(item: _Row, context: Context) -> Iterator[Any]:
    """Make the row of an image; damaged shapes are left out and counted."""
    known: _Known = context.known
    row, found = context.begun(item.image, item.image or item.name), _Shapes()
    for piece in item.pieces:
        element = _element_of(known.annotations, piece)
        if piece.track is None:
            row["annotation"] = {key: plain_number(value) for key, value in element.attrib.items()}
            found.size = element.get("height"), element.get("width")
            for at, child in enumerate(element, 1):
                found.take(child, {}, f"{piece.file} image {item.name} element {at} ({child.tag[:40]})")
        else:
            found.size = known.sizes.get(piece.file, found.size)
            of = f"track {piece.track.get('id')} ({element.tag})"
            found.take(element, piece.track, f"{piece.file} {item.name} {of}")
    yield from context.finished({**row, **found.values()}, found.objects)


# -- the first pass ----------------------------------------------------------------------------------------------


class _Planner:
    """Images, frames and labels of annotation files."""

    def __init__(self, source: Source, images: Images) -> None:
        self._source = source
        self._images = images
        self._rows: dict[str, dict[str, _Row]] = {}
        self.problems: list[Problem] = []
        self.classes: list[str] = []
        self.labels: list[Any] = []
        self.meta: dict[str, Any] = {}
        self.has_tracks = False
        self.sizes: dict[str, _Size] = {}
        self.kinds: set[str] = set()

    def take(self, name: str) -> None:
        """Add the images and tracks of a file.

        Raises
        ------
        IngestionError
            If the file is not XML of CVAT.
        """
        found = _Scan(name)
        with parsing(name), self._source.open(name) as file:
            while block := file.read(_READ_BYTES):
                found.parser.Parse(block, False)
            found.parser.Parse(b"", True)
        self.kinds |= found.kinds
        self.has_tracks |= bool(found.shapes)
        if found.meta is not None:
            self._take_meta(name, _element_of(self._source, found.meta))
        self.classes += [label for label in found.labels if label.strip() and label not in self.classes]
        folder = name.rpartition("/")[0]
        places = [folder, *(f"{folder}/{one}".lstrip("/") for one in ("images", "data"))]
        for attributes, piece in found.images:
            # Other tools write one file per split; the name of the file is the name of the split.
            subset = attributes.get("subset") or stem_of(name)
            called = attributes.get("name", "")
            image = self._images.named(called, places) if called else None
            if image is None:
                self.problems.append(Problem(f"{name} image {called!r}", "the image is missing"))
            else:
                self._add(SPLITS.get(subset.lower(), ""), image, _Row(called, image, [piece]))
        frames: dict[int, list[_Piece]] = {}
        for frame, piece in found.shapes:
            frames.setdefault(frame, []).append(piece)
        for frame in sorted(frames):
            called = f"frame_{frame:06d}"
            image = self._images.of_stem(called, f"{folder}/images".lstrip("/"), ("data", ""))
            self._add("", image or f"{name}/{called}", _Row(called, image, frames[frame]))
        self.problems += [Problem(f"{name} line {line}", reason) for line, reason in found.bad]
        if found.outside:
            reason = f"{found.outside:,} shapes of tracks are outside their frames and are left out"
            self.problems.append(Problem(name, reason, 0))

    def _take_meta(self, name: str, meta: Element) -> None:
        self.meta[name] = plain(meta)
        size = meta.find(".//original_size")
        if size is not None:
            self.sizes[name] = size.findtext("height"), size.findtext("width")
        for label in meta.iter("label"):
            text = (label.findtext("name") or "").strip()
            if text and text not in self.classes:
                self.classes.append(text)
                self.labels.append(plain(label))

    def _add(self, split: str, key: str, row: _Row) -> None:
        if self._rows.setdefault(split, {}).setdefault(key, row) is not row:
            self.problems.append(Problem(f"{row.pieces[0].file} image {row.name!r}", "it is listed twice"))

    def items(self) -> tuple[list[_Row], dict[str, range]]:
        """Return the rows by split; if an image has no split, all rows in the order of the files, without splits."""
        if "" in self._rows:
            return [row for rows_of in self._rows.values() for row in rows_of.values()], {}
        return ranges_of((split, list(rows_of.values())) for split, rows_of in in_order(self._rows))


def _looks_like_cvat(source: Source, name: str) -> bool:
    return b"<annotations" in source.start_of(name, _HEAD_BYTES)


def _element_of(source: Source, piece: _Piece) -> Element:
    """Return an element that a scan found.

    Raises
    ------
    IngestionError
        If the element is too large, or the file has changed and is not XML any more.
    """
    size = piece.stop - piece.start
    check_size(f"an element of {piece.file}", size, _MOST_ELEMENT_BYTES)
    with source.open(piece.file) as file:
        file.seek(piece.start)
        return parse_xml(file.read(size), piece.file, piece.encoding)


class _Scan:
    """Handlers of a parser that record the places of elements; an element ends where the next event begins.

    Attributes
    ----------
    images
        Attributes of each image, and its place.
    shapes
        Frame of each shape of a track, and its place.
    outside
        Number of shapes of tracks that are outside their frames.
    kinds
        Tags of the shapes.
    labels
        Labels of the shapes, in order.
    bad
        Line and reason for each shape of a track that has no frame.
    """

    def __init__(self, name: str) -> None:
        self.images: list[tuple[dict[str, str], _Piece]] = []
        self.shapes: list[tuple[int, _Piece]] = []
        self.meta: _Piece | None = None
        self.outside = 0
        self.kinds: set[str] = set()
        self.labels: dict[str, None] = {}
        self.bad: list[tuple[int, str]] = []
        self.parser = new_parser(name)
        self._name = name
        self._encoding: str | None = None
        self._path: list[str] = []
        self._track: dict[str, str] = {}
        self._open: tuple[int, dict[str, str]] | None = None
        self._ended: tuple[int, dict[str, str], str] | None = None
        self.parser.XmlDeclHandler = self._declared
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._settle
        self.parser.CommentHandler = self._settle

    def _declared(self, _version: str, encoding: str | None, _standalone: int) -> None:
        self._encoding = encoding

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._settle()
        path = self._path
        if not path and tag != "annotations":
            raise IngestionError(f"{self._name} is not a CVAT file: its root is {tag[:40]!r}")
        if len(path) > _MOST_DEPTH:
            raise IngestionError(f"{self._name} nests elements more than {_MOST_DEPTH} deep")
        path.append(tag)
        if len(path) == 2 and tag == "track":
            self._track = attributes
            self.labels[attributes.get("label", "")] = None
        if self._is_wanted():
            self._open = (self.parser.CurrentByteIndex, attributes)
        if len(path) == 3 and path[1] in ("image", "track") and tag in (*_SHAPES, "tag"):
            if tag != "tag" or attributes.get("label", "").strip():
                self.kinds.add(tag)
            if "label" in attributes:
                self.labels[attributes["label"]] = None

    def _is_wanted(self) -> bool:
        path = self._path
        if len(path) == 2:
            return path[1] in ("image", "meta")
        return len(path) == 3 and path[1] == "track" and path[2] in _SHAPES

    def _end(self, tag: str) -> None:
        self._settle()
        if self._open is not None and self._is_wanted():
            self._ended = (*self._open, tag)
            self._open = None
        self._path.pop()

    def _settle(self, _: str = "") -> None:
        if self._ended is None:
            return
        start, attributes, tag = self._ended
        self._ended = None
        piece = _Piece(self._name, start, self.parser.CurrentByteIndex, self._encoding)
        if tag == "meta":
            self.meta = piece
        elif tag == "image":
            self.images.append((attributes, piece))
        elif attributes.get("outside", "").strip().lower() in ("1", "true"):
            self.outside += 1
        else:
            frame = attributes.get("frame", "").strip()
            whole = frame.removesuffix(".0")
            if whole.isdecimal() and len(whole) < _MOST_DIGITS:
                self.shapes.append((int(whole), piece._replace(track=self._track)))
            else:
                reason = f"no object: the frame of a shape of track {self._track.get('id')} is {frame[:40]!r}"
                self.bad.append((self.parser.CurrentLineNumber, reason))


# -- shapes ------------------------------------------------------------------------------------------------------


class _Shapes:
    """The shapes and tags of an image."""

    def __init__(self) -> None:
        self.objects = Objects()
        self._tags: list[tuple[str, dict[str, Any]]] = []
        self._masks: list[tuple[int, NDArray[np.bool_]]] = []
        self.size: _Size = (None, None)

    def take(self, element: Element, track: Mapping[str, str], where: str) -> None:
        """Add a shape or a tag."""
        objects = self.objects
        if element.tag == "tag":
            if element.get("label", "").strip():
                self._tags.append((element.attrib["label"], _attributes(element, {"label"})))
            else:
                objects.told.append(Skipped(where, "no tag: it has no class"))
        elif objects.add(where, _object, element, track) and element.tag == "mask":
            try:
                self._masks.append((len(objects.found) - 1, _mask(element, self.size)))
            except ValueError as error:
                objects.told.append(Skipped(where, f"its mask is left out: {error}", 0))

    def values(self) -> dict[str, Any]:
        """Return the values of the row."""
        return {
            **self.objects.values(),
            "image_labels": [label for label, _ in self._tags],
            "image_label_attributes": [attributes for _, attributes in self._tags],
            "rle_mask": np.stack([mask for _, mask in self._masks], axis=-1) if self._masks else None,
            "rle_object": np.array([number for number, _ in self._masks], np.int64),
        }


def _object(element: Element, track: Mapping[str, str]) -> Object:
    tag, given = element.tag, element.attrib
    box: Sequence[float] | None = None
    points: Sequence[Sequence[float]] = ()
    used = {"label", "points"}
    if tag == "box":
        box = _numbers(element, _SIDES)
        used |= {*_SIDES}
    elif tag == "ellipse":
        across, down, rx, ry = _numbers(element, ("cx", "cy", "rx", "ry"))
        box = [across - rx, down - ry, across + rx, down + ry]
    elif tag == "mask":
        left, top, width, height = _numbers(element, ("left", "top", "width", "height"))
        box = [left, top, left + width, top + height]
        used.add("rle")
    elif tag == "cuboid":
        corners = [(key, f"y{key[1:]}") for key in given if _CORNER.fullmatch(key)]
        points = [_numbers(element, pair) for pair in corners]
        used |= {key for pair in corners for key in pair}
    elif tag == "skeleton":
        points = [point for part in element.iter("points") for point in _points(part.get("points", ""))]
    elif tag in _SHAPES:
        points = _points(given.get("points", ""))
    else:
        raise ValueError("it is not a known shape")
    attributes = {"shape": tag, **_attributes(element, used)}
    if track:
        attributes["track"] = {key: plain_number(value) for key, value in track.items() if key != "label"}
    return Object(given.get("label") or track.get("label", ""), box, points, attributes)


def _attributes(element: Element, used: set[str]) -> dict[str, Any]:
    """Return the values of a shape, except its points."""
    found: dict[str, Any] = {
        key: plain_number(value) for key, value in element.attrib.items() if key not in used
    }
    values: dict[str, Any] = {}
    for one in element.findall("attribute"):
        name, value = one.get("name", ""), plain_number(one.text or "")
        earlier = values.setdefault(name, value)
        if earlier != value:
            values[name] = [*(earlier if isinstance(earlier, list) else [earlier]), value]
    if values:
        found["attributes"] = values
    parts = [plain(child) for child in element if child.tag != "attribute"]
    if parts:
        found["elements"] = parts
    return found


def _numbers(element: Element, keys: Sequence[str]) -> list[float]:
    return [number_of(element.get(key), key) for key in keys]


def _points(text: str) -> list[list[float]]:
    if not text.strip():
        raise ValueError("it has no points")
    found = []
    for pair in text.strip().removesuffix(";").split(";"):
        across, comma, down = pair.partition(",")
        if not comma:
            raise ValueError(f"{pair[:40]!r} in its points is not a pair of numbers")
        found.append([number_of(across, "point"), number_of(down, "point")])
    return found


def _mask(element: Element, of_image: _Size) -> NDArray[np.bool_]:
    """Return the mask of a shape in the whole image."""
    left, top, width, height = map(int, _numbers(element, ("left", "top", "width", "height")))
    sides = [
        number_of(side, f"image's {key}") for side, key in zip(of_image, ("height", "width"), strict=True)
    ]
    if min(sides) < 1 or any(side % 1 for side in sides) or sides[0] * sides[1] > _MOST_PIXELS:
        raise ValueError(f"its image has no valid size: {of_image}")
    size = int(sides[0]), int(sides[1])
    if min(left, top, width, height) < 0 or left + width > size[1] or top + height > size[0]:
        raise ValueError("it lies outside its image")
    found = np.zeros(size, np.bool_)
    found[top : top + height, left : left + width] = mask_of(element.get("rle", "").split(","), height, width)
    return found
