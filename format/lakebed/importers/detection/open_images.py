"""Open Images: CSV files of boxes and of labels of whole images (storage.googleapis.com/openimages, V4 to V7).

    train/000002b66c9c498e.jpg ...                 images, a folder for each split
    train-annotations-bbox.csv                     ImageID, Source, LabelName, Confidence, XMin, XMax, YMin, YMax, ...
    train-annotations-human-imagelabels.csv        ImageID, Source, LabelName, Confidence
    class-descriptions-boxable.csv                 /m/011k07, Tortoise
    bbox_labels_600_hierarchy.json                 hierarchy of the classes

A row is an image of the source; lines of images that the source lacks are counted. ``boxes`` are fractions of the
image's sides; ``attributes`` has the other columns, without cells that a line lacks. Cells may be quoted. CSV files may
be of any size: a first pass records the places of the lines of each image, which are read when its row is made.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Unpack

from lakebed.errors import IngestionError
from lakebed.importers.core.contents import decoded
from lakebed.importers.core.plan import ImageOptions, Plan, Problem, tensor
from lakebed.importers.core.shares import mostly
from lakebed.importers.core.source import Source, check_size, stem_of
from lakebed.importers.core.splits import SPLITS, in_order, ranges_of
from lakebed.importers.detection.objects import (
    Context,
    Images,
    Object,
    Objects,
    by_folder,
    number_of,
    plain_number,
    plan_of,
)
from lakebed.transforms.output import Skipped

_HEAD_BYTES = 1 << 12
_DOCUMENT_BYTES = 1 << 26
_LINE_BYTES = 1 << 20
_MOST_CLASSES = 100_000
_SIDES = ("XMin", "YMin", "XMax", "YMax")
_USED = {"ImageID", "LabelName", *_SIDES}
"""Columns that are not attributes."""
_MID = re.compile(r"/[a-z]/[\w-]+")
_SPLIT_OF_NAME = re.compile(r"(?:^|[-_/])(train|validation|val|test)(?=[-_/])")


class _Lines(NamedTuple):
    """Consecutive lines of an image: number of the file, their place, and number of the first line."""

    file: int
    start: int
    stop: int
    first: int


class _Row(NamedTuple):
    """An image and its lines."""

    image: str
    lines: Sequence[_Lines]

    def __str__(self) -> str:
        return self.image


@dataclass(frozen=True)
class _Table:
    """A CSV file and its columns."""

    name: str
    columns: Sequence[str]

    @property
    def has_boxes(self) -> bool:
        """True if the lines are boxes, not labels of images."""
        return "XMin" in self.columns


class _Known(NamedTuple):
    """The CSV files, and the name of each class by its id."""

    tables: Sequence[_Table]
    names: Mapping[str, str]


def recognise(source: Source) -> str | None:
    """Name the CSV files; None if the source has no annotations of boxes or labels."""
    tables = _tables(source) if source.is_folder else []
    return f"Open Images annotations: {', '.join(one.name for one in tables)}" if tables else None


def plan(source: Source, *, classes: str | None = None, **options: Unpack[ImageOptions]) -> Plan:
    """Plan a row for each image of the source.

    Parameters
    ----------
    source
        The folder of the CSV files and the images.
    classes
        The CSV file with the names of the classes; left out, the one in the source.
    options
        Options of images.
    """
    tables = _tables(source)
    if not tables:
        raise IngestionError(f"{source.shown} has no CSV files of Open Images")
    images = Images(source)
    if not images.names:
        raise IngestionError(
            f"{source.shown} has no images: the annotations of Open Images do not contain them"
        )
    problems: list[Problem] = []
    names, described = _names(source, tables, classes, problems)
    lines, mids = _scanned(source, tables, {stem_of(name) for name in images.names}, problems)
    used = {described, *(one.name for one in tables)}
    problems += [
        Problem(name, "it is not imported", 0) for name in source.with_suffix(".csv") if name not in used
    ]
    names |= {mid: mid for mid in sorted(mids - set(names))}
    count = Counter(names.values())
    labels = {mid: name if count[name] == 1 else f"{name} ({mid})" for mid, name in names.items()}
    items, splits = ranges_of(
        (split, [_Row(image, lines.get(stem_of(image), ())) for image in of])
        for split, of in _splits(images.names, tables, lines).items()
    )
    info = {"mids": list(labels)}
    more = []
    if not all(one.has_boxes for one in tables):
        of_images: dict[str, Any] = {"class_names": list(labels.values()), "info": info, "is_list": True}
        more.append(tensor("image_labels", "class_label", **of_images))
        more.append(tensor("image_label_attributes", "json"))
    return plan_of(
        "Open Images",
        source,
        items,
        [item.image for item in items],
        list(labels.values()),
        problems,
        without=("polygons", "annotation"),
        coords="fractional",
        info=info,
        more=more,
        known=_Known(tables, labels),
        splits=splits,
        about={
            "files": [one.name for one in tables],
            "classes": described,
            "hierarchy": _hierarchy(source, problems),
        },
        **options,
    )


def rows(item: _Row, context: Context) -> Iterator[Any]:
    """Make the row of an image; damaged lines are left out and counted."""
    known: _Known = context.known
    row, objects = context.begun(item.image, item.image), Objects()
    labels: list[tuple[str, dict[str, Any]]] = []
    for lines in item.lines:
        table = known.tables[lines.file]
        for at, line in _read(context.media.source, table, lines):
            where = f"{table.name} line {at} (image {stem_of(item.image)})"
            if table.has_boxes:
                objects.add(where, _object, line, table, known.names)
                continue
            try:
                labels.append(_label(_values(line, table), known.names))
            except ValueError as error:
                objects.told.append(Skipped(where, f"no label: {error}"))
    if item.lines:
        row.update(objects.values())
        row["image_labels"] = [label for label, _ in labels]
        row["image_label_attributes"] = [attributes for _, attributes in labels]
    yield from context.finished(row, objects)


# -- files -------------------------------------------------------------------------------------------------------


def _tables(source: Source) -> list[_Table]:
    """Return the CSV files of boxes and of labels of images."""
    found = []
    for name in source.with_suffix(".csv"):
        line = source.start_of(name, _HEAD_BYTES).partition(b"\n")[0]
        columns = tuple(_cells(line.decode("utf-8-sig", "replace").strip()))
        is_known = columns[:1] == ("ImageID",) and "LabelName" in columns and "MaskPath" not in columns
        if is_known and len({*columns} & {*_SIDES}) in (0, 4):
            found.append(_Table(name, columns))
    return found


def _names(
    source: Source, tables: Sequence[_Table], classes: str | None, problems: list[Problem]
) -> tuple[dict[str, str], str | None]:
    """Return (id of a class -> its name), and the name of the file that contains them."""
    taken = {one.name for one in tables}
    if classes is not None:
        return _described(source.at(classes), "", classes, problems), classes
    for name in source.with_suffix(".csv"):
        if name not in taken and source.files[name] <= _DOCUMENT_BYTES:
            try:
                found = _described(source, name, name, problems)
            except IngestionError:
                continue  # the file is another table, which is reported as not imported
            if found:
                return found, name
    return {}, None


def _described(source: Source, name: str, shown: str, problems: list[Problem]) -> dict[str, str]:
    """Return (id -> name) of the classes in a file if most of its lines are an id and a name; report other lines."""
    text = decoded(source.document(name), shown, "utf-8-sig")
    pairs = {at: _cells(line) for at, line in enumerate(text.split("\n"), 1) if line.strip()}
    told = "class" in stem_of(shown)
    if pairs and next(iter(pairs.values()))[:2] == ["LabelName", "DisplayName"]:
        del pairs[next(iter(pairs))]
        told = True
    good = {at: cells for at, cells in pairs.items() if len(cells) > 1 and all(cells[:2])}
    good = {at: cells for at, cells in good.items() if told or _MID.fullmatch(cells[0])}
    if not mostly(len(good), len(pairs)):
        return {}
    problems += [
        Problem(f"{shown} line {at}", f"the line is not an id and a name of a class: {str(cells)[:80]}", 0)
        for at, cells in pairs.items()
        if at not in good
    ]
    return {cells[0]: cells[1] for cells in good.values()}


def _scanned(
    source: Source, tables: Sequence[_Table], images: set[str], problems: list[Problem]
) -> tuple[dict[str, list[_Lines]], set[str]]:
    """Return the places of the lines of each image, and all ids of classes."""
    found: dict[str, list[_Lines]] = {}
    mids: set[bytes] = set()
    for number, table in enumerate(tables):
        column = table.columns.index("LabelName")
        others, first_other = 0, 0
        last, name, start, first = b"", "", 0, 0
        with source.open(table.name) as file:
            at = len(file.readline(_LINE_BYTES))
            for count, line in enumerate(_lines_of(file, table.name), 2):
                image = line.partition(b",")[0]
                if image != last:
                    if name in images:
                        found.setdefault(name, []).append(_Lines(number, start, at, first))
                    last, name, start, first = image, _image_of(image), at, count
                at += len(line)
                if name in images:
                    mids.add(_cell(line, column))
                elif line and not line.isspace():
                    others, first_other = others + 1, first_other or count
        if others:
            told = f"{others:,} lines are of images that are not there, the first is line {first_other}"
            problems.append(Problem(table.name, told, 0))
    if len(mids) > _MOST_CLASSES:
        raise IngestionError(f"LabelName has {len(mids):,} values, more than the allowed {_MOST_CLASSES:,}")
    return found, {text for mid in mids if (text := mid.decode("utf-8", "replace"))}


def _lines_of(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the lines of a file, and an empty one at its end."""
    while line := file.readline(_LINE_BYTES):
        if len(line) == _LINE_BYTES:
            raise IngestionError(f"{name} has a line of more than {_LINE_BYTES:,} bytes")
        yield line
    yield b""


