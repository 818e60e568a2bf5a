"""A manifest that names another manifest, its base, and holds the differences from it (see `manifest`).

    bytes   content
    8       magic "LBMANIF2"
    8       u64 xxh3-64 of everything after these 16 bytes
    4       u32 length of the JSON header
    ...     JSON header (UTF-8)
    ...     payload: file contents and arrays, at the offsets that the header names

Header: ``{"version": id, "block": bytes per checksum, "base": [id, digest], "spent": bytes,
"files": {relative key: [offset, length, kept]},
"chunks": {tensor key: {"kept": rows, "known": folders, "folders": [...], "rows": n, "sums": n, "own": runs, "at": at,
"layouts": [at, words]}},
"gone": [relative keys], "gone_chunks": [tensor keys]}``.

The base is the whole manifest, with this digest, of an ancestor. A file that is not named is the file in the base,
unless it records the changes of a version; a named file begins with ``kept`` bytes of the file in the base. Likewise a
tensor's chunks begin with the first ``kept`` rows and ``known`` folders of the base. The arrays are sizes u64[rows],
sums u64[sums], folder_of u32[rows] of the rows added, and own u32[runs]: lengths of runs of all rows that are not, are,
are not, ... this version's own. A tensor that is not named has no own chunks. Layouts are stored for added rows.
``spent`` counts the bytes of all manifests since the base, this one included: once they exceed the size of the base, a
whole manifest is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.documents import fields
from lakebed.documents.frozen import OnDemand
from lakebed.documents.layouts import joined, no_layouts
from lakebed.documents.manifest import (
    BLOCK,
    MAGIC,
    PAGED,
    ChunkPlaces,
    LayoutTable,
    Manifest,
    N,
    closed,
    cut,
    digest_of,
    numbers,
    opened,
    put_layouts,
)
from lakebed.errors import FormatError, KeyNotFound

DELTA = b"LBMANIF2"

_WHAT = "manifest"
# Files shorter than this are stored whole, because omitting a beginning that the base has would save little.
_SHORT = 256
# Manifests larger than this are not cached.
_SMALL = 1 << 18


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole manifest, which later manifests may name as their base."""

    manifest: Manifest
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Read:
    """A parsed manifest; `base` is the manifest that it names as its base, or itself if it is whole."""

    manifest: Manifest
    digest: str
    base: Whole
    spent: int
    made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Immutable objects that readers built from it, shared by all who open the same version."""


@lru_cache(maxsize=16)  # at most 4 MB of files, and the objects made from them
def _read_whole(data: bytes) -> Read:
    manifest = Manifest.from_bytes(data)
    return Read(manifest, digest_of(data), Whole(manifest, digest_of(data), len(data)), 0)


def forget() -> None:
    """Empty the cache of manifests."""
    _read_whole.cache_clear()


def read_manifest(data: bytes, read_base: Callable[[str], bytes]) -> Read:
    """Parse a manifest, whole or delta; the last few small whole manifests are cached by content.

    Parameters
    ----------
    read_base
        Reads the manifest of a version.

    Raises
    ------
    FormatError
        If the manifest is damaged, or its base is missing, damaged or not the one with the recorded digest.
    """
    if data[:8] == MAGIC:
        return (_read_whole if len(data) <= _SMALL else _read_whole.__wrapped__)(data)
    header, payload = opened(data, DELTA)
    try:
        version, digest = _base(header)
        base = read_base(version)
        if base[:8] == PAGED:
            from lakebed.documents.indexes.pages import rest_of

            base = rest_of(base)
        whole = _checked_base(base, version, digest)
        manifest = _applied(header, payload, whole)
        return Read(
            manifest, digest_of(data), Whole(whole, digest, len(base)), fields.count(header, "spent", _WHAT)
        )
    except KeyNotFound as error:
        raise FormatError(f"the base of the manifest is missing: {error}") from error
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the manifest is damaged: {error}") from error


def _checked_base(data: bytes, version: str, digest: str) -> Manifest:
    whole = Manifest.from_bytes(data)
    if digest_of(data) != digest or whole.version_id != version:
        raise FormatError(
            f"the manifest of version {version} was replaced, but another manifest needs it as its base"
        )
    return whole


def base_of(data: bytes) -> str | None:
    """Return the version whose manifest this one needs, None if it is whole.

    Raises
    ------
    FormatError
        If the manifest is damaged.
    """
    return None if data[:8] == MAGIC else _base(opened(data, DELTA)[0])[0]


def delta_bytes(manifest: Manifest, base: Whole, spent: int) -> bytes:
    """Serialise the difference of two manifests; ``spent`` counts the bytes of earlier deltas with the same base."""
    whole, payload = base.manifest, bytearray()
    files, chunks = {}, {}
    for key, data in manifest.files.items():
        old = whole.files.get(key)
        if old is None or not _is_inherited(key) or (old is not data and old != data):
            kept = _common_bytes(old or b"", data)
            files[key] = [len(payload), len(data) - kept, kept]
            payload += data[kept:]
    for key, places in manifest.chunks.items():
        entry = _entry(places, whole.chunks.get(key), payload)
        if entry is not None:
            chunks[key] = entry
    header = {
        "version": manifest.version_id,
        "block": BLOCK,
        "base": [whole.version_id, base.digest],
        "files": files,
        "chunks": chunks,
        "gone": [key for key in whole.files if _is_inherited(key) and key not in manifest.files],
        "gone_chunks": [key for key in whole.chunks if key not in manifest.chunks],
        "spent": spent,
    }
    # The file contains this number, so its size is not known exactly yet: take an upper bound.
    header["spent"] = spent + len(closed(DELTA, header, payload)) + 20
    return closed(DELTA, header, payload)


def _is_inherited(key: str) -> bool:
    """Return whether children inherit a file of a version: it does not record changes (format.md 9.2)."""
    return not key.endswith(("/commit_diff", "/chunk_set", "dataset_diff"))


def _entry(places: ChunkPlaces, old: ChunkPlaces | None, payload: bytearray) -> dict[str, Any] | None:
    """Add the chunk places that differ from the base to the payload; return their entry, None if nothing differs."""
    known = 0 if old is None else _common(old.folders, places.folders)
    kept = 0 if old is None else _common_rows(old, places, known)
    if not kept:
        known = 0
    if (
        old is not None
        and kept == len(places.sizes) == len(old.sizes)
        and known == len(places.folders) == len(old.folders)
        and not places.own.any()
    ):
        return None
    first = int(places.sum_ends[kept])
    own = _runs(places.own)
    payload += b"\0" * (-len(payload) % 8)
    entry = {
        "kept": kept,
        "known": known,
        "folders": [list(folder) for folder in places.folders[known:]],
        "rows": len(places.sizes) - kept,
        "sums": len(places.sums) - first,
        "own": len(own),
        "at": len(payload),
    }
    payload += places.sizes[kept:].tobytes() + places.sums[first:].tobytes()
    payload += places.folder_of[kept:].tobytes() + own.tobytes()
    if places.known_layouts is not None:
        added = places.known_layouts.cut(kept, len(places.sizes))
        return entry | put_layouts(added, payload)
    return entry


def _common(old: tuple[Any, ...], new: tuple[Any, ...]) -> int:
    """Return the number of leading items that are equal."""
    n = min(len(old), len(new))
    return n if old[:n] == new[:n] else next(i for i in range(n) if old[i] != new[i])


def _common_rows(old: ChunkPlaces, new: ChunkPlaces, known: int) -> int:
    """Return the number of leading rows that are equal, and whose chunks are in the first ``known`` folders."""
    n = min(len(old.sizes), len(new.sizes))
    if known < len(old.folders):
        n = _equal(old.folder_of[:n] < known, np.ones(n, np.bool_))
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = [(old.folder_of, new.folder_of), (old.sizes, new.sizes)]
    if old.known_layouts is not new.known_layouts:
        # The words of equal chunks are equal if both manifests have words.
        pairs.append((old.layouts.counts, new.layouts.counts))
    for a, b in pairs:
        if a is not b:
            n = _equal(a[:n], b[:n])
    if old.sums is new.sums:
        return n
    total = int(new.sum_ends[n])
    return int(
        np.searchsorted(new.sum_ends[1 : n + 1], _equal(old.sums[:total], new.sums[:total]), side="right")
    )


def _equal(a: NDArray[Any], b: NDArray[Any]) -> int:
    """Return the number of leading items that are equal, of arrays of the same length."""
    differs = a != b
    return int(differs.argmax()) if differs.any() else len(a)


def _common_bytes(old: bytes, new: bytes) -> int:
    n = min(len(old), len(new))
    if n < _SHORT:
        return 0
    return _equal(np.frombuffer(old, np.uint8, n), np.frombuffer(new, np.uint8, n))


def _runs(own: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Return the lengths of runs of equal values; the first run is of False."""
    if not own.any():
        return np.empty(0, np.uint32)
    changes = np.flatnonzero(np.diff(own)) + 1
    ends = np.concatenate([[0] if own[0] else [], changes, [len(own)]]).astype(np.int64)
    return np.diff(ends, prepend=0).astype(np.uint32)


