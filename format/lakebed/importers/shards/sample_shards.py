"""Shards of samples behind a table of offsets, the layout that MosaicML's MDS and chunks of LitData share.

    4            number of samples n, uint32, little-endian
    4 * (n + 1)  offsets of the samples in the file, and end of the last sample
    ...          description, which depends on the format
    ...          samples

An ``index.json`` names the shards, and may have their hashes. A shard may be compressed as a whole.
"""

from __future__ import annotations

import hashlib
import io
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.contents import Planning
from lakebed.importers.core.packages import damaged
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Source, check_size
from lakebed.importers.core.splits import SPLITS, in_order, ranges_of
from lakebed.importers.shards.snappy import unsnapped
from lakebed.transforms.output import Skipped

INDEX = "index.json"

FAILURES = (LakebedError, ValueError, TypeError, OverflowError, struct.error)
"""Exceptions that damaged values raise."""

# Name of a compression in the index -> its name in PyArrow.
_COMPRESSIONS = {"zstd": "zstd", "gz": "gzip", "bz2": "bz2", "br": "brotli", "snappy": "snappy"}

_MAX_INDEX_BYTES = 512 << 20
_MAX_SAMPLE_BYTES = 1 << 30
_MAX_UNPACKED_BYTES = 1 << 30  # limit of the decompressed size of a shard; writers make shards of 64 MB
# Bytes that a worker reads at a time; it reads hashed and compressed shards as a whole.
_ITEM_BYTES = 32 << 20
_BLOCK_BYTES = 1 << 20
# Limit of lost samples per shard that are reported one by one, because an index may claim any number.
_MOST_COUNTED = 1 << 20
_LOOKED_AT = 8  # number of samples of a shard that decide the kinds of columns
_SHARDS_LOOKED_AT = 4


