"""COCO: pictures with objects, key points, captions and panoptic segments (cocodataset.org, "Data format").

A row is a picture. What an annotation file says of it is in tensors of the annotation's keys, a value for each
annotation: ``bbox``, ``category_id``, ``segmentation``, ``area``, ``iscrowd``, ``id``, ``keypoints``, ...; with several
kinds of annotation files, each kind is a group, named by its files without the split: ``instances/bbox``.

    annotation                      tensor
    polygons                        segmentation: all polygons of the picture; segmentation_object: whose each one is
    RLE (crowds)                    rle_mask: a layer each, (height, width, n); rle_object: whose each one is
    captions                        caption: a sequence of texts
    panoptic PNG                    segment_ids: (height, width) uint32; the keys of the segments beside it
    what fits no tensor             other: JSON, an object for each annotation

Pictures: ``images``, ``file``, ``image_id``; ``image_info`` is what else is said of them. Licences, info and categories
with their supercategories are in the info of the dataset.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakebed.errors import IngestionError, LakebedError, NotFoundError
from lakebed.importers.core.plan import Media, Plan, Problem, columns_of_rows, media, tensor
from lakebed.importers.core.source import Source, stem_of
from lakebed.importers.detection.coco_annotations import Kind, Reader, look, tensors_of, values_of
from lakebed.importers.detection.coco_columns import values_of_many
from lakebed.importers.folders.passed_over import beside_set
from lakebed.importers.folders.pictures import kind_of_images
from lakebed.importers.tables.json_index import JsonFile, open_json
from lakebed.transforms.output import Skipped

# Pictures whose rows are made together, but no more than have so many bytes of masks.
BATCH = 512
_MASK_BYTES = 1 << 25

# Arrays, and what is asked of each of their elements.
_ARRAYS = {"images": ("id", "file_name"), "annotations": ("image_id",)}
# Annotations after which no new keys are looked for.
_INSPECTED = 1_000_000
# What JSON has that is no key of a dictionary.
_NO_KEYS = (list, dict)
_MOST_DIGITS = 20  # of an id
# Problems of annotations that are told one by one; all are counted.
_TOLD = 100

_SPLIT_OF_NAME = re.compile(
    r"[_-]?(train|val|valid|validation|test|minival|unlabeled)[_-]?(\d{4})?$", re.IGNORECASE
)
_HEAD_BYTES = 1 << 16
_KEYS_AT_HEAD = re.compile(rb'"(images|annotations|categories)"\s*:')


# Of pictures without annotations of a kind: a file, and no numbers.
_NONE: tuple[int, Sequence[int]] = (0, ())
# What a picture is left out for.
_WRONG = (LakebedError, OSError, ValueError, TypeError, KeyError, OverflowError)


class _Row(NamedTuple):
    """A picture: its file, where its record lies, and its annotations by kind: JSON file and number in its array."""

    file: str
    record: tuple[int, int]
    annotations: Mapping[str, tuple[int, Sequence[int]]]

    def __str__(self) -> str:
        return self.file


@dataclass(frozen=True)
class _Context:
    """What workers know."""

    media: Media
    files: Sequence[JsonFile]
    readers: Mapping[str, Reader]
    tensors: tuple[str, ...]
    images: str
    plain: bool
    panoptic: Source | None
    has_text_ids: bool

    def record(self, item: _Row) -> dict[str, Any]:
        """Return what is said of a picture."""
        number, at = item.record
        found: dict[str, Any] = self.files[number].elements("images", [at])[0]
        return found

    def annotated(
        self,
        item: _Row,
        kind: str,
        reader: Reader,
        size: tuple[int, int],
        told: Callable[[str, bool], object],
    ) -> dict[str, Any]:
        """Return what annotations of a kind put into the row of a picture; `told` as of `values_of`."""
        number, numbers = item.annotations.get(kind, _NONE)
        found = self.files[number].elements("annotations", numbers) if len(numbers) else []
        return values_of(found, reader, size, self.panoptic, told)

    def finished(self, row: dict[str, Any], item: _Row, record: dict[str, Any]) -> dict[str, Any]:
        """Put the picture into its row, and what is said of it."""
        row[self.images] = self.media.value(item.file)
        if self.plain:
            row["file"] = record.pop("file_name", item.file)
            key = _whole(record.pop("id", None))
            row["image_id"] = str(key) if self.has_text_ids and key is not None else key
            row["image_info"] = record
        return row

    def layers(self, item: _Row) -> int:
        """Return how many bytes there are for each pixel of a picture in its masks."""
        found = 0
        for kind, reader in self.readers.items():
            number, numbers = item.annotations.get(kind, _NONE)
            if reader.is_panoptic:
                found += 4
            elif "rle_mask" in reader.names and len(numbers):
                found += self.files[number].count("annotations", numbers, "segmentation", "o")
        return found


def recognise(source: Source) -> str | None:
    """Say which annotation files there are; None without any."""
    found = _annotation_files(source)
    if not found:
        return None
    return f"COCO annotations: {', '.join(found)}"


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
    compression: str | None = None,
    link: bool = False,
    creds_key: str | None = None,
    inspect: int = _INSPECTED,
    plain: bool = True,
    image_tensor: str = "images",
    always_group: bool = False,
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
    compression
        Kind of image that is stored; left out, that of the files.
    link
        Store links to the pictures in place of them.
    creds_key
        Name of the credentials that the links need.
    inspect
        Annotations of each file after which no new keys are looked for.
    plain
        With ``file``, ``image_id`` and ``image_info`` of the pictures; without, the tensors are those of Deep Lake 3.
    image_tensor
        Name of the tensor of the pictures.
    always_group
        A group also where all files are of one kind.
    """
    asked = [only] if isinstance(only, str) else only
    wanted = [name for text in asked for name in map(str.strip, text.split(",")) if name]
    planner = _Planner(source, annotations, images, masks, groups or {}, set(ignore), inspect, plain=plain)
    planner.choose(wanted)
    return planner.plan(
        dict(names or {}),
        image_tensor,
        compression,
        always_group=always_group,
        link=link,
        creds_key=creds_key,
    )


