r"""LitData: ``index.json`` and chunks, whose samples are trees of values that the index tells the formats of.

    index.json            {"chunks": [{"filename", "chunk_size", "chunk_bytes", "dim"}, ...], "config": {"data_format":
                          ["int", "jpeg", ...], "data_spec": the tree, "compression", ...}}
    chunk-0-0.bin         table of offsets, samples: sizes of all values, values
    train/index.json ...  splits are folders

Chunks are compressed as a whole, in frames of some samples (below), or sample by sample. Pickled values stay as bytes.

    8     LDFZ01\0\0
    16    version (1), flags, uint16; samples n, samples of a frame, frames m, uint32
    4n+4  offsets of the samples in what the frames unpack to
    24m   first sample, samples, uint32; offset of the frame in the file, uint64; bytes, bytes unpacked, uint32
    ...   frames of Zstandard
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.columns import tensor_name
from lakebed.importers.core.contents import (
    PICKLED,
    Content,
    Looked,
    content_of,
    decoded,
    tensor_of,
    value_of,
)
from lakebed.importers.core.plan import Plan, Problem, TensorPlan, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import in_order, ranges_of
from lakebed.importers.shards.litdata_objects import MAX_DEPTH, nested
from lakebed.importers.shards.sample_shards import (
    PLAIN_MODES,
    Item,
    Shard,
    checked,
    count_of,
    folders_of,
    index_of,
    items_of,
    list_of,
    looked_at,
    lost,
    lost_by,
    mode_of,
    parts_of,
    pixels_of,
    samples,
    split_of,
    unpacked,
)
from lakebed.transforms.output import Skipped

_NUMBERS: Mapping[str, str] = {"int": "int64", "float": "float64", "bool": "bool"}
# Number of a dtype in a chunk -> its name; bfloat16 becomes float32.
_TORCH = (
    *("float32", "float32", "float64", "float64", "complex64", "complex64", "complex128", "complex128"),
    *(
        "float16",
        "float16",
        "bfloat16",
        "uint8",
        "int8",
        "int16",
        "int16",
        "int32",
        "int32",
        "int64",
        "int64",
    ),
    *("bool", "uint16"),
)
_NUMPY = (
    *(
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ),
    *("complex64", "complex128", "bool"),
)
_ARRAYS: Mapping[str, tuple[str, ...]] = {
    "tensor": _TORCH,
    "no_header_tensor": _TORCH,
    "numpy": _NUMPY,
    "no_header_numpy": _NUMPY,
}
_FILES: Mapping[str, str | None] = {
    "jpeg": "image",
    "image": "image",
    "tifffile": "image",
    "audio": "audio",
    "video": "video",
    "file": None,
    "bytes": None,
    "nifti": None,
    "mesh": None,
}
_SUPPOSED = {"jpeg": "jpeg", "tifffile": "tiff", "image": "png"}
_LEAST_FILES = ("nifti", "mesh")
_CHUNKS = "lz4"
_MAX_VALUES = 10_000
_MAX_AXES = 32

_FAILURES = (LakebedError, ValueError, OverflowError, struct.error)


@dataclass(frozen=True)
class _Value:
    """A value of samples: its tensor, its format, and what bytes of it are."""

    tensor: str
    format: str
    content: Content | None = None


@dataclass(frozen=True)
class _Context:
    """What workers know."""

    source: Source
    values: Sequence[_Value]
    is_bare: bool
    by_sample: bool


def recognise(source: Source) -> str | None:
    """Say how many chunks the first index names; None if there is none of LitData."""
    if not source.is_folder:
        return None
    for folder in folders_of(source)[:1]:
        index = index_of(source, folder) or {}
        chunks, config = index.get("chunks"), index.get("config")
        if isinstance(chunks, list) and isinstance(config, Mapping) and "data_format" in config:
            return f"LitData of {len(chunks):,} chunks" + (f" in {folder}" if folder else "")
    return None


def plan(
    source: Source,
    *,
    kinds: Mapping[str, str] | None = None,
    compression: str | None = None,
    splits: bool = True,
) -> Plan:
    """Plan a tensor for each value of samples, and a split for each folder with an index.

    Parameters
    ----------
    source
        The folder of the index, or the one above those of the splits.
    kinds
        What values that are bytes hold, where the first samples do not tell it: photo=image, note=text; image, audio,
        video, dicom, array, json, text or bytes.
    compression
        Kind of file that tensors of images store.
    splits
        Whether folders are splits.
    """
    wishes = dict(kinds or {})
    problems: list[Problem] = []
    config: Mapping[str, Any] = {}
    shards: dict[str, list[Shard]] = {}
    for folder in folders_of(source):
        where = f"{folder}/index.json" if folder else "index.json"
        found = _checked(index_of(source, folder))
        if found is None:
            problems.append(Problem(where, "it is no index of LitData", 0))
            continue
        told, chunks = found
        if config and any(told.get(key) != config.get(key) for key in ("data_format", "data_spec")):
            problems.append(
                Problem(where, "its samples are others than those of the index before: import it alone", 0)
            )
            continue
        config = config or told
        split = split_of(folder) if splits and folder else ""
        shards.setdefault(split, []).extend(_shards(chunks, told, folder, where, source, problems))
    every = [shard for of in shards.values() for shard in of]
    if not every:
        reason = f": {problems[0].where}: {problems[0].reason}" if problems else ""
        raise IngestionError(f"{source.shown} has no chunks of LitData{reason}")
    formats = [str(one) for one in config["data_format"]]
    names = _names(config.get("data_spec"), len(formats))
    for name in wishes:
        if name not in names:
            raise IngestionError(f"{source.shown} has no value {name!r}: {', '.join(names)}")
    by_sample = config.get("compression_level") == "sample"
    seen_samples = _looked_at(source, shards, by_sample=by_sample)
    is_bare = len(formats) == 1 and formats[0].startswith("no_header_") and _are_bare(seen_samples, config)
    looked = _values(seen_samples, len(formats), is_bare=is_bare)
    values: list[_Value] = []
    tensors: list[TensorPlan] = []
    for name, format_of, seen in zip(names, formats, looked, strict=True):
        called = tensor_name(name, {one.tensor for one in values})
        info = {"value": name} if called != name else {}
        content, made = _tensor(called, name, format_of, seen, wishes.get(name), compression, info, problems)
        values.append(_Value(called, format_of, content))
        tensors.append(made)
    items, ranges = ranges_of(
        (split, [item for shard in of for item in items_of(shard)]) for split, of in in_order(shards)
    )
    rows = sum(shard.samples for shard in every)
    return Plan(
        f"LitData of {len(every):,} chunks with {rows:,} samples",
        tensors,
        items,
        _Context(source, values, is_bare, by_sample),
        rows=rows,
        nbytes=sum(source.files[shard.name] for shard in every),
        splits=ranges,
        problems=problems,
        about={
            "chunks": len(every),
            "values": {name: [one.format, one.tensor] for name, one in zip(names, values, strict=True)},
        },
    )


def rows(item: Item, context: _Context) -> Iterator[Any]:
    """Make the rows of some samples of a chunk."""
    number = item.start
    try:
        for found in _samples(context.source, item.shard, item.start, item.stop, by_sample=context.by_sample):
            where = f"{item.shard.name}: sample {number:,}"
            number += 1
            if isinstance(found, IngestionError):
                yield Skipped(where, str(found))
                continue
            name = ""
            try:
                row = {}
                parts = _parts(found, len(context.values), is_bare=context.is_bare)
                for value, data in zip(context.values, parts, strict=True):
                    name = f"{value.tensor}: "
                    row[value.tensor] = _value(data, value)
            except _FAILURES as error:
                yield Skipped(where, f"{name}{error}")
                continue
            yield row
    except (LakebedError, OSError, struct.error) as error:
        yield from lost(item, number, error)


def describe(plan: Plan) -> dict[str, Any]:
    """Say how many chunks there are, and the format and the tensor of each value."""
    return plan.about


# -- the index ----------------------------------------------------------------------------------------------------


def _checked(index: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], Sequence[Any]] | None:
    """Return the configuration and the chunks of an index; None if it is none."""
    config, chunks = (index or {}).get("config"), (index or {}).get("chunks")
    if not isinstance(config, Mapping) or not isinstance(chunks, list):
        return None
    formats = config.get("data_format")
    if not isinstance(formats, list) or not 0 < len(formats) <= _MAX_VALUES:
        return None
    return config, chunks


def _shards(
    chunks: Sequence[Any],
    config: Mapping[str, Any],
    folder: str,
    where: str,
    source: Source,
    problems: list[Problem],
) -> Iterator[Shard]:
    """Yield the chunks that an index tells; why there is none in their place is a problem."""
    if config.get("encryption"):
        raise IngestionError(
            f"{where} of {source.shown} is of chunks that are encrypted, which cannot be read"
        )
    if config.get("item_loader") == "ParquetLoader":
        raise IngestionError(f"{where} of {source.shown} is one of Parquet files: import these as parquet")
    whole = str(config.get("compression") or "").partition(":")[0]
    if config.get("compression_level") not in (None, "", "chunk"):
        whole = ""
    for number, told in enumerate(chunks):
        try:
            if not isinstance(told, Mapping) or not isinstance(told.get("filename"), str):
                raise IngestionError("it names no file")
            filename = told["filename"]
            name = source.find(f"{folder}/{filename}" if folder else filename)
            count = count_of(told.get("chunk_size"), "the number of samples")
            size = source.files[name]
            is_packed = bool(whole) and f".{whole}" in filename
            said = (
                count_of(told.get("chunk_bytes"), "the number of bytes") + 4 * (count + 2)
                if is_packed
                else size
            )
            shard = Shard(name, count, said, whole if is_packed else "")
            yield checked(shard, source, problems)
        except LakebedError as error:
            problems.append(Problem(f"{where}: chunk {number:,}", str(error), lost_by(told, "chunk_size")))


def _names(told: Any, count: int) -> list[str]:
    """Return the names of values: paths in the tree, as ``image`` or ``boxes/0``.

    Raises
    ------
    IngestionError
        If the tree has another number of values.
    """
    try:
        spec = json.loads(told)[1] if isinstance(told, str) else None
        found = list(_leaves(spec, "", MAX_DEPTH))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise IngestionError(f"the index tells no tree of values: {error}") from error
    if len(found) != count:
        raise IngestionError(f"the index tells a tree of {len(found):,} values, and {count:,} formats")
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
        yield from _leaves(child, f"{path}/{key}" if path else key, depth - 1)


# -- samples ------------------------------------------------------------------------------------------------------

_MAGIC = b"LDFZ01\0\0"
_HEAD = struct.Struct("<8sHHIII")
_FRAME = struct.Struct("<IIQII")
_MAX_FRAME_BYTES = 1 << 30


def _samples(
    source: Source, shard: Shard, start: int, stop: int, *, by_sample: bool
) -> Iterator[bytes | IngestionError]:
    """Yield samples of a chunk, however it is compressed."""
    if not shard.compression:
        with source.open(shard.name) as file:
            head = file.read(_HEAD.size)
        if head.startswith(b"ARROW1"):
            raise IngestionError(
                "it is an Arrow file, which other versions of LitData write, and is not read"
            )
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
        if (
            version != 1
            or count != shard.samples
            or _HEAD.size + 4 * (count + 1) + _FRAME.size * frames > size
        ):
            raise IngestionError(
                f"its head tells {count:,} samples in {frames:,} frames of version {version}"
            )
        offsets: NDArray[np.uint32] = np.frombuffer(file.read(4 * (count + 1)), "<u4")
        table = [_FRAME.unpack(file.read(_FRAME.size)) for _ in range(frames)]
        at = start
        for first, number, where, length, unpacked_length in table:
            if at >= stop:
                return
            if first + number <= at:
                continue
            if (
                first > at
                or first + number > count
                or where + length > size
                or unpacked_length > _MAX_FRAME_BYTES
            ):
                raise IngestionError(f"a frame of samples {first:,} to {first + number:,} cannot be")
            file.seek(where)
            try:
                data = unpacked(file.read(length), "zstd", unpacked_length)
            except IngestionError as error:
                for _ in range(at, min(stop, first + number)):
                    yield error
                at = min(stop, first + number)
                continue
            base = int(offsets[first])
            while at < min(stop, first + number):
                begin, end = int(offsets[at]) - base, int(offsets[at + 1]) - base
                at += 1
                if not 0 <= begin <= end <= len(data):
                    yield IngestionError(f"it cannot lie at bytes {begin:,} to {end:,} of its frame")
                else:
                    yield data[begin:end]
        if at < stop:
            raise IngestionError("its frames end before its samples do")


def _parts(data: bytes, count: int, *, is_bare: bool) -> list[bytes]:
    return [data] if is_bare else parts_of(data, [None] * count)


def _looked_at(source: Source, shards: Mapping[str, Sequence[Shard]], *, by_sample: bool) -> list[bytes]:
    """Return some samples."""

    def read(source: Source, shard: Shard, start: int, stop: int) -> Iterator[bytes | IngestionError]:
        return _samples(source, shard, start, stop, by_sample=by_sample)

    return [sample for of in shards.values() for _, sample in looked_at(source, of, read)]


def _are_bare(seen: Sequence[bytes], config: Mapping[str, Any]) -> bool:
    """Tell whether samples of one array lack the size before it, as those of tokens do."""
    if not seen:
        return config.get("item_loader") != "PyTreeLoader"
    return any(int.from_bytes(sample[:4], "little") != len(sample) - 4 for sample in seen)


def _values(seen: Sequence[bytes], count: int, *, is_bare: bool) -> list[list[bytes]]:
    """Return some of each value."""
    values: list[list[bytes]] = [[] for _ in range(count)]
    for sample in seen:
        try:
            parts = _parts(sample, count, is_bare=is_bare)
        except IngestionError:
            continue  # told when its row is made
        for of, value in zip(values, parts, strict=True):
            of.append(value)
    return values


# -- tensors and values -------------------------------------------------------------------------------------------


def _tensor(
    called: str,
    name: str,
    format_of: str,
    seen: Sequence[bytes],
    wish: str | None,
    compression: str | None,
    info: Mapping[str, Any],
    problems: list[Problem],
) -> tuple[Content | None, TensorPlan]:
    """Return what the bytes of a value are, if it is one of bytes, and its tensor."""
    kind, _, suffix = format_of.partition(":")
    if kind in _NUMBERS:
        return None, tensor(
            called, dtype=_NUMBERS[kind], info=info, create_shape_tensor=False, create_id_tensor=False
        )
    if kind in ("str", "text"):
        return None, tensor(called, "text", info=info, chunk_compression=_CHUNKS)
    if kind == "json":
        return None, tensor(called, "json", info=info, chunk_compression=_CHUNKS)
    if kind in _ARRAYS:
        dtype = _dtype_of(kind, suffix, seen)
        if dtype == "bfloat16":
            problems.append(
                Problem(name, "bfloat16 is stored as float32, in which each number is the same", 0)
            )
            dtype = "float32"
        return None, tensor(called, dtype=dtype, info=info, chunk_compression=_CHUNKS)
    if kind == "pil" and _modes(seen) <= PLAIN_MODES:
        return None, tensor(called, "image", sample_compression="png", info=info)
    if kind == "pil":
        return None, tensor(called, info={**info, "modes": sorted(_modes(seen))}, chunk_compression=_CHUNKS)
    looked = Looked()
    for value in seen:
        try:
            looked.add(list_of(value) if kind == "jpeg_array" else [value])
        except IngestionError:
            continue
    if kind == "jpeg_array":
        looked.most = 2
        content = content_of(name, looked, problems, wish="image", compression=compression, supposed="jpeg")
    elif kind in _FILES:
        content = content_of(
            name,
            looked,
            problems,
            wish=wish or _FILES[kind],
            compression=compression,
            supposed=_SUPPOSED.get(kind),
            texts=False,
        )
    else:
        content = Content()
        why = "no format that is known here"
        if kind == "pickle" or suffix == "pickle":
            why = PICKLED
        problems.append(Problem(name, f"{format_of}: {why}: they are stored as bytes", 0))
    if kind in _LEAST_FILES and content.kind == "bytes":
        problems.append(Problem(name, f"{format_of} files are stored as bytes", 0))
    return content, tensor_of(called, content, info)


def _dtype_of(kind: str, suffix: str, seen: Sequence[bytes]) -> str | None:
    names = _ARRAYS[kind]
    if kind.startswith("no_header"):
        return names[int(suffix)] if suffix.isdecimal() and int(suffix) < len(names) else None
    dtypes: set[str] = set()
    for value in seen:
        try:
            dtypes.add(names[_head(value, names)[0]])
        except _FAILURES:
            continue
    return dtypes.pop() if len(dtypes) == 1 else None


def _modes(seen: Sequence[bytes]) -> set[str]:
    modes: set[str] = set()
    for value in seen:
        try:
            modes.add(mode_of(value))
        except IngestionError:
            continue
    return modes


def _value(data: bytes, value: _Value) -> Any:
    kind, _, suffix = value.format.partition(":")
    if kind in _NUMBERS:
        dtype = np.dtype(_NUMBERS[kind]).newbyteorder("<")
        if len(data) != dtype.itemsize:
            raise IngestionError(f"{len(data):,} bytes are no {kind}")
        return np.frombuffer(data, dtype)[0]
    if kind in ("str", "text"):
        return decoded(data)
    if kind == "json":
        return nested(data)
    if kind in _ARRAYS:
        return _array(data, kind, suffix)
    if kind == "pil":
        return pixels_of(data)
    if value.content is None:
        raise AssertionError("bytes have a content")
    if kind == "jpeg_array":
        return [value_of(one, value.content) for one in list_of(data)]
    return value_of(data, value.content)


def _head(data: bytes, names: Sequence[str]) -> tuple[int, list[int]]:
    """Return the number of an array's dtype, and its shape.

    They are uint32, as are its axes between them; big-endian in tensors of newer versions.
    """
    for order in "<>":
        number, axes = struct.unpack_from(f"{order}II", data)
        if number >= len(names) or axes > _MAX_AXES:
            continue
        shape = list(struct.unpack_from(f"{order}{axes}I", data, 8))
        if prod(shape) * _plain(names[number]).itemsize == len(data) - 8 - 4 * axes:
            return number, shape
    raise IngestionError("it is no array: its dtype and shape do not fit its bytes")


def _plain(name: str) -> np.dtype[Any]:
    return np.dtype("<u2" if name == "bfloat16" else name).newbyteorder("<")


def _array(data: bytes, kind: str, suffix: str) -> NDArray[Any]:
    """Return an array: number of its dtype, of its axes, its shape; or, without a head, one axis."""
    names = _ARRAYS[kind]
    at, shape = 0, [-1]
    number = int(suffix) if suffix.isdecimal() else len(names)
    if not kind.startswith("no_header"):
        number, shape = _head(data, names)
        at = 8 + 4 * len(shape)
    if number >= len(names):
        raise IngestionError(f"the dtype {suffix!r} is not known: objects and texts are not read")
    found: NDArray[Any] = np.frombuffer(data, _plain(names[number]), offset=at).reshape(shape)
    if names[number] == "bfloat16":
        return (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(found.dtype.newbyteorder("="), copy=False)
