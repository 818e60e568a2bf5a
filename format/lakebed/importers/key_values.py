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

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.caffe import Datum
from lakebed.importers.columns import tensor_name
from lakebed.importers.contents import (
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
from lakebed.importers.plan import Plan, Problem, TensorPlan, tensor
from lakebed.importers.source import Source
from lakebed.importers.splits import SPLITS, in_order, ranges_of
from lakebed.transforms.output import Skipped

# Values by which kinds are told.
_MOST_LOOKED_AT = 256
_ITEM_BYTES = 32 << 20
_ITEM_ENTRIES = 4096
_MOST_VALUE_BYTES = 1 << 30
# Values by which kinds are told: no longer ones, and no more bytes of all.
_MOST_SAMPLE_BYTES = 16 << 20
_MOST_SAMPLES_BYTES = 128 << 20
_MOST_WORDS = 16
_MOST_ASIDE = 64
_MOST_ASIDE_BYTES = 64 << 10

_NUMBERED = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*?[-_:/. ]?)([0-9]+)\Z")
_SPECIAL = re.compile(rb"__\w+__\Z")


class Value(Protocol):
    """A value that is read when it is asked for."""

    @property
    def size(self) -> int:
        """Its bytes."""


class Database(NamedTuple):
    """A database of a file: its name, "" for the only one; what its keys are sorted by, None for their bytes."""

    name: str
    order: Callable[[bytes], Any] | None
    entries: int | None
    handle: Any = None
    has_numbers: bool = False


class Store(Protocol):
    """An open file or folder of databases."""

    @property
    def version(self) -> Any:
        """What changes whenever it is written to."""

    @property
    def limit(self) -> int:
        """Bytes that all its values can have at most."""

    def database(self, name: str) -> Database:
        """Return a database; "" is the one that the others are in."""

    def entries(
        self, database: Database, start: bytes | None, stop: bytes | None
    ) -> Iterator[tuple[bytes, Any] | Database | str]:
        """Yield keys and values from ``start`` on and before ``stop``, in order.

        What is damaged is told as text, and databases inside of the database are themselves.
        """

    def read(self, value: Any) -> bytes:
        """Return the bytes of a value."""

    def held(self, value: Any) -> Any:
        """Return a value as it is kept for later: without its bytes, if they can be read again."""


Opened = Callable[[Source, str], AbstractContextManager[Store]]


class _Stream(NamedTuple):
    """Entries that are one column of the rows: those of a database whose keys begin so, and then have a number."""

    database: str
    prefix: bytes
    name: str
    skips_special: bool


class _Part(NamedTuple):
    """Rows of one file, side by side in several streams."""

    file: str
    version: Any
    streams: tuple[_Stream, ...]

    @property
    def is_numbered(self) -> bool:
        """Whether keys are words with numbers."""
        return bool(self.streams[0].prefix)


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
    parts: Sequence[_Part]
    columns: Mapping[str, _Column]
    key: str
    key_kind: str


@dataclass
class _Group:
    """Entries that may be a stream: how many, where items begin, some of the values."""

    count: int = 0
    nbytes: int = 0
    bounds: list[bytes] = field(default_factory=list)
    samples: list[Any] = field(default_factory=list)
    _stride: int = 1
    _since: tuple[int, int] = (0, 0)

    def add(self, key: bytes, value: Any) -> None:
        entries, size = self._since
        if entries >= _ITEM_ENTRIES or size >= _ITEM_BYTES:
            if not self.bounds or self.bounds[-1] != key:
                self.bounds.append(key)
            entries, size = 0, 0
        self._since = entries + 1, size + value.size + len(key)
        if self.count % self._stride == 0:
            self.samples.append(value)
            if len(self.samples) >= 2 * _MOST_LOOKED_AT:
                self.samples, self._stride = self.samples[::2], 2 * self._stride
        self.count += 1
        self.nbytes += value.size + len(key)