def _image_of(cell: bytes) -> str:
    return cell.strip(b' \t\r\n"').decode("utf-8", "replace")


def _cell(line: bytes, column: int) -> bytes:
    """Return a cell of a line, without blanks; empty if the line lacks the cell."""
    if b'"' in line:
        texts = _cells(line.decode("utf-8", "replace"))
        return texts[column].encode() if column < len(texts) else b""
    cells = line.split(b",", column + 1)
    return cells[column].strip() if column < len(cells) else b""


def _cells(line: str) -> list[str]:
    """Return the cells of a line, without blanks; quotes that are not closed end with the line."""
    try:
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r\n")], skipinitialspace=True), [])]
    except csv.Error:
        return []


def _splits(
    images: list[str], tables: Sequence[_Table], lines: Mapping[str, Sequence[_Lines]]
) -> dict[str, list[str]]:
    """Return the images of each split, by their folders or the names of the CSV files."""
    found = by_folder(images)
    if set(found) != {""}:
        return found
    of_table = [_SPLIT_OF_NAME.search(table.name) for table in tables]
    by_split: dict[str, list[str]] = {}
    for image in images:
        of = {match[1] for one in lines.get(stem_of(image), ()) if (match := of_table[one.file]) is not None}
        if len(of) != 1:
            return {"": images}
        by_split.setdefault(SPLITS[of.pop()], []).append(image)
    return dict(in_order(by_split))


