"""Shards of samples behind a table of offsets, which MDS of MosaicML and chunks of LitData have in common.

    4            samples, uint32, little-endian
    4 * (n + 1)  offsets of the samples in the file, and the end of the last one
    ...          what the format says of itself
    ...          samples

An ``index.json`` names the shards. A shard may be compressed as a whole, and the index may know hashes of it.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.plan import Problem
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import SPLITS
from lakebed.importers.shards.snappy import unsnapped
from lakebed.transforms.output import Skipped

INDEX = "index.json"

# Name of a compression in the index -> its name in PyArrow.
COMPRESSIONS: Mapping[str, str] = {
    "zstd": "zstd",
    "gz": "gzip",
    "bz2": "bz2",
    "br": "brotli",
    "snappy": "snappy",
}

_MAX_INDEX_BYTES = 512 << 20
_MAX_SAMPLE_BYTES = 1 << 30
# What a compressed shard may become: writers make shards of 64 MB.
_MAX_UNPACKED_BYTES = 1 << 30
# A worker takes about so many bytes of a shard at a time; what is hashed or compressed is taken as a whole.
_ITEM_BYTES = 32 << 20
_BLOCK_BYTES = 1 << 20
# Samples of a damaged shard that are counted one by one; of more, an index tells what cannot be.
_MOST_COUNTED = 1 << 20
# Samples of a shard, and shards, by which it is found out what columns hold.
_LOOKED_AT = 8
_SHARDS_LOOKED_AT = 4


class Shard(NamedTuple):
    """A file of samples.

    Parameters
    ----------
    name
        Its name in the source.
    samples
        How many there are, as the index says.
    nbytes
        Bytes of it, unpacked.
    compression
        Its name in the index; empty if it is not compressed.
    hashes
        (algorithm, digest in hex) of the file.
    unpacked_hashes
        Those of what it unpacks to.
    layout
        Number of its layout: what its samples consist of.
    """

    name: str
    samples: int
    nbytes: int
    compression: str = ""
    hashes: tuple[tuple[str, str], ...] = ()
    unpacked_hashes: tuple[tuple[str, str], ...] = ()
    layout: int = 0


class Item(NamedTuple):
    """Samples of a shard."""

    shard: Shard
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.shard.name}, samples {self.start:,} to {self.stop:,}"


# -- the index ----------------------------------------------------------------------------------------------------


def folders_of(source: Source) -> list[str]:
    """Return the folders that have an index: "" is the source itself; the outermost ones come first."""
    found = [
        folder
        for folder, names in source.folders.items()
        if (f"{folder}/{INDEX}" if folder else INDEX) in names
    ]
    return sorted(found, key=lambda folder: (folder.count("/") + bool(folder), folder))


def index_of(source: Source, folder: str) -> dict[str, Any] | None:
    """Return the index of a folder; None if it is no JSON object, or too large for one of shards."""
    name = f"{folder}/{INDEX}" if folder else INDEX
    if source.files.get(name, _MAX_INDEX_BYTES + 1) > _MAX_INDEX_BYTES:
        return None
    try:
        found = json.loads(source.read(name))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def split_of(folder: str) -> str:
    """Return the split that a folder is: ``train``, ``val`` or ``test``, or the name of the folder."""
    first = folder.partition("/")[0]
    return SPLITS.get(first.lower(), folder.replace("/", "-"))


def hashes_of(told: Any, where: str, problems: list[Problem]) -> tuple[tuple[str, str], ...]:
    """Return the hashes that an index tells of a file, as far as their algorithms are known."""
    found: list[tuple[str, str]] = []
    for algorithm, digest in told.items() if isinstance(told, Mapping) else ():
        if not isinstance(digest, str) or _hasher(str(algorithm)) is None:
            problems.append(Problem(where, f"the hash {algorithm} is not known here, and not verified", 0))
        else:
            found.append((str(algorithm), digest.lower()))
    return tuple(found)


def count_of(told: Any, what: str) -> int:
    """Return a number that an index tells.

    Raises
    ------
    IngestionError
        If it is none.
    """
    if not isinstance(told, int) or isinstance(told, bool) or not 0 <= told < 1 << 62:
        raise IngestionError(f"{what} is {str(told)[:40]!r} in the index, which is no number of that")
    return told


def lost_by(told: Any, key: str) -> int:
    """Return how many samples are lost with a shard that cannot be read, as far as the index tells it."""
    count = told.get(key) if isinstance(told, Mapping) else None
    return count if isinstance(count, int) and 0 <= count < 1 << 32 else 0


def checked(shard: Shard, source: Source, problems: list[Problem]) -> Shard:
    """Return a shard that is there, and may hold what the index says.

    Raises
    ------
    IngestionError
        If it cannot.
    """
    size = source.files[shard.name]
    if shard.compression:
        if shard.compression not in COMPRESSIONS:
            raise IngestionError(
                f"the compression {shard.compression!r} is not known: {', '.join(COMPRESSIONS)} are"
            )
        if max(size, shard.nbytes) > _MAX_UNPACKED_BYTES:
            raise IngestionError(
                f"the shard is compressed and of {shard.nbytes:,} bytes, which is more than {_MAX_UNPACKED_BYTES:,}"
            )
    elif size != shard.nbytes:
        problems.append(Problem(shard.name, f"it has {size:,} bytes, and {shard.nbytes:,} in the index", 0))
        shard = shard._replace(nbytes=size)
    if 4 * (shard.samples + 2) > shard.nbytes and shard.samples:
        raise IngestionError(
            f"{shard.nbytes:,} bytes cannot hold {shard.samples:,} samples, as the index says"
        )
    return shard


def items_of(shard: Shard) -> Iterator[Item]:
    """Yield what workers take of a shard at a time."""
    parts = 1
    if not shard.compression and not shard.hashes:
        parts = max(1, min(shard.samples, shard.nbytes // _ITEM_BYTES))
    step = -(-shard.samples // parts)
    for start in range(0, shard.samples, max(step, 1)):
        yield Item(shard, start, min(start + step, shard.samples))


def looked_at(
    source: Source, shards: Sequence[Shard], read: Callable[[Source, Shard, int, int], Any] | None = None
) -> Iterator[tuple[Shard, bytes]]:
    """Yield some samples of some shards; what is damaged is told when its rows are made.

    Parameters
    ----------
    read
        What reads samples, where :func:`samples` does not.
    """
    read = read or samples
    step = max(1, len(shards) // _SHARDS_LOOKED_AT)
    for shard in shards[::step][:_SHARDS_LOOKED_AT]:
        try:
            for found in read(source, shard._replace(hashes=(), unpacked_hashes=()), 0, _LOOKED_AT):
                if isinstance(found, bytes):
                    yield shard, found
        except (LakebedError, OSError, struct.error):
            continue


# -- samples ------------------------------------------------------------------------------------------------------


def samples(source: Source, shard: Shard, start: int, stop: int) -> Iterator[bytes | IngestionError]:
    """Yield samples of a shard, or why there is none in the place of one.

    Raises
    ------
    IngestionError
        If the shard as a whole is damaged.
    """
    with _opened(source, shard) as (file, size):
        head = _read(file, 0, 4, size)
        count = int.from_bytes(head, "little")
        if count != shard.samples:
            raise IngestionError(f"it has {count:,} samples, and {shard.samples:,} in the index")
        stop = min(stop, count)
        table = _read(file, 4 * (1 + start), 4 * (stop - start + 1), size)
        offsets: NDArray[np.uint32] = np.frombuffer(table, "<u4")
        for at in range(stop - start):
            first, last = int(offsets[at]), int(offsets[at + 1])
            if not 4 * (count + 2) <= first <= last or last - first > _MAX_SAMPLE_BYTES:
                yield IngestionError(f"it cannot lie at bytes {first:,} to {last:,}")
                continue
            try:
                found = _read(file, first, last - first, size)
            except IngestionError as error:
                yield error
                continue
            yield found


def lost(item: Item, number: int, error: Exception) -> Iterator[Skipped]:
    """Yield what is left out in place of samples from a number on, which cannot be read since the shard is damaged."""
    count = item.stop - number
    if count > _MOST_COUNTED:
        yield Skipped(str(item), f"{count:,} samples are lost, since the shard is damaged: {error}")
        return
    for at in range(number, item.stop):
        yield Skipped(f"{item.shard.name}: sample {at:,}", f"the shard is damaged: {error}")


def parts_of(data: bytes, sizes: Sequence[int | None]) -> list[bytes]:
    """Return the values of a sample: sizes that are None stand before all values, as uint32.

    Raises
    ------
    IngestionError
        If the values are longer or shorter than the sample.
    """
    told = sum(size is None for size in sizes)
    if 4 * told > len(data):
        raise IngestionError(f"the sample of {len(data):,} bytes is cut short")
    varying = iter(np.frombuffer(data, "<u4", told).tolist())
    at, found = 4 * told, []
    for size in sizes:
        length = next(varying) if size is None else size
        found.append(data[at : at + length])
        at += length
    if at != len(data):
        raise IngestionError(f"its values take {at:,} bytes, and the sample has {len(data):,}")
    return found


@contextmanager
def _opened(source: Source, shard: Shard) -> Iterator[tuple[BinaryIO, int]]:
    """Open what a shard unpacks to, once its hashes are verified; tell how long it is."""
    if not shard.compression:
        if shard.hashes:
            with source.open(shard.name) as file:
                _verify(shard.hashes, iter(lambda: file.read(_BLOCK_BYTES), b""))
        with source.open(shard.name) as file:
            yield file, source.files[shard.name]
        return
    packed = source.read(shard.name)
    _verify(shard.hashes, [packed])
    data = unpacked(packed, shard.compression, shard.nbytes)
    _verify(shard.unpacked_hashes, [data])
    yield io.BytesIO(data), len(data)


def unpacked(packed: bytes, compression: str, limit: int) -> bytes:
    """Return what a compressed shard unpacks to.

    Raises
    ------
    IngestionError
        If it is damaged, or longer than the limit.
    """
    import pyarrow as pa

    if compression == "snappy":  # without the frames that PyArrow would read as a stream
        return unsnapped(packed, limit)
    try:
        out = io.BytesIO()
        with pa.CompressedInputStream(pa.BufferReader(packed), COMPRESSIONS[compression]) as stream:
            while block := stream.read(_BLOCK_BYTES):
                out.write(block)
                if out.tell() > limit:
                    raise IngestionError(f"it unpacks to more than the {limit:,} bytes that the index says")
        return out.getvalue()
    except (pa.ArrowException, OSError) as error:
        raise IngestionError(f"it cannot be unpacked: {error}") from error


def _read(file: BinaryIO, start: int, count: int, size: int) -> bytes:
    if start + count > size:
        raise IngestionError(f"it ends at byte {size:,}, and bytes up to {start + count:,} were expected")
    if file.tell() != start:
        file.seek(start)
    found = file.read(count)
    if len(found) != count:
        raise IngestionError(
            f"it ends at byte {start + len(found):,}, and bytes up to {start + count:,} were expected"
        )
    return found


def _verify(hashes: Sequence[tuple[str, str]], blocks: Any) -> None:
    if not hashes:
        return
    made = [_hasher(algorithm) for algorithm, _ in hashes]
    hashers = [make() for make in made if make is not None]
    for block in blocks:
        for hasher in hashers:
            hasher.update(block)
    for (algorithm, digest), hasher in zip(hashes, hashers, strict=True):
        if hasher.hexdigest() != digest:
            raise IngestionError(f"its {algorithm} is {hasher.hexdigest()}, and {digest} in the index")


def _hasher(algorithm: str) -> Callable[[], Any] | None:
    import xxhash

    if algorithm in xxhash.algorithms_available:
        found: Callable[[], Any] = getattr(xxhash, algorithm)
        return found
    if algorithm in hashlib.algorithms_available and not algorithm.startswith("shake_"):
        return lambda: hashlib.new(algorithm, usedforsecurity=False)
    return None


# -- values that both formats have ----------------------------------------------------------------------------------

# Mode of Pillow -> (dtype, channels; 0 for an array without a last axis).
_MODES: Mapping[str, tuple[str, int]] = {
    "1": ("bool", 0),
    "L": ("uint8", 0),
    "P": ("uint8", 0),
    "LA": ("uint8", 2),
    "PA": ("uint8", 2),
    "RGB": ("uint8", 3),
    "RGBA": ("uint8", 4),
    "RGBX": ("uint8", 4),
    "RGBa": ("uint8", 4),
    "La": ("uint8", 2),
    "CMYK": ("uint8", 4),
    "YCbCr": ("uint8", 3),
    "LAB": ("uint8", 3),
    "HSV": ("uint8", 3),
    "I": ("<i4", 0),
    "F": ("<f4", 0),
    "I;16": ("<u2", 0),
    "I;16L": ("<u2", 0),
    "I;16B": (">u2", 0),
}
PLAIN_MODES = frozenset({"L", "LA", "RGB", "RGBA"})
"""Modes whose pixels an image of the usual kinds holds."""


def mode_of(data: bytes) -> str:
    """Return the mode of a raw image of Pillow.

    Raises
    ------
    IngestionError
        If it has none.
    """
    length = int.from_bytes(data[8:12], "little")
    if len(data) < 12 or length > 8 or data[12 : 12 + length].decode("ascii", "replace") not in _MODES:
        raise IngestionError("it is no raw image of a known mode")
    return data[12 : 12 + length].decode()


def pixels_of(data: bytes) -> NDArray[Any]:
    """Return the pixels of a raw image: width, height, length of the mode (uint32), the mode, bytes.

    Raises
    ------
    IngestionError
        If it is damaged.
    """
    mode = mode_of(data)
    width, height = np.frombuffer(data, "<u4", 2).tolist()
    raw = memoryview(data)[12 + len(mode) :]
    dtype, channels = _MODES[mode]
    across = (width + 7) // 8 if mode == "1" else width * max(1, channels) * np.dtype(dtype).itemsize
    if across * height != len(raw):
        raise IngestionError(f"{width:,} x {height:,} pixels of mode {mode} are not {len(raw):,} bytes")
    if mode == "1":
        bits = np.unpackbits(np.frombuffer(raw, np.uint8).reshape(height, across), axis=1)
        return bits[:, :width].astype(bool)
    pixels = np.frombuffer(raw, dtype).reshape((height, width, channels) if channels else (height, width))
    return pixels.astype(pixels.dtype.newbyteorder("="), copy=False)


def list_of(data: bytes, first: int = 0) -> list[bytes]:
    """Return the elements of a list: how many (uint32), their sizes, the elements.

    Parameters
    ----------
    first
        Bytes that stand before it.

    Raises
    ------
    IngestionError
        If they are longer or shorter than the list.
    """
    count = int.from_bytes(data[first : first + 4], "little")
    if len(data) < first + 4 or 4 * count > len(data) - first - 4:
        raise IngestionError(f"a list of {count:,} elements is not {len(data):,} bytes long")
    return parts_of(data[first + 4 :], [None] * count)
