"""Change of a tensor to a wider type, in place: all rows are rewritten (see `lakebed.writing.retyping`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from lakebed.codecs.traits import is_plain
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import InvalidOperationError, LakebedError
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import UNSPECIFIED, htype_named
from lakebed.reading.columns.scan import ColumnScan
from lakebed.session.session import Session
from lakebed.session.table import Table
from lakebed.versions.state import TensorState
from lakebed.writing import retyping
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.encoded import Encoded
from lakebed.writing.schema import plan_tensor
from lakebed.writing.tensor_chunks import samples_of

Info = Mapping[str, Any]

# Maximum number of rows that are converted at a time; a batch never spans several chunks.
_ROWS = 262_144

# Entries of the info that only tensors of numbers have; they are removed if the tensor becomes text.
_OF_NUMBERS = ("logical_type", "class_names")


def change_type(session: Session, name: str, htype: str | None, dtype: Any) -> None:
    """Change a tensor and its rows to a wider type; see ``Dataset.change_type``."""
    with session.mutex, session.writing() as draft:
        scan = Table(session, {name: name}).scan(name)
        state = scan.reader.state  # in this state, all samples are in chunks
        _check_simple(state, name)
        meta, info = _planned(state, name, htype, dtype)
        if (meta.htype, meta.dtype) == (state.meta.htype, state.meta.dtype):
            return
        convert = _conversion(scan, state, meta, info)
        draft.rows.retype(state.key, meta, info, _parts(scan, convert, name))


def _check_simple(state: TensorState, name: str) -> None:
    what = None
    if state.sequence is not None:
        what = "sequences"
    elif state.meta.is_link:
        what = "links"
    elif not (is_plain(state.meta.sample_compression) and is_plain(state.meta.chunk_compression)):
        what = "files"
    elif htype_named(state.meta.htype).storing is Storing.POLYGON:
        what = "polygons"
    elif len(state.tiles):
        what = "samples that are cut into tiles"
    if what is not None:
        raise InvalidOperationError(
            f"tensor {name!r} holds {what}, which have no wider type; make another tensor"
        )


def _planned(state: TensorState, name: str, htype: str | None, dtype: Any) -> tuple[TensorMeta, Info]:
    """Return the tensor's new metadata (still with the old extents) and its new info."""
    old = state.meta
    wanted = old.htype if htype is None else htype
    plan = plan_tensor(
        name,
        wanted,
        UNSPECIFIED if dtype is None else dtype,
        old.sample_compression or UNSPECIFIED,
        old.chunk_compression or UNSPECIFIED,
        hidden=old.hidden,
        with_shape=False,
        with_id=False,
        with_info=False,
        settings={},
    ).meta
    if plan.is_sequence or plan.is_link:
        raise InvalidOperationError(f"tensor {name!r} can not become {htype}; make another tensor")
    if dtype is None and htype_named(plan.htype).storing is Storing.ARRAY:
        plan = plan.with_(dtype=old.dtype)
    kept: dict[str, Any] = {"max_chunk_size": old.max_chunk_size, "tiling_threshold": old.tiling_threshold}
    if plan.htype == old.htype:
        kept["extra"] = old.extra
    meta = plan.with_(name=old.name, links=old.links, typestr=None, version=old.version, **kept)
    stays = htype_named(meta.htype).storing is Storing.ARRAY
    info = dict(state.info) if stays else {k: v for k, v in state.info.items() if k not in _OF_NUMBERS}
    if stays and meta.dtype != old.dtype and "list<" in str(info.get("logical_type")):
        info["logical_type"] = _list_of(info["logical_type"], old.dtype, meta.dtype)
    return meta, info


def _list_of(logical: str, old: Any, new: Any) -> str:
    """Return the Arrow name of a list type with its old number type replaced by the new one."""
    import pyarrow as pa

    before, after = (str(pa.from_numpy_dtype(np.dtype(dtype))) for dtype in (old, new))
    return logical.replace(f": {before}>", f": {after}>")