@dataclass
class _Scan:
    """What the keys of a database say."""

    database: Database
    whole: _Group = field(default_factory=_Group)
    words: dict[bytes, _Group] | None = field(default_factory=dict)
    lone: dict[bytes, Any] | None = field(default_factory=dict)
    special: dict[bytes, Any] | None = field(default_factory=dict)
    nbytes: int = 0
    is_ordered: bool = True
    has_duplicates: bool = False
    is_text: bool = True
    damage: list[str] = field(default_factory=list)
    _last: Any = None

    def add(self, key: bytes, value: Any) -> None:
        self._order(key)
        self.nbytes += value.size
        if self.is_text:
            self.is_text = _is_text(key)
        if self.special is not None and self.database.order is None and _SPECIAL.match(key):
            self.special[key] = value
            if len(self.special) <= _MOST_ASIDE:
                return
            for before in list(self.special)[:-1]:  # so many are not special
                self.whole.add(before, self.special[before])
            self.special = None
        self.whole.add(key, value)
        if self.words is None:
            return
        found = _NUMBERED.match(key)
        if found is not None:
            self.words.setdefault(found[1], _Group()).add(found[2], value)
            if len(self.words) > _MOST_WORDS:
                self.words = None
        elif self.lone is not None:
            self.lone[key] = value
            if len(self.lone) > _MOST_ASIDE:
                self.lone = self.words = None

    def _order(self, key: bytes) -> None:
        order = self.database.order
        at = key if order is None else order(key)
        if self._last is not None:
            self.is_ordered &= at >= self._last
            self.has_duplicates |= at == self._last
        self._last = at

    @property
    def has_columns(self) -> bool:
        """Whether its keys are words with numbers, and the words are columns."""
        words = self.words
        if not words or self.database.order is not None or not self.is_ordered or self.has_duplicates:
            return False
        if all(_word(word) in SPLITS for word in words) or len(set(map(_word, words))) < len(words):
            return False
        if len(words) == 1:
            return b"num-samples" in (self.lone or {})
        return b"num-samples" in (self.lone or {}) or len({group.count for group in words.values()}) == 1


@dataclass
class _Found:
    """What the keys of all files say."""

    parts: list[_Part] = field(default_factory=list)
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
        scans = _scanned(store, source, name, database, self.problems)
        for of, streams, bounds, count in _laid_out(scans, split, layout, name):
            part = _Part(name, store.version, tuple(streams))
            self.parts.append(part)
            edges = pairwise([None, *bounds, None])
            number = len(self.parts) - 1
            self.items.setdefault(of, []).extend(_Item(number, name, *edge) for edge in edges)
            self.counts.append(count)
            taken = {stream.database for stream in streams}
            self.key_kinds |= {_key_kind(scan, part) for scan in scans if scan.database.name in taken}
            for stream in streams:
                values = _read(store, _group(scans, stream).samples)
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


def _scanned(
    store: Store, source: Source, name: str, wanted: str | None, problems: list[Problem]
) -> list[_Scan]:
    """Read the keys of the databases of a file."""
    scans: list[_Scan] = []
    found = [store.database("")]
    for database in found:
        scan = _Scan(database)
        for entry in store.entries(database, None, None):
            if isinstance(entry, str):
                scan.damage.append(entry)
            elif isinstance(entry, Database):
                found.append(entry)
            else:
                scan.add(entry[0], store.held(entry[1]))
            if scan.nbytes > store.limit:
                raise IngestionError(f"{name} is damaged: its values are longer than the file")
        if wanted not in (None, database.name):
            continue
        count = scan.whole.count + len(scan.special or ())
        if scan.damage:
            missing = min(max(0, (database.entries or 0) - count), source.files.get(name, source.nbytes))
            where = f"{name}: {database.name}" if database.name else name
            problems.append(Problem(where, f"damaged: {scan.damage[0]}", missing))
            problems += [Problem(where, f"damaged: {reason}", 0) for reason in scan.damage[1:]]
        if not database.name and len(found) > 1 and not count and wanted is None:
            continue  # holds the others, and nothing else
        scans.append(scan)
    if wanted is not None and not scans:
        there = ", ".join(one.name for one in found if one.name)
        raise IngestionError(f"{name} has no database {wanted!r}: {there or 'it has one without a name'}")
    return scans


