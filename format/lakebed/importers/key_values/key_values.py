"""Databases of keys and values: what LMDB and LevelDB have in common.

keys                                          rows
any                                           a row for each entry: ``key`` and its value
``image-0001``, ``label-0001``, num-samples   a row for each number: ``key``, and a tensor for each word; others aside
several databases in a file                   a row for each key, and a tensor for each database; those called train,
                                              val, test are splits

All keys are read once, and some values, which tells the tensors and where workers begin and end; they read their range
of keys. Entries called ``__...__``, and those that are of no row, are kept in the info if they are short texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.columns import tensor_name
from lakebed.importers.core.contents import (
    NAMES,
    Content,
    Looked,
    content_of,
    decoded,
    is_text,
    kind_of,
    tensor_of,
    value_of,
)
from lakebed.importers.core.plan import Plan, Problem, TensorPlan, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import in_order, ranges_of
from lakebed.importers.key_values import key_scans
from lakebed.importers.key_values.caffe import Datum
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
from lakebed.transforms.output import Skipped

_MOST_VALUE_BYTES = 1 << 30
# Values by which kinds are told: no longer ones, and no more bytes of all.
_MOST_SAMPLE_BYTES = 16 << 20
_MOST_SAMPLES_BYTES = 128 << 20
_MOST_ASIDE_BYTES = 64 << 10

Opened = Callable[[Source, str], AbstractContextManager[Store]]


class _Item(NamedTuple):
    """Rows whose keys are from one on and before another."""

    part: int
    file: str
    start: bytes | None
    stop: bytes | None

    def __str__(self) -> str:
        first = "the first key" if self.start is None else f"key {_shown(self.start)}"
        return f"{self.file}, from {first}"


class _Column(NamedTuple):
    """What the values of a stream are, of a Datum its files, and the tensors that they become."""

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
    """What the keys of all files say."""

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
        """Add what a file holds."""
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
            _keep_aside(store, scan, self.parts, name, self.about, self.problems)

    def by_split(self) -> tuple[list[_Item], dict[str, range]]:
        """Return all items, and which belong to which split; none where there are no splits."""
        return ranges_of(in_order(self.items))


def planned(
    source: Source,
    files: Mapping[str, Sequence[str]],
    opened: Opened,
    what: str,
    *,
    layout: Literal["auto", "keys", "columns"],
    database: str | None,
    kinds: Mapping[str, str] | None,
    compression: str | None,
) -> Plan:
    """Plan a row for each key.

    Parameters
    ----------
    files
        Files by their split, "" for none.
    opened
        Opens one of them.
    what
        What the source is, in words.
    layout
        Whether keys are words with numbers, a column for each word.
    database
        Name of the database that is taken; None for all.
    kinds
        What values are, by the name of their column, ``value`` where there is one; None for what they look like.
    compression
        Kind of image that is stored; None for that of the images.

    Raises
    ------
    IngestionError
        If there is nothing in it, or it cannot be put side by side.
    """
    found = _Found()
    for split, names in files.items():
        for name in names:
            with opened(source, name) as store:
                found.add(store, source, name, split, layout, database)
    problems = found.problems
    if not found.parts:
        why = f": {problems[0].reason}" if problems else ""
        raise IngestionError(f"{source.shown} has no entries{why}")
    key_kind = found.key_kinds.pop() if len(found.key_kinds) == 1 else "bytes"
    taken: set[str] = set()
    wishes = {
        name if name in found.samples or name != "value" else "": kind for name, kind in (kinds or {}).items()
    }
    for name in wishes:
        if name not in found.samples:
            there = ", ".join(stream or "value" for stream in found.samples)
            raise IngestionError(f"{source.shown} has no column {name or 'value'!r}: {there}")
    columns, tensors = _columns(found.samples, wishes, compression, taken, problems)
    key = _free("key", taken)
    items, splits = found.by_split()
    known = [count for count in found.counts if count is not None]
    expected = sum(known) if len(known) == len(found.counts) else None
    return Plan(
        what if expected is None else f"{what} with {expected:,} entries",
        [_key_tensor(key, key_kind), *tensors],
        items,
        _Context(source, opened, found.parts, columns, key, key_kind),
        rows=expected,
        nbytes=source.nbytes,
        splits=splits,
        problems=problems,
        about=found.about,
    )


def made(item: _Item, context: _Context) -> Iterator[Any]:
    """Make the rows of an item."""
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


# -- what keys say ----------------------------------------------------------------------------------------------------


def _key(key: bytes, kind: str) -> Any:
    if kind == "text":
        return key.decode()
    return np.uint64(int.from_bytes(key, "little")) if kind == "number" else np.frombuffer(key, np.uint8)


def _key_tensor(name: str, kind: str) -> TensorPlan:
    if kind == "text":
        return tensor(name, "text")
    return tensor(name, dtype="uint64" if kind == "number" else "uint8")


def _shown(key: bytes) -> str:
    text = key[:100].decode("utf-8", "backslashreplace")
    return repr(text)


def _read(store: Store, values: Sequence[Any]) -> Iterator[bytes]:
    held = 0
    for at in (
        np.unique(np.linspace(0, len(values) - 1, key_scans.MOST_LOOKED_AT).astype(int)) if values else ()
    ):
        if values[at].size > _MOST_SAMPLE_BYTES:
            continue
        try:
            data = store.read(values[at])
        except LakebedError:
            continue  # told when its row is made
        held += len(data)
        yield data
        if held > _MOST_SAMPLES_BYTES:
            return


def _keep_aside(
    store: Store,
    scan: Scan,
    parts: Sequence[Part],
    file: str,
    about: dict[str, Any],
    problems: list[Problem],
) -> None:
    """Keep short texts that are of no row, and tell what else is."""
    others = dict(scan.special or {})
    if any(part.is_numbered and part.file == file for part in parts):
        others.update(scan.lone or {})
    for key, value in others.items():
        try:
            data = store.read(value) if value.size <= _MOST_ASIDE_BYTES else None
        except LakebedError:
            data = None
        if data is not None and is_text(data):
            about.setdefault("others", {})[key.decode("utf-8", "backslashreplace")] = decoded(data)
            continue
        told = f"an entry of {value.size:,} bytes that is of no row is left out"
        problems.append(Problem(f"{file}: {_shown(key)}", told, 0))


# -- what values become -----------------------------------------------------------------------------------------------


def _columns(
    samples: Mapping[str, Sequence[bytes]],
    wishes: Mapping[str, str],
    compression: str | None,
    taken: set[str],
    problems: list[Problem],
) -> tuple[dict[str, _Column], list[TensorPlan]]:
    columns: dict[str, _Column] = {}
    tensors: list[TensorPlan] = []
    for stream, values in samples.items():
        wish = wishes.get(stream)
        data = [_datum(value) for value in values] if wish is None else []
        found = [one for one in data if one is not None]
        if found and 2 * len(found) > len(data):
            column, plans = _datum_column(stream, found, compression, taken, problems)
        else:
            content = content_of(
                stream or "value", Looked.at(values), problems, wish=wish, compression=compression
            )
            name = _free(stream or NAMES.get(content.kind, "value"), taken)
            column, plans = _Column(content, {"value": name}), [tensor_of(name, content)]
        columns[stream] = column
        tensors += plans
    return columns, tensors


def _free(name: str, taken: set[str]) -> str:
    found = tensor_name(name, taken)
    taken.add(found)
    return found


def _datum(value: bytes) -> Datum | None:
    try:
        found = Datum.from_bytes(value)
    except IngestionError:
        return None
    return found if not found.is_encoded or kind_of(found.data).name == "image" else None


def _datum_column(
    stream: str, found: Sequence[Datum], compression: str | None, taken: set[str], problems: list[Problem]
) -> tuple[_Column, list[TensorPlan]]:
    """Return the tensors of Caffe's messages: files, arrays, labels."""
    names: dict[str, str] = {}
    tensors: list[TensorPlan] = []
    files = [one.data for one in found if one.is_encoded]
    content = content_of(stream or "value", Looked.at(files), problems, compression=compression)
    before = f"{stream}_" if stream else ""
    if files:
        names["file"] = _free(f"{before}images", taken)
        tensors.append(tensor_of(names["file"], content))
    for key, name, dtype in (("uint8", "arrays", "uint8"), ("float32", "floats", "float32")):
        if any(not one.is_encoded and bool(one.floats) == (key == "float32") for one in found):
            names[key] = _free(before + name, taken)
            info = {"axes": ["channels", "height", "width"]}
            tensors.append(tensor(names[key], dtype=dtype, info=info, chunk_compression="lz4"))
    names["label"] = _free(f"{before}labels", taken)
    tensors.append(tensor(names["label"], "class_label", dtype="int64"))
    return _Column(content, names), tensors


