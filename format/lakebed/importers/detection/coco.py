"""COCO: pictures with objects, key points, captions and panoptic segments (cocodataset.org, "Data format").

A row is a picture. The keys of its annotations are tensors, with a value for each annotation: ``bbox``,
``category_id``, ``segmentation``, ``area``, ``iscrowd``, ``id``, ``keypoints``, ... With several kinds of annotation
files, each kind is a group, named by its files without the split: ``instances/bbox``.

    annotation                      tensor
    polygons                        segmentation: all polygons; segmentation_object: the annotation of each
    RLE (crowds)                    rle_mask: a layer for each mask, (height, width, n); rle_object: its annotation
    captions                        caption: a sequence of texts
    panoptic PNG                    segment_ids: (height, width) uint32; the keys of the segments beside it
    other keys                      other: JSON, an object for each annotation

``images``, ``file`` and ``image_id`` describe the picture; ``image_info`` has the other members of its record. The info
of the dataset has licences, info, and categories with their supercategories.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

from lakebed.errors import IngestionError, LakebedError, NotFoundError
from lakebed.importers.core.plan import (
    ImageOptions,
    Media,
    Plan,
    Problem,
    TensorPlan,
    columns_of_rows,
    tensor,
)
from lakebed.importers.core.source import Source, grouped, stem_of
from lakebed.importers.core.splits import ranges_of
from lakebed.importers.detection.coco_annotations import (
    Kind,
    Reader,
    look,
    tensors_of,
    values_of,
    values_of_many,
)
from lakebed.importers.folders.passed_over import beside_set
from lakebed.importers.folders.pictures import IMAGE_KINDS, planned_images
from lakebed.importers.tables.json_index import JsonFile, open_json
from lakebed.transforms.output import Skipped

BATCH = 512
"""Maximum number of pictures whose rows are made together; their masks must fit into `_MASK_BYTES`."""

_MASK_BYTES = 1 << 25
_ARRAYS = {"images": ("id", "file_name"), "annotations": ("image_id",)}
"""Array of a file -> keys of its elements that the plan needs."""
_INSPECTED = 1_000_000
_MOST_DIGITS = 20
"""Maximum number of digits in a text that may be an id."""
_TOLD = 100
"""Number of annotation problems that are reported one by one; the others are counted."""

_SPLIT_OF_NAME = re.compile(
    r"[_-]?(train|val|valid|validation|test|minival|unlabeled)[_-]?(\d{4})?$", re.IGNORECASE
)
_HEAD_BYTES = 1 << 16
_KEYS_AT_HEAD = re.compile(rb'"(images|annotations|categories)"\s*:')

_NONE: tuple[int, Sequence[int]] = (0, ())
"""File number and annotation numbers for a picture that has no annotations."""
_WRONG = (LakebedError, OSError, ValueError, TypeError, KeyError, OverflowError)
"""Exceptions of pictures that cannot be read together; each is then read alone, and reports its own error."""


class _Row(NamedTuple):
    """A picture: its file, the place of its record, and its annotations: kind -> JSON file and numbers in its array."""

    file: str
    record: tuple[int, int]
    annotations: Mapping[str, tuple[int, Sequence[int]]]

    def __str__(self) -> str:
        return self.file


@dataclass(frozen=True)
class _Context:
    """Files and settings that workers need."""

    media: Media
    files: Sequence[JsonFile]
    readers: Mapping[str, Reader]
    tensors: tuple[str, ...]
    images: str
    plain: bool
    panoptic: Source | None
    has_text_ids: bool

    def finished(self, row: dict[str, Any], item: _Row, record: dict[str, Any]) -> dict[str, Any]:
        """Return a row with its picture, and the values of its record."""
        row[self.images] = self.media.value(item.file)
        if self.plain:
            row["file"] = record.pop("file_name", item.file)
            key = _whole(record.pop("id", None))
            row["image_id"] = str(key) if self.has_text_ids and key is not None else key
            row["image_info"] = record
        return row

    def layers(self, item: _Row) -> int:
        """Return the number of bytes per pixel that the masks of a picture take."""
        found = 0
        for kind, reader in self.readers.items():
            number, numbers = item.annotations.get(kind, _NONE)
            if reader.is_panoptic:
                found += 4
            elif "rle_mask" in reader.names and len(numbers):
                found += self.files[number].count("annotations", numbers, "segmentation", "o")
        return found


def recognise(source: Source) -> str | None:
    """Name the annotation files; None if the source has none."""
    found = _annotation_files(source)
    return f"COCO annotations: {', '.join(found)}" if found else None


def plan(
    source: Source,
    *,
    annotations: Sequence[str] = (),
    only: Sequence[str] = (),
    images: str | None = None,
    groups: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    masks: str | None = None,
    inspect: int = _INSPECTED,
    plain: bool = True,
    image_tensor: str = "images",
    always_group: bool = False,
    **options: Unpack[ImageOptions],
) -> Plan:
    """Plan a row for each picture that the annotation files list.

    Parameters
    ----------
    source
        The folder; or an annotation file, or the folder of the pictures.
    annotations
        Annotation files: names below the source, or paths. Left out, all that are found.
    only
        Groups of annotations that are imported, such as instances,captions; left out, all. Pictures are those that
        their files list.
    images
        Folder of the pictures, if that is not below the source.
    groups
        Annotation file -> group of its tensors; left out, by the names of the files, and none where all files are of
        one kind.
    names
        Key of annotations -> name of its tensor.
    ignore
        Keys of annotations that are left out.
    masks
        Folder of the PNG files of panoptic segments.
    inspect
        Number of annotations of each file whose keys are inspected.
    plain
        With ``file``, ``image_id`` and ``image_info`` of the pictures; without, the tensors are those of Deep Lake 3.
    image_tensor
        Name of the tensor of the pictures.
    always_group
        Make a group even if all files are of one kind.
    options
        Options of images.
    """
    planner = _Planner(source, source.at(images) if images is not None else source.folder, groups or {})
    files = [str(name) for name in annotations] or _annotation_files(source)
    for name in planner.chosen(files, [only] if isinstance(only, str) else only):
        planner.take(name, inspect)
    kinds, problems, pictures = list(planner.kinds.values()), planner.problems, planner.pictures
    for kind in kinds if len(kinds) > 1 or always_group else ():
        kind.prefix = f"{kind.name}/" if kind.name else ""
    items, splits = ranges_of(((split, list(of.values())) for split, of in planner.rows.items()), rest="")
    used = [row.file for row in items]
    image, held = planned_images(pictures, used, problems, name=image_tensor, **options)
    tensors, readers = _tensors(
        kinds, names or {}, set(ignore), plain=plain, has_text_ids=planner.has_text_ids
    )
    tensors.insert(0, image)
    planner.report_leftovers()
    panoptic = source if any(kind.segments for kind in kinds) else None
    context = _Context(
        held,
        tuple(planner.files),
        readers,
        tuple(one.name for one in tensors),
        image_tensor,
        plain,
        source.at(masks) if masks is not None else panoptic,
        planner.has_text_ids,
    )
    told = ", ".join(f"{kind.name or 'annotations'} ({kind.count:,})" for kind in kinds)
    return Plan(
        f"COCO: {len(items):,} images, {told}",
        tensors,
        items,
        context,
        rows=len(items),
        nbytes=sum(pictures.files.get(name, 0) for name in used),
        splits=splits,
        problems=problems,
        classes={
            f"{kind.prefix}category_id": [str(one.get("name")) for one in kind.categories]
            for kind in kinds
            if kind.categories
        },
        about={"files": planner.about},
    )


def rows(item: _Row, context: _Context) -> Iterator[Any]:
    """Make the row of a picture; annotations that do not fit the tensors are left out and counted."""
    told: list[Skipped] = []

    def tell(reason: str, is_left_out: bool) -> None:
        told.append(Skipped(item.file, reason, int(is_left_out)))

    record = context.files[item.record[0]].elements("images", [item.record[1]])[0]
    row = dict.fromkeys(context.tensors)
    for kind, reader in context.readers.items():
        number, numbers = item.annotations.get(kind, _NONE)
        found = context.files[number].elements("annotations", numbers) if len(numbers) else []
        row.update(values_of(found, reader, _size(record), context.panoptic, tell))
    made = context.finished(row, item, record)
    yield from told
    yield made


def many(items: Sequence[_Row], context: _Context) -> Iterator[Any]:
    """Make the rows of pictures, as columns."""
    records = _records(items, context)
    for start, stop in _runs(items, records, context):
        made: list[dict[str, Any]] = []
        which: list[int] = []
        annotated = _annotated(items[start:stop], records[start:stop], context)
        for at, (row, record) in enumerate(zip(annotated, records[start:stop], strict=True), start):
            found: Iterable[Any] = rows(items[at], context)
            if row is not None and record is not None:
                found = [context.finished(row, items[at], record)]
            for one in found:
                if isinstance(one, Skipped):
                    yield one
                else:
                    made.append(one)
                    which.append(at)
        if made:
            yield which, columns_of_rows(made)


# -- pictures together -------------------------------------------------------------------------------------------


def _size(record: Mapping[str, Any]) -> tuple[int, int]:
    return int(record.get("height") or 0), int(record.get("width") or 0)


def _records(items: Sequence[_Row], context: _Context) -> list[dict[str, Any] | None]:
    """Return the records of pictures; None for pictures that `rows` must make."""
    found: list[dict[str, Any] | None] = [None] * len(items)
    for number, places in _by_file([item.record[0] for item in items]):
        with suppress(*_WRONG):
            of = context.files[number].elements("images", [items[place].record[1] for place in places])
            for place, record in zip(places, of, strict=True):
                with suppress(*_WRONG):
                    _size(record)
                    found[place] = record
    return found


def _annotated(
    items: Sequence[_Row], records: Sequence[dict[str, Any] | None], context: _Context
) -> list[dict[str, Any] | None]:
    """Return rows with the values of annotations; None for those that `rows` must make."""
    found: list[dict[str, Any] | None] = [dict.fromkeys(context.tensors) for _ in items]
    sizes = [(0, 0) if record is None else _size(record) for record in records]
    for kind, reader in context.readers.items():
        of = [item.annotations.get(kind, _NONE) for item in items]
        # Make the rows of pictures without annotations together with the rows of the first annotation file.
        first = min((number for number, numbers in of if len(numbers)), default=-1)
        for number, places in _by_file([number if len(numbers) else first for number, numbers in of]):
            made: list[dict[str, Any] | None] = [None] * len(places)
            if number >= 0:
                numbers = [of[place][1] for place in places]
                with suppress(*_WRONG):
                    made = values_of_many(
                        context.files[number], numbers, reader, [sizes[place] for place in places]
                    )
            for place, values in zip(places, made, strict=True):
                row = found[place]
                if values is None or row is None:
                    found[place] = None
                else:
                    row.update(values)
    return found


def _by_file(numbers: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Return each number with its positions in the list."""
    return list(grouped(range(len(numbers)), numbers.__getitem__).items())


