"""Scan of the keys of a database: it finds the columns that the entries form, and the keys at which items begin.

All keys are read once, in order; some values are kept as samples, which decide the kinds of columns.
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

MOST_LOOKED_AT = 256  # number of values that decide the kind of a column
_ITEM_BYTES = 32 << 20
_ITEM_ENTRIES = 4096
_MOST_WORDS = 16
_MOST_ASIDE = 64

_NUMBERED = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*?[-_:/. ]?)([0-9]+)\Z")
SPECIAL = re.compile(rb"__\w+__\Z")


class Value(Protocol):
    """A value that is read on request."""

    @property
    def size(self) -> int:
        """Size of the value in bytes."""


class Database(NamedTuple):
    """A database of a file.

    Parameters
    ----------
    name
        Name of the database; "" for the main one.
    order
        Function that returns the sort key of a key; None if keys are sorted by their bytes.
    entries
        Number of its entries; None if unknown.
    has_numbers
        True if its keys are integers.
    """

    name: str
    order: Callable[[bytes], Any] | None
    entries: int | None
    has_numbers: bool = False


class Store(Protocol):
    """An open file or folder of databases."""

    @property
    def version(self) -> Any:
        """Value that changes with each write to the store."""

    @property
    def limit(self) -> int:
        """Maximum number of bytes of all keys and values together; more bytes are a sign of damage."""

    def database(self, name: str) -> Database:
        """Return a database; "" is the main one."""

    def entries(
        self, database: Database, start: bytes | None, stop: bytes | None, *, with_values: bool = True
    ) -> Iterator[tuple[bytes, Any] | Database | str]:
        """Yield keys and values from ``start`` on and before ``stop``, in order.

        Damage is yielded as text, and a database inside the main one as a `Database`. If `with_values` is false, values
        are yielded unread; :meth:`read` reads them.
        """

    def read(self, value: Any) -> bytes:
        """Return the bytes of a value."""


class Stream(NamedTuple):
    """Entries that form one column: all entries of a database, or those whose keys are one prefix and a number."""

    database: str
    prefix: bytes
    name: str
    skips_special: bool


class Part(NamedTuple):
    """Rows of one file, whose columns are streams."""

    file: str
    version: Any
    streams: tuple[Stream, ...]

    @property
    def is_numbered(self) -> bool:
        """True if keys are prefixes with numbers."""
        return bool(self.streams[0].prefix)


@dataclass
class Group:
    """Entries that may be a stream: their number and size, the keys at which items begin, samples of their values."""

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
    """Findings about the keys of a database."""

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
        self.nbytes += value.size + (len(key) if self._is_new(key) else 0)
        if self.is_text:
            self.is_text = _is_text(key)
        if self.special is not None and self.database.order is None and SPECIAL.match(key):
            self.special[key] = value
            if len(self.special) <= _MOST_ASIDE:
                return
            # So many keys of the form of special keys, such as `__len__`, are not special: their entries are rows.
            for before in list(self.special)[:-1]:
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

    def _is_new(self, key: bytes) -> bool:
        """Compare a key with the previous key; return whether it differs."""
        at = (self.database.order or bytes)(key)
        is_new = bool(at != self._last)
        if self._last is not None:
            self.is_ordered &= at >= self._last
            self.has_duplicates |= not is_new
        self._last = at
        return is_new

    @property
    def has_columns(self) -> bool:
        """True if the keys are words with numbers, and each word is a column."""
        words = self.words
        if not words or self.database.order is not None or not self.is_ordered or self.has_duplicates:
            return False
        if all(_word(word) in SPLITS for word in words) or len(set(map(_word, words))) < len(words):
            return False
        has_count = b"num-samples" in (self.lone or {})
        return has_count or (len(words) > 1 and len({group.count for group in words.values()}) == 1)


def scanned(
    store: Store, source: Source, name: str, wanted: str | None, problems: list[Problem]
) -> list[Scan]:
    """Scan the databases of a file.

    Raises
    ------
    IngestionError
        If the database `wanted` is missing, or entries repeat because of damage.
    """
    scans: list[Scan] = []
    found = [store.database("")]
    for database in found:
        scan = Scan(database)
        for entry in store.entries(database, None, None, with_values=False):
            if isinstance(entry, str):
                scan.damage.append(entry)
            elif isinstance(entry, Database):
                found.append(entry)
            else:
                scan.add(*entry)
            if scan.nbytes > store.limit:
                raise IngestionError(f"{name} is damaged: its entries take more bytes than the file has")
        if wanted not in (None, database.name):
            continue
        count = scan.whole.count + len(scan.special or ())
        if scan.damage:
            missing = min(max(0, (database.entries or 0) - count), source.files.get(name, source.nbytes))
            where = f"{name}: {database.name}" if database.name else name
            problems.append(Problem(where, f"damaged: {scan.damage[0]}", missing))
            problems += [Problem(where, f"damaged: {reason}", 0) for reason in scan.damage[1:]]
        if not database.name and len(found) > 1 and not count and wanted is None:
            continue  # the main database only holds the names of the others
        scans.append(scan)
    if wanted is not None and not scans:
        there = ", ".join(one.name for one in found if one.name)
        raise IngestionError(f"{name} has no database {wanted!r}; databases: {there or 'one without a name'}")
    return scans


def laid_out(
    scans: Sequence[Scan], split: str, layout: str, file: str
) -> Iterator[tuple[str, list[Stream], list[bytes], int | None]]:
    """Yield for each part its split, its streams, the keys at which items begin, and its number of rows."""
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
                f"{file}: the database {scan.database.name!r} cannot be imported together with the other "
                "databases, because its keys are not unique texts in order: import each database alone "
                f"(database={scan.database.name})"
            )
    if scans:
        streams = [
            Stream(scan.database.name, b"", scan.database.name or "value", scan.special is not None)
            for scan in scans
        ]
        yield split, streams, *_together([scan.whole for scan in scans])


def _of_one(scan: Scan, layout: str, name: str) -> tuple[list[Stream], list[bytes], int | None]:
    database = scan.database.name
    names = [_word(word) for word in scan.words or ()]
    is_fit = names and len(set(names)) == len(names) and scan.is_ordered and not scan.has_duplicates
    if layout == "columns" and (not is_fit or scan.database.order is not None):
        raise IngestionError(
            "layout='columns' needs keys made of a word and a number, such as image-000001, without duplicates"
        )
    if scan.words and (layout == "columns" or (layout == "auto" and scan.has_columns)):
        streams = [Stream(database, word, _word(word), False) for word in scan.words]
        return streams, *_together(list(scan.words.values()))
    bounds = scan.whole.bounds if scan.is_ordered else []
    return [Stream(database, b"", name, scan.special is not None)], bounds, scan.whole.count


def _together(groups: Sequence[Group]) -> tuple[list[bytes], int | None]:
    """Return the keys at which items of columns begin, and the number of rows if it is known."""
    counts = {group.count for group in groups}
    return max(groups, key=lambda group: group.nbytes).bounds, counts.pop() if len(counts) == 1 else None


def _word(prefix: bytes) -> str:
    return re.sub(rb"[-_:/. ]\Z", b"", prefix).decode("ascii")


def group_of(scans: Sequence[Scan], stream: Stream) -> Group:
    """Return the entries of a stream."""
    scan = next(scan for scan in scans if scan.database.name == stream.database)
    return scan.whole if not stream.prefix or scan.words is None else scan.words[stream.prefix]


def key_kind_of(scan: Scan, part: Part) -> str:
    """Return the type in which the keys of a part are stored: text, number or bytes."""
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