class Shard(NamedTuple):
    """A file of samples.

    Parameters
    ----------
    name
        Name of the file in the source.
    samples
        Number of samples according to the index.
    nbytes
        Size of the decompressed shard in bytes.
    compression
        Name of the compression in the index; empty if the shard is not compressed.
    hashes, unpacked_hashes
        (algorithm, digest in hex) of the file, and of its decompressed bytes.
    layout
        Number of the shard's layout, which is its list of columns.
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
    """Return the folders that have an index, the outermost ones first; "" is the source itself."""
    found = [folder for folder, names in source.folders.items() if inside(folder, INDEX) in names]
    return sorted(found, key=lambda folder: (folder.count("/") + bool(folder), folder))


def inside(folder: str, name: str) -> str:
    """Return the name of a file in a folder."""
    return f"{folder}/{name}" if folder else name


def first_index(source: Source) -> tuple[dict[str, Any], str]:
    """Return the first index, and a description of its folder; both are empty if the source has no index."""
    for folder in folders_of(source)[:1] if source.is_folder else ():
        return index_of(source, folder) or {}, f" in {folder}" if folder else ""
    return {}, ""


def index_of(source: Source, folder: str) -> dict[str, Any] | None:
    """Return the index of a folder; None if it is not a JSON object, or too large."""
    try:
        return source.json(inside(folder, INDEX), _MAX_INDEX_BYTES)
    except IngestionError:
        return None


def split_of(folder: str) -> str:
    """Return the split of a folder: ``train``, ``val`` or ``test``, or the name of the folder."""
    first = folder.partition("/")[0]
    return SPLITS.get(first.lower(), folder.replace("/", "-"))


def hashes_of(told: Any, where: str, problems: list[Problem]) -> tuple[tuple[str, str], ...]:
    """Return the hashes of a file in an index; unknown algorithms are reported."""
    found: list[tuple[str, str]] = []
    for algorithm, digest in told.items() if isinstance(told, Mapping) else ():
        if not isinstance(digest, str) or _hasher(str(algorithm)) is None:
            problems.append(Problem(where, f"the hash {algorithm} is not known here, and not verified", 0))
        else:
            found.append((str(algorithm), digest.lower()))
    return tuple(found)


def count_of(told: Any, what: str) -> int:
    """Return a count that an index states.

    Raises
    ------
    IngestionError
        If the value is not a count: an integer that is not negative.
    """
    if not isinstance(told, int) or isinstance(told, bool) or not 0 <= told < 1 << 62:
        raise IngestionError(f"{what} is {str(told)[:40]!r} in the index: a count was expected")
    return told


def shards_of(
    entries: Sequence[Any],
    what: str,
    count: str,
    folder: str,
    problems: list[Problem],
    read: Callable[[Any], Shard],
) -> Iterator[Shard]:
    """Yield the shards of the entries of an index; report entries that cannot be read.

    Parameters
    ----------
    what, count
        Name of an entry, and its key for the number of samples.
    read
        Function that returns the shard of an entry.
    """
    for number, told in enumerate(entries):
        try:
            yield read(told)
        except FAILURES as error:
            samples = told.get(count) if isinstance(told, Mapping) else None
            lost = samples if isinstance(samples, int) and 0 <= samples < 1 << 32 else 0
            problems.append(Problem(f"{inside(folder, INDEX)}: {what} {number:,}", str(error), lost))


def checked(shard: Shard, source: Source, problems: list[Problem]) -> Shard:
    """Return a shard with the size that its file really has.

    Raises
    ------
    IngestionError
        If the file is too small for its samples, or its compression is not supported.
    """
    size = source.files[shard.name]
    if shard.compression:
        if shard.compression not in _COMPRESSIONS:
            known = ", ".join(_COMPRESSIONS)
            raise IngestionError(f"the compression {shard.compression!r} is unknown: {known} are known")
        check_size("the compressed shard", max(size, shard.nbytes), _MAX_UNPACKED_BYTES)
    elif size != shard.nbytes:
        problems.append(Problem(shard.name, f"it has {size:,} bytes, and {shard.nbytes:,} in the index", 0))
        shard = shard._replace(nbytes=size)
    if 4 * (shard.samples + 2) > shard.nbytes and shard.samples:
        raise IngestionError(f"{shard.nbytes:,} bytes cannot hold the {shard.samples:,} samples in the index")
    return shard


def items_of(shard: Shard) -> Iterator[Item]:
    """Yield the parts of a shard that workers process."""
    parts = 1
    if not shard.compression and not shard.hashes:
        parts = max(1, min(shard.samples, shard.nbytes // _ITEM_BYTES))
    step = -(-shard.samples // parts)
    for start in range(0, shard.samples, max(step, 1)):
        yield Item(shard, start, min(start + step, shard.samples))


def plan_of(
    what: str,
    shards: Mapping[str, Sequence[Shard]],
    planning: Planning,
    context: Any,
    about: Mapping[str, Any],
) -> Plan:
    """Return the plan of the shards of each split."""
    items, ranges = ranges_of(
        (split, [item for shard in of for item in items_of(shard)]) for split, of in in_order(shards)
    )
    every = [shard for of in shards.values() for shard in of]
    rows = sum(shard.samples for shard in every)
    return Plan(
        f"{what} with {rows:,} samples",
        planning.tensors,
        items,
        context,
        rows=rows,
        nbytes=sum(planning.source.files[shard.name] for shard in every),
        splits=ranges,
        problems=planning.problems,
        about=dict(about),
    )


Read = Callable[[Source, Shard, int, int], Iterator[bytes | IngestionError]]


def looked_at(source: Source, shards: Sequence[Shard], read: Read) -> Iterator[tuple[Shard, bytes]]:
    """Yield some intact samples of some shards; damage is reported when rows are made."""
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
    """Yield samples of a shard, or errors in place of damaged ones.

    Raises
    ------
    IngestionError
        If the shard as a whole is damaged.
    """
    with _opened(source, shard) as (file, size):
        head = _read(file, 0, 4, size)
        count = int.from_bytes(head, "little")
        if count != shard.samples:
            raise IngestionError(f"it has {count:,} samples, but the index says {shard.samples:,}")
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


def rows_of(
    item: Item, found: Iterator[bytes | IngestionError], made: Callable[[bytes], Any]
) -> Iterator[Any]:
    """Yield the rows of samples; a damaged shard costs the rows of the samples that were not read yet."""
    number = item.start
    try:
        for sample in found:
            where = f"{item.shard.name}: sample {number:,}"
            number += 1
            try:
                if isinstance(sample, IngestionError):
                    raise sample
                row = made(sample)
            except FAILURES as error:
                yield Skipped(where, str(error))
                continue
            yield row
    except (LakebedError, OSError, struct.error) as error:
        count = item.stop - number
        if count > _MOST_COUNTED:
            yield Skipped(str(item), f"{count:,} samples are lost because the shard is damaged: {error}")
            return
        for at in range(number, item.stop):
            yield Skipped(f"{item.shard.name}: sample {at:,}", f"the shard is damaged: {error}")


def parts_of(data: bytes, sizes: Sequence[int | None]) -> list[bytes]:
    """Return the values of a sample. If a size is None, the sample contains it: uint32, before all values.

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
        raise IngestionError(f"its values take {at:,} bytes, but the sample has {len(data):,}")
    return found


