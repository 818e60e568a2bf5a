"""Where the images and shapes of a CVAT file lie, so that a file of any size is read an image at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.etree.ElementTree import Element
from xml.parsers import expat

from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source
from lakebed.importers.detection.markup import new_parser, parse_xml

SHAPES = ("box", "polygon", "polyline", "points", "ellipse", "cuboid", "mask", "skeleton")

_READ_BYTES = 1 << 18
_MOST_ELEMENT_BYTES = 1 << 27
_MOST_DEPTH = 32
_MOST_DIGITS = 10  # of a frame


class Piece(NamedTuple):
    """Where an element lies in a file: of a track its shape, with what the track says."""

    file: str
    start: int
    stop: int
    encoding: str | None
    track: Mapping[str, str] | None = None


@dataclass
class Index:
    """What a file has.

    Parameters
    ----------
    images
        Attributes of each image, and where it lies.
    shapes
        Frame of each shape of a track, and where it lies.
    outside
        How many shapes of tracks are outside their frames.
    kinds
        Which shapes there are.
    labels
        Labels of the shapes, in the order in which they come.
    bad
        Shapes of tracks that are of no frame: line of the file, and what is wrong.
    """

    images: list[tuple[dict[str, str], Piece]] = field(default_factory=list)
    shapes: list[tuple[int, Piece]] = field(default_factory=list)
    meta: Piece | None = None
    outside: int = 0
    kinds: set[str] = field(default_factory=set)
    labels: dict[str, None] = field(default_factory=dict)
    bad: list[tuple[int, str]] = field(default_factory=list)


def scanned(source: Source, name: str) -> Index:
    """Return what a file has, by a pass over it.

    Raises
    ------
    IngestionError
        If it is no XML of CVAT.
    """
    scan = _Scan(name)
    try:
        with source.open("" if source.is_file else name) as file:
            while block := file.read(_READ_BYTES):
                scan.parser.Parse(block, False)
        scan.parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, IngestionError):
            raise
        raise IngestionError(f"{name} is no XML: {error}") from error
    return scan.found


def element_of(source: Source, piece: Piece) -> Element:
    """Return an element that a scan found.

    Raises
    ------
    IngestionError
        If it is too large, or no XML any more.
    """
    if piece.stop - piece.start > _MOST_ELEMENT_BYTES:
        raise IngestionError(f"an element of {piece.file} has {piece.stop - piece.start:,} bytes")
    with source.open("" if source.is_file else piece.file) as file:
        file.seek(piece.start)
        return parse_xml(file.read(piece.stop - piece.start), piece.file, piece.encoding)


class _Scan:
    """What the parser tells; the end of an element is where the event after it begins."""

    def __init__(self, name: str) -> None:
        self.found = Index()
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
            raise IngestionError(f"{self._name} is no CVAT file: its root is {tag[:40]!r}")
        if len(path) > _MOST_DEPTH:
            raise IngestionError(f"{self._name} nests more than {_MOST_DEPTH} elements")
        path.append(tag)
        if len(path) == 2 and tag == "track":
            self._track = attributes
            self.found.labels[attributes.get("label", "")] = None
        if self._is_wanted():
            self._open = (self.parser.CurrentByteIndex, attributes)
        if len(path) == 3 and path[1] in ("image", "track") and tag in (*SHAPES, "tag"):
            if tag != "tag" or attributes.get("label", "").strip():
                self.found.kinds.add(tag)
            if "label" in attributes:
                self.found.labels[attributes["label"]] = None

    def _is_wanted(self) -> bool:
        path = self._path
        if len(path) == 2:
            return path[1] in ("image", "meta")
        return len(path) == 3 and path[1] == "track" and path[2] in SHAPES

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
        found = self.found
        piece = Piece(self._name, start, self.parser.CurrentByteIndex, self._encoding)
        if tag == "meta":
            found.meta = piece
        elif tag == "image":
            found.images.append((attributes, piece))
        elif attributes.get("outside", "").strip().lower() in ("1", "true"):
            found.outside += 1
        else:
            frame = attributes.get("frame", "").strip()
            whole = frame.removesuffix(".0")
            if whole.isdecimal() and len(whole) < _MOST_DIGITS:
                found.shapes.append((int(whole), piece._replace(track=self._track)))
            else:
                reason = f"no object: the frame of a shape of track {self._track.get('id')} is {frame[:40]!r}"
                found.bad.append((self.parser.CurrentLineNumber, reason))
