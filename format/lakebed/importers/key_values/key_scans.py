"""What the keys of a database say: which columns its entries are, and where parts of its rows begin.

All keys are read once, in order, and some values are kept, by which kinds are told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from lakebed.errors import IngestionError
from lakebed.importers.core.plan import Problem
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import SPLITS

# Values by which kinds are told.
MOST_LOOKED_AT = 256
_ITEM_BYTES = 32 << 20
_ITEM_ENTRIES = 4096
_MOST_WORDS = 16
_MOST_ASIDE = 64

_NUMBERED = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*?[-_:/. ]?)([0-9]+)\Z")
SPECIAL = re.compile(rb"__\w+__\Z")


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


class Stream(NamedTuple):
    """Entries that are one column of the rows: those of a database whose keys begin so, and then have a number."""

    database: str
    prefix: bytes
    name: str
    skips_special: bool


class Part(NamedTuple):
    """Rows of one file, side by side in several streams."""

    file: str
    version: Any
    streams: tuple[Stream, ...]

    @property
    def is_numbered(self) -> bool:
        """Whether keys are words with numbers."""
        return bool(self.streams[0].prefix)


@dataclass
class Group:
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
            if len(self.samples) >= 2 * MOST_LOOKED_AT:
                self.samples, self._stride = self.samples[::2], 2 * self._stride
        self.count += 1
        self.nbytes += value.size + len(key)


@dataclass
class Scan:
    """What the keys of a database say."""

    database: Database
    whole: Group = field(default_factory=Group)
    words: dict[bytes, Group] | None = field(default_factory=dict)
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
        if self.special is not None and self.database.order is None and SPECIAL.match(key):
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
            self.words.setdefault(found[1], Group()).add(found[2], value)
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


def scanned(
    store: Store, source: Source, name: str, wanted: str | None, problems: list[Problem]
) -> list[Scan]:
    """Read the keys of the databases of a file."""
    scans: list[Scan] = []
    found = [store.database("")]
    for database in found:
        scan = Scan(database)
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


def laid_out(
    scans: Sequence[Scan], split: str, layout: str, file: str
) -> Iterator[tuple[str, list[Stream], list[bytes], int | None]]:
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
            Stream(scan.database.name, b"", scan.database.name or "value", scan.special is not None)
            for scan in scans
        ]
        yield split, streams, largest.whole.bounds, counts.pop() if len(counts) == 1 else None


def _of_one(scan: Scan, layout: str, name: str) -> tuple[list[Stream], list[bytes], int | None]:
    database = scan.database.name
    names = [_word(word) for word in scan.words or ()]
    is_fit = names and len(set(names)) == len(names) and scan.is_ordered and not scan.has_duplicates
    if layout == "columns" and (not is_fit or scan.database.order is not None):
        raise IngestionError("the keys are not words with numbers, each once, as columns need")
    if scan.words and (layout == "columns" or (layout == "auto" and scan.has_columns)):
        largest = max(scan.words.values(), key=lambda group: group.nbytes)
        counts = {group.count for group in scan.words.values()}
        streams = [Stream(database, word, _word(word), False) for word in scan.words]
        return streams, largest.bounds, counts.pop() if len(counts) == 1 else None
    bounds = scan.whole.bounds if scan.is_ordered else []
    return [Stream(database, b"", name, scan.special is not None)], bounds, scan.whole.count


def _word(prefix: bytes) -> str:
    return re.sub(rb"[-_:/. ]\Z", b"", prefix).decode("ascii")


def group_of(scans: Sequence[Scan], stream: Stream) -> Group:
    """Return the entries of a stream."""
    scan = next(scan for scan in scans if scan.database.name == stream.database)
    return scan.whole if not stream.prefix or scan.words is None else scan.words[stream.prefix]


def key_kind_of(scan: Scan, part: Part) -> str:
    """Return what keys are stored as: text, number or bytes."""
    if part.is_numbered:
        return "text"
    if scan.database.has_numbers:
        return "number"
    return "text" if scan.is_text else "bytes"


def _is_text(key: bytes) -> bool:
    try:
        return key.decode().isprintable()
    except UnicodeDecodeError:
        return False
