"""Databases of keys and values, for LMDB and LevelDB.

keys                                          rows
any                                           a row for each entry: ``key`` and its value
``image-0001``, ``label-0001``, num-samples   a row for each number: ``key``, and a tensor for each word; the other
                                              entries belong to no row
several databases in a file                   a row for each key, and a tensor for each database; databases called
                                              train, val, test are splits

A scan of all keys and some values decides the tensors and the ranges of keys that workers read. Entries called
``__...__``, and other entries that belong to no row, are kept in the info if they are short texts. Values may be
messages of Caffe, ``Datum``: an image or an array with its label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby, pairwise
from math import prod
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.contents import (
    NAMES,
    Content,
    KindOptions,
    Looked,
    Planning,
    decoded,
    is_text,
    kind_of,
    tensor_of,
    value_of,
)
from lakebed.importers.core.plan import Plan, Problem, TensorPlan, tensor, told_first
from lakebed.importers.core.source import Source, check_size
from lakebed.importers.core.splits import in_order, ranges_of, split_of
from lakebed.importers.key_values import key_scans
from lakebed.importers.key_values.key_scans import (
    SPECIAL,
    Database,
    Part,
    Scan,
    Store,
    Stream,
    group_of,
    key_kind_of,
    laid_out,
    scanned,
)
from lakebed.importers.tfrecord.messages import parsed
from lakebed.transforms.output import Skipped

MOST_VALUE_BYTES = 1 << 30
_MOST_SAMPLE_BYTES = 16 << 20  # larger values are not inspected to find the kind of their column
_MOST_SAMPLES_BYTES = 128 << 20  # maximum total size of the values that are inspected
_MOST_ASIDE_BYTES = 64 << 10

Opened = Callable[[Source, str], AbstractContextManager[Store]]


class _Item(NamedTuple):
    """Rows whose keys lie in a range."""

    part: int
    file: str
    start: bytes | None
    stop: bytes | None

    def __str__(self) -> str:
        first = "the first key" if self.start is None else f"key {_shown(self.start)}"
        return f"{self.file}, from {first}"


class _Column(NamedTuple):
    """Content of the values of a stream, or of the files in its Datums; and (part of the value -> its tensor)."""

    content: Content
    tensors: Mapping[str, str]


@dataclass(frozen=True)
class _Context:
    source: Source
    opened: Opened
    parts: Sequence[Part]
    columns: Mapping[str, _Column]
    key: str
    key_kind: str


@dataclass
class _Found:
    """Findings about all files."""

    parts: list[Part] = field(default_factory=list)
    items: dict[str, list[_Item]] = field(default_factory=dict)
    counts: list[int | None] = field(default_factory=list)
    samples: dict[str, list[bytes]] = field(default_factory=dict)
    key_kinds: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    def add(
        self, store: Store, source: Source, name: str, split: str, layout: str, database: str | None
    ) -> None:
        """Add a file."""
        scans = scanned(store, source, name, database, self.problems)
        for of, streams, bounds, count in laid_out(scans, split, layout, name):
            part = Part(name, store.version, tuple(streams))
            self.parts.append(part)
            edges = pairwise([None, *bounds, None])
            number = len(self.parts) - 1
            self.items.setdefault(of, []).extend(_Item(number, name, *edge) for edge in edges)
            self.counts.append(count)
            taken = {stream.database for stream in streams}
            self.key_kinds |= {key_kind_of(scan, part) for scan in scans if scan.database.name in taken}
            for stream in streams:
                values = _read(store, group_of(scans, stream).samples)
                self.samples.setdefault(stream.name, []).extend(values)
        for scan in scans:
            self._keep_aside(store, scan, name)

    def _keep_aside(self, store: Store, scan: Scan, file: str) -> None:
        """Keep short texts that belong to no row in the info, and report other entries that belong to no row."""
        others = dict(scan.special or {})
        if any(part.is_numbered and part.file == file for part in self.parts):
            others.update(scan.lone or {})
        for key, value in others.items():
            try:
                data = store.read(value) if value.size <= _MOST_ASIDE_BYTES else None
            except LakebedError:
                data = None
            if data is not None and is_text(data):
                shown = key.decode("utf-8", "backslashreplace")
                self.about.setdefault("others", {})[shown] = decoded(data)
                continue
            told = f"an entry of {value.size:,} bytes that belongs to no row is left out"
            self.problems.append(Problem(f"{file}: {_shown(key)}", told, 0))


def planned(
    source: Source,
    names: Sequence[str],
    opened: Opened,
    what: str,
    *,
    layout: Literal["auto", "keys", "columns"],
    splits: bool,
    database: str | None = None,
    **options: Unpack[KindOptions],
) -> Plan:
    """Plan a row for each key.

    Parameters
    ----------
    names
        Names of the files or folders of databases.
    opened
        Function that opens one of the files.
    what
        Description of the source for messages.
    layout
        Meaning of the keys: ``columns`` if they are words with numbers, a column for each word; ``keys``; or ``auto``.
    splits
        Whether names of files or folders are names of splits.
    database
        Name of the database to import; None for all.
    options
        Options of columns; if there is only one column, it is called ``value``.

    Raises
    ------
    IngestionError
        If the source has no entries, or has databases with different keys.
    """
    planning = Planning.of(source, [], **options)
    found = _Found(problems=planning.problems)
    for name in names:
        with opened(source, name) as store:
            found.add(store, source, name, split_of(name) if splits else "", layout, database)
    if not found.parts:
        raise IngestionError(f"{source.shown} has no entries{told_first(found.problems)}")
    key_kind = found.key_kinds.pop() if len(found.key_kinds) == 1 else "bytes"
    planning.check([stream or "value" for stream in found.samples], "column")
    columns = {stream: _planned_column(stream, values, planning) for stream, values in found.samples.items()}
    key = planning.free("key")
    items, ranges = ranges_of(in_order(found.items))
    known = [count for count in found.counts if count is not None]
    expected = sum(known) if len(known) == len(found.counts) else None
    return Plan(
        what if expected is None else f"{what} with {expected:,} entries",
        [_key_tensor(key, key_kind), *planning.tensors],
        items,
        _Context(source, opened, found.parts, columns, key, key_kind),
        rows=expected,
        nbytes=source.nbytes,
        splits=ranges,
        problems=planning.problems,
        about=found.about,
    )


def made(item: _Item, context: _Context) -> Iterator[Any]:
    """Yield the rows of an item."""
    part = context.parts[item.part]
    empty = {name: None for column in context.columns.values() for name in column.tensors.values()}
    with context.opened(context.source, part.file) as store:
        if store.version != part.version:
            raise IngestionError(f"{part.file} was written to while it was read: import it again")
        databases = {stream.database: store.database(stream.database) for stream in part.streams}
        streams = [
            _entries(store, databases[stream.database], stream, item, number)
            for number, stream in enumerate(part.streams)
        ]
        order = databases[part.streams[0].database].order
        together: Iterable[Any]
        if len(streams) == 1:
            together = ((key, [(key, 0, value)]) for key, _, value in streams[0])
        else:
            ordered = merge(*streams, key=lambda entry: entry[0] if order is None else order(entry[0]))
            together = groupby(ordered, key=lambda entry: entry[0])
        for key, entries in together:
            try:
                row = dict(empty)
                for _, number, value in entries:
                    column = context.columns[part.streams[number].name]
                    row.update(_made(store, value, column))
                row[context.key] = _key(key, context.key_kind)
                yield row
            except (LakebedError, OSError, ValueError, OverflowError) as error:
                yield Skipped(f"{part.file}: {_shown(key)}", f"{error}")


# -- keys ---------------------------------------------------------------------------------------------------------


def _key(key: bytes, kind: str) -> Any:
    if kind == "text":
        return key.decode()
    return np.uint64(int.from_bytes(key, "little")) if kind == "number" else np.frombuffer(key, np.uint8)


def _key_tensor(name: str, kind: str) -> TensorPlan:
    if kind == "text":
        return tensor(name, "text")
    return tensor(name, dtype="uint64" if kind == "number" else "uint8")


def _shown(key: bytes) -> str:
    return repr(key[:100].decode("utf-8", "backslashreplace"))


def _read(store: Store, values: Sequence[Any]) -> Iterator[bytes]:
    """Yield some of the sampled values, spread over all of them."""
    held = 0
    if not values:
        return
    for at in np.unique(np.linspace(0, len(values) - 1, key_scans.MOST_LOOKED_AT).astype(int)):
        if values[at].size > _MOST_SAMPLE_BYTES:
            continue
        try:
            data = store.read(values[at])
        except LakebedError:
            continue  # the error is reported when the row is made
        held += len(data)
        yield data
        if held > _MOST_SAMPLES_BYTES:
            return


# -- values -------------------------------------------------------------------------------------------------------


def _planned_column(stream: str, values: Sequence[bytes], planning: Planning) -> _Column:
    """Plan the tensors of a stream; return its column."""
    called = stream or "value"
    data = [_datum(value) for value in values] if called not in planning.kinds else []
    found = [one for one in data if one is not None]
    if found and 2 * len(found) > len(data):
        return _datum_column(stream, found, planning)
    content = planning.content(called, Looked.at(values))
    name = planning.free(stream or NAMES.get(content.kind, "value"))
    planning.tensors.append(tensor_of(name, content))
    return _Column(content, {"value": name})


class Datum(NamedTuple):
    """A message of Caffe: an encoded file, or an array of shape (channels, height, width), uint8 or float32."""

    file: bytes | None
    array: NDArray[Any] | None
    label: int | None


def datum_of(data: bytes) -> Datum:
    """Parse a Datum.

    Raises
    ------
    IngestionError
        If the bytes are not a Datum, or its shape does not fit its values.
    """
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = parsed("Datum", data)
    if len(UnknownFieldSet(found)):
        raise IngestionError("it is not a Datum: it has unknown fields")
    label = found.label if found.HasField("label") else None
    if found.is_encoded:
        return Datum(found.data, None, label)
    floats = np.array(found.floats, np.float32)
    shape = (found.channels, found.height, found.width)
    if min(shape) <= 0 or (len(found.data), len(floats)) not in ((prod(shape), 0), (0, prod(shape))):
        raise IngestionError(f"a Datum of shape {shape} has {len(found.data) or len(floats):,} values")
    array = floats if len(floats) else np.frombuffer(found.data, np.uint8)
    return Datum(None, array.reshape(shape), label)


def _datum(value: bytes) -> Datum | None:
    try:
        found = datum_of(value)
    except IngestionError:
        return None
    return found if found.file is None or kind_of(found.file).name == "image" else None


def _datum_column(stream: str, found: Sequence[Datum], planning: Planning) -> _Column:
    """Plan the tensors of Datums: files, arrays, labels."""
    names: dict[str, str] = {}
    tensors = planning.tensors
    files = [one.file for one in found if one.file is not None]
    content = planning.content(stream or "value", Looked.at(files))
    before = f"{stream}_" if stream else ""
    if files:
        names["file"] = planning.free(f"{before}images")
        tensors.append(tensor_of(names["file"], content))
    dtypes = {str(one.array.dtype) for one in found if one.array is not None}
    for dtype, name in (("uint8", "arrays"), ("float32", "floats")):
        if dtype in dtypes:
            names[dtype] = planning.free(before + name)
            info = {"axes": ["channels", "height", "width"]}
            tensors.append(tensor(names[dtype], dtype=dtype, info=info, chunk_compression="lz4"))
    names["label"] = planning.free(f"{before}labels")
    tensors.append(tensor(names["label"], "class_label", dtype="int64"))
    return _Column(content, names)


def _entries(
    store: Store, database: Database, stream: Stream, item: _Item, number: int
) -> Iterator[tuple[bytes, int, Any]]:
    """Yield the entries of a stream: the part of the key that identifies the row, the stream's number, the value."""
    prefix = stream.prefix
    start, stop = item.start, item.stop
    if prefix:
        start, stop = prefix + (start or b"0"), prefix + (stop or b":")  # in ASCII, ":" follows "9"
    for entry in store.entries(database, start, stop):
        if isinstance(entry, str | Database):
            continue  # the plan has reported damage, which is text; a database inside this one is imported separately
        key, value = entry
        if prefix:
            key = key[len(prefix) :]
            if not key.isdigit():
                continue
        elif stream.skips_special and database.order is None and SPECIAL.match(key):
            continue
        yield key, number, value


def _made(store: Store, value: Any, column: _Column) -> Iterator[tuple[str, Any]]:
    check_size("a value", value.size, MOST_VALUE_BYTES)
    data = store.read(value)
    if "label" not in column.tensors:
        yield column.tensors["value"], value_of(data, column.content)
        return
    datum = datum_of(data)
    key = "file" if datum.array is None else str(datum.array.dtype)
    if key not in column.tensors:
        raise IngestionError(f"a Datum holds a {key}, but other Datums do not")
    yield column.tensors[key], datum.array if datum.file is None else value_of(datum.file, column.content)
    yield column.tensors["label"], None if datum.label is None else np.int64(datum.label)