def _runs(
    items: Sequence[_Row], records: Sequence[dict[str, Any] | None], context: _Context
) -> Iterator[tuple[int, int]]:
    """Yield runs of pictures whose masks fit into memory together; a picture of unknown size may be alone."""
    start, held = 0, 0
    for at, (item, record) in enumerate(zip(items, records, strict=True)):
        height, width = (0, 0) if record is None else _size(record)
        more = context.layers(item) * (height * width if height > 0 and width > 0 else _MASK_BYTES)
        if at > start and held + more > _MASK_BYTES:
            yield start, at
            start, held = at, 0
        held += more
    if start < len(items):
        yield start, len(items)


# -- planning ----------------------------------------------------------------------------------------------------


def _tensors(
    kinds: Sequence[Kind], names: Mapping[str, str], ignore: set[str], *, plain: bool, has_text_ids: bool
) -> tuple[list[TensorPlan], dict[str, Reader]]:
    """Return the tensors of annotations and records, and the readers that make the values for each kind."""
    tensors: list[TensorPlan] = []
    readers: dict[str, Reader] = {}
    for kind in kinds:
        made, readers[kind.name] = tensors_of(kind, names, ignore, plain=plain)
        tensors += made
    if plain:
        ids: dict[str, Any] = {"dtype": "int64", "create_shape_tensor": False}
        ids = {"htype": "text"} if has_text_ids else ids
        tensors += [tensor("file", "text"), tensor("image_id", **ids), tensor("image_info", "json")]
    return tensors, readers


