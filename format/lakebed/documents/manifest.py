"""The side file ``.lakebed/manifest-<version id>``: one version's metadata, chunk places and checksums in one object.

    bytes   content
    8       magic "LBMANIF1"
    8       u64 xxh3-64 of everything after these 16 bytes
    4       u32 length of the JSON header
    ...     JSON header (UTF-8)
    ...     payload: file contents and arrays, back to back, at the offsets that the header names

Header: ``{"version": id, "block": bytes per checksum, "files": {relative key: [offset, length]}, "chunks": {tensor key:
{"folders": [[commit id, key], ...], "rows": n, "sums": n, "at": offset, "layouts": [offset, words]}}}``. The arrays of
a tensor begin at ``at``: sizes u64[rows], sums u64[sums], folder_of u32[rows], own u8[rows]. If ``layouts`` is present,
counts u32[rows] and words u32[words] begin at its offset (see `layouts`). Unknown header keys are ignored.

The manifest of a large version may be a delta instead (`manifest_delta`).

A manifest is a cache and a journal, never the truth. It is valid only if the version tree has its checksum (the seal),
which Deep Lake 3.9.52 drops whenever it opens a dataset for writing, or if every file in it is still the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed import limits
from lakebed.documents import fields, json_style
from lakebed.documents.frozen import OnDemand
from lakebed.documents.indexes.tables import LARGEST_INDEX
from lakebed.documents.layouts import NO_WORDS, Layouts, Words, no_layouts
from lakebed.errors import FormatError

MAGIC = b"LBMANIF1"
# Manifests that name pages of chunk indexes, and contain a manifest without pages for all other data (see `pages`).
PAGED = b"LBMANIF3"
BLOCK = 1 << 18
# Single samples are read by range from chunks above this size; smaller chunks are read as a whole.
LARGE = 2 * BLOCK

_WHAT = "manifest"

N = TypeVar("N", bound=np.generic)


@dataclass(frozen=True, slots=True)
class ChunkPlaces:
    """Places of the chunks of one tensor, in the order of its chunk index.

    Parameters
    ----------
    folders
        Distinct (commit id, tensor key) pairs whose `chunks/` folder holds chunks.
    folder_of
        Index into ``folders`` per chunk: uint32, shape (rows,).
    sizes
        File size in bytes; 0 = unknown: uint64, shape (rows,).
    sums
        xxh3-64 of each block of BLOCK bytes of each chunk of known size, in order: uint64.
    own
        Whether the chunk belongs to this version's chunk_set: bool, shape (rows,).
    known_layouts
        Layouts of the samples of each chunk; None if no layout is known.
    """

    folders: tuple[tuple[str, str], ...]
    folder_of: NDArray[np.uint32]
    sizes: NDArray[np.uint64]
    sums: NDArray[np.uint64]
    own: NDArray[np.bool_]
    known_layouts: Layouts | None = None
    _sum_ends: NDArray[np.int64] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def sum_ends(self) -> NDArray[np.int64]:
        """Number of checksums before each chunk, then of all chunks: int64, shape (rows + 1,); made on first access."""
        ends = self._sum_ends
        if ends is None:
            ends = np.zeros(len(self.sizes) + 1, np.int64)
            np.cumsum(self.sum_counts(), out=ends[1:])
            object.__setattr__(self, "_sum_ends", ends)
        return ends

    @property
    def layouts(self) -> Layouts:
        """Layouts of the samples of each chunk, as far as known."""
        return no_layouts(len(self.sizes)) if self.known_layouts is None else self.known_layouts

    def layout(self, row: int) -> Words:
        """Return the layout of one chunk's samples; empty if it is not known."""
        return NO_WORDS if self.known_layouts is None else self.known_layouts.of(row)

    def check(self) -> None:
        """Refuse places that contradict each other.

        Raises
        ------
        FormatError
            If a folder is missing, or sizes and checksums do not match.
        """
        # Fast path: most tensors have one chunk, and Python numbers are faster than arrays of one item.
        if len(self.sizes) == 1:
            size = int(self.sizes[0])
            is_sound = self.folder_of[0] < len(self.folders) and size <= LARGEST_INDEX
            is_sound = is_sound and -(-size // BLOCK) == len(self.sums)
        else:
            is_sound = not len(self.sizes) or (
                int(self.folder_of.max()) < len(self.folders)
                and int(self.sizes.max()) <= LARGEST_INDEX
                and int(self.sum_counts().sum()) == len(self.sums)
            )
        if not is_sound:
            raise FormatError("the manifest is damaged: its chunk places contradict each other")
        if self.known_layouts is not None:
            self.known_layouts.check(len(self.sizes))

    def sum_counts(self) -> NDArray[np.int64]:
        """Count the checksums of each chunk: int64, shape (rows,)."""
        return ((self.sizes + np.uint64(BLOCK - 1)) // np.uint64(BLOCK)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The small files of one version, by key relative to its folder, and its chunk places.

    Chunk places of a parsed manifest are parsed on access, which raises FormatError if they contradict each other.
    """

    version_id: str
    files: Mapping[str, bytes]
    chunks: Mapping[str, ChunkPlaces]

    def to_bytes(self) -> bytes:
        """Serialise the manifest."""
        payload = bytearray()
        files = {}
        for key, data in self.files.items():
            files[key] = [len(payload), len(data)]
            payload += data
        chunks = {key: put_places(places, payload) for key, places in self.chunks.items()}
        header = {"version": self.version_id, "block": BLOCK, "files": files, "chunks": chunks}
        return closed(MAGIC, header, payload)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Parse a manifest.

        Raises
        ------
        FormatError
            If the checksum or any offset is wrong, or another release wrote a layout that this one cannot read.
        LimitError
            If the manifest is longer than this process allows.
        """
        header, payload = opened(data, MAGIC)
        try:
            return _parsed(header, payload)
        except FormatError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"the manifest is damaged: {error}") from error


def digest_of(data: bytes) -> str:
    """Return the checksum that a manifest carries, as 16 hex digits: the digest in the version tree."""
    return f"{int.from_bytes(data[8:16], 'little'):016x}"


def block_sums(pieces: tuple[bytes | bytearray | memoryview, ...]) -> list[int]:
    """Return the xxh3-64 of each block of BLOCK bytes of a file given as pieces."""
    state, room = xxhash.xxh3_64(), BLOCK
    if 0 < sum(map(len, pieces)) <= BLOCK:
        for piece in pieces:
            state.update(piece)
        return [state.intdigest()]
    sums: list[int] = []
    for piece in pieces:
        view = memoryview(piece)
        while view:
            part = view[:room]
            if room == BLOCK and len(part) == BLOCK:
                sums.append(xxhash.xxh3_64_intdigest(part))
            else:
                state.update(part)
                room -= len(part)
                if room == 0:
                    sums.append(state.intdigest())
                    state, room = xxhash.xxh3_64(), BLOCK
            view = view[len(part) :]
    if room != BLOCK:
        sums.append(state.intdigest())
    return sums


def has_sums(sums: Sequence[int], content: bytes | bytearray | memoryview) -> bool:
    """Tell whether a file has these checksums; see :func:`block_sums`."""
    return block_sums((content,)) == list(sums)


def opened(data: bytes, magic: bytes) -> tuple[dict[str, Any], memoryview]:
    """Verify the magic and the checksum of a manifest; return its header and payload.

    Raises
    ------
    FormatError
        If the manifest has another magic, or is damaged.
    LimitError
        If the manifest is longer than this process allows.
    """
    limits.check("MAX_MANIFEST_BYTES", len(data), _WHAT)
    if data[:8] != magic or len(data) < 20:
        raise FormatError("the manifest has a layout that this release cannot read")
    if digest_of(data) != xxhash.xxh3_64_hexdigest(memoryview(data)[16:]):
        raise FormatError("the manifest is damaged: its checksum is wrong")
    start = 20 + int.from_bytes(data[16:20], "little")
    header = json_style.load_object(data[20:start], _WHAT)
    if header.get("block") != BLOCK:
        raise FormatError(f"the manifest's checksum block is {header.get('block')!r:.20} bytes, not {BLOCK}")
    return header, memoryview(data)[start:]


def closed(magic: bytes, header: Mapping[str, Any], payload: bytes | bytearray) -> bytes:
    """Return the bytes of a manifest: magic, checksum, header and payload."""
    text = json.dumps(header, separators=(",", ":")).encode()
    # Align the arrays that follow to 8 bytes, so that readers need not copy them.
    text += b" " * (-(20 + len(text)) % 8)
    body = len(text).to_bytes(4, "little") + text + payload
    return magic + xxhash.xxh3_64_intdigest(body).to_bytes(8, "little") + body


def put_places(places: ChunkPlaces, payload: bytearray) -> dict[str, Any]:
    """Add chunk places to the payload; return their entry in the header."""
    payload += b"\0" * (-len(payload) % 8)
    entry = {
        "folders": [list(f) for f in places.folders],
        "rows": len(places.sizes),
        "sums": len(places.sums),
        "at": len(payload),
    }
    payload += places.sizes.tobytes() + places.sums.tobytes()
    payload += places.folder_of.tobytes() + places.own.astype(np.uint8).tobytes()
    return entry | put_layouts(places.known_layouts, payload)


def put_layouts(layouts: Layouts | None, payload: bytearray) -> dict[str, list[int]]:
    """Add layouts to the payload; return their entry in the header, empty if there are none."""
    if layouts is None or not len(layouts.words):
        return {}
    payload += b"\0" * (-len(payload) % 4)
    at = len(payload)
    payload += layouts.counts.tobytes() + layouts.words.tobytes()
    return {"layouts": [at, len(layouts.words)]}


@dataclass(frozen=True, slots=True)
class LayoutTable:
    """The position of a tensor's layouts in the payload."""

    rows: int
    words: int
    at: int

    @classmethod
    def from_json(cls, entry: Mapping[str, Any], rows: int) -> LayoutTable | None:
        """Return the layouts in the entry of a tensor with ``rows`` chunks; None if it has none."""
        found = entry.get("layouts")
        if found is None:
            return None
        at, words = found
        if type(at) is not int or type(words) is not int or min(at, words) < 0:
            raise FormatError("the manifest is damaged: the position of its layouts is missing")
        return cls(rows, words, at)

    @property
    def nbytes(self) -> int:
        return 4 * (self.rows + self.words)

    def read(self, payload: memoryview) -> Layouts:
        """Return the layouts."""
        data = numbers(cut(payload, self.at, self.nbytes), np.uint32, self.rows + self.words, 0)
        return Layouts(data[: self.rows], data[self.rows :])


def _parsed(header: Mapping[str, Any], payload: memoryview) -> Manifest:
    named = fields.mapping(header, "files", _WHAT)
    entries = fields.mapping(header, "chunks", _WHAT)
    limits.check("MAX_TENSORS", len(entries), f"{_WHAT}: tensors")
    # Valid entries never overlap. In a malicious file all could point at the same bytes, so check the total size.
    total = sum(max(length, 0) for _, length in named.values()) + sum(map(places_nbytes, entries.values()))
    if total > len(payload):
        raise FormatError("the manifest is damaged: its entries overlap")
    files = {key: bytes(cut(payload, at, length)) for key, (at, length) in named.items()}
    chunks = OnDemand(entries, lambda key: read_places(entries[key], payload))
    return Manifest(fields.text(header, "version", _WHAT, ""), files, chunks)


def cut(payload: memoryview, at: Any, length: Any) -> memoryview:
    """Return a range of the payload without copying it; refuse a range outside of the payload."""
    if not (isinstance(at, int) and isinstance(length, int) and at >= 0 and 0 <= length <= len(payload) - at):
        raise FormatError(f"the manifest is damaged: {length} bytes at {at} are outside of its payload")
    return payload[at : at + length]


def numbers(data: memoryview, kind: type[N], count: int, at: int) -> NDArray[N]:
    """Return an array in a range of the payload; copy it only if it is unaligned, as older releases may write it."""
    return np.require(np.frombuffer(data, kind, count, at), requirements="A")


def places_nbytes(entry: Any) -> int:
    """Return the number of payload bytes of a tensor's chunk places."""
    if not isinstance(entry, dict):
        raise FormatError("the manifest is damaged: the chunks of a tensor are not an object")
    rows, sums = entry["rows"], entry["sums"]
    if not (type(rows) is int and type(sums) is int and rows >= 0 and sums >= 0):
        raise FormatError("the manifest is damaged: it does not count the chunks of a tensor")
    layouts = LayoutTable.from_json(entry, rows) if "layouts" in entry else None
    return 13 * rows + 8 * sums + (0 if layouts is None else layouts.nbytes)


def read_places(entry: Mapping[str, Any], payload: memoryview) -> ChunkPlaces:
    """Return the chunk places of one tensor as the header describes them.

    Raises
    ------
    FormatError
        If the places are outside of the payload or contradict each other.
    """
    try:
        folders = tuple(
            (fields.checked_version(commit, _WHAT), fields.checked_key(key, _WHAT))
            for commit, key in entry["folders"]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the manifest is damaged: {error}") from error
    rows, sums = entry["rows"], entry["sums"]
    data = cut(payload, fields.count(entry, "at", _WHAT), 13 * rows + 8 * sums)
    layouts = LayoutTable.from_json(entry, rows)
    places = ChunkPlaces(
        folders,
        numbers(data, np.uint32, rows, 8 * (rows + sums)),
        numbers(data, np.uint64, rows, 0),
        numbers(data, np.uint64, sums, 8 * rows),
        np.frombuffer(data, np.uint8, rows, 12 * rows + 8 * sums).astype(np.bool_),
        None if layouts is None else layouts.read(payload),
    )
    places.check()
    return places
