"""Registry of the indexes of a dataset: the side file `.lakebed/indexes.json`, which Deep Lake 3.9.52 ignores.

It names each index with its tensor (by key), its settings, and the key, size and checksum of its segments. Segments are
files under `.lakebed/index/`, which are written before the registry names them and never change. A change of the
registry is a conditional put, repeated if another writer was faster. A later change removes files under
`.lakebed/index/` that the registry does not name, once they are an hour old.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import xxhash

from lakebed.errors import (
    DatasetCorruptError,
    FormatError,
    KeyNotFound,
    StorageError,
)
from lakebed.query.indexes.segments import Segment
from lakebed.runtime import clock
from lakebed.storage.base import Storage, is_mappable
from lakebed.storage.shared_files import change_file

REGISTRY_KEY = ".lakebed/indexes.json"
FOLDER = ".lakebed/index/"
_SEGMENT_KEY = re.compile(r"\.lakebed/index/[0-9a-f]{32}")
_FORMAT = 1
_GRACE = 3600.0
KEPT_BYTES = 1 << 29
"""Maximum number of bytes of segments kept in memory between queries; mapped files do not count."""

_KEPT_FILES = 128


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One segment as the registry names it.

    Attributes
    ----------
    facts
        Measurements from its creation, such as ``recall``.
    """

    key: str
    size: int
    sum: str
    rows: int
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One index.

    Attributes
    ----------
    tensor
        Key of the tensor; renaming the tensor does not change its key.
    whole
        Number of segments when the index last covered all rows; 0 if it never did, -1 if it is not registered yet.
    """

    name: str
    tensor: str
    kind: str
    settings: Mapping[str, Any]
    segments: tuple[SegmentEntry, ...] = ()
    whole: int = 0


Registry = dict[str, IndexEntry]

_read: WeakKeyDictionary[Storage, tuple[str, Registry]] = WeakKeyDictionary()
"""Etag and contents of the registry of each open storage; every search compares the etag with the file's etag."""


def read_registry(storage: Storage) -> Registry:
    """Return the indexes of a dataset by name; an empty dictionary if the file does not exist.

    Raises
    ------
    DatasetCorruptError
        If the file is damaged.
    """
    stat = storage.stat(REGISTRY_KEY)
    if stat is None:
        return {}
    known = _read.get(storage) if _has_place(storage) else None
    if known is not None and known[0] == stat.etag:
        return known[1]
    try:
        found = _parsed(storage.get(REGISTRY_KEY))
    except KeyNotFound:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, StorageError):
            raise
        raise DatasetCorruptError(
            f"{REGISTRY_KEY} of {storage.url} cannot be read: {error}. Rows and versions are not affected; search with "
            "exact=True, or remove the file to continue without indexes",
            dataset=storage.url,
        ) from error
    # The etag was taken before the file was read. If the file changed in between, the next search just reads it again.
    if _has_place(storage):
        _read[storage] = stat.etag, found
    return found


def _has_place(storage: Storage) -> bool:
    """Return whether a storage can be a key of a weak dictionary; storages of users may not support that."""
    return type(storage).__weakrefoffset__ > 0 and type(storage).__hash__ is not None


def _parsed(data: bytes) -> Registry:
    document = json.loads(data)
    if document["format"] != _FORMAT:
        raise FormatError(f"it has format {document['format']}, and this version reads {_FORMAT}")
    found: Registry = {}
    for name, entry in document["indexes"].items():
        for segment in entry["segments"]:
            numbers = [segment["size"], segment["rows"], *segment["facts"].values()]
            are_numbers = all(type(number) in (int, float) for number in numbers)
            if not _SEGMENT_KEY.fullmatch(segment["key"]) or not are_numbers:
                raise FormatError(f"index {name!r} has a segment with the invalid key {segment['key']!r}")
        is_named = isinstance(entry["tensor"], str) and entry["kind"] in ("bm25", "hnsw")
        if not is_named or type(entry["settings"]) is not dict or type(entry["whole"]) is not int:
            raise FormatError(f"index {name!r} is of an unknown kind")
        segments = tuple(SegmentEntry(**segment) for segment in entry.pop("segments"))
        found[name] = IndexEntry(name=name, segments=segments, **entry)
    return found


