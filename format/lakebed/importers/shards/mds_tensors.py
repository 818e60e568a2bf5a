"""Tensors for the columns of MosaicML MDS, by their encodings, their first values and what an exporter said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import lakebed
from lakebed.codecs.registry import sniff
from lakebed.described import Described
from lakebed.errors import IngestionError
from lakebed.htypes.base import Storing
from lakebed.importers.core.columns import tensor_name
from lakebed.importers.core.contents import (
    PICKLED,
    Content,
    Looked,
    content_of,
    tensor_of,
)
from lakebed.importers.core.plan import Problem, TensorPlan, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.folders.pictures import LOSSLESS, form_of
from lakebed.importers.shards.mds_index import Found
from lakebed.importers.shards.mds_values import DTYPES, FILE_LISTS, FILES, LISTS, NUMBERS, Into
from lakebed.importers.shards.sample_shards import (
    PLAIN_MODES,
    list_of,
    looked_at,
    mode_of,
    parts_of,
)

_CHUNKS = "lz4"


def tensors_of(
    source: Source,
    found: Found,
    columns: Mapping[str, str],
    wishes: Mapping[str, str],
    compression: str | None,
) -> tuple[dict[str, Into], list[TensorPlan]]:
    """Return where each column goes, and its tensor.

    Parameters
    ----------
    columns
        The encoding of each.
    wishes
        What columns of bytes hold, where the user says it.
    compression
        Kind of file that tensors of images store, where the user says it.
    """
    values = _looked_at(source, found)
    planned: dict[str, Into] = {}
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
            planned[name] = Into(called, content)
        tensors.append(plan)
    return planned, tensors


def _looked_at(source: Source, found: Found) -> dict[str, list[bytes]]:
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
) -> tuple[Into, TensorPlan]:
    """Return where a column goes that the exporter described, and the tensor that it was."""
    told = _told(said)
    kind, dtype = str(told.get("kind") or ""), str(told.get("dtype") or "")
    content = None
    is_image = said.base.startswith("image")
    wish = compression if is_image else None
    is_file = encoding in FILE_LISTS or encoding in ("jpeg", "png") or kind == "file"
    if is_file and (wish or said.sample_compression) is not None:
        stored = _kind_of_files(encoding, values, said, wish)
        content = Content("image" if is_image else said.base, stored, said.is_sequence)
    arguments = said.arguments(content.compression if content is not None else None)
    plan = TensorPlan(called, arguments, {**said.info, **info})
    return Into(called, content, kind, dtype, said), plan


def _kind_of_files(encoding: str, values: Sequence[bytes], said: Described, wish: str | None) -> str:
    """Return the kind of file that the tensor stores: as it was, unless the first files, of links, are others."""
    if wish not in (None, "auto", LOSSLESS):
        return str(wish)
    known: dict[str, tuple[int, int]] = {}
    for value in values:
        try:
            files = list_of(value, LISTS[encoding][1]) if encoding in LISTS else [value]
        except IngestionError:
            continue  # told when its row is made
        for data in files:
            kind = sniff(data)
            if kind is not None:
                count, nbytes = known.get(kind, (0, 0))
                known[kind] = count + 1, nbytes + len(data)
    if not known or list(known) == [said.sample_compression]:
        return str(said.sample_compression)
    return form_of(known, wish) if said.base.startswith("image") else min(known)


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
    if encoding in LISTS:
        inner, first = LISTS[encoding]
        looked.most = 2
        for value in values:
            try:
                looked.add(list_of(value, first))
            except IngestionError:
                continue  # told when its row is made
        supposed = inner if inner != "pil" else "png"
        return content_of(name, looked, problems, wish="image", compression=compression, supposed=supposed)
    if kind not in FILES:
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
    if encoding in FILE_LISTS:
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