@contextmanager
def _opened(source: Source, shard: Shard) -> Iterator[tuple[BinaryIO, int]]:
    """Verify and unpack a shard; return it as an open file, and its length."""
    if not shard.compression:
        if shard.hashes:
            with source.open(shard.name) as file:
                _verify(shard.hashes, iter(partial(file.read, _BLOCK_BYTES), b""))
        with source.open(shard.name) as file:
            yield file, source.files[shard.name]
        return
    packed = source.read(shard.name)
    _verify(shard.hashes, [packed])
    data = unpacked(packed, shard.compression, shard.nbytes)
    _verify(shard.unpacked_hashes, [data])
    yield io.BytesIO(data), len(data)


def unpacked(packed: bytes, compression: str, limit: int) -> bytes:
    """Unpack a shard.

    Raises
    ------
    IngestionError
        If the shard is damaged, or longer than the limit when decompressed.
    """
    import pyarrow as pa

    if compression == "snappy":  # these files are a single block, but PyArrow's stream reader expects frames
        return unsnapped(packed, limit)
    out = io.BytesIO()
    with (
        damaged("it cannot be unpacked", pa.ArrowException, OSError),
        pa.CompressedInputStream(pa.BufferReader(packed), _COMPRESSIONS[compression]) as stream,
    ):
        while block := stream.read(_BLOCK_BYTES):
            out.write(block)
            if out.tell() > limit:
                raise IngestionError(f"it unpacks to more than the {limit:,} bytes in the index")
    return out.getvalue()


def _read(file: BinaryIO, start: int, count: int, size: int) -> bytes:
    if start + count <= size:
        if file.tell() != start:
            file.seek(start)
        found = file.read(count)
        if len(found) == count:
            return found
        size = start + len(found)
    raise IngestionError(f"it ends at byte {size:,}, but bytes up to {start + count:,} were expected")


def _verify(hashes: Sequence[tuple[str, str]], blocks: Iterable[bytes]) -> None:
    hashers = [(algorithm, digest, make()) for algorithm, digest in hashes if (make := _hasher(algorithm))]
    for block in blocks if hashers else ():
        for _, _, hasher in hashers:
            hasher.update(block)
    for algorithm, digest, hasher in hashers:
        if hasher.hexdigest() != digest:
            raise IngestionError(
                f"the file does not match the index: its {algorithm} is {hasher.hexdigest()}, the index says {digest}"
            )


def _hasher(algorithm: str) -> Callable[[], Any] | None:
    import xxhash

    if algorithm in xxhash.algorithms_available:
        found: Callable[[], Any] = getattr(xxhash, algorithm)
        return found
    if algorithm in hashlib.algorithms_available and not algorithm.startswith("shake_"):
        return lambda: hashlib.new(algorithm, usedforsecurity=False)
    return None
