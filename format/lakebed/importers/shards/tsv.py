"""TSV files with images in base64 and an index of the lines: images are read by ranges, or linked.

``tsv_layout`` finds the files that belong together; files of one role (img, label, ...) have the same columns. Items
are runs of rows with the places of their lines, so a row costs only the bytes of its lines; with ``link``, only their
beginnings and ends are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Unpack

import numpy as np

import lakebed
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.contents import Content, KindOptions, Planning
from lakebed.importers.core.plan import Plan, Problem, tensor
from lakebed.importers.core.source import Source, check_size
from lakebed.importers.core.splits import ranges_of
from lakebed.importers.shards.open_files import OpenFiles
from lakebed.importers.shards.tsv_columns import Field, Role, field_of, magic, values_of
from lakebed.importers.shards.tsv_layout import (
    IMAGES,
    Offsets,
    Table,
    Tables,
    class_names,
    is_description,
    line_offsets,
    sequence_of,
    tables_of,
)
from lakebed.links.span import Span
from lakebed.storage.address import scheme_of
from lakebed.transforms.output import Skipped

_ITEM_BYTES = 32 << 20
_ITEM_ROWS = 4096
_MOST_LINE_BYTES = 1 << 30
_HEAD_BYTES = 64 << 10  # bytes read of the first line of a file, and of lines whose image is linked
_TAIL_BYTES = 4  # end of a line with base64: two "=" and the line break
_MOST_LOOKED_AT = 256  # number of lines that decide the kinds of columns
_MOST_LOOKED_AT_BYTES = 32 << 20  # limit of bytes of a line that decides kinds
_MOST_HELD = 256 << 20  # limit of bytes of all lines that decide kinds
_MOST_SNIFFED = 8  # number of files whose first lines are inspected, in a folder without an index


class _Lines(NamedTuple):
    """Places of the lines of some rows in the files of one role; a start of -1 means that the row has no line."""

    files: tuple[str | None, ...]
    file: Offsets | None
    starts: Offsets
    stops: Offsets

    def place(self, row: int) -> tuple[str, int, int] | None:
        """Return the file, start and stop of the line of a row; None if the row has no line in the file."""
        name, start = self.files[0 if self.file is None else int(self.file[row])], int(self.starts[row])
        return None if name is None or start < 0 else (name, start, int(self.stops[row]))


class _Item(NamedTuple):
    """Some rows."""

    where: str
    first: int
    lines: tuple[_Lines, ...]

    def __str__(self) -> str:
        return f"{self.where}, row {self.first:,} and the {len(self.lines[0].starts) - 1:,} behind it"


@dataclass(frozen=True)
class _Context:
    """Data that all workers need."""

    source: Source
    roles: Sequence[Role]
    classes: Sequence[str]
    link: bool
    creds_key: str | None

    @property
    def tensors(self) -> list[str]:
        """Names of all tensors."""
        return [name for role in self.roles for field in role.fields for name in field.tensors]


def recognise(source: Source) -> str | None:
    """Describe the TSV files with an index, or with media, for messages; None if the source has none."""
    if source.is_file:
        if source.suffix in (".yaml", ".yml"):
            found = is_description(source, source.name)
            return "a description of TSV files" if found else None
        return "a TSV file of media" if source.suffix == ".tsv" and _has_media(source, source.name) else None
    names = source.with_suffix(".tsv")
    stems = {name.removesuffix(".tsv") for name in names}
    has_index = any(
        f"{stem}{suffix}" in source.files for stem in stems for suffix in (".lineidx", ".lineidx.8b")
    )
    if names and (has_index or any(_has_media(source, name) for name in names[:_MOST_SNIFFED])):
        return f"{len(names):,} TSV files with an index of their lines" if has_index else "TSV files of media"
    return None


def plan(
    source: Source,
    *,
    splits: bool = True,
    link: bool = False,
    creds_key: str | None = None,
    **options: Unpack[KindOptions],
) -> Plan:
    """Plan a row for each line.

    Parameters
    ----------
    source
        A TSV file, a YAML file that names some, or their folder.
    splits
        Make splits of files whose names begin with train, val, test.
    link
        Store links to the places of the images in the files, in place of the images.
    creds_key
        Name of the credentials that the links need.
    options
        Options of columns, by the names of their tensors, such as column_2: image, audio, video, dicom and array are in
        base64; json, text and bytes are not.
    """
    return plan_splits(source, (), splits=splits, link=link, creds_key=creds_key, **options)


def plan_splits(
    source: Source,
    only: Sequence[str],
    *,
    splits: bool = True,
    link: bool = False,
    creds_key: str | None = None,
    **options: Unpack[KindOptions],
) -> Plan:
    """Plan as :func:`plan` does, but read only files of the splits in ``only``; if empty, of all splits."""
    problems: list[Problem] = []
    root, name = _root_of(source)
    found = tables_of(root, name, problems)
    if not splits:
        found = [replace(tables, split="") for tables in found]
    known = list(dict.fromkeys(tables.split for tables in found))
    found = [tables for tables in found if not only or tables.split in only]
    if not found:
        there = ", ".join(split for split in known if split) or "it has none"
        raise IngestionError(f"the source has no split {', '.join(only)}: {there}")
    about: dict[str, Any] = {}
    roles = list(dict.fromkeys(table.role for tables in found for table in tables.tables))
    by_split: dict[str, list[_Item]] = {}
    for tables in found:
        by_split.setdefault(tables.split, []).extend(_items(root, tables, roles, link, problems))
        about.update(tables.about)
    items, ranges = ranges_of(by_split.items())
    count = sum(len(item.lines[0].starts) for item in items)
    names = _classes(root, found, problems)
    planning = Planning.of(root, problems, **options)
    specs = _roles(roles, items, names, link, planning)
    files = {one for item in items for lines in item.lines for one in lines.files if one is not None}
    return Plan(
        f"{count:,} rows of {len(files):,} TSV files",
        planning.tensors,
        items,
        _Context(root, specs, names, link, creds_key),
        rows=count,
        nbytes=sum(root.files[one] for one in files),
        splits=ranges,
        problems=problems,
        classes={"labels": names} if names else {},
        about={**about, "roles": roles, "files": len(files)},
    )


def rows(item: _Item, context: _Context) -> Iterator[Any]:
    """Yield the rows of an item."""
    empty = dict.fromkeys(context.tensors)
    with OpenFiles(context.source) as files:
        for row in range(len(item.lines[0].starts)):
            try:
                made = dict(empty)
                key: bytes | None = None
                for role, lines in zip(context.roles, item.lines, strict=True):
                    key = _take(role, lines, row, key, made, files, context)
                yield made
            except (LakebedError, OSError, ValueError, OverflowError) as error:
                yield Skipped(f"{item.where}, row {item.first + row:,}", f"{error}")


# -- places of lines ----------------------------------------------------------------------------------------------


def _root_of(source: Source) -> tuple[Source, str | None]:
    """Return the folder of a source, and the name of its file; None if the source is a folder."""
    if not source.is_file or scheme_of(source.address) in ("http", "https"):
        return source, source.name if source.is_file else None
    folder = source.link("").rpartition("/")[0] or "/"
    return Source.of(folder, source.creds, follow_symlinks=source.follow_symlinks), source.name


def _items(
    source: Source, tables: Tables, roles: Sequence[str], link: bool, problems: list[Problem]
) -> Iterator[_Item]:
    """Yield the items of the files of a split."""
    offsets = {
        file: line_offsets(source, file, problems)
        for file in dict.fromkeys(file for table in tables.tables for file in table.shards)
        if file is not None
    }
    by_role = {table.role: table for table in tables.tables}
    sequence = sequence_of(source, tables)
    shards = tables.tables[0].shards
    lengths = [_count(offsets, file) for file in shards]
    for table in tables.tables[1:]:
        wanted = [len(sequence) if sequence is not None else sum(lengths)] if table.by_row else lengths
        for file, length in zip(table.shards, wanted, strict=True):
            if file is not None and _count(offsets, file) != length:
                told = f"it has {_count(offsets, file):,} lines instead of {length:,}: rows without a line are null"
                problems.append(Problem(file, told, 0))
    for where, shard, line, rows in _orders(tables, lengths, sequence, problems):
        sizes = np.zeros(len(rows), np.int64)
        for number in np.unique(shard):
            of = shard == number
            sizes[of] = np.diff(offsets[str(shards[number])])[line[of]]
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        for start, stop in _runs(bounds, by_rows=link and sequence is None):
            part = slice(start, stop)
            lines = [
                _places(by_role.get(role), shard[part], line[part], rows[part], offsets) for role in roles
            ]
            yield _Item(where, int(line[start] if sequence is None else rows[start]), tuple(lines))


def _orders(
    tables: Tables, lengths: Sequence[int], sequence: Offsets | None, problems: list[Problem]
) -> Iterator[tuple[str, Offsets, Offsets, Offsets]]:
    """Yield shard, line and number of rows, with the name of the file that orders them: each shard, or the sequence."""
    if sequence is None:
        begins = np.cumsum([0, *lengths])
        for number, file in enumerate(tables.tables[0].shards):
            if file is not None:
                line = np.arange(lengths[number])
                yield file, np.full(len(line), number), line, line + begins[number]
        return
    shard, line = sequence[:, 0], sequence[:, 1]
    there = (shard >= 0) & (shard < len(lengths)) & (line >= 0)
    there[there] = line[there] < np.array(lengths, np.int64)[shard[there]]
    if not there.all():
        many, first = int((~there).sum()), int(np.argmin(there)) + 1
        told = f"it names {many:,} lines that are missing, the first in its line {first:,}"
        problems.append(Problem(str(tables.sequence), told, many))
    yield str(tables.sequence), shard[there], line[there], np.flatnonzero(there)


def _count(offsets: Mapping[str, Offsets], file: str | None) -> int:
    return 0 if file is None else len(offsets[file]) - 1


def _runs(offsets: Offsets, *, by_rows: bool) -> Iterator[tuple[int, int]]:
    """Yield the runs of lines that workers process."""
    start, count = 0, len(offsets) - 1
    while start < count:
        stop = start + _ITEM_ROWS
        if not by_rows:
            stop = min(stop, int(np.searchsorted(offsets, offsets[start] + _ITEM_BYTES, side="right")) - 1)
        stop = min(max(stop, start + 1), count)
        yield start, stop
        start = stop


def _places(
    table: Table | None, shard: Offsets, line: Offsets, rows: Offsets, offsets: Mapping[str, Offsets]
) -> _Lines:
    """Return the places of lines of several shards in the files of a role."""
    starts, stops = np.full(len(line), -1, np.int64), np.full(len(line), -1, np.int64)
    if table is None:
        return _Lines((None,), None, starts, stops)
    if table.by_row:
        shard, line = np.zeros(len(line), np.int64), rows
    numbers, file = np.unique(shard, return_inverse=True)
    files = tuple(table.shards[number] for number in numbers)
    if len(files) == 1 and files[0] is not None and (np.diff(line) == 1).all():
        at = offsets[files[0]][line[0] : line[-1] + 2]
        if len(at) > len(line):
            return _Lines(files, None, at[:-1], at[1:])  # without copies of the offsets
    for number, name in enumerate(files):
        if name is not None:
            of = np.flatnonzero((file == number) & (line < _count(offsets, name)))
            starts[of], stops[of] = offsets[name][line[of]], offsets[name][line[of] + 1]
    return _Lines(files, file.astype(np.int64) if len(files) > 1 else None, starts, stops)


# -- values of lines ----------------------------------------------------------------------------------------------


def _take(
    role: Role,
    lines: _Lines,
    row: int,
    key: bytes | None,
    made: dict[str, Any],
    files: OpenFiles,
    context: _Context,
) -> bytes | None:
    """Add the values in the line of a role to a row; return the key of the row."""
    place = lines.place(row)
    if place is None:
        return key
    name, start, stop = place
    check_size("the line", stop - start, _MOST_LINE_BYTES)
    media = [field for field in role.fields if field.how == "media"]
    is_last = stop == context.source.files[name]
    is_short = bool(
        context.link and media and stop - start > 2 * _HEAD_BYTES and media[0].at == role.columns - 1
    )
    if is_short:
        data, tail = files.read(name, start, _HEAD_BYTES), files.read(name, stop - _TAIL_BYTES, _TAIL_BYTES)
        is_short = data.count(b"\t") == role.columns - 1
        _stripped(data + tail, is_last=is_last)
    if not is_short:
        data = _stripped(files.read(name, start, stop - start), is_last=is_last)
    fields = data.split(b"\t")
    if len(fields) != role.columns:
        raise IngestionError(
            f"the line of {name} has {len(fields)} fields, but other lines have {role.columns}"
        )
    if role.has_key:
        if key is not None and fields[0] != key:
            raise IngestionError(
                f"the key in {name} is {_short(fields[0])}, but the key of the row is {_short(key)}"
            )
        key = fields[0]
    for field in role.fields:
        if field.how == "media" and context.link:
            at = start + sum(len(one) + 1 for one in fields[: field.at])
            end = tail if is_short else fields[field.at]
            length = (stop - at if is_short else len(end)) - (len(end) - len(end.rstrip(b"\r\n=")))
            made[field.tensors[0]] = _linked(name, at, length, context)
        else:
            made.update(zip(field.tensors, values_of(field, fields[field.at], context.classes), strict=True))
    return key


def _stripped(data: bytes, *, is_last: bool) -> bytes:
    """Return a line without its end.

    Raises
    ------
    IngestionError
        If the bytes are not one line, because the offsets in the index are not beginnings of lines.
    """
    if not (data.endswith(b"\n") or is_last) or b"\n" in data[:-1]:
        raise IngestionError("the index of the lines does not fit the file")
    return data.rstrip(b"\r\n")


def _short(key: bytes) -> str:
    return repr(key[:80].decode("utf-8", "replace"))


def _linked(name: str, at: int, length: int, context: _Context) -> Any:
    if length == 0:
        return None
    if length < 0 or length % 4 == 1:
        raise IngestionError("the image is not base64")
    source = context.source
    url = source.address if source.is_file else source.link(name)
    return lakebed.link(str(Span(url, at, length, is_base64=True)), creds_key=context.creds_key)


# -- columns ------------------------------------------------------------------------------------------------------


def _has_media(source: Source, name: str) -> bool:
    """Return whether the first line of a file has media in base64."""
    line = source.start_of(name, _HEAD_BYTES).partition(b"\n")[0]
    return any(magic(field) for field in line.split(b"\t"))


def _classes(source: Source, found: Sequence[Tables], problems: list[Problem]) -> list[str]:
    for name in dict.fromkeys(tables.labelmap for tables in found if tables.labelmap is not None):
        try:
            return class_names(source, name)
        except IngestionError as error:
            problems.append(Problem(name, f"{error}", 0))
    return []


def _roles(
    roles: Sequence[str], items: Sequence[_Item], classes: Sequence[str], link: bool, planning: Planning
) -> list[Role]:
    """Return the columns of the files of each role, found in some of the lines; plan their tensors."""
    lines = _some_lines(planning.source, items)
    found: list[Role] = []
    for number, role in enumerate(roles):
        split = [line.split(b"\t") for one in lines if (line := one[number]) is not None]
        counts = [len(fields) for fields in split]
        columns = max(set(counts), key=counts.count) if counts else 0
        split = [fields for fields in split if len(fields) == columns]
        same = [_key_of(one[number]) == _key_of(one[0]) for one in lines if None not in (one[0], one[number])]
        has_key = columns > 1 and (number == 0 or 2 * sum(same) > len(same))
        fields = []
        if has_key and number == 0:
            fields.append(Field(0, "text", (planning.free("key"),), Content("text")))
            planning.tensors.append(tensor(fields[0].tensors[0], "text"))
        for at in range(int(has_key), columns):
            values = [one[at] for one in split if one[at]]
            called = role if role != IMAGES else "column"
            name = called if columns - has_key == 1 else f"{called}_{at}"
            fields.append(field_of(role, at, name, values, classes, link, planning))
        found.append(Role(role, columns, tuple(fields), has_key))
    there = [field.tensors[0] for role in found for field in role.fields if field.how in ("media", "value")]
    planning.check(there, "column")
    return found


def _key_of(line: bytes | None) -> bytes:
    return (line or b"").partition(b"\t")[0]


def _some_lines(source: Source, items: Sequence[_Item]) -> list[list[bytes | None]]:
    """Return the lines of some rows, spread over all of them."""
    found: list[list[bytes | None]] = []
    held = 0
    with OpenFiles(source) as files:
        for number in np.unique(np.linspace(0, len(items) - 1, _MOST_LOOKED_AT).astype(int)) if items else ():
            item = items[number]
            count = len(item.lines[0].starts)
            share = max(1, _MOST_LOOKED_AT // len(items))
            for row in np.unique(np.linspace(0, count - 1, share).astype(int)):
                one: list[bytes | None] = []
                for lines in item.lines:
                    place = lines.place(row)
                    if place is None or place[2] - place[1] > _MOST_LOOKED_AT_BYTES:
                        one.append(None)
                    else:
                        one.append(files.read(place[0], place[1], place[2] - place[1]).rstrip(b"\r\n"))
                found.append(one)
                held += sum(len(line or b"") for line in one)
            if held > _MOST_HELD:
                break
    return found