def _entries(
    store: Store, database: Database, stream: Stream, item: _Item, number: int
) -> Iterator[tuple[bytes, int, Any]]:
    """Yield the entries of a stream: what of the key tells the row, the number of the stream, the value."""
    prefix = stream.prefix
    start, stop = item.start, item.stop
    if prefix:
        start, stop = prefix + (start or b"0"), prefix + (stop or b":")  # which comes behind 9
    for entry in store.entries(database, start, stop):
        if isinstance(entry, str | Database):
            continue  # told in the plan, or of another part
        key, value = entry
        if prefix:
            key = key[len(prefix) :]
            if not key.isdigit():
                continue
        elif stream.skips_special and database.order is None and SPECIAL.match(key):
            continue
        yield key, number, value


def _made(store: Store, value: Any, column: _Column) -> Iterator[tuple[str, Any]]:
    if value.size > _MOST_VALUE_BYTES:
        raise IngestionError(f"a value of {value.size:,} bytes is longer than {_MOST_VALUE_BYTES:,}")
    data = store.read(value)
    if "label" not in column.tensors:
        yield column.tensors["value"], value_of(data, column.content)
        return
    datum = Datum.from_bytes(data)
    key = "file" if datum.is_encoded else ("float32" if datum.floats else "uint8")
    if key not in column.tensors:
        raise IngestionError(f"a Datum holds a {key}, and others do not")
    yield column.tensors[key], value_of(datum.data, column.content) if datum.is_encoded else datum.values
    yield column.tensors["label"], None if datum.label is None else np.int64(datum.label)