class _Planner:
    """Kinds of annotations and pictures that annotation files have.

    Attributes
    ----------
    rows
        Split -> file of a picture -> its row.
    files
        Annotation files that were read, in order.
    about
        Name of an annotation file -> its group, its split and its other members.
    has_text_ids
        True if ids of pictures are text.
    """

    def __init__(self, source: Source, pictures: Source, groups: Mapping[str, str]) -> None:
        self._source, self._groups = source, groups
        self.pictures = pictures
        self.kinds: dict[str, Kind] = {}
        self.files: list[JsonFile] = []
        self.about: dict[str, Any] = {}
        self.problems: list[Problem] = []
        self.rows: dict[str, dict[str, _Row]] = {}
        self.has_text_ids = False
        self._held_bytes = 0
        self._untold = 0
        self._is_part = False
        self._by_name = grouped(pictures.files, lambda name: name.rpartition("/")[2])

    def chosen(self, files: Sequence[str], only: Sequence[str]) -> Sequence[str]:
        """Return the annotation files of some groups; all files if no groups are given.

        Raises
        ------
        IngestionError
            If `files` is empty, or a group has no file.
        """
        if not files:
            raise IngestionError(
                f'{self._source.shown} has no COCO annotation files: JSON with "images" and "annotations" was '
                "expected; name them, annotations=[...] (--annotations)"
            )
        groups = {name: self._group_of(name)[0] for name in files}
        only = [name for text in only for name in map(str.strip, text.split(",")) if name]
        for group in only:
            if group not in groups.values():
                there = ", ".join(sorted(set(groups.values())))
                raise IngestionError(f"the source has no annotations {group!r}; it has: {there}")
        found = [name for name in files if not only or groups[name] in only]
        self._is_part = len(found) < len(files)
        return found

    def _group_of(self, name: str) -> tuple[str, str]:
        """Return the group and the split of an annotation file, by its name."""
        stem = stem_of(name)
        found = _SPLIT_OF_NAME.search(stem)
        group, split = stem, ""
        if found is not None:
            group, split = stem[: found.start()] or "annotations", found[1].lower()
            split = {"valid": "val", "validation": "val"}.get(split, split)
        return self._groups.get(name, self._groups.get(name.rpartition("/")[2], group)), split

    def take(self, name: str, inspect: int) -> None:
        """Add the pictures and annotations of a file.

        Parameters
        ----------
        inspect
            Number of annotations whose keys are inspected.
        """
        source, inside = _file_of(self._source, name)
        group, split = self._group_of(name)
        kind = self.kinds.setdefault(group, Kind(group))
        file, found = open_json(source, inside, _ARRAYS, self._held_bytes)
        self._held_bytes += len(file.held or b"")
        self.files.append(file)
        if "images" not in file.arrays:
            raise IngestionError(f'{name} is not a COCO file: it has no array "images"')
        owners: list[Any] = []
        if "annotations" in file.arrays:
            look(kind, file, inspect)
            owners = found["annotations"]["image_id"]
        kind.count += len(owners)
        self._take_categories(kind, name, file.values.get("categories"))
        values = {key: value for key, value in file.values.items() if key != "categories"}
        self.about[name] = {"group": group, "split": split, "values": values}
        by_id = self._take_pictures(name, split, found["images"])
        self._take_annotations(name, kind, self.rows[split], by_id, owners)

    def _take_pictures(self, name: str, split: str, records: Mapping[str, list[Any]]) -> dict[Any, str]:
        """Make rows of the pictures of a file; return their names by id."""
        rows = self.rows.setdefault(split, {})
        by_id: dict[Any, str] = {}
        for at, (given, file_name) in enumerate(zip(records["id"], records["file_name"], strict=True)):
            where = f"{name}: images[{at}]"
            found = self._found(file_name, where, split)
            if found is None:
                continue
            key = _whole(given)
            if not _is_key(key) or key in by_id:
                self._tell(where, f"the id {key!r} is there twice")
                continue
            by_id[key] = found
            self.has_text_ids |= type(key) is str
            rows.setdefault(found, _Row(found, (len(self.files) - 1, at), {}))
        return by_id

    def _take_annotations(
        self, name: str, kind: Kind, rows: dict[str, _Row], by_id: Mapping[Any, str], owners: Sequence[Any]
    ) -> None:
        """Add the annotations of a file to the rows of their pictures."""
        numbers: dict[str, list[int]] = {}
        for at, owner in enumerate(owners):
            of = by_id.get(_whole(owner)) if _is_key(owner) else None
            if of is None:
                of = by_id.get(_in_other_type(owner))
            if of is None:
                reason = f"its image_id {owner!r} is none of the images'"
                self._tell(f"{name}: annotations[{at}]", reason, rows=0)
            else:
                numbers.setdefault(of, []).append(at)
        for of, found in numbers.items():
            row = rows[of]
            if kind.name in row.annotations:
                self._tell(f"{name}: {of}", "another file of this kind has annotations of it already", rows=0)
            else:
                added = {kind.name: (len(self.files) - 1, array("q", found))}
                rows[of] = row._replace(annotations={**row.annotations, **added})

    def _found(self, file_name: Any, where: str, split: str) -> str | None:
        """Return the name of a picture's file in the source; if it is missing, report that and return None."""
        if not isinstance(file_name, str):
            self._tell(where, "it has no file_name")
            return None
        try:
            return self.pictures.find(file_name)
        except NotFoundError as error:
            near = self._by_name.get(file_name.replace("\\", "/").rpartition("/")[2], [])
            # Each split may have its own folder, with the same file names as in other splits.
            inside = [one for one in near if split in one.split("/")[:-1]]
            if len(near) > 1 and split and len(inside) == 1:
                near = inside
            if len(near) == 1:
                return near[0]
            self._tell(file_name, f"{len(near)} files have its name" if near else str(error))
            return None

    def _take_categories(self, kind: Kind, name: str, categories: Any) -> None:
        """Add the categories of a file to the categories of its kind.

        Raises
        ------
        IngestionError
            If an id has several names.
        """
        known = {one["id"]: one for one in kind.categories}
        mine: set[int] = set()
        for one in categories if isinstance(categories, list) else ():
            key = _whole(one.get("id")) if isinstance(one, dict) else None
            if not isinstance(key, int):
                self._tell(f"{name}: categories", f"{str(one)[:80]} is no category", rows=0)
                continue
            one["id"] = key
            if key not in known:
                known[key] = one
                kind.categories.append(one)
            elif known[key].get("name") != one.get("name"):
                told = f"{name}: category {key} is {one.get('name')!r}, and {known[key].get('name')!r}"
                if key in mine:
                    raise IngestionError(f"{told} in the same file: give one of them another id")
                raise IngestionError(
                    f"{told} in an earlier file: give the files groups of their own, groups={{...}} (--groups)"
                )
            mine.add(key)

    def _tell(self, where: str, reason: str, rows: int = 1) -> None:
        if rows or len(self.problems) < _TOLD:
            self.problems.append(Problem(where, reason, rows))
        else:
            self._untold += 1

    def report_leftovers(self) -> None:
        """Report pictures that no annotation file lists, other files, and the number of further problems."""
        listed = {name for rows in self.rows.values() for name in rows}
        # Names of the PNG files of panoptic segments, which have the stems of their pictures.
        of_masks: set[str] = set()
        if any(kind.segments for kind in self.kinds.values()):
            of_masks = {f"{stem_of(name)}.png" for name in listed}
        unlisted = [
            name
            for name in self.pictures.with_suffix(*IMAGE_KINDS)
            if name not in listed and name.rpartition("/")[2] not in of_masks
        ]
        if unlisted:
            files = "none of these annotation files lists" if self._is_part else "no annotation file lists"
            told = f"{len(unlisted):,} images that {files} are not imported"
            self.problems.append(Problem(unlisted[0], told, 0))
        if self._source.is_folder:
            self.problems += beside_set(self._source)
        if self._untold:
            self.problems.append(Problem("annotations", f"{self._untold:,} more problems", 0))