def _dumped(registry: Registry) -> bytes:
    indexes = {}
    for name, entry in registry.items():
        indexes[name] = asdict(entry)
        del indexes[name]["name"]
    return json.dumps({"format": _FORMAT, "indexes": indexes}, indent=1).encode()


def change(storage: Storage, update: Callable[[Registry], Registry]) -> Registry:
    """Replace the registry by an updated one, and return it.

    Parameters
    ----------
    update
        Makes the new registry from the current one; called again if another writer changes the current one.

    Raises
    ------
    CommitFailed, CommitStateUnknown
        If the file could not be replaced, or if it is unknown whether it was replaced.
    DatasetCorruptError
        If the file is damaged.
    """
    before, after = change_file(
        storage,
        REGISTRY_KEY,
        read=lambda: read_registry(storage),
        edit=lambda registry: update(dict(registry)),
        dump=_dumped,
        advice="look at the indexes before repeating the change",
    )
    if after != before:
        _remove_unnamed(storage, before, after)
    return after


def _remove_unnamed(storage: Storage, before: Registry, after: Registry) -> None:
    named = {segment.key for entry in after.values() for segment in entry.segments}
    dropped = {segment.key for entry in before.values() for segment in entry.segments} - named
    limit = (clock.now() - _GRACE) * 1e9
    for key, stat in list(storage.list(FOLDER)):
        # The clocks of the store and of this machine may differ, so remove a file only if it is certainly old, or if
        # this change dropped it.
        if key not in named and (key in dropped or 0 < stat.modified < limit):
            storage.delete(key)
            with _kept_lock:
                for place in [place for place in _kept if place[0] == key]:
                    del _kept[place]


# -- segments --------------------------------------------------------------------------------------------------------


def write_segment(storage: Storage, segment: Segment, rows: int, facts: Mapping[str, Any]) -> SegmentEntry:
    """Write a segment under a new key, and return its entry for the caller to register."""
    parts = segment.to_pieces()
    key = f"{FOLDER}{secrets.token_hex(16)}"
    storage.put(key, parts)
    total = xxhash.xxh3_64()
    for part in parts:
        total.update(part)
    return SegmentEntry(key, sum(map(len, parts)), total.hexdigest(), rows, dict(facts))


_kept: OrderedDict[tuple[str, str, str], tuple[Any, int]] = OrderedDict()
_kept_lock = Lock()


def read_segment(
    storage: Storage, index: IndexEntry, entry: SegmentEntry, made: Callable[[Segment], Any]
) -> Any:
    """Return the object that `made` makes from a segment; a recently made object is kept in memory and reused.

    Raises
    ------
    DatasetCorruptError
        If the segment is damaged or missing.
    KeyNotFound
        If the segment is missing because the index has changed.
    """
    place = entry.key, entry.sum, made.__qualname__
    with _kept_lock:
        if place in _kept:
            _kept.move_to_end(place)
            return _kept[place][0]
    try:
        # Map the file into memory: its pages are read when they are used, and released when memory is short.
        data = storage.map(entry.key) if is_mappable(storage) else storage.get(entry.key)
    except KeyNotFound:
        if entry in read_registry(storage).get(index.name, replace(index, segments=())).segments:
            raise _damaged(storage, index, "one of its files is missing") from None
        raise
    if len(data) != entry.size or xxhash.xxh3_64_hexdigest(data) != entry.sum:
        raise _damaged(storage, index, "one of its files has a wrong checksum")
    try:
        found = made(Segment.from_bytes(data))
    except (FormatError, KeyError) as error:
        raise _damaged(storage, index, f"one of its files cannot be read: {error}") from error
    with _kept_lock:
        _kept[place] = found, 0 if is_mappable(storage) else len(data)
        while len(_kept) > 1 and (len(_kept) > _KEPT_FILES or _kept_bytes() > KEPT_BYTES):
            _kept.popitem(last=False)
    return found


def _kept_bytes() -> int:
    return sum(size for _, size in _kept.values())


def _damaged(storage: Storage, index: IndexEntry, why: str) -> DatasetCorruptError:
    return DatasetCorruptError(
        f"index {index.name!r} of {storage.url} is damaged: {why}. Rows are not affected: search with exact=True, and "
        "make the index again with drop_index and create_index",
        dataset=storage.url,
    )