def _flags(runs: NDArray[np.uint32], rows: int) -> NDArray[np.bool_]:
    if not len(runs):
        return np.zeros(rows, np.bool_)
    if int(runs.sum(dtype=np.uint64)) != rows:
        raise FormatError("the manifest is damaged: its runs of own chunks are not as long as the index")
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs)


def _base(header: Mapping[str, Any]) -> tuple[str, str]:
    found = header.get("base")
    if not isinstance(found, list) or len(found) != 2 or not isinstance(found[1], str):
        raise FormatError("the manifest is damaged: it names no base")
    return fields.checked_version(found[0], _WHAT), found[1]


def _applied(header: Mapping[str, Any], payload: memoryview, base: Manifest) -> Manifest:
    named = fields.mapping(header, "files", _WHAT)
    entries = fields.mapping(header, "chunks", _WHAT)
    limits.check("MAX_TENSORS", len(entries), f"{_WHAT}: tensors")
    tables = {key: _Added.from_json(entry) for key, entry in entries.items()}
    # Valid entries never overlap. In a malicious file all could point at the same bytes, so check the total size.
    total = sum(max(length, 0) for _, length, _ in named.values()) + sum(t.nbytes for t in tables.values())
    if total > len(payload):
        raise FormatError("the manifest is damaged: its entries overlap")
    gone, gone_chunks = (set(fields.texts(header, name, _WHAT)) for name in ("gone", "gone_chunks"))
    files = {key: data for key, data in base.files.items() if _is_inherited(key) and key not in gone}
    for key, (at, length, kept) in named.items():
        old = base.files.get(key, b"")
        if not (type(kept) is int and 0 <= kept <= len(old)):
            raise FormatError(f"the manifest is damaged: it keeps {kept!r:.20} of {len(old)} bytes")
        files[key] = old[:kept] + bytes(cut(payload, at, length))
    kept_chunks = [key for key in base.chunks if key not in gone_chunks and key not in tables]

    def places(key: str) -> ChunkPlaces:
        if key in tables:
            return tables[key].read(payload, base.chunks.get(key))
        old = base.chunks[key]
        return replace(old, own=np.zeros(len(old.sizes), np.bool_))

    return Manifest(
        fields.text(header, "version", _WHAT, ""), files, OnDemand([*kept_chunks, *tables], places)
    )


