"""MosaicML MDS: shards of about 64 MB with a column for each tensor, which ``streaming.StreamingDataset`` reads.

    DEST/index.json                  DEST/train/index.json where there are splits
    DEST/shard.00000.mds             DEST/train/shard.00000.mds; .zstd and so on if shards are compressed

Each index describes the tensors (htypes, info, nulls) under a key that the library ignores::

    "lakebed": {"version": 1, "tensors": {"boxes": {"htype": "bbox", ..., "column": {"kind": "npy", ...}}}}

The format has no nulls: columns with nulls are JSON, or bytes, where an empty value is the null.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.dataset.described import KEY, Described
from lakebed.errors import ExportError, LakebedError
from lakebed.exporters.core.media import (
    as_json,
    extents,
    file_of,
    files_of,
    is_drawn,
    is_empty,
    is_null,
    links_followed,
)
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, chosen_tensors
from lakebed.htypes.base import Storing

if TYPE_CHECKING:
    import lakebed
    from lakebed.exporters.core.target import Target

_DTYPES = frozenset(
    f"{kind}{bits}"
    for kind in ("uint", "int", "float")
    for bits in (8, 16, 32, 64)
    if kind + str(bits) != "float8"
)
_COMPRESSIONS = {"zstd": "zstd", "gz": "gzip", "bz2": "bz2", "br": "brotli", "snappy": "snappy"}

_SHARD_BYTES = 1 << 26
_MAX_SHARD_BYTES = (1 << 32) - 1  # offsets are uint32
_MAX_SAMPLE_BYTES = 1 << 30
_MAX_AXES = 63


@dataclass(frozen=True)
class _Field:
    """A column: its encoding, its size if fixed, and the descriptions of its values and of its tensor."""

    encoding: str
    size: int | None = None
    told: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Context:
    """Data that all writers of an export share."""

    fields: Mapping[str, _Field]
    rows: int
    size: int
    compression: str | None
    hashes: tuple[str, ...]

    def config(self) -> dict[str, Any]:
        """Return the description of the columns for the index and each shard."""
        return {
            "version": 2,
            "format": "mds",
            "compression": self.compression,
            "hashes": list(self.hashes),
            "size_limit": self.size,
            "column_names": list(self.fields),
            "column_encodings": [one.encoding for one in self.fields.values()],
            "column_sizes": [one.size for one in self.fields.values()],
        }


def plan(
    ds: lakebed.Dataset,
    *,
    tensors: Sequence[str] = (),
    rows: int = 10_000,
    size: int = _SHARD_BYTES,
    compression: str | None = None,
    hashes: Sequence[str] = (),
) -> ExportPlan:
    """Plan a column for each tensor.

    Parameters
    ----------
    ds
        The dataset.
    tensors
        Tensors that are written; left out, all but ``split``.
    rows
        Maximum number of samples in a shard.
    size
        Maximum size of a shard in bytes, before compression; a larger sample gets a shard of its own.
    compression
        Compression of shards: zstd, gz, bz2, br or snappy; left out, none.
    hashes
        Hashes of shards for the index: sha1, md5, sha256, xxh64, ...
    """
    if rows < 1 or not 1 <= size <= _MAX_SHARD_BYTES:
        raise ExportError(
            f"a shard must have at least one row and one byte, and less than 4 GiB, not {rows} and {size}"
        )
    if compression is not None and compression not in _COMPRESSIONS:
        raise ExportError(f"the compression {compression!r} is not one of {', '.join(_COMPRESSIONS)}")
    for name in hashes:
        _digest(name, b"")
    chosen = sorted(chosen_tensors(ds, tensors, [name for name in ds.tensors if name != "split"]))
    problems: list[tuple[str, str]] = []
    fields = {name: _field(name, ds[name], problems) for name in chosen}
    context = _Context(fields, rows, size, compression, tuple(sorted(set(hashes))))
    return ExportPlan(
        f"{ds.min_len:,} samples of {len(chosen)} columns",
        {
            one.encoding: ", ".join(n for n in fields if fields[n].encoding == one.encoding)
            for one in fields.values()
        },
        context,
        piece_rows=rows,
        problems=problems,
    )


def write(view: lakebed.Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Write the shards of some rows."""
    done = Written(result=[])
    held: list[bytes] = []
    nbytes = 0
    for sample in done.each(view, piece, lambda row, _: _sample(row, context)):
        if held and nbytes + len(sample) > context.size:
            done.result.append(_shard(held, piece, len(done.result), context, target))
            held, nbytes = [], 0
        held.append(sample)
        nbytes += len(sample)
    if held:
        done.result.append(_shard(held, piece, len(done.result), context, target))
    return done


