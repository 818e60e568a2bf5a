"""Pages of the chunk index of a large tensor, and lists of pages: ``.lakebed/pages/<digest>-<writer>``.

    bytes   content of a page
    8       magic "LBPAGE01"
    8       u64 xxh3-64 of everything after these 16 bytes
    4       u32 length of the JSON header
    ...     JSON header (UTF-8): the entry of a tensor as in a manifest, "block", and "index": offset
    ...     payload: ids u64[rows], counts u64[rows] at "index"; the rest as in a manifest, with no own chunks

    bytes   content of a list
    8       magic "LBLIST01"
    8       u64 xxh3-64 of everything after these 16 bytes
    4       u32 length of the JSON header
    ...     JSON header (UTF-8): {"block": bytes per checksum}
    ...     entries of 40 bytes: u64 samples, u32 rows, u32 bytes of the object, its xxh3-128, 8 random bytes

    bytes   content of a manifest that names them
    8       magic "LBMANIF3"
    8       u64 xxh3-64 of everything after these 16 bytes
    4       u32 length of the JSON header
    ...     JSON header (UTF-8)
    ...     payload: a manifest of another kind, for everything else; entries

Header of such a manifest: ``{"block": bytes per checksum, "manifest": bytes of it, "pages": {tensor key: {"at": offset,
"entries": n, "lists": n, "own": [[first row, end], ...], "tiled": bool, "index": [bytes, digest]}}}``. The first
``lists`` entries name lists of pages, the later entries name pages. The digest in an entry is that of its object. The
writer draws the random bytes, so that no name is written twice: a collector may remove an old object while a new object
of the same content is written. ``index`` describes the file `chunks_index/unsharded` of the version; of a stub, it is
``[0, ""]``.

    bytes   content of a stub: `chunks_index/unsharded` of a tensor whose chunks are named by pages only
    7       version prefix
    1       item width 1, which Deep Lake 3.9.52 and earlier releases of lakebed refuse
    ...     such a manifest, of this tensor, without the other one

The ids of chunks determine where pages end (:func:`ends`), so that pages before and after a change stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed import limits
from lakebed.documents import fields
from lakebed.documents.indexes.chunk_ids import STUB, ChunkIds
from lakebed.documents.indexes.tables import LARGEST_INDEX
from lakebed.documents.manifest import (
    BLOCK,
    PAGED,
    ChunkPlaces,
    closed,
    cut,
    numbers,
    opened,
    places_nbytes,
    put_places,
    read_places,
)
from lakebed.errors import FormatError

PAGE, LIST = b"LBPAGE01", b"LBLIST01"
FOLDER = ".lakebed/pages/"
# On average, one in this many chunks ends a page; the id of the chunk decides.
SPREAD = 256
# A page ends with this many chunks, or with the chunk that brings it to this many bytes, at the latest.
MOST_ROWS = 512
MOST_BYTES = 1 << 17

NO_INDEX = (0, "")
"""Describes a stub, which follows from the rest of its entry."""

_WHAT = "page of the chunk index"
ENTRY = np.dtype(
    [("samples", "<u8"), ("rows", "<u4"), ("nbytes", "<u4"), ("digest", "V16"), ("writer", "V8")]
)
Entries = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class PagedIndex:
    """The chunk index of one tensor as a manifest names it; members as in the header."""

    entries: Entries
    lists: int
    own: tuple[tuple[int, int], ...]
    tiled: bool
    index: tuple[int, str]


# -- names ------------------------------------------------------------------------------------------------------------


def key_of(entry: np.void) -> str:
    """Return the storage key of the object that an entry names."""
    return f"{FOLDER}{entry['digest'].tobytes().hex()}-{entry['writer'].tobytes().hex()}"


def entry_of(data: bytes, rows: int, samples: int, writer: bytes) -> tuple[int, int, int, bytes, bytes]:
    """Return the entry of an object."""
    return samples, rows, len(data), xxhash.xxh3_128_digest(data), writer


def checked(data: bytes, entry: np.void) -> bytes:
    """Return the content of an object.

    Raises
    ------
    FormatError
        If the object is not the one that the entry names.
    """
    if len(data) != int(entry["nbytes"]) or xxhash.xxh3_128_digest(data) != entry["digest"].tobytes():
        raise FormatError(f"{key_of(entry)} is damaged: its checksum is wrong")
    return data


# -- pages ------------------------------------------------------------------------------------------------------------


def page_bytes(ids: ChunkIds, places: ChunkPlaces) -> bytes:
    """Serialise a page: a part of an index that begins with sample 0, and the places of its chunks."""
    payload = bytearray(ids.ids.tobytes() + ids.counts.tobytes())
    header = put_places(places, payload)
    return closed(PAGE, {"block": BLOCK, "index": 0, **header}, payload)


def read_page(data: bytes, entry: np.void) -> tuple[ChunkIds, ChunkPlaces]:
    """Parse the page that an entry names.

    Raises
    ------
    FormatError
        If the page is damaged, or contradicts the entry.
    LimitError
        If a chunk has more samples than one chunk may hold.
    """
    header, payload = opened(checked(data, entry), PAGE)
    try:
        return _page(header, payload, entry)
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{_WHAT} is damaged: {error}") from error


def _page(header: Mapping[str, Any], payload: memoryview, entry: np.void) -> tuple[ChunkIds, ChunkPlaces]:
    rows, nbytes = header["rows"], places_nbytes(header)
    if rows != int(entry["rows"]) or not rows:
        raise FormatError(f"{_WHAT}: it has {rows!r:.20} chunks, but its entry says {int(entry['rows'])}")
    if 16 * rows + nbytes > len(payload):
        raise FormatError(f"{_WHAT}: its entries overlap")
    index = cut(payload, fields.count(header, "index", _WHAT), 16 * rows)
    ids, counts = (numbers(index, np.uint64, rows, at) for at in (0, 8 * rows))
    limits.check("MAX_CHUNK_SAMPLES", int(counts.max()), f"{_WHAT}: samples in one chunk")
    last = np.cumsum(counts, dtype=np.uint64) - np.uint64(1)
    if not counts[0] or int(last[-1]) + 1 != int(entry["samples"]):
        raise FormatError(f"{_WHAT}: its number of samples is not the one in its entry")
    return ChunkIds(ids, last), read_places(header, payload)


def ends(
    marks: NDArray[np.uint64], weights: NDArray[np.int64], starts: NDArray[np.bool_] | None = None
) -> list[int]:
    """Return the ends of pages, or of lists of pages, given a random number of each row.

    Parameters
    ----------
    weights
        Bytes of each row.
    starts
        Rows with which a page may begin: rows of the first tiles of samples. None if it may begin with any row.
    """
    total = np.cumsum(weights)
    natural = np.flatnonzero(marks % np.uint64(SPREAD) == 0)
    found, at = [], 0
    while at < len(marks):
        before = int(total[at - 1]) if at else 0
        end = min(at + MOST_ROWS, int(np.searchsorted(total, before + MOST_BYTES)) + 1, len(marks))
        which = int(np.searchsorted(natural, at))
        if which < len(natural):
            end = min(end, int(natural[which]) + 1)
        while starts is not None and end < len(marks) and not starts[end]:
            end += 1
        found.append(end)
        at = end
    return found


def weights_of(places: ChunkPlaces) -> NDArray[np.int64]:
    """Return the bytes that each chunk takes in a page."""
    return places.sum_counts() * 8 + places.layouts.counts.astype(np.int64) * 4 + 33


# -- lists ------------------------------------------------------------------------------------------------------------


def list_bytes(entries: Entries) -> bytes:
    """Serialise a list of pages."""
    return closed(LIST, {"block": BLOCK}, entries.tobytes())


def read_list(data: bytes, entry: np.void) -> Entries:
    """Parse the list of pages that an entry names.

    Raises
    ------
    FormatError
        If the list is damaged, or contradicts the entry.
    """
    _, payload = opened(checked(data, entry), LIST)
    if not payload or len(payload) % ENTRY.itemsize:
        raise FormatError(f"the list of pages is damaged: it has {len(payload)} bytes")
    entries = _entries(payload)
    if totals(entries) != (int(entry["rows"]), int(entry["samples"])):
        raise FormatError("the list of pages is damaged: its totals are not those in its entry")
    return entries


def totals(entries: Entries) -> tuple[int, int]:
    """Return the number of rows and of samples."""
    return int(entries["rows"].sum(dtype=np.uint64)), int(entries["samples"].sum(dtype=np.uint64))


def marks_of(entries: Entries) -> NDArray[np.uint64]:
    """Return a random number of each entry, from its digest."""
    return np.ascontiguousarray(entries).view("<u8").reshape(-1, 5)[:, 2]


def _entries(payload: memoryview) -> Entries:
    entries = np.frombuffer(payload, ENTRY)
    if len(entries) and int(entries["samples"].max()) > LARGEST_INDEX // len(entries):
        raise FormatError("the list of pages is damaged: it counts more samples than a tensor can have")
    if not entries["rows"].all():
        raise FormatError("the list of pages is damaged: it names an empty page")
    return entries


# -- manifests --------------------------------------------------------------------------------------------------------


def manifest_bytes(manifest: bytes, paged: Mapping[str, PagedIndex]) -> bytes:
    """Serialise a manifest of the kind that names pages."""
    payload, pages = bytearray(manifest), {}
    for key, one in paged.items():
        payload += b"\0" * (-len(payload) % 8)
        pages[key] = {
            "at": len(payload),
            "entries": len(one.entries),
            "lists": one.lists,
            "own": one.own,
            "tiled": one.tiled,
            "index": one.index,
        }
        payload += one.entries.tobytes()
    return closed(PAGED, {"block": BLOCK, "manifest": len(manifest), "pages": pages}, payload)


def read_manifest(data: bytes) -> tuple[bytes, dict[str, PagedIndex]]:
    """Parse a manifest that names pages; return the inner manifest, and the indexes by tensor key.

    Raises
    ------
    FormatError
        If the manifest is damaged.
    """
    header, payload = opened(data, PAGED)
    rest = bytes(cut(payload, 0, header.get("manifest")))
    found = fields.mapping(header, "pages", "manifest")
    limits.check("MAX_TENSORS", len(found), "manifest: tensors")
    try:
        indexes = {fields.checked_key(key, "manifest"): _paged_index(e, payload) for key, e in found.items()}
    except FormatError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the manifest is damaged: {error}") from error
    if ENTRY.itemsize * sum(len(one.entries) for one in indexes.values()) > len(payload) - len(rest):
        raise FormatError("the manifest is damaged: its entries overlap")
    return rest, indexes


def rest_of(data: bytes) -> bytes:
    """Return the inner manifest, which holds everything except the names of pages."""
    return read_manifest(data)[0]


def stub_bytes(key: str, one: PagedIndex) -> bytes:
    """Serialise the stub of a tensor."""
    return STUB + manifest_bytes(b"", {key: replace(one, index=NO_INDEX)})


def read_stub(data: bytes) -> PagedIndex:
    """Parse a stub.

    Raises
    ------
    FormatError
        If the stub is damaged.
    """
    found = read_manifest(data[len(STUB) :])[1]
    if len(found) != 1:
        raise FormatError(f"the stub of a chunk index is damaged: it describes {len(found)} tensors")
    return next(iter(found.values()))


def _paged_index(entry: Mapping[str, Any], payload: memoryview) -> PagedIndex:
    length = ENTRY.itemsize * fields.count(entry, "entries", "manifest")
    entries = _entries(cut(payload, fields.count(entry, "at", "manifest"), length))
    rows, at = totals(entries)[0], 0
    own: Sequence[Sequence[int]] = entry["own"]
    for first, end in own:
        if not (type(first) is int and type(end) is int and at <= first < end <= rows):
            raise FormatError("the manifest is damaged: its runs of own chunks are invalid")
        at = end
    nbytes, digest = entry["index"]
    lists = fields.count(entry, "lists", "manifest")
    if lists > len(entries) or type(nbytes) is not int or not isinstance(digest, str) or not rows:
        raise FormatError("the manifest is damaged: it does not describe the pages of a tensor")
    runs = tuple((first, end) for first, end in own)
    return PagedIndex(entries, lists, runs, bool(entry["tiled"]), (nbytes, digest))


def index_digest(data: bytes) -> str:
    """Return the digest of a file `chunks_index/unsharded`, as a manifest has it."""
    return xxhash.xxh3_128_hexdigest(data)