def _laid_out(
    scans: Sequence[_Scan], split: str, layout: str, file: str
) -> Iterator[tuple[str, list[_Stream], list[bytes], int | None]]:
    """Yield split, streams, where items begin, and the number of rows of what is side by side."""
    scans = [scan for scan in scans if scan.whole.count]
    if len(scans) == 1:
        yield (split, *_of_one(scans[0], layout, ""))
        return
    if scans and all(scan.database.name.lower() in SPLITS for scan in scans):
        for scan in scans:
            yield (SPLITS[scan.database.name.lower()], *_of_one(scan, layout, ""))
        return
    for scan in scans:
        if scan.has_duplicates or not scan.is_ordered or scan.database.order is not None:
            raise IngestionError(
                f"{file}: the database {scan.database.name!r} cannot be put beside the others, since its keys are not "
                f"unique texts in order: import it alone (database={scan.database.name}), and the others likewise"
            )
    if scans:
        largest = max(scans, key=lambda scan: scan.whole.nbytes)
        counts = {scan.whole.count for scan in scans}
        streams = [
            _Stream(scan.database.name, b"", scan.database.name or "value", scan.special is not None)
            for scan in scans
        ]
        yield split, streams, largest.whole.bounds, counts.pop() if len(counts) == 1 else None


def _of_one(scan: _Scan, layout: str, name: str) -> tuple[list[_Stream], list[bytes], int | None]:
    database = scan.database.name
    names = [_word(word) for word in scan.words or ()]
    is_fit = names and len(set(names)) == len(names) and scan.is_ordered and not scan.has_duplicates
    if layout == "columns" and (not is_fit or scan.database.order is not None):
        raise IngestionError("the keys are not words with numbers, each once, as columns need")
    if scan.words and (layout == "columns" or (layout == "auto" and scan.has_columns)):
        largest = max(scan.words.values(), key=lambda group: group.nbytes)
        counts = {group.count for group in scan.words.values()}
        streams = [_Stream(database, word, _word(word), False) for word in scan.words]
        return streams, largest.bounds, counts.pop() if len(counts) == 1 else None
    bounds = scan.whole.bounds if scan.is_ordered else []
    return [_Stream(database, b"", name, scan.special is not None)], bounds, scan.whole.count


def _word(prefix: bytes) -> str:
    return re.sub(rb"[-_:/. ]\Z", b"", prefix).decode("ascii")


def _group(scans: Sequence[_Scan], stream: _Stream) -> _Group:
    scan = next(scan for scan in scans if scan.database.name == stream.database)
    return scan.whole if not stream.prefix or scan.words is None else scan.words[stream.prefix]


def _key_kind(scan: _Scan, part: _Part) -> str:
    if part.is_numbered:
        return "text"
    if scan.database.has_numbers:
        return "number"
    return "text" if scan.is_text else "bytes"


def _key(key: bytes, kind: str) -> Any:
    if kind == "text":
        return key.decode()
    return np.uint64(int.from_bytes(key, "little")) if kind == "number" else np.frombuffer(key, np.uint8)


def _key_tensor(name: str, kind: str) -> TensorPlan:
    if kind == "text":
        return tensor(name, "text")
    return tensor(name, dtype="uint64" if kind == "number" else "uint8")


def _is_text(key: bytes) -> bool:
    try:
        return key.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _shown(key: bytes) -> str:
    text = key[:100].decode("utf-8", "backslashreplace")
    return repr(text)


def _read(store: Store, values: Sequence[Any]) -> Iterator[bytes]:
    held = 0
    for at in np.unique(np.linspace(0, len(values) - 1, _MOST_LOOKED_AT).astype(int)) if values else ():
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
    scan: _Scan,
    parts: Sequence[_Part],
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
    store: Store, database: Database, stream: _Stream, item: _Item, number: int
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
        elif stream.skips_special and database.order is None and _SPECIAL.match(key):
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