Convert = Callable[[int, int, int], list[Encoded]]
"""(row of the chunk table, first row to convert, row after the last row to convert) -> samples of the new type."""


def _conversion(scan: ColumnScan, state: TensorState, meta: TensorMeta, info: Info) -> Convert:
    """Return the function that converts rows.

    Raises
    ------
    InvalidOperationError
        If the new type is not wider.
    """
    old, name = state.meta, state.meta.name or state.key
    before, after = (htype_named(m.htype).storing for m in (old, meta))
    if before is Storing.ARRAY and after is Storing.ARRAY:
        return _numbers(scan, state, meta, info)
    if after is Storing.TEXT and before is Storing.ARRAY:
        return _texts(scan, state, meta, info, retyping.as_text)
    if after is Storing.JSON and htype_named(meta.htype).name == "json":
        if before in (Storing.JSON, Storing.LIST):
            return _texts(scan, state, meta, info, _json_as_it_is)
        return _texts(scan, state, meta, info, retyping.as_json)
    raise InvalidOperationError(f"tensor {name!r} holds {old.htype}, and {meta.htype} is not a wider type")


def _numbers(scan: ColumnScan, state: TensorState, meta: TensorMeta, info: Info) -> Convert:
    name = state.meta.name or state.key
    if state.meta.dtype is None or meta.dtype is None:
        raise InvalidOperationError(f"tensor {name!r} has no dtype yet; its first sample sets it")
    old, new = np.dtype(state.meta.dtype), np.dtype(meta.dtype)
    if info.get("logical_type") and info["logical_type"] == state.info["logical_type"]:
        raise InvalidOperationError(
            f"tensor {name!r} holds {state.info['logical_type']}, which {new} does not hold"
        )
    if not retyping.can_widen(old, new):
        raise InvalidOperationError(f"tensor {name!r} holds {old}, and {new} is not a wider type")
    if state.meta.sample_compression is not None:
        raise InvalidOperationError(
            f"tensor {name!r} compresses each sample separately, so its dtype cannot change: "
            "store the values in another tensor"
        )
    reader = scan.reader

    def convert(row: int, first: int, stop: int) -> list[Encoded]:
        chunk = reader.source.chunk(state.table, row, reader.chunk_codec(), keep=False)
        start = state.table.first(row)
        block = samples_of(chunk, state.meta).cut(first - start, stop - start)
        return [Encoded(retyping.widened(block, old, new), meta)]

    return convert


def _texts(
    scan: ColumnScan, state: TensorState, meta: TensorMeta, info: Info, convert: Callable[[Any], Any]
) -> Convert:
    from lakebed.reading.columns.arrow import arrow_column, arrow_type

    kind, name = arrow_type(scan.reader), state.meta.name or state.key
    names = list(state.info.get("class_names") or []) if state.meta.htype == "class_label" else []

    def converted(_: int, first: int, stop: int) -> list[Encoded]:
        array = arrow_column(scan, first, stop, kind)
        if names:
            array = retyping.named(array, names)
        return list(encode_column(convert(array), meta, info, name).parts)

    return converted


def _json_as_it_is(array: Any) -> Any:
    import pyarrow as pa

    return pa.ExtensionArray.from_storage(pa.json_(), array)


def _parts(scan: ColumnScan, convert: Convert, name: str) -> Iterator[Encoded]:
    table = scan.reader.state.table
    for row in range(len(table)):
        first, end = table.first(row), int(table.ids.last[row]) + 1
        for start in range(first, end, _ROWS):
            stop = min(start + _ROWS, end)
            try:
                yield from convert(row, start, stop)
            except InvalidOperationError as error:
                raise InvalidOperationError(
                    f"tensor {name!r}, rows {start} to {stop - 1}: {error}"
                ) from error
            except LakebedError as error:
                raise scan.reader.located(error, start) from error