def finish(results: Sequence[Any], context: _Context, target: Target) -> None:
    """Write the index of each split, with the descriptions of the tensors."""
    indexes: dict[str, list[Any]] = {}
    for piece, shards in results:
        indexes.setdefault(piece.split, []).extend(shards)
    told = {"version": 1, "tensors": {name: one.described for name, one in context.fields.items()}}
    for split, shards in (indexes or {"": []}).items():
        index = json.dumps({"version": 2, "shards": shards, KEY: told}, sort_keys=True).encode()
        target.write(f"{split}/index.json" if split else "index.json", index)


# -- columns ------------------------------------------------------------------------------------------------------


def _field(name: str, tensor: lakebed.Tensor, problems: list[tuple[str, str]]) -> _Field:
    """Return the column of a tensor, with the description of the tensor."""
    said = Described.of(tensor)
    column = _column(name, tensor, said, problems)
    if tensor.is_link:
        problems.append(links_followed(name))
    has_files = column.encoding in ("jpeg", "png", "list[jpeg]", "list[png]")
    is_kept = has_files or column.told.get("kind") == "file"
    if said.is_chunked_file or (said.is_file and not is_kept):
        said = said.decoded()
    more = {"shape": extents(tensor), **({"column": dict(column.told)} if column.told else {})}
    return replace(column, described=replace(said, more=more).to_dict())


def _column(name: str, tensor: lakebed.Tensor, said: Described, problems: list[tuple[str, str]]) -> _Field:
    """Return the column of a tensor."""
    is_file = said.is_file or tensor.is_link
    mask = tensor.null_mask()
    nulls = 0 if mask is None else int(np.asarray(mask).sum())
    kind = said.sample_compression if is_file else None
    if said.is_sequence:
        if is_file and said.base.startswith("image") and kind in ("jpeg", "png"):
            if nulls:
                problems.append((name, "nulls are written as empty lists"))
            return _Field(f"list[{kind}]")
        return _Field("json")
    if is_file or is_drawn(tensor, said):
        is_whole = not nulls and 0 not in tensor.meta.min_shape  # nulls and empty samples are not files
        if said.base.startswith("image") and is_whole and kind in ("jpeg", "png", None):
            return _Field(kind or "png")
        return _Field("bytes", told={"kind": "file", "htype": said.base, "compression": kind or "png"})
    if said.storing is Storing.TEXT:
        return _Field("json", told={"kind": "text"}) if nulls else _Field("str")
    return _numbers(tensor, nulls) if said.storing is Storing.ARRAY else _Field("json")


def _numbers(tensor: lakebed.Tensor, nulls: int) -> _Field:
    """Return the column of numbers: one for each row, or arrays."""
    dtype = np.dtype(tensor.dtype or "float64").name
    stored = "uint8" if dtype == "bool" else dtype
    lower, upper = (tuple(end)[1:] for end in (tensor.shape_interval.lower, tensor.shape_interval.upper))
    longest = [int(length or 0) for length in upper]
    is_single = len(longest) <= 1 and max(longest, default=1) <= 1
    if nulls and is_single and stored in _DTYPES:
        empty = sum(0 in shape for shape in np.asarray(tensor.shapes()).tolist())
        if empty == nulls:
            return _Field("json", told={"kind": "number", "dtype": dtype})
    if nulls or stored not in _DTYPES:
        return _Field("bytes", told={"kind": "npy", "dtype": dtype})
    told = {"dtype": dtype} if dtype == "bool" else {}
    width = np.dtype(stored).itemsize
    if lower == upper and longest and min(longest) > 0:
        if is_single:
            return _Field(stored, width, told)
        return _Field(f"ndarray:{stored}:{','.join(map(str, longest))}", width * prod(longest), told)
    return _Field(f"ndarray:{stored}", told=told)


# -- samples ------------------------------------------------------------------------------------------------------


def _sample(row: lakebed.Dataset, context: _Context) -> bytes:
    """Return a sample: the sizes that vary, and the values.

    Raises
    ------
    ExportError
        If a value does not fit its column.
    """
    values: list[bytes] = []
    sizes: list[int] = []
    for name, one in context.fields.items():
        try:
            data = _value(row[name], one)
        except (LakebedError, ValueError, TypeError, OverflowError) as error:
            raise ExportError(f"{name}: {error}") from error
        if one.size is None:
            sizes.append(len(data))
        elif len(data) != one.size:
            raise ExportError(
                f"{name} has {len(data):,} bytes, but each value of {one.encoding} has {one.size:,}"
            )
        values.append(data)
    if sum(map(len, values)) > _MAX_SAMPLE_BYTES:
        raise ExportError(f"the sample is larger than {_MAX_SAMPLE_BYTES:,} bytes")
    return b"".join((np.array(sizes, "<u4").tobytes(), *values))