def _is_key(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _whole(key: Any) -> Any:
    """Return an id as a whole number if it is a float like 7.0, which pandas writes."""
    return int(key) if type(key) is float and key.is_integer() else key


def _in_other_type(key: Any) -> Any:
    """Return a number as text, and text as a number, because some tools write ids as the other type."""
    if type(key) is str and key.isdecimal() and len(key) < _MOST_DIGITS:
        return int(key)
    return str(_whole(key))


def _annotation_files(source: Source) -> list[str]:
    """Return the JSON files of a source that look like COCO's."""
    if source.is_object or (source.is_file and source.suffix != ".json"):
        return []
    return [name for name in source.with_suffix(".json") if _looks_like_coco(source, name)]


def _looks_like_coco(source: Source, name: str) -> bool:
    size = source.files[name]
    with source.open(name) as file:
        keys = set(_KEYS_AT_HEAD.findall(file.read(_HEAD_BYTES)))
        if size > _HEAD_BYTES:
            file.seek(max(0, size - _HEAD_BYTES))
            keys |= set(_KEYS_AT_HEAD.findall(file.read(_HEAD_BYTES)))
    # If the file is large, only its beginning and end were searched: one of the two keys is enough then.
    found = keys & {b"images", b"annotations"}
    return len(found) == 2 or (size > _HEAD_BYTES and bool(found))


def _file_of(source: Source, name: str) -> tuple[Source, str]:
    """Return the source of an annotation file, and its name in it."""
    if source.is_file:
        return source, ""
    if name in source.files:
        return source, name
    other = source.at(name)
    if not other.is_file:
        raise IngestionError(f"the annotation file {name} is missing")
    return other, ""
