"""Open Images: CSV files of boxes and of labels of whole images (storage.googleapis.com/openimages, V4 to V7).

    train/000002b66c9c498e.jpg ...                 images, a folder for each split
    train-annotations-bbox.csv                     ImageID, Source, LabelName, Confidence, XMin, XMax, YMin, YMax, ...
    train-annotations-human-imagelabels.csv        ImageID, Source, LabelName, Confidence
    class-descriptions-boxable.csv                 /m/011k07, Tortoise
    bbox_labels_600_hierarchy.json                 which class is a part or a kind of which

A row is an image that is there; annotations of others are counted. ``boxes`` are fractions of the image's sides, other
columns are in ``attributes``. CSV files of any size are read an image at a time, after a pass that notes where its
lines are.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.objects import Images, Object, checked, plain_number, tensors_of, values_of
from lakebed.importers.pictures import kind_of_images
from lakebed.importers.plan import Media, Plan, Problem, media, tensor
from lakebed.importers.source import Source, stem_of
from lakebed.importers.yolo_layout import by_folder
from lakebed.transforms.output import Skipped

_HEAD_BYTES = 1 << 12
_DOCUMENT_BYTES = 1 << 26
_LINE_BYTES = 1 << 20
_MOST_CLASSES = 100_000
_SIDES = ("XMin", "YMin", "XMax", "YMax")
_MID = re.compile(r"/[a-z]/[\w-]+")
_SPLIT_OF_NAME = re.compile(r"(?:^|[-_/])(train|validation|val|test)(?=[-_/])")


class _Lines(NamedTuple):
    """Lines of an image that follow each other: number of the file, and where they lie."""

    file: int
    start: int
    stop: int


class _Row(NamedTuple):
    """An image, and the lines that are of it."""

    image: str
    lines: Sequence[_Lines]

    def __str__(self) -> str:
        return self.image


@dataclass(frozen=True)
class _Table:
    """A CSV file, its columns, and whether its lines are boxes."""

    name: str
    columns: Sequence[str]

    @property
    def has_boxes(self) -> bool:
        return "XMin" in self.columns


@dataclass(frozen=True)
class _Context:
    """What workers know."""

    media: Media
    tables: Sequence[_Table]
    names: Mapping[str, str]
    tensors: tuple[str, ...]


def recognise(source: Source) -> str | None:
    """Say which CSV files there are; None without annotations of boxes or labels."""
    if not source.is_folder:
        return None
    tables = _tables(source)
    return f"Open Images annotations: {', '.join(one.name for one in tables)}" if tables else None


def plan(
    source: Source,
    *,
    classes: str | None = None,
    link: bool = False,
    creds_key: str | None = None,
    compression: str | None = None,
) -> Plan:
    """Plan a row for each image that is there.

    Parameters
    ----------
    source
        The folder of the CSV files and the images.
    classes
        The CSV file with the names of the classes; left out, the one that is there.
    link
        Store links to the images in place of the images.
    creds_key
        Name of the credentials that the links need.
    compression
        Kind of image that is stored; left out, that of the files, and of most of them where they differ.
    """
    tables = _tables(source)
    if not tables:
        raise IngestionError(f"{source.shown} has no CSV files of Open Images")
    images = Images(source)
    if not images.names:
        raise IngestionError(f"{source.shown} has no images: annotations of Open Images come without them")
    problems: list[Problem] = []
    names, described = _names(source, tables, classes)
    lines, mids = _scanned(source, tables, {stem_of(name) for name in images.names}, problems)
    used = {described, *(one.name for one in tables)}
    problems += [
        Problem(name, "it is not imported", 0) for name in source.with_suffix(".csv") if name not in used
    ]
    for mid in sorted(mids - set(names)):
        names[mid] = mid
    labels = _distinct(names)
    splits = _splits(images.names, tables, lines)
    items: list[_Row] = []
    ranges: dict[str, range] = {}
    for split, of in splits.items():
        ranges[split] = range(len(items), len(items) + len(of))
        items += [_Row(image, lines.get(stem_of(image), ())) for image in of]
    compression = kind_of_images(source, images.names, compression, None if link else problems)
    shown = list(labels.values())
    info = {"mids": list(labels)}
    tensors = [media("images", "image", compression=compression, link=link)]
    tensors += [
        one
        for one in tensors_of(shown, polygons=False, fractional=True, info=info)
        if one.name != "annotation"
    ]
    if not all(one.has_boxes for one in tables):
        tensors += [
            tensor("image_labels", "class_label", class_names=shown, info=info, is_list=True),
            tensor("image_label_attributes", "json"),
        ]
    return Plan(
        f"{len(items):,} images with Open Images annotations",
        tensors,
        items,
        _Context(Media(source, link, creds_key), tables, labels, tuple(one.name for one in tensors)),
        rows=len(items),
        nbytes=sum(source.files[item.image] for item in items),
        splits=ranges if set(ranges) != {""} else {},
        problems=problems,
        classes={"labels": shown},
        about={
            "files": [one.name for one in tables],
            "classes": described,
            "hierarchy": _hierarchy(source, problems),
        },
    )


def rows(item: _Row, context: _Context) -> Iterator[Any]:
    """Make the row of an image; lines that are damaged are left out, each counted."""
    objects: list[Object] = []
    labels: list[tuple[str, dict[str, Any]]] = []
    bad: list[Skipped] = []
    try:
        image = context.media.value(item.image)
        for lines in item.lines:
            table = context.tables[lines.file]
            for line in _read(context.media.source, table, lines):
                try:
                    _take(line, table, context.names, objects, labels)
                except (ValueError, csv.Error) as error:
                    bad.append(Skipped(f"{table.name} image {stem_of(item.image)}", f"no object: {error}"))
    except (LakebedError, OSError, ValueError) as error:
        yield Skipped(item.image, f"{error}")
        return
    yield from bad
    made: dict[str, Any] = {"images": image, "file": item.image}
    if item.lines:
        made.update(values_of(objects, polygons=False))
        made["image_labels"] = [label for label, _ in labels]
        made["image_label_attributes"] = [attributes for _, attributes in labels]
    yield {name: made.get(name) for name in context.tensors}


def describe(plan: Plan) -> dict[str, Any]:
    """Return the files and the hierarchy of the classes."""
    return plan.about


# -- what there is -----------------------------------------------------------------------------------------------


def _tables(source: Source) -> list[_Table]:
    """Return the CSV files of boxes and of labels of images."""
    found = []
    for name in source.with_suffix(".csv"):
        with source.open(name) as file:
            head = file.read(_HEAD_BYTES).partition(b"\n")[0].decode("utf-8-sig", "replace").strip()
        columns = tuple(column.strip() for column in head.split(","))
        is_known = columns[0] == "ImageID" and "LabelName" in columns and "MaskPath" not in columns
        if is_known and len({*columns} & {*_SIDES}) in (0, 4):
            found.append(_Table(name, columns))
    return found


def _names(
    source: Source, tables: Sequence[_Table], classes: str | None
) -> tuple[dict[str, str], str | None]:
    """Return the name of each class by its id, and the file that says so."""
    taken = {one.name for one in tables}
    if classes is not None:
        return _described(source.at(classes), "", classes), classes
    for name in source.with_suffix(".csv"):
        if name not in taken and source.files[name] <= _DOCUMENT_BYTES:
            found = _described(source, name, name)
            if found:
                return found, name
    return {}, None


def _described(source: Source, name: str, shown: str) -> dict[str, str]:
    """Return the classes of a file, if each line is an id and a name."""
    try:
        lines = list(csv.reader(source.document(name).decode("utf-8-sig").splitlines()))
    except (csv.Error, UnicodeDecodeError) as error:
        raise IngestionError(f"{shown} cannot be read: {error}") from error
    pairs = [line for line in lines if line]
    if pairs and pairs[0][:2] == ["LabelName", "DisplayName"]:
        pairs = pairs[1:]
        told = True
    else:
        told = "class" in stem_of(shown)
    if not pairs or any(len(line) < 2 or not (told or _MID.fullmatch(line[0])) for line in pairs):
        return {}
    return {line[0]: line[1] for line in pairs}


def _distinct(names: Mapping[str, str]) -> dict[str, str]:
    """Return the names with their ids where several classes have the same."""
    count: dict[str, int] = {}
    for name in names.values():
        count[name] = count.get(name, 0) + 1
    return {mid: name if count[name] == 1 else f"{name} ({mid})" for mid, name in names.items()}


def _scanned(
    source: Source, tables: Sequence[_Table], images: set[str], problems: list[Problem]
) -> tuple[dict[str, list[_Lines]], set[str]]:
    """Return where the lines of each image are, and all ids of classes."""
    found: dict[str, list[_Lines]] = {}
    mids: set[bytes] = set()
    for number, table in enumerate(tables):
        column = table.columns.index("LabelName")
        others = 0
        last, start, at = b"", 0, 0
        with source.open(table.name) as file:
            at = len(file.readline(_LINE_BYTES))
            for line in _lines_of(file, table.name):
                image = line.partition(b",")[0]
                if image != last:
                    _add(found, last, images, _Lines(number, start, at))
                    last, start = image, at
                at += len(line)
                if image.decode("utf-8", "replace") in images:
                    cells = line.split(b",")
                    if len(cells) == len(table.columns):
                        mids.add(cells[column].strip())
                elif image.strip():
                    others += 1
        _add(found, last, images, _Lines(number, start, at))
        if others:
            problems.append(Problem(table.name, f"{others:,} lines are of images that are not there", 0))
    if len(mids) > _MOST_CLASSES:
        raise IngestionError(f"LabelName has {len(mids):,} values, more than {_MOST_CLASSES:,}")
    return found, {text for mid in mids if (text := mid.decode("utf-8", "replace"))}


def _lines_of(file: BinaryIO, name: str) -> Iterator[bytes]:
    while line := file.readline(_LINE_BYTES):
        if len(line) == _LINE_BYTES:
            raise IngestionError(f"{name} has a line of more than {_LINE_BYTES:,} bytes")
        yield line


def _add(found: dict[str, list[_Lines]], image: bytes, images: set[str], lines: _Lines) -> None:
    name = image.decode("utf-8", "replace")
    if name in images and lines.stop > lines.start:
        found.setdefault(name, []).append(lines)


def _splits(
    images: list[str], tables: Sequence[_Table], lines: Mapping[str, Sequence[_Lines]]
) -> dict[str, list[str]]:
    """Return the images of each split, by their folders, or by the names of the files that their lines are in."""
    found = by_folder(images)
    if set(found) != {""}:
        return found
    of_table = [_SPLIT_OF_NAME.search(table.name) for table in tables]
    by_split: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for image in images:
        of = {match[1] for one in lines.get(stem_of(image), ()) if (match := of_table[one.file]) is not None}
        if len(of) != 1:
            return {"": images}
        split = of.pop()
        by_split["val" if split == "validation" else split].append(image)
    return {split: names for split, names in by_split.items() if names}


def _hierarchy(source: Source, problems: list[Problem]) -> Any:
    for name in source.with_suffix(".json"):
        if "hierarchy" in name and source.files[name] <= _DOCUMENT_BYTES:
            try:
                return json.loads(source.read(name))
            except (ValueError, RecursionError) as error:
                problems.append(Problem(name, f"it is no JSON: {error}", 0))
    return None


# -- lines -------------------------------------------------------------------------------------------------------


def _read(source: Source, table: _Table, lines: _Lines) -> list[str]:
    if lines.stop - lines.start > _DOCUMENT_BYTES:
        raise IngestionError(f"an image has {lines.stop - lines.start:,} bytes of lines in {table.name}")
    with source.open(table.name) as file:
        file.seek(lines.start)
        text = file.read(lines.stop - lines.start).decode("utf-8", "replace")
    return [line for line in text.splitlines() if line.strip()]


def _take(
    line: str,
    table: _Table,
    names: Mapping[str, str],
    objects: list[Object],
    labels: list[tuple[str, dict[str, Any]]],
) -> None:
    """Add the box or the label of a line.

    Raises
    ------
    ValueError
        If it is none.
    """
    cells = next(csv.reader([line]))
    if len(cells) != len(table.columns):
        raise ValueError(f"it has {len(cells)} columns, not {len(table.columns)}")
    values = dict(zip(table.columns, map(str.strip, cells), strict=True))
    mid = values.pop("LabelName")
    if mid not in names:
        raise ValueError(f"{mid[:40]!r} is no class")
    del values["ImageID"]
    attributes = {key: plain_number(value) for key, value in values.items() if key not in _SIDES}
    if not table.has_boxes:
        labels.append((names[mid], attributes))
        return
    box = [float(values[side]) for side in _SIDES]
    objects.append(checked(Object(names[mid], box, attributes=attributes)))
