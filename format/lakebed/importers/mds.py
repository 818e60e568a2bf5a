"""MosaicML MDS: ``index.json`` and shards, whose samples have the columns that the index tells.

    index.json            {"version": 2, "shards": [{"column_names": ..., "column_encodings": ..., "column_sizes": ...,
                          "raw_data": {"basename", "bytes", "hashes"}, "zip_data": ..., "samples": ...}]}
    shard.00000.mds       table of offsets, what the index says, samples: sizes that vary, values
    train/index.json ...  splits are folders

What is pickled stays as bytes. Under the key "lakebed" an index says what tensors the exporter wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.codecs.registry import sniff
from lakebed.described import KEY, Described
from lakebed.errors import IngestionError, LakebedError
from lakebed.htypes.base import Storing
from lakebed.importers.columns import tensor_name
from lakebed.importers.contents import (
    PICKLED,
    Content,
    Looked,
    content_of,
    decoded,
    document,
    tensor_of,
    value_of,
)
from lakebed.importers.described_columns import file_value, nested_value
from lakebed.importers.numpy_files import loaded
from lakebed.importers.plan import Plan, Problem, TensorPlan, tensor
from lakebed.importers.sample_shards import (
    PLAIN_MODES,
    Item,
    Shard,
    checked,
    count_of,
    folders_of,
    hashes_of,
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
)
from lakebed.importers.source import Source
from lakebed.importers.splits import in_order, ranges_of
from lakebed.transforms.output import Skipped

NUMBERS: Mapping[str, str] = {
    "int": "int64",
    "str_float": "float64",
    **{f"{sign}{bits}": f"{sign}{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "float": "float64",
}
"""Encoding of a number -> dtype."""

DTYPES: Mapping[int, str] = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
"""Number of a dtype in an encoded array -> its name."""

_LISTS: Mapping[str, tuple[str, int]] = {
    "jpeg_array": ("jpeg", 0),
    "jpegarray": ("jpeg", 0),
    "list[jpeg]": ("jpeg", 4),
    "list[png]": ("png", 4),
    "list[pil]": ("pil", 4),
}
_FILE_LISTS = ("list[jpeg]", "list[png]")
_FILES = ("jpeg", "png", "bytes")
_MAX_COLUMNS = 10_000
_CHUNKS = "lz4"

# What damaged values raise.
_FAILURES = (LakebedError, ValueError, TypeError, OverflowError)


class Column(NamedTuple):
    """A column of shards: its name, its encoding, and its size if that does not vary."""

    name: str
    encoding: str
    size: int | None


@dataclass(frozen=True)
class _Column:
    """Where a column goes: its tensor, and what its values are.

    Parameters
    ----------
    content
        What bytes and files are.
    told
        What the exporter says that they are: ``npy``, ``file``, ``number`` or ``text``, of which there are nulls.
    dtype
        Dtype that the exporter says.
    described
        The tensor that it was, where values have to be made by that.
    """

    tensor: str
    content: Content | None = None
    told: str = ""
    dtype: str = ""
    described: Described | None = None


@dataclass(frozen=True)
class _Context:
    """What workers know."""

    source: Source
    layouts: Sequence[Sequence[Column]]
    columns: Mapping[str, _Column]


@dataclass
class _Found:
    """What indexes say."""

    layouts: list[tuple[Column, ...]] = field(default_factory=list)
    shards: dict[str, list[Shard]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    described: dict[str, Described] = field(default_factory=dict)


def recognise(source: Source) -> str | None:
    """Say how many shards the first index names; None if there is none of MDS."""
    if not source.is_folder:
        return None
    for folder in folders_of(source)[:1]:
        shards = (index_of(source, folder) or {}).get("shards")
        if isinstance(shards, list) and any(
            isinstance(shard, Mapping) and shard.get("format") == "mds" for shard in shards
        ):
            return f"MosaicML MDS of {len(shards):,} shards" + (f" in {folder}" if folder else "")
    return None


def plan(
    source: Source,
    *,
    kinds: Mapping[str, str] | None = None,
    compression: str | None = None,
    splits: bool = True,
) -> Plan:
    """Plan a tensor for each column, and a split for each folder with an index.

    Parameters
    ----------
    source
        The folder of the index, or the one above those of the splits.
    kinds
        What columns of bytes hold, where their first samples do not tell it: photo=image, note=text; image, audio,
        video, dicom, array, json, text or bytes.
    compression
        Kind of file that tensors of images store.
    splits
        Whether folders are splits.
    """
    wishes = dict(kinds or {})
    found = _found(source, splits=splits)
    if not found.layouts:
        reason = f": {found.problems[0].where}: {found.problems[0].reason}" if found.problems else ""
        raise IngestionError(f"{source.shown} has no shards of MDS{reason}")
    columns = _columns(found)
    for name in wishes:
        if name not in columns:
            raise IngestionError(f"{source.shown} has no column {name!r}: {', '.join(columns)}")
    planned, tensors = _tensors(source, found, columns, wishes, compression)
    items, ranges = ranges_of(
        (split, [item for shard in of for item in items_of(shard)]) for split, of in in_order(found.shards)
    )
    every = [shard for shards in found.shards.values() for shard in shards]
    rows = sum(shard.samples for shard in every)
    return Plan(
        f"MosaicML MDS of {len(every):,} shards with {rows:,} samples",
        tensors,
        items,
        _Context(source, found.layouts, planned),
        rows=rows,
        nbytes=sum(source.files[shard.name] for shard in every),
        splits=ranges,
        problems=found.problems,
        about={
            "shards": len(every),
            "columns": {name: [columns[name], one.tensor] for name, one in planned.items()},
        },
    )


def rows(item: Item, context: _Context) -> Iterator[Any]:
    """Make the rows of some samples of a shard."""
    layout = context.layouts[item.shard.layout]
    sizes = [column.size for column in layout]
    empty = dict.fromkeys(column.tensor for column in context.columns.values())
    number = item.start
    try:
        for found in samples(context.source, item.shard, item.start, item.stop):
            where = f"{item.shard.name}: sample {number:,}"
            number += 1
            if isinstance(found, IngestionError):
                yield Skipped(where, str(found))
                continue
            name = ""
            try:
                row = dict(empty)
                for column, value in zip(layout, parts_of(found, sizes), strict=True):
                    name = f"{column.name}: "
                    into = context.columns[column.name]
                    row[into.tensor] = _value(value, into, column.encoding)
            except _FAILURES as error:
                yield Skipped(where, f"{name}{error}")
                continue
            yield row
    except (LakebedError, OSError) as error:
        yield from lost(item, number, error)


def describe(plan: Plan) -> dict[str, Any]:
    """Say how many shards there are, and the encoding and the tensor of each column."""
    return plan.about


# -- the index ----------------------------------------------------------------------------------------------------


def _found(source: Source, *, splits: bool) -> _Found:
    """Read all indexes; a shard that an outer one names is not taken again."""
    found = _Found()
    taken: set[str] = set()
    for folder in folders_of(source):
        index = index_of(source, folder)
        where = f"{folder}/index.json" if folder else "index.json"
        shards = index.get("shards") if index else None
        if index is None or not isinstance(shards, list):
            found.problems.append(Problem(where, "it is no index of MDS", 0))
            continue
        if index.get("version") != 2:
            found.problems.append(
                Problem(where, f"the version {str(index.get('version'))[:20]!r} is not known", 0)
            )
            continue
        _note_descriptions(index, found)
        here: list[Shard] = []
        for number, told in enumerate(shards):
            try:
                shard = _shard(told, folder, source, found)
            except _FAILURES as error:
                problems = found.problems
                problems.append(Problem(f"{where}: shard {number:,}", str(error), lost_by(told, "samples")))
                continue
            if shard.name not in taken:
                taken.add(shard.name)
                here.append(shard)
        if here:
            found.shards.setdefault(split_of(folder) if splits and folder else "", []).extend(here)
    return found


def _shard(told: Any, folder: str, source: Source, found: _Found) -> Shard:
    """Return what an index says of a shard.

    Raises
    ------
    IngestionError
        If it says something else, or the shard is not there.
    """
    if not isinstance(told, Mapping) or told.get("format") != "mds":
        kind = told.get("format") if isinstance(told, Mapping) else None
        raise IngestionError(f"the format {str(kind)[:20]!r} is not MDS")
    layout = _layout(told)
    raw, packed = told.get("raw_data"), told.get("zip_data")
    if not isinstance(raw, Mapping) or not isinstance(packed, Mapping | None):
        raise IngestionError("it names no file")
    compression = str(told.get("compression") or "").partition(":")[0] if packed else ""
    name = _file(source, folder, (packed or raw).get("basename"))
    if name is None and packed:
        compression, packed = "", None
        name = _file(source, folder, raw.get("basename"))  # unpacked by the library
    if name is None:
        raise IngestionError(f"the file {str((packed or raw).get('basename'))[:200]!r} is missing")
    hashes = hashes_of((packed or raw).get("hashes"), name, found.problems)
    shard = Shard(
        name,
        count_of(told.get("samples"), "the number of samples"),
        count_of(raw.get("bytes"), "the number of bytes"),
        compression,
        hashes,
        () if not packed or hashes else hashes_of(raw.get("hashes"), name, found.problems),
    )
    shard = checked(shard, source, found.problems)
    if layout not in found.layouts:
        found.layouts.append(layout)
    return shard._replace(layout=found.layouts.index(layout))


def _file(source: Source, folder: str, name: Any) -> str | None:
    if not isinstance(name, str):
        raise IngestionError("it names no file")
    try:
        return source.find(f"{folder}/{name}" if folder else name)
    except LakebedError:
        return None


def _layout(told: Mapping[str, Any]) -> tuple[Column, ...]:
    names, encodings, sizes = (_told_list(told, what) for what in ("names", "encodings", "sizes"))
    if not len(names) == len(encodings) == len(sizes) <= _MAX_COLUMNS or len(set(map(str, names))) < len(
        names
    ):
        raise IngestionError("its columns, their encodings and sizes do not fit together")
    if not all(isinstance(one, str) for one in (*names, *encodings)):
        raise IngestionError("a column has no name, or no encoding")
    return tuple(
        Column(name, encoding, count_of(size, f"the size of {name}") if size else None)
        for name, encoding, size in zip(names, encodings, sizes, strict=True)
    )


def _told_list(told: Mapping[str, Any], what: str) -> list[Any]:
    found = told.get(f"column_{what}")
    if not isinstance(found, list):
        raise IngestionError(f"it tells no {what} of columns")
    return found


def _columns(found: _Found) -> dict[str, str]:
    """Return the encoding of each column; shards that have another one are told, and left out."""
    columns: dict[str, str] = {}
    other: set[int] = set()
    for number, layout in enumerate(found.layouts):
        if any(columns.get(column.name, column.encoding) != column.encoding for column in layout):
            other.add(number)
            continue
        columns.update((column.name, column.encoding) for column in layout)
    for split, shards in found.shards.items():
        for shard in shards:
            if shard.layout in other:
                reason = "its columns have other encodings than those of the shards before: import it alone"
                found.problems.append(Problem(shard.name, reason, shard.samples))
        found.shards[split] = [shard for shard in shards if shard.layout not in other]
    return columns


# -- tensors ------------------------------------------------------------------------------------------------------


def _tensors(
    source: Source,
    found: _Found,
    columns: Mapping[str, str],
    wishes: Mapping[str, str],
    compression: str | None,
) -> tuple[dict[str, _Column], list[TensorPlan]]:
    values = _looked_at(source, found)
    planned: dict[str, _Column] = {}
    tensors: list[TensorPlan] = []
    taken: set[str] = set()
    for name, encoding in columns.items():
        called = tensor_name(name, taken)
        taken.add(called)
        info = {"column": name} if called != name else {}
        said = found.described.get(name) if name not in wishes else None
        if said is not None and _fits(encoding, said):
            planned[name], plan = _described_tensor(
                called, encoding, values.get(name, []), said, compression, info
            )
        else:
            content, plan = _tensor(
                called,
                name,
                encoding,
                values.get(name, []),
                wishes.get(name),
                compression,
                info,
                found.problems,
            )
            planned[name] = _Column(called, content)
        tensors.append(plan)
    return planned, tensors


def _looked_at(source: Source, found: _Found) -> dict[str, list[bytes]]:
    """Return some values of each column."""
    values: dict[str, list[bytes]] = {}
    for shards in found.shards.values():
        for shard, sample in looked_at(source, shards):
            layout = found.layouts[shard.layout]
            try:
                parts = parts_of(sample, [column.size for column in layout])
            except IngestionError:
                continue  # told when its row is made
            for column, value in zip(layout, parts, strict=True):
                values.setdefault(column.name, []).append(value)
    return values


def _tensor(
    called: str,
    name: str,
    encoding: str,
    values: Sequence[bytes],
    wish: str | None,
    compression: str | None,
    info: Mapping[str, Any],
    problems: list[Problem],
) -> tuple[Content | None, TensorPlan]:
    """Return what the values of a column are, of bytes and files, and its tensor."""
    kind = encoding.partition(":")[0]
    if kind in NUMBERS:
        return None, tensor(
            called, dtype=NUMBERS[kind], info=info, create_shape_tensor=False, create_id_tensor=False
        )
    if kind in ("str", "str_int", "str_decimal"):
        about = {} if kind == "str" else {"type": "integer" if kind == "str_int" else "decimal"}
        return None, tensor(called, "text", info={**info, **about}, chunk_compression=_CHUNKS)
    if kind == "json":
        return None, tensor(called, "json", info=info, chunk_compression=_CHUNKS)
    if kind == "ndarray":
        return None, tensor(called, dtype=_dtype(encoding, values), info=info, chunk_compression=_CHUNKS)
    if kind == "pil":
        return _raw_images(called, values, info, problems)
    content = _content(name, encoding, values, wish, compression, problems)
    return content, tensor_of(called, content, info)


def _described_tensor(
    called: str,
    encoding: str,
    values: Sequence[bytes],
    said: Described,
    compression: str | None,
    info: Mapping[str, Any],
) -> tuple[_Column, TensorPlan]:
    """Return where a column goes that the exporter described, and the tensor that it was."""
    told = _told(said)
    kind, dtype = str(told.get("kind") or ""), str(told.get("dtype") or "")
    content = None
    is_image = said.base.startswith("image")
    wish = compression if is_image else None
    is_file = encoding in _FILE_LISTS or encoding in ("jpeg", "png") or kind == "file"
    if is_file and (wish or said.sample_compression) is not None:
        stored = wish or _kind_of_files(encoding, values, said)
        content = Content("image" if is_image else said.base, stored, said.is_sequence, wish is not None)
    arguments = said.arguments(content.compression if content is not None else None)
    plan = TensorPlan(called, arguments, {**said.info, **info})
    return _Column(called, content, kind, dtype, said), plan


def _kind_of_files(encoding: str, values: Sequence[bytes], said: Described) -> str:
    """Return the kind of file that the tensor stores: as it was, unless the first files, of links, are others."""
    kinds: set[str | None] = set()
    for value in values:
        try:
            kinds.update(map(sniff, list_of(value, _LISTS[encoding][1]) if encoding in _LISTS else [value]))
        except IngestionError:
            continue  # told when its row is made
    known = {kind for kind in kinds if kind is not None}
    if not known or known == {said.sample_compression}:
        return str(said.sample_compression)
    return "png" if len(known) > 1 and said.base.startswith("image") else min(known)


def _content(
    name: str,
    encoding: str,
    values: Sequence[bytes],
    wish: str | None,
    compression: str | None,
    problems: list[Problem],
) -> Content:
    """Return what bytes, files and lists of files are."""
    kind = encoding.partition(":")[0]
    looked = Looked()
    if encoding in _LISTS:
        inner, first = _LISTS[encoding]
        looked.most = 2
        for value in values:
            try:
                looked.add(list_of(value, first))
            except IngestionError:
                continue  # told when its row is made
        supposed = inner if inner != "pil" else "png"
        return content_of(name, looked, problems, wish="image", compression=compression, supposed=supposed)
    if kind not in _FILES:
        why = f"the encoding {encoding!r} is not known"
        if kind == "pkl":
            why = PICKLED
        problems.append(Problem(name, f"{why}: they are stored as bytes", 0))
        return Content()
    for value in values:
        looked.add([value])
    if kind == "bytes":
        return content_of(name, looked, problems, wish=wish, compression=compression, texts=False)
    return content_of(name, looked, problems, wish=wish or "image", compression=compression, supposed=kind)


def _raw_images(
    called: str, values: Sequence[bytes], info: Mapping[str, Any], problems: list[Problem]
) -> tuple[Content | None, TensorPlan]:
    """Return the tensor of raw images: PNG where it holds their pixels, otherwise arrays."""
    modes: set[str] = set()
    for value in values:
        try:
            modes.add(mode_of(value))
        except IngestionError:
            continue
    if modes <= PLAIN_MODES:
        return None, tensor(called, "image", sample_compression="png", info=info)
    if "P" in modes:
        problems.append(
            Problem(called, "raw images of mode P have no palette: numbers of colours are stored", 0)
        )
    return None, tensor(called, info={**info, "modes": sorted(modes)}, chunk_compression=_CHUNKS)


def _dtype(encoding: str, values: Sequence[bytes]) -> str | None:
    """Return the dtype that all arrays of a column fit in, as far as they were looked at."""
    named = encoding.split(":")[1:2]
    if named and named[0]:
        return named[0] if named[0] in DTYPES.values() else None
    dtypes = {DTYPES[value[0]] for value in values if value and value[0] in DTYPES}
    return str(np.result_type(*dtypes)) if dtypes else None


def _note_descriptions(index: Mapping[str, Any], found: _Found) -> None:
    """Note what an index says that columns were; nothing if it is none of ours."""
    ours = index.get(KEY)
    tensors = ours.get("tensors") if isinstance(ours, Mapping) else None
    for name, value in tensors.items() if isinstance(tensors, Mapping) else ():
        said = Described.from_json(value)
        if said is not None:
            found.described.setdefault(name, said)


def _told(said: Described) -> Mapping[str, Any]:
    """Return what the exporter says of the values of a column."""
    told = said.more.get("column")
    return told if isinstance(told, Mapping) else {}


def _fits(encoding: str, said: Described) -> bool:
    """Whether values of an encoding can be the samples of a tensor, as the exporter writes them."""
    kind, told = encoding.partition(":")[0], _told(said)
    how, dtype = told.get("kind"), told.get("dtype")
    if how == "number" and dtype is None:
        return False
    if dtype is not None and dtype not in (*DTYPES.values(), "bool", "complex64", "complex128"):
        return False
    if encoding in _FILE_LISTS:
        return said.is_sequence and said.is_file and said.base.startswith("image")
    if kind in ("jpeg", "png") or (kind == "bytes" and how == "file"):
        is_media = said.is_file or said.base in lakebed.file_kinds
        return said.storing is Storing.ARRAY and is_media and not said.is_sequence
    if kind == "str" or how == "text":
        return kind in ("str", "json") and said.storing is Storing.TEXT and not said.is_sequence
    if kind == "json" and how != "number":
        return said.is_sequence or said.storing not in (Storing.ARRAY, Storing.TEXT)
    if kind in ("json", "bytes"):
        return (
            said.storing is Storing.ARRAY
            and how == ("number" if kind == "json" else "npy")
            and not said.is_sequence
        )
    is_number = kind in NUMBERS or kind == "ndarray"
    return is_number and said.storing is Storing.ARRAY and not said.is_sequence and not said.is_file


# -- values -------------------------------------------------------------------------------------------------------


def _value(data: bytes, into: _Column, encoding: str) -> Any:
    kind = encoding.partition(":")[0]
    if into.told == "npy" and kind == "bytes":
        return loaded(data) if data else None
    if into.told == "number" and kind == "json":
        number = document(data)
        return None if number is None else np.array(number, into.dtype)
    said = into.described
    if said is not None and kind == "json" and into.told != "text":
        value = document(data)
        return None if value is None else nested_value(value, said)
    if said is not None and (kind in ("jpeg", "png") or into.told == "file"):
        if not data:
            return None
        # Files that begin with no mark are of the kind that is told.
        if into.content is None or sniff(data) is None:
            return file_value(data, said)
        return value_of(data, into.content)
    if into.content is not None:
        if encoding in _LISTS:
            inner, first = _LISTS[encoding]
            files = list_of(data, first)
            return [pixels_of(one) if inner == "pil" else value_of(one, into.content) for one in files]
        return value_of(data, into.content)
    if kind in NUMBERS:
        found = _number_of(data, kind)
    elif kind in ("str", "str_int", "str_decimal"):
        return decoded(data)
    elif kind == "json":
        return document(data)
    else:
        found = pixels_of(data) if kind == "pil" else array_of(data, encoding)
    return found.astype(bool) if into.dtype == "bool" else found


def _number_of(data: bytes, kind: str) -> Any:
    if kind == "str_float":
        return np.float64(float(data.decode()))
    dtype = np.dtype(NUMBERS[kind]).newbyteorder("<")
    if len(data) != dtype.itemsize:
        raise IngestionError(f"{len(data):,} bytes are no {kind}")
    return np.frombuffer(data, dtype)[0]


def array_of(data: bytes, encoding: str) -> NDArray[Any]:
    """Return an array: its dtype and shape stand before its values, unless the encoding tells them.

    Parameters
    ----------
    encoding
        ``ndarray``, ``ndarray:float32`` or ``ndarray:float32:2,3``.

    Raises
    ------
    IngestionError
        If it is damaged.
    """
    _, *told = encoding.split(":")
    at = 0
    if told and told[0]:
        name = told[0] if told[0] in DTYPES.values() else None
    else:
        name = DTYPES.get(data[0]) if data else None
        at = 1
    if name is None:
        raise IngestionError("it is no array of a known dtype")
    if len(told) > 1:
        shape = [int(length) for length in told[1].split(",")]
    else:
        head = data[at] if len(data) > at else 0
        width = 1 << (head & 3)
        text = data[at + 1 : at + 1 + (head >> 2) * width]
        if not head or len(text) != (head >> 2) * width:
            raise IngestionError("it is no array: its shape is cut short")
        shape = np.frombuffer(text, f"<u{width}").tolist()
        at += 1 + len(text)
    dtype = np.dtype(name).newbyteorder("<")
    if prod(shape) * dtype.itemsize != len(data) - at or min(shape, default=0) < 0:
        raise IngestionError(f"an array of {name} and shape {tuple(shape)} is not {len(data) - at:,} bytes")
    return np.frombuffer(data, dtype, offset=at).reshape(shape).astype(dtype.newbyteorder("="), copy=False)
