"""Columns of Deep Lake 4: their tensors, and their values.

column of Deep Lake 4                tensor
Image, SegmentMask with a file       image, segment_mask: the files as they are
ClassLabel                           class_label; ``class_names`` of the column's metadata
BoundingBox, BinaryMask, Point       bbox, binary_mask, point
Polygon, Embedding, Text             polygon, embedding, text
Dict, Struct                         json
Video, Audio, Medical, Mesh          video, audio, nifti or dicom, mesh: the files
Link                                 links
Sequence                             a sequence of its items
Nullable                             its values; nulls are nulls
numbers, arrays, bytes               tensors of that dtype; bytes are uint8
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lakebed.htypes.registry import FILE_KINDS
from lakebed.importers.core.columns import tensor_name
from lakebed.importers.core.plan import TensorPlan, as_json, media, tensor
from lakebed.links.link import link
from lakebed.links.read import read

_CHUNKS = "lz4"
_FILES = {"Video": "video", "Audio": "audio", "Mesh": "mesh"}
_HTYPES = {
    "ClassLabel": "class_label",
    "BoundingBox": "bbox",
    "BinaryMask": "binary_mask",
    "SegmentMask": "segment_mask",
    "Point": "point",
    "Embedding": "embedding",
}


@dataclass(frozen=True)
class Column:
    """A column, its tensor, and the kind of its values.

    Parameters
    ----------
    how
        ``value``, ``file``, ``files``, ``link``, ``json``, ``documents``, ``items``, ``bytes`` or ``polygon``.
    """

    name: str
    plan: TensorPlan
    how: str

    @property
    def tensor(self) -> str:
        """Name of the tensor."""
        return self.plan.name

    @property
    def kind(self) -> tuple[Any, ...]:
        """Key that is equal for columns that can share a tensor: all properties but the names."""
        told = {key: value for key, value in self.plan.arguments.items() if key != "class_names"}
        return self.how, told, dict(self.plan.info)

    def raw(self, ds: Any, start: int, stop: int) -> list[Any]:
        """Return the values of some rows of a version, with files as bytes; equal rows have equal values."""
        column = ds[self.name]
        if self.how in ("file", "link"):
            return list(column.get_bytes(slice(start, stop)))
        if self.how == "files":
            return [column.get_bytes(row) for row in range(start, stop)]
        if self.how in ("items", "documents"):
            # Read row by row: for several rows, the package deeplake joins lists of files, and sometimes crashes on
            # texts.
            values: Any = [column[row] for row in range(start, stop)]
        else:
            values = column[start:stop]
        return [as_json(one) for one in values] if self.how in ("json", "documents") else list(values)

    def made(self, values: list[Any]) -> list[Any]:
        """Return raw values as values of the tensor."""
        return [None if one is None else self._made(one) for one in values]

    def _made(self, value: Any) -> Any:
        if self.how in ("file", "link"):
            data = bytes(value)
            if not data:
                return None
            return link(data.decode()) if self.how == "link" else read(data)
        if self.how == "files":
            return [read(bytes(one)) for one in value]
        if self.how == "bytes":
            return np.frombuffer(value, np.uint8)
        return [np.asarray(part) for part in value] if self.how == "polygon" else value


def columns_of(ds: Any, wanted: Sequence[str]) -> list[Column]:
    """Return the columns of a version: the columns in `wanted` that it has, or all if `wanted` is empty."""
    found: list[Column] = []
    types = {column.name: column.dtype for column in ds.schema.columns}
    for name in wanted or types:
        if name not in types:
            continue  # an earlier version may lack the column
        called = tensor_name(name, {one.tensor for one in found})
        how, plan = _tensor_of(ds[name], called, types[name])
        if called != name:
            plan = replace(plan, info={**plan.info, "column": name})
        found.append(Column(name, plan, how))
    return found


def _kind(dtype: Any) -> str:
    """Return the kind of a type, such as ``Image`` for ``TypeKind.Image``; ``Dict`` also for structs."""
    kind = str(dtype.kind).rpartition(".")[2]
    return "Dict" if kind in ("Dict", "Struct", "???") else kind


def _tensor_of(column: Any, name: str, dtype: Any) -> tuple[str, TensorPlan]:
    """Return the kind of the values of a column, and its tensor."""
    kind, called = _kind(dtype), str(dtype)
    file = {"jpg": "jpeg"}.get(str(dtype.sample_compression), dtype.sample_compression)
    if dtype.is_sequence:
        return _sequence_of(name, called, dtype, file)
    if dtype.is_link:
        linked = next((one for one in ("video", "audio") if f"kind={one}" in called), "image")
        return "link", media(name, linked, compression=file, link=True)
    number = str(dtype.id).partition("[")[0]
    if kind == "Dict" or number in ("object", "dict"):
        return "json", tensor(name, "json", chunk_compression=_CHUNKS)
    if kind == "Text" or number == "text":
        return "value", tensor(name, "text", chunk_compression=_CHUNKS)
    if kind == "Image":
        # Store arrays as PNG, which is lossless.
        return ("file" if file else "value"), media(name, "image", compression=file or "png")
    if kind == "SegmentMask" and file:
        return "file", media(name, "segment_mask", compression=file)
    if kind in _FILES:
        return "file", media(
            name, _FILES[kind], compression=file or _named(called) or {"Mesh": "ply"}.get(kind)
        )
    if kind == "Medical":
        file = file or _named(called) or "nii.gz"
        return "file", media(name, "dicom" if file == "dcm" else "nifti", compression=file)
    if kind == "Polygon":
        return "polygon", tensor(name, "polygon", chunk_compression=_CHUNKS)
    if number in ("bytes", "binary"):
        return "bytes", tensor(name, dtype="uint8", chunk_compression=_CHUNKS)
    if kind == "ClassLabel":
        names = metadata_of(column).get("class_names")
        classes = [str(one) for one in names] if isinstance(names, list) else None
        return "value", tensor(name, "class_label", dtype=number, class_names=classes)
    htype = _HTYPES.get(kind)
    packed = _CHUNKS if htype not in ("point", "bbox") and len(dtype.shape or ()) > 1 else None
    return "value", tensor(name, htype, dtype=number, chunk_compression=packed)


def _sequence_of(name: str, called: str, dtype: Any, file: str | None) -> tuple[str, TensorPlan]:
    inner = called.partition("[")[2]
    number = str(dtype.id)
    if "kind=image" in inner:
        how = "files" if file else "items"
        return how, tensor(name, "sequence[image]", sample_compression=file or "png")
    for htype in ("class_label", "bbox"):
        if f"kind={htype}" in inner:
            return "items", tensor(name, f"sequence[{htype}]", dtype=number)
    if inner.startswith("text"):
        return "items", tensor(name, "sequence[text]", chunk_compression=_CHUNKS)
    try:
        np.dtype(number)
    except TypeError:
        return "documents", tensor(name, "json", chunk_compression=_CHUNKS)
    return "items", tensor(name, "sequence", dtype=number)


def _named(called: str) -> str | None:
    """Return the compression at the end of the text of a type: ``compression=mp4``, ``(compression: nii.gz)``."""
    for kinds in FILE_KINDS.values():
        for kind in sorted(kinds, key=len, reverse=True):
            if called.endswith((f"={kind}", f": {kind})", f"={kind})")):
                return str(kind)
    return None


def metadata_of(one: Any) -> dict[str, Any]:
    """Return the metadata of a dataset or a column, which are not mappings, as JSON."""
    return {str(key): as_json(one.metadata[key]) for key in one.metadata.keys()}  # noqa: SIM118