def _hierarchy(source: Source, problems: list[Problem]) -> Any:
    for name in source.with_suffix(".json"):
        if "hierarchy" in name and source.files[name] <= _DOCUMENT_BYTES:
            try:
                return json.loads(source.read(name))
            except (ValueError, RecursionError) as error:
                problems.append(Problem(name, f"it is not JSON: {error}", 0))
    return None


# -- lines -------------------------------------------------------------------------------------------------------


def _read(source: Source, table: _Table, lines: _Lines) -> list[tuple[int, str]]:
    """Return lines with their numbers."""
    check_size(f"the part of {table.name} for an image", lines.stop - lines.start, _DOCUMENT_BYTES)
    with source.open(table.name) as file:
        file.seek(lines.start)
        text = file.read(lines.stop - lines.start).decode("utf-8", "replace")
    return [(at, line) for at, line in enumerate(text.split("\n"), lines.first) if line.strip()]


def _label(values: Mapping[str, str], names: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the class of a line, and its other values.

    Raises
    ------
    ValueError
        If the line has no class.
    """
    mid = values.get("LabelName", "")
    if mid not in names:
        raise ValueError(f"its LabelName is {mid[:40]!r}, not a class" if mid else "it has no class")
    return names[mid], {key: plain_number(value) for key, value in values.items() if key not in _USED}


def _object(line: str, table: _Table, names: Mapping[str, str]) -> Object:
    """Return the box of a line.

    Raises
    ------
    ValueError
        If the line is not a box.
    """
    values = _values(line, table)
    label, attributes = _label(values, names)
    box = [number_of(values.get(side), side) for side in _SIDES]
    wrong = [f"its {column} is missing" for column in table.columns[len(values) :]]
    return Object(label, box, attributes=attributes, wrong=wrong[:1])


def _values(line: str, table: _Table) -> dict[str, str]:
    cells = _cells(line)
    if any(cells[len(table.columns) :]):
        raise ValueError(f"it has {len(cells)} columns, not {len(table.columns)}")
    return dict(zip(table.columns, cells, strict=False))