def rows(item: _Row, context: _Context) -> Iterator[Any]:
    """Make the row of a picture; annotations that fit nothing are left out, each counted."""
    wrong: list[Skipped] = []

    def told(reason: str, is_left_out: bool) -> None:
        wrong.append(Skipped(item.file, reason, int(is_left_out)))

    try:
        record = context.record(item)
        row = dict.fromkeys(context.tensors)
        for kind, reader in context.readers.items():
            row.update(context.annotated(item, kind, reader, _size(record), told))
        made = context.finished(row, item, record)
    except _WRONG as error:
        yield Skipped(item.file, str(error) or type(error).__name__)
        return
    yield from wrong
    yield made


def many(items: Sequence[_Row], context: _Context) -> Iterator[Any]:
    """Make the rows of pictures, as columns."""
    records = _records(items, context)
    for start, stop in _runs(items, records, context):
        made: list[dict[str, Any]] = []
        which: list[int] = []
        annotated = _annotated(items[start:stop], records[start:stop], context)
        for at, row in enumerate(annotated, start):
            record = records[at]
            try:
                if row is not None and record is not None:
                    made.append(context.finished(row, items[at], record))
                    which.append(at)
                    continue
            except _WRONG as error:
                yield Skipped(items[at].file, str(error) or type(error).__name__)
                continue
            for one in rows(items[at], context):
                if isinstance(one, Skipped):
                    yield one
                else:
                    made.append(one)
                    which.append(at)
        if made:
            yield which, columns_of_rows(made)


def _records(items: Sequence[_Row], context: _Context) -> list[dict[str, Any] | None]:
    """Return the records of pictures; None for those that need a closer look."""
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
    """Return what annotations put into the rows of pictures; None for those that need a closer look."""
    found: list[dict[str, Any] | None] = [dict.fromkeys(context.tensors) for _ in items]
    sizes = [(0, 0) if record is None else _size(record) for record in records]
    for kind, reader in context.readers.items():
        of = [item.annotations.get(kind, _NONE) for item in items]
        files = {number for number, numbers in of if len(numbers)} or {-1}
        first = min(files)  # which may as well tell what pictures without annotations have
        for number, places in _by_file([number if len(numbers) else first for number, numbers in of]):
            made: list[dict[str, Any] | None] = [None] * len(places)
            if number >= 0:
                with suppress(*_WRONG):
                    made = values_of_many(
                        context.files[number],
                        [of[place][1] for place in places],
                        reader,
                        [sizes[place] for place in places],
                    )
            for place, values in zip(places, made, strict=True):
                row = found[place]
                if values is None or row is None:
                    found[place] = None
                else:
                    row.update(values)
    return found


