r"""LitData: ``index.json`` and chunks, whose samples are trees of values; the index has their formats.

    index.json            {"chunks": [{"filename", "chunk_size", "chunk_bytes", "dim"}, ...], "config": {"data_format":
                          ["int", "jpeg", ...], "data_spec": the tree, "compression", ...}}
    chunk-0-0.bin         table of offsets, samples: sizes of all values, values
    train/index.json ...  splits are folders

Chunks are compressed as a whole, in frames of some samples (below), or sample by sample. Pickles stay as bytes. The
package `litdata` is not used: it needs PyTorch, and loads pickles.

    8     LDFZ01\0\0
    16    version (1), flags, uint16; number of samples n, samples per frame, number of frames m, uint32
    4n+4  offsets of the samples in the decompressed frames
    24m   first sample, number of samples, uint32; offset of the frame in the file, uint64; size, size when
          decompressed, uint32
    ...   frames of Zstandard
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError
from lakebed.importers.core.contents import PICKLED, Content, KindOptions, Planning
from lakebed.importers.core.packages import damaged
from lakebed.importers.core.plan import Plan, Problem, told_first
from lakebed.importers.core.source import Source
from lakebed.importers.shards.litdata_objects import MAX_DEPTH, nested
from lakebed.importers.shards.sample_shards import (
    FAILURES,
    INDEX,
    Item,
    Shard,
    checked,
    count_of,
    first_index,
    folders_of,
    index_of,
    inside,
    looked_at,
    parts_of,
    plan_of,
    rows_of,
    samples,
    shards_of,
    split_of,
    unpacked,
)
from lakebed.importers.shards.sample_values import Kind, number_of, tensor_for, value_for

_NUMBERS: Mapping[str, str] = {"int": "int64", "float": "float64", "bool": "bool"}
# Names of dtypes in the order of their numbers in PyTorch; bfloat16 becomes float32.
_TORCH = (
    "float32 float32 float64 float64 complex64 complex64 complex128 complex128 float16 float16 bfloat16 uint8 int8 "
    "int16 int16 int32 int32 int64 int64 bool uint16"
).split()
_NUMPY = (
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bool"
).split()
_ARRAYS: Mapping[str, Sequence[str]] = {
    "tensor": _TORCH,
    "no_header_tensor": _TORCH,
    "numpy": _NUMPY,
    "no_header_numpy": _NUMPY,
}
# Format of files -> (kind, compression to assume if no file is read).
_FILES: Mapping[str, tuple[str | None, str | None]] = {
    "jpeg": ("image", "jpeg"),
    "image": ("image", "png"),
    "tifffile": ("image", "tiff"),
    "audio": ("audio", None),
    "video": ("video", None),
    **dict.fromkeys(("file", "bytes", "nifti", "mesh"), (None, None)),
}
_MAX_VALUES = 10_000
_MAX_AXES = 32


@dataclass(frozen=True)
class _Value:
    """One value of each sample: its tensor, how samples store it, and the content of its files."""

    tensor: str
    kind: Kind
    content: Content | None = None


@dataclass(frozen=True)
class _Context:
    """Data that all workers need."""

    source: Source
    values: Sequence[_Value]
    is_bare: bool
    by_sample: bool


def recognise(source: Source) -> str | None:
    """Describe the first index for messages, such as "LitData of 12 chunks"; None if it is not an index of LitData."""
    index, where = first_index(source)
    chunks, config = index.get("chunks"), index.get("config")
    if isinstance(chunks, list) and isinstance(config, Mapping) and "data_format" in config:
        return f"LitData of {len(chunks):,} chunks{where}"
    return None


def plan(source: Source, *, splits: bool = True, **options: Unpack[KindOptions]) -> Plan:
    """Plan a tensor for each value of samples, and a split for each folder with an index.

    Parameters
    ----------
    source
        The folder of the index, or the folder above the folders of the splits.
    splits
        Make a split of each folder.
    options
        Options of columns, which the values of samples are.
    """
    planning = Planning.of(source, [], **options)
    problems = planning.problems
    config, shards = _indexes(source, problems, splits=splits)
    count = sum(map(len, shards.values()))
    if not count:
        raise IngestionError(f"{source.shown} has no chunks of LitData{told_first(problems)}")
    formats = [str(one) for one in config["data_format"]]
    names = _names(config.get("data_spec"), len(formats))
    planning.check(names, "value")
    by_sample = config.get("compression_level") == "sample"
    read = partial(_samples, by_sample=by_sample)
    seen = [sample for of in shards.values() for _, sample in looked_at(source, of, read)]
    is_bare = len(formats) == 1 and formats[0].startswith("no_header_") and _are_bare(seen, config)
    values: list[_Value] = []
    for name, format_of, some in zip(names, formats, _some(seen, len(formats), is_bare=is_bare), strict=True):
        called, info = planning.named(name, "value")
        kind = _kind_for(name, format_of, some, problems)
        content, made = tensor_for(called, name, kind, some, planning, info=info)
        if format_of in ("nifti", "mesh") and content == Content():
            problems.append(Problem(name, f"{format_of} files are stored as bytes", 0))
        values.append(_Value(called, kind, content))
        planning.tensors.append(made)
    told = {name: [of, one.tensor] for name, of, one in zip(names, formats, values, strict=True)}
    return plan_of(
        f"LitData of {count:,} chunks",
        shards,
        planning,
        _Context(source, values, is_bare, by_sample),
        {"chunks": count, "values": told},
    )


def rows(item: Item, context: _Context) -> Iterator[Any]:
    """Yield the rows of some samples of a chunk."""
    found = _samples(context.source, item.shard, item.start, item.stop, by_sample=context.by_sample)
    return rows_of(item, found, partial(_row, context=context))


def _row(sample: bytes, context: _Context) -> dict[str, Any]:
    row = {}
    parts = _parts(sample, len(context.values), is_bare=context.is_bare)
    for value, data in zip(context.values, parts, strict=True):
        try:
            row[value.tensor] = value_for(data, value.kind, value.content)
        except FAILURES as error:
            raise IngestionError(f"{value.tensor}: {error}") from error
    return row


# -- indexes ------------------------------------------------------------------------------------------------------


def _indexes(
    source: Source, problems: list[Problem], *, splits: bool
) -> tuple[Mapping[str, Any], dict[str, list[Shard]]]:
    """Return the configuration of the first index, and the chunks of each split."""
    config: Mapping[str, Any] = {}
    shards: dict[str, list[Shard]] = {}
    for folder in folders_of(source):
        where = inside(folder, INDEX)
        index = index_of(source, folder) or {}
        found, chunks = index.get("config"), index.get("chunks")
        told: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
        formats = told.get("data_format")
        if not (isinstance(chunks, list) and isinstance(formats, list) and 0 < len(formats) <= _MAX_VALUES):
            problems.append(Problem(where, "it is not an index of LitData", 0))
            continue
        if config and any(told.get(key) != config.get(key) for key in ("data_format", "data_spec")):
            reason = "its samples differ from those of the index before: import it alone"
            problems.append(Problem(where, reason, 0))
            continue
        config = config or told
        split = split_of(folder) if splits and folder else ""
        shards.setdefault(split, []).extend(_shards(chunks, told, folder, source, problems))
    return config, shards


def _shards(
    chunks: Sequence[Any], config: Mapping[str, Any], folder: str, source: Source, problems: list[Problem]
) -> Iterator[Shard]:
    """Yield the chunks of an index; damaged and missing ones are reported."""
    where = inside(folder, INDEX)
    if config.get("encryption"):
        raise IngestionError(f"{where} of {source.shown} has encrypted chunks, which cannot be read")
    if config.get("item_loader") == "ParquetLoader":
        raise IngestionError(f"{where} of {source.shown} names Parquet files: import these as parquet")
    whole = str(config.get("compression") or "").partition(":")[0]
    if config.get("compression_level") not in (None, "", "chunk"):
        whole = ""

    def read(told: Any) -> Shard:
        filename = told.get("filename") if isinstance(told, Mapping) else None
        if not isinstance(filename, str):
            raise IngestionError("it names no file")
        name = source.find(inside(folder, filename))
        count = count_of(told.get("chunk_size"), "the number of samples")
        size, compression = source.files[name], ""
        if whole and f".{whole}" in filename:
            size = count_of(told.get("chunk_bytes"), "the number of bytes") + 4 * (count + 2)
            compression = whole
        return checked(Shard(name, count, size, compression), source, problems)

    return shards_of(chunks, "chunk", "chunk_size", folder, problems, read)


def _names(told: Any, count: int) -> list[str]:
    """Return the names of values: paths in the tree, such as ``image`` or ``boxes/0``.

    Raises
    ------
    IngestionError
        If the tree does not have `count` values.
    """
    errors = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)
    with damaged("the index has no tree of values", *errors):
        spec = json.loads(told)[1] if isinstance(told, str) else None
        found = list(_leaves(spec, "", MAX_DEPTH))
    if len(found) != count:
        raise IngestionError(f"the index has a tree of {len(found):,} values, but {count:,} formats")
    names: list[str] = []
    for path in found:
        name = path or "sample"
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def _leaves(spec: Any, path: str, depth: int) -> Iterator[str]:
    if depth == 0:
        raise ValueError("it is nested too deeply")
    if spec["type"] is None:
        yield path
        return
    context = spec["context"]
    context = json.loads(context) if isinstance(context, str) else context
    children = spec["children_spec"]
    keys: list[Any] = context if isinstance(context, list) and len(context) == len(children) else []
    for at, child in enumerate(children):
        key = str(keys[at]) if keys else f"value_{at}" if not path else str(at)
        yield from _leaves(child, inside(path, key), depth - 1)


# -- samples ------------------------------------------------------------------------------------------------------

_MAGIC = b"LDFZ01\0\0"
_HEAD = struct.Struct("<8sHHIII")
_FRAME = struct.Struct("<IIQII")
_MAX_FRAME_BYTES = 1 << 30


def _samples(
    source: Source, shard: Shard, start: int, stop: int, *, by_sample: bool
) -> Iterator[bytes | IngestionError]:
    """Yield samples of a chunk with any kind of compression."""
    if not shard.compression:
        head = source.start_of(shard.name, _HEAD.size)
        if head.startswith(b"ARROW1"):
            raise IngestionError("it is an Arrow file of another version of LitData, which cannot be read")
        if head.startswith(_MAGIC):
            yield from _framed(source, shard, start, min(stop, shard.samples))
            return
    for found in samples(source, shard, start, stop):
        if by_sample and isinstance(found, bytes):
            try:
                yield unpacked(found, "zstd", _MAX_FRAME_BYTES)
            except IngestionError as error:
                yield error
        else:
            yield found


def _framed(source: Source, shard: Shard, start: int, stop: int) -> Iterator[bytes | IngestionError]:
    """Yield samples of a chunk that is compressed in frames."""
    size = source.files[shard.name]
    with source.open(shard.name) as file:
        _, version, _, count, _, frames = _HEAD.unpack(file.read(_HEAD.size))
        ahead = _HEAD.size + 4 * (count + 1) + _FRAME.size * frames
        if version != 1 or count != shard.samples or ahead > size:
            raise IngestionError(
                f"its header does not fit it: {count:,} samples in {frames:,} frames of version {version}"
            )
        offsets = np.frombuffer(file.read(4 * (count + 1)), "<u4").tolist()
        table = [_FRAME.unpack(file.read(_FRAME.size)) for _ in range(frames)]
        at = start
        for first, number, where, length, unpacked_length in table:
            end = first + number
            if at >= stop:
                return
            if end <= at:
                continue
            if first > at or end > count or where + length > size or unpacked_length > _MAX_FRAME_BYTES:
                raise IngestionError(
                    f"the frame of samples {first:,} to {end:,} has an impossible place or size"
                )
            file.seek(where)
            end = min(stop, end)
            try:
                data = unpacked(file.read(length), "zstd", unpacked_length)
            except IngestionError as error:
                yield from [error] * (end - at)
            else:
                for begin, last in zip(offsets[at:end], offsets[at + 1 : end + 1], strict=True):
                    inner = begin - offsets[first], last - offsets[first]
                    if 0 <= inner[0] <= inner[1] <= len(data):
                        yield data[slice(*inner)]
                    else:
                        yield IngestionError(
                            f"it cannot lie at bytes {inner[0]:,} to {inner[1]:,} of its frame"
                        )
            at = end
        if at < stop:
            raise IngestionError("its frames do not cover all of its samples")


def _parts(data: bytes, count: int, *, is_bare: bool) -> list[bytes]:
    return [data] if is_bare else parts_of(data, [None] * count)


def _are_bare(seen: Sequence[bytes], config: Mapping[str, Any]) -> bool:
    """Return whether each sample is a single array without its size before it, as samples of tokens are."""
    if not seen:
        return config.get("item_loader") != "PyTreeLoader"
    return any(int.from_bytes(sample[:4], "little") != len(sample) - 4 for sample in seen)


def _some(seen: Sequence[bytes], count: int, *, is_bare: bool) -> list[list[bytes]]:
    """Return, for each value of a sample, its bytes in some samples."""
    values: list[list[bytes]] = [[] for _ in range(count)]
    for sample in seen:
        try:
            parts = _parts(sample, count, is_bare=is_bare)
        except IngestionError:
            continue  # the error is reported when the row is made
        for of, value in zip(values, parts, strict=True):
            of.append(value)
    return values


# -- values -------------------------------------------------------------------------------------------------------


def _kind_for(name: str, format_of: str, seen: Sequence[bytes], problems: list[Problem]) -> Kind:
    """Return the `Kind` that describes how values of a format are stored."""
    kind, _, suffix = format_of.partition(":")
    if kind in _NUMBERS:
        return Kind("number", partial(number_of, dtype=_NUMBERS[kind]), _NUMBERS[kind])
    if kind in ("str", "text"):
        return Kind("text")
    if kind == "json":
        return Kind("json", nested)
    if kind in _ARRAYS:
        dtype = _dtype_of(kind, suffix, seen)
        if dtype == "bfloat16":
            reason = "bfloat16 is stored as float32, in which each number is the same"
            problems.append(Problem(name, reason, 0))
            dtype = "float32"
        return Kind("array", partial(_array, kind=kind, suffix=suffix), dtype)
    if kind == "pil":
        return Kind("pixels")
    if kind == "jpeg_array":
        return Kind(htype="image", supposed="jpeg", first=0)
    if kind in _FILES:
        htype, supposed = _FILES[kind]
        return Kind(htype=htype, supposed=supposed)
    why = PICKLED if "pickle" in (kind, suffix) else "the format is unknown"
    return Kind(unknown=f"{format_of}: {why}")


def _dtype_of(kind: str, suffix: str, seen: Sequence[bytes]) -> str | None:
    names = _ARRAYS[kind]
    if kind.startswith("no_header"):
        return names[int(suffix)] if suffix.isdecimal() and int(suffix) < len(names) else None
    dtypes: set[str] = set()
    for value in seen:
        try:
            dtypes.add(names[_head(value, names)[0]])
        except FAILURES:
            continue
    return dtypes.pop() if len(dtypes) == 1 else None


def _head(data: bytes, names: Sequence[str]) -> tuple[int, list[int]]:
    """Return the number of an array's dtype, and its shape.

    All numbers are uint32: the dtype, the number of axes, the shape. Newer versions of LitData write the numbers of
    tensors in big-endian order.
    """
    for order in "<>":
        number, axes = struct.unpack_from(f"{order}II", data)
        if number >= len(names) or axes > _MAX_AXES:
            continue
        shape = list(struct.unpack_from(f"{order}{axes}I", data, 8))
        if prod(shape) * _stored(names[number]).itemsize == len(data) - 8 - 4 * axes:
            return number, shape
    raise IngestionError("it is not an array: its dtype and shape do not fit its bytes")


def _stored(name: str) -> np.dtype[Any]:
    return np.dtype("<u2" if name == "bfloat16" else name).newbyteorder("<")


def _array(data: bytes, kind: str, suffix: str) -> NDArray[Any]:
    """Return an array: its bytes begin with dtype and shape, except for formats without a header, of one axis."""
    names = _ARRAYS[kind]
    at, shape = 0, [-1]
    number = int(suffix) if suffix.isdecimal() else len(names)
    if not kind.startswith("no_header"):
        number, shape = _head(data, names)
        at = 8 + 4 * len(shape)
    if number >= len(names):
        raise IngestionError(f"the dtype {suffix!r} is unknown: objects and texts are not read")
    found: NDArray[Any] = np.frombuffer(data, _stored(names[number]), offset=at).reshape(shape)
    if names[number] == "bfloat16":
        return (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(found.dtype.newbyteorder("="), copy=False)