def _value(tensor: lakebed.Tensor, one: _Field) -> bytes:
    kind, encoding = one.told.get("kind"), one.encoding
    if encoding.startswith("list["):
        files = files_of(tensor)
        return b"".join((np.array([0, len(files), *map(len, files)], "<u4").tobytes(), *files))
    if encoding in ("jpeg", "png") or kind == "file":
        if is_empty(tensor):
            if kind == "file":
                return b""
            raise ExportError("a file needs at least one pixel or sample, but the value is empty")
        return bytes(file_of(tensor))
    if encoding == "str":
        return str(tensor.text()).encode()
    if encoding == "json":
        return json.dumps(None if is_null(tensor) else _document(tensor, kind), ensure_ascii=False).encode()
    if kind == "npy":
        content = io.BytesIO()
        if not is_null(tensor):
            np.save(content, tensor.numpy(), allow_pickle=False)
        return content.getvalue()
    return _array(np.asarray(tensor.numpy()), encoding)


def _document(tensor: lakebed.Tensor, kind: Any) -> Any:
    if kind == "text":
        return str(tensor.text())
    if kind == "number":
        return tensor.numpy().ravel()[0].item()
    return as_json(next(tensor.values()))


def _array(array: Any, encoding: str) -> bytes:
    """Return the bytes of an array, which begin with its shape unless the encoding contains the shape."""
    dtype = encoding.split(":")[1] if ":" in encoding else encoding
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if array.dtype != dtype:
        raise ExportError(f"an array has the dtype {array.dtype}, but its column has {dtype}")
    data: bytes = np.ascontiguousarray(array).astype(np.dtype(dtype).newbyteorder("<"), copy=False).tobytes()
    if encoding != f"ndarray:{dtype}":
        return data
    if not 1 <= array.ndim <= _MAX_AXES:
        raise ExportError(f"an array must have 1 to {_MAX_AXES} axes, not {array.ndim}")
    longest = max(array.shape)
    power = next(power for power in range(4) if longest < 1 << (8 << power))
    shape = np.array(array.shape, f"<u{1 << power}").tobytes()
    return bytes([array.ndim << 2 | power]) + shape + data


# -- shards -------------------------------------------------------------------------------------------------------


def _shard(
    held: Sequence[bytes], piece: Piece, number: int, context: _Context, target: Target
) -> dict[str, Any]:
    """Write a shard; return its entry in the index."""
    config = context.config()
    told = json.dumps(config, sort_keys=True).encode()
    offsets = np.cumsum([4 * (len(held) + 2) + len(told), *map(len, held)], dtype=np.uint64)
    if int(offsets[-1]) > _MAX_SHARD_BYTES:
        raise ExportError("a shard is larger than 4 GiB: choose a smaller size=... (--size)")
    table = np.array([len(held), *offsets.tolist()], "<u4").tobytes()
    data = b"".join((table, told, *held))
    first = f"{piece.first // context.rows:05d}"
    name = f"shard.{first}.mds" if number == 0 else f"shard.{first}-{number}.mds"
    raw = _told_of(name, data, context)
    packed = None
    if context.compression is not None:
        data = _packed(data, context.compression)
        packed = _told_of(f"{name}.{context.compression}", data, context)
    written = (packed or raw)["basename"]
    target.write(f"{piece.split}/{written}" if piece.split else written, data)
    return {**config, "samples": len(held), "raw_data": raw, "zip_data": packed}


def _told_of(name: str, data: bytes, context: _Context) -> dict[str, Any]:
    hashes = {algorithm: _digest(algorithm, data) for algorithm in context.hashes}
    return {"basename": name, "bytes": len(data), "hashes": hashes}


def _packed(data: bytes, compression: str) -> bytes:
    import pyarrow as pa

    if compression == "bz2":
        return bz2.compress(data)
    packed: bytes = pa.compress(data, codec=_COMPRESSIONS[compression], asbytes=True)
    return packed


def _digest(algorithm: str, data: bytes) -> str:
    import xxhash

    if algorithm in xxhash.algorithms_available:
        return str(getattr(xxhash, algorithm)(data).hexdigest())
    if algorithm in hashlib.algorithms_available and not algorithm.startswith("shake_"):
        return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
    raise ExportError(
        f"the hash {algorithm!r} is unknown; sha1, sha256, md5, xxh64, xxh3_128 and others are known"
    )