def _by_file(numbers: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Return the places at which each number stands."""
    found: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        found.setdefault(number, []).append(place)
    return list(found.items())


def _runs(
    items: Sequence[_Row], records: Sequence[dict[str, Any] | None], context: _Context
) -> Iterator[tuple[int, int]]:
    """Yield runs of pictures whose masks can be held together; a picture of which that is not known, by itself."""
    start, held = 0, 0
    for at, (item, record) in enumerate(zip(items, records, strict=True)):
        layers = context.layers(item)
        height, width = (0, 0) if record is None else _size(record)
        more = layers * (height * width if height > 0 and width > 0 else _MASK_BYTES)
        if at > start and held + more > _MASK_BYTES:
            yield start, at
            start, held = at, 0
        held += more
    if start < len(items):
        yield start, len(items)


def _size(record: Mapping[str, Any]) -> tuple[int, int]:
    return int(record.get("height") or 0), int(record.get("width") or 0)


def describe(plan: Plan) -> dict[str, Any]:
    """Say what the files say of themselves: info, licences, categories."""
    return plan.about


# -- planning ----------------------------------------------------------------------------------------------------


class _Planner:
    """Looks through annotation files, and finds out what a row holds."""

    def __init__(
        self,
        source: Source,
        annotations: Sequence[str],
        images: str | None,
        masks: str | None,
        groups: Mapping[str, str],
        ignore: set[str],
        inspect: int,
        *,
        plain: bool,
    ) -> None:
        self._source = source
        self._files = [str(name) for name in annotations] or _annotation_files(source)
        if not self._files:
            raise IngestionError(
                f'{source.shown} has no COCO annotation files: JSON with "images" and "annotations" was expected; '
                "name them, annotations=[...] (--annotations)"
            )
        self._pictures = _pictures_of(source, images)
        self._masks = masks
        self._groups = groups
        self._ignore = ignore
        self._inspect = inspect
        self._plain = plain
        self._kinds: dict[str, Kind] = {}
        self._json: list[JsonFile] = []
        self._held_bytes = 0  # of those that are held in memory
        self._about: dict[str, Any] = {}
        self._problems: list[Problem] = []
        self._untold: dict[str, int] = {}
        self._by_name = _by_last_part(self._pictures)
        self._files_of: dict[tuple[str, str], str] = {}  # of a split and a name in its annotation file
        # By split and file name: the record, and annotations by kind.
        self._rows: dict[str, dict[str, _Row]] = {}
        self._unlisted: set[str] = set(self._pictures.files)
        self._has_text_ids = False  # of pictures
        self._is_part = False  # whether annotation files were left out

    def choose(self, only: Sequence[str]) -> None:
        """Keep the annotation files of some groups; of none given, all.

        Raises
        ------
        IngestionError
            If there is no such group.
        """
        of = {name: self._group_of(name)[0] for name in self._files}
        for group in only:
            if group not in of.values():
                there = ", ".join(sorted(set(of.values())))
                raise IngestionError(f"there are no annotations {group!r}; there are: {there}")
        if only:
            self._files = [name for name, group in of.items() if group in only]
            self._is_part = len(self._files) < len(of)

    def _group_of(self, name: str) -> tuple[str, str]:
        """Return the group and the split of an annotation file."""
        group, split = _group_and_split(name)
        return self._groups.get(name, self._groups.get(name.rpartition("/")[2], group)), split

    def plan(
        self,
        names: dict[str, str],
        image_tensor: str,
        compression: str | None,
        *,
        always_group: bool,
        link: bool,
        creds_key: str | None,
    ) -> Plan:
        for name in self._files:
            self._take(name)
        if len(self._kinds) > 1 or always_group:
            for kind in self._kinds.values():
                kind.prefix = f"{kind.name}/" if kind.name else ""
        items = [row for rows in self._rows.values() for row in rows.values()]
        used = [row.file for row in items]
        readers: dict[str, Reader] = {}
        tensors = [
            media(
                image_tensor,
                "image",
                compression=kind_of_images(
                    self._pictures, used, compression, None if link else self._problems
                ),
                link=link,
            )
        ]
        for kind in self._kinds.values():
            made, reader = tensors_of(kind, names, self._ignore, dedicated=self._plain)
            tensors += made
            readers[kind.name] = reader
        if self._plain:
            tensors += [
                tensor("file", "text"),
                tensor("image_id", "text")
                if self._has_text_ids
                else tensor("image_id", dtype="int64", create_shape_tensor=False),
                tensor("image_info", "json"),
            ]
        self._tell_problems()
        splits: dict[str, range] = {}
        for split, rows in self._rows.items():
            first = splits[next(reversed(splits))].stop if splits else 0
            splits[split] = range(first, first + len(rows))
        kinds = ", ".join(f"{kind.name or 'annotations'} ({kind.count:,})" for kind in self._kinds.values())
        context = _Context(
            Media(self._pictures, link, creds_key),
            tuple(self._json),
            readers,
            tuple(one.name for one in tensors),
            image_tensor,
            self._plain,
            self._panoptic(),
            self._has_text_ids,
        )
        return Plan(
            f"COCO: {len(items):,} pictures, {kinds}",
            tensors,
            items,
            context,
            rows=len(items),
            nbytes=sum(self._pictures.files.get(name, 0) for name in used),
            splits=splits if set(splits) != {""} else {},
            problems=self._problems,
            classes={
                f"{kind.prefix}category_id": [str(one.get("name")) for one in kind.categories]
                for kind in self._kinds.values()
                if kind.categories
            },
            about=self._about,
        )

    def _panoptic(self) -> Source | None:
        if self._masks is not None:
            return self._source.at(self._masks)
        return self._source if any(kind.segments for kind in self._kinds.values()) else None

    def _take(self, name: str) -> None:
        """Take in an annotation file."""
        source, inside = _file_of(self._source, name)
        group, split = self._group_of(name)
        kind = self._kinds.setdefault(group, Kind(group))
        kind.files.append(name)
        file, found = open_json(source, inside, _ARRAYS, self._held_bytes)
        self._held_bytes += len(file.held or b"")
        if "images" not in file.arrays:
            raise IngestionError(f'{name} is no COCO file: it has no array "images"')
        if "annotations" in file.arrays:
            look(kind, file, self._inspect)
        records = list(zip(found["images"]["id"], found["images"]["file_name"], strict=True))
        owners = found["annotations"]["image_id"] if "annotations" in found else []
        self._json.append(file)
        kind.count += len(owners)
        self._merge_categories(kind, name, file.values.get("categories"))
        values = {key: value for key, value in file.values.items() if key != "categories"}
        self._about.setdefault("files", {})[name] = {"group": group, "split": split, "values": values}
        self._rows_of(name, kind, split, records, owners)

    def _rows_of(
        self,
        name: str,
        kind: Kind,
        split: str,
        records: list[tuple[Any, Any]],
        owners: list[Any],
    ) -> None:
        """Make rows of the pictures of a file, or add its annotations to those that other files made."""
        number = len(self._json) - 1
        rows = self._rows.setdefault(split, {})
        by_id: dict[Any, str] = {}
        for at, (given, file_name) in enumerate(records):
            key = _whole(given)
            where = f"{name}: images[{at}]"
            found = self._found(file_name, where, split)
            if found is None:
                continue
            if type(key) in _NO_KEYS or key in by_id:
                self._problem(where, f"the id {key!r} is there twice")
                continue
            by_id[key] = found
            self._has_text_ids |= type(key) is str
            if found not in rows:
                rows[found] = _Row(found, (number, at), {})
                self._unlisted.discard(found)
        numbers: dict[str, list[int]] = {}
        for at, owner in enumerate(owners):
            of = None if type(owner) in _NO_KEYS else by_id.get(_whole(owner))
            if of is None:
                of = by_id.get(_in_other_type(owner))
            if of is None:
                self._problem(
                    f"{name}: annotations[{at}]", f"its image_id {owner!r} is none of the pictures'", rows=0
                )
            elif of in numbers:
                numbers[of].append(at)
            else:
                numbers[of] = [at]
        for of, found_numbers in numbers.items():
            row = rows[of]
            if kind.name in row.annotations:
                self._problem(
                    f"{name}: {of}", "another file of this kind has annotations of it already", rows=0
                )
                continue
            rows[of] = row._replace(
                annotations={**row.annotations, kind.name: (number, array("q", found_numbers))}
            )

    def _found(self, file_name: Any, where: str, split: str) -> str | None:
        """Return the name of a picture's file in its source; None if it is not there."""
        if not isinstance(file_name, str):
            self._problem(where, "it has no file_name")
            return None
        found = self._files_of.get((split, file_name))
        if found is not None:
            return found
        try:
            found = self._pictures.find(file_name)
        except NotFoundError as error:
            near = self._by_name.get(file_name.replace("\\", "/").rpartition("/")[2], ())
            if len(near) > 1 and split:
                # Each split may have a folder of its own, with names that others have too.
                inside = [one for one in near if split in one.split("/")[:-1]]
                near = inside if len(inside) == 1 else near
            if len(near) != 1:
                reason = f"{len(near)} files have its name" if near else str(error)
                self._problem(file_name, reason)
                return None
            found = near[0]
        self._files_of[split, file_name] = found
        return found

    def _merge_categories(self, kind: Kind, name: str, categories: Any) -> None:
        known = {one.get("id"): one for one in kind.categories}
        mine: set[Any] = set()  # of this file
        for one in categories if isinstance(categories, list) else ():
            if isinstance(one, dict) and "id" in one:
                one["id"] = _whole(one["id"])
            if not isinstance(one, dict) or not isinstance(one.get("id"), int):
                self._problem(f"{name}: categories", f"{str(one)[:80]} is no category", rows=0)
                continue
            if one["id"] not in known:
                known[one["id"]] = one
                kind.categories.append(one)
            elif known[one["id"]].get("name") != one.get("name"):
                first = known[one["id"]].get("name")
                told = f"{name}: category {one['id']} is {one.get('name')!r}, and {first!r}"
                if one["id"] in mine:
                    raise IngestionError(f"{told} in the same file: give one of them another id")
                raise IngestionError(
                    f"{told} in a file before: give the files groups of their own, groups={{...}} (--groups)"
                )
            mine.add(one["id"])

    def _problem(self, where: str, reason: str, rows: int = 1) -> None:
        if rows or len(self._problems) < _TOLD:
            self._problems.append(Problem(where, reason, rows))
        else:
            self._untold["annotations"] = self._untold.get("annotations", 0) + 1

    def _tell_problems(self) -> None:
        masks: set[str] = set()  # of panoptic segments, by the names of their pictures
        if any(kind.segments for kind in self._kinds.values()):
            masks = {stem_of(name) for rows in self._rows.values() for name in rows}
        unlisted = [
            name
            for name in sorted(self._unlisted)
            if kind_is_image(name) and not (name.endswith(".png") and stem_of(name) in masks)
        ]
        if unlisted:
            files = "none of these annotation files lists" if self._is_part else "no annotation file lists"
            self._problems.append(
                Problem(
                    unlisted[0],
                    f"{len(unlisted):,} pictures that {files} are not imported",
                    0,
                )
            )
        if self._source.is_folder:
            self._problems += beside_set(self._source)
        for where, count in self._untold.items():
            self._problems.append(Problem(where, f"{count:,} more problems", 0))


def _whole(key: Any) -> Any:
    """Return an id that is written as a float, as by pandas, as the whole number that it is."""
    return int(key) if type(key) is float and key.is_integer() else key


def _in_other_type(key: Any) -> Any:
    """Return a whole number as text, and text as the number that it is: tools write either for the other."""
    if type(key) is str and key.isdecimal() and len(key) < _MOST_DIGITS:
        return int(key)
    return str(_whole(key))


def kind_is_image(name: str) -> bool:
    """Whether a name is that of a picture."""
    from lakebed.importers.core.source import suffix_of
    from lakebed.importers.folders.pictures import IMAGE_KINDS

    return suffix_of(name) in IMAGE_KINDS


def _annotation_files(source: Source) -> list[str]:
    """Return the JSON files of a source that look like COCO's."""
    if source.is_object:
        return []
    names = [source.name] if source.is_file else source.with_suffix(".json")
    if source.is_file and source.suffix != ".json":
        return []
    return [name for name in names if _looks_like_coco(source, name)]


def _looks_like_coco(source: Source, name: str) -> bool:
    size = source.files[name]
    with source.open("" if source.is_file else name) as file:
        head = file.read(_HEAD_BYTES)
        keys = set(_KEYS_AT_HEAD.findall(head))
        if size > _HEAD_BYTES:
            file.seek(max(0, size - _HEAD_BYTES))
            keys |= set(_KEYS_AT_HEAD.findall(file.read(_HEAD_BYTES)))
    # Of a large file one end shows the first or the last array.
    return {b"images", b"annotations"} <= keys or (
        size > _HEAD_BYTES and bool(keys & {b"images", b"annotations"})
    )


def _group_and_split(name: str) -> tuple[str, str]:
    """Return the group and the split that the name of an annotation file says."""
    stem = stem_of(name)
    found = _SPLIT_OF_NAME.search(stem)
    if found is None:
        return stem, ""
    split = {"valid": "val", "validation": "val"}.get(found[1].lower(), found[1].lower())
    return stem[: found.start()] or "annotations", split


def _pictures_of(source: Source, images: str | None) -> Source:
    if images is not None:
        return source.at(images)
    if source.is_file:
        return Source.of(source.link("").rpartition("/")[0] or ".", source.creds)
    return source


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


def _by_last_part(source: Source) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in source.files:
        found.setdefault(name.rpartition("/")[2], []).append(name)
    return found