@dataclass(frozen=True, slots=True)
class _Added:
    """The position in the payload of a tensor's chunk places that differ from the base."""

    kept: int
    known: int
    folders: tuple[tuple[str, str], ...]
    rows: int
    sums: int
    own: int
    at: int
    layouts: LayoutTable | None

    @classmethod
    def from_json(cls, entry: Any) -> _Added:
        if not isinstance(entry, dict):
            raise FormatError("the manifest is damaged: the chunks of a tensor are not an object")
        folders = tuple(
            (fields.checked_version(commit, _WHAT), fields.checked_key(key, _WHAT))
            for commit, key in entry["folders"]
        )
        names = ("kept", "known", "rows", "sums", "own", "at")
        kept, known, rows, sums, own, at = (fields.count(entry, name, _WHAT) for name in names)
        return cls(kept, known, folders, rows, sums, own, at, LayoutTable.from_json(entry, rows))

    @property
    def nbytes(self) -> int:
        layouts = 0 if self.layouts is None else self.layouts.nbytes
        return 12 * self.rows + 8 * self.sums + 4 * self.own + layouts

    def read(self, payload: memoryview, base: ChunkPlaces | None) -> ChunkPlaces:
        rows, sums, kept = self.rows, self.sums, self.kept
        data = cut(payload, self.at, 12 * rows + 8 * sums + 4 * self.own)
        sizes = numbers(data, np.uint64, rows, 0)
        values = numbers(data, np.uint64, sums, 8 * rows)
        folder_of = numbers(data, np.uint32, rows, 8 * (rows + sums))
        runs = numbers(data, np.uint32, self.own, 12 * rows + 8 * sums)
        folders = self.folders
        layouts = None if self.layouts is None else self.layouts.read(payload)
        if kept:
            if base is None or kept > len(base.sizes):
                raise FormatError(f"the manifest is damaged: its base has no {kept} chunks")
            first = int(base.sum_ends[kept])
            folders = (*base.folders[: self.known], *folders)
            sizes = _behind(base.sizes[:kept], sizes)
            values = _behind(base.sums[:first], values)
            folder_of = _behind(base.folder_of[:kept], folder_of)
            if layouts is not None or base.known_layouts is not None:
                layouts = joined([base.layouts.cut(0, kept), layouts or no_layouts(rows)])
        places = ChunkPlaces(folders, folder_of, sizes, values, _flags(runs, kept + rows), layouts)
        places.check()
        return places


def _behind(column: NDArray[N], added: NDArray[N]) -> NDArray[N]:
    """Return a column with values appended; the same column if no value is appended."""
    return np.concatenate([column, added]) if len(added) else column
