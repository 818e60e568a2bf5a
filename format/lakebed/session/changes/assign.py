"""Replacement of samples, of parts of them, and of whole columns: assignments -> changes of a draft.

Everything is read, checked and encoded before the first change, so that several assignments are made together or not at
all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.tiling import box
from lakebed.codecs.registry import byte_codec, file_codec
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    InvalidInputError,
    InvalidOperationError,
    LakebedError,
    SampleAppendError,
    SampleUpdateError,
)
from lakebed.htypes.base import Storing
from lakebed.htypes.class_label import to_indices
from lakebed.htypes.dtypes import array_dtype, cast
from lakebed.htypes.registry import htype_named
from lakebed.reading.subscripts import Index
from lakebed.session.changes.copy_samples import chunk_bytes
from lakebed.session.changes.inputs import encode_sample, encode_samples, of_one_length
from lakebed.session.changes.new_classes import NewClasses
from lakebed.session.changes.regions import expanded, put, region, whole
from lakebed.session.columns import ascending
from lakebed.session.session import Session
from lakebed.session.table import Table
from lakebed.session.tensor_samples import TensorSamples
from lakebed.versions.state import TensorState
from lakebed.writing.draft.rows import DraftRows
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.encode.links import Linking

Change = Callable[[DraftRows], None]
"""A prepared change."""


def assign_all(session: Session, assignments: Sequence[tuple[str, Index, Any]]) -> None:
    """Make several assignments (tensor, index, value) together, all or nothing.

    Raises
    ------
    SampleUpdateError
        If an index or a value does not fit; the cause gives the reason, and nothing is changed.
    """
    with session.mutex, NewClasses(session) as new, session.writing() as draft:
        schema = session.schema()
        new.of(
            {key: schema.tensors[key] for name, *_ in assignments if (key := schema.key_of(name))}.values()
        )
        changes = [_planned(session, *assignment) for assignment in assignments]
        for change in changes:
            change(draft.rows)


def _planned(session: Session, name: str, index: Index, value: Any) -> Change:
    session.schema().tensor(name)
    with _as_update_error(f"sample in tensor {name}"):
        return _plan(session, name, index, value)


@contextmanager
def _as_update_error(what: str) -> Iterator[None]:
    try:
        yield
    except (LakebedError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        cause = error.__cause__ if isinstance(error, SampleAppendError) and error.__cause__ else error
        raise SampleUpdateError(f"Unable to update {what}: {cause}") from cause


def _plan(session: Session, name: str, index: Index, value: Any) -> Change:
    state = session.schema().tensor(name)
    if not index.inside and len(index.chain) == 1 and isinstance(index.chain[0], int):
        row = index.chain[0]
        if row >= state.length:
            return _plan_behind(session, state, row, value)
    rows = [int(row) for row in index.rows(state.length)]
    if index.inside:
        return _plan_parts(session, name, rows, index, value)
    _check_items(state, rows, value)
    whole = _kept_whole(session, state, rows)
    linking = session.linking
    column = (
        encode_sample(value, whole, linking)
        if index.is_single
        else encode_samples(
            _several(value, len(rows), state if state.sequence is None else None), whole, linking
        )
    )
    column = of_one_length(column, state, is_new=False)
    return partial(DraftRows.update, key=state.key, rows=rows, column=column) if rows else _nothing


def _check_items(state: TensorState, rows: Sequence[int], value: Any) -> None:
    """Refuse a single item as the value of a whole sequence: its first axis would be taken for the list of items.

    Raises
    ------
    ValueError
        If an array has one axis less than the sequence, and its length differs from the sequence's length.
    """
    if state.sequence is None or not isinstance(value, np.ndarray) or len(rows) != 1:
        return
    first, stop = state.sequence.span(rows[0])
    if stop > first and len(value) != stop - first and value.ndim == len(state.meta.max_shape) > 1:
        raise ValueError(
            f"Index length ({stop - first}) and length of samples ({len(value)}) must be equal for updating a tensor."
        )


def _kept_whole(session: Session, state: TensorState, rows: Sequence[int] | NDArray[np.int64]) -> TensorState:
    """Return the state with tiling switched off, unless one of the rows is tiled already (format.md 6.2)."""
    if state.sequence is not None or session.draft().tensors.seen[state.key].has_tiled(
        np.asarray(rows, np.int64)
    ):
        return state
    return replace(state, meta=state.meta.with_(tiling_threshold=-1))


def _plan_behind(session: Session, state: TensorState, row: int, value: Any) -> Change:
    """Return the change that appends a sample as row ``row``; empty samples fill the gap before it (format.md 4.6)."""
    column = of_one_length(encode_sample(value, state, session.linking), state)

    def append(samples: DraftRows) -> None:
        if row > state.length:
            samples.pad(state.key, row - state.length)
        samples.extend({state.key: column})

    return append


def _nothing(_: DraftRows) -> None:
    """Make no change."""


def _several(value: Any, count: int, state: TensorState | None = None) -> Any:
    """Return a value as the given number of samples: one value per sample, or a single value repeated.

    Parameters
    ----------
    state
        Tensor whose samples, or items of sequences, are replaced; None if parts of samples or whole sequences are
        replaced.

    Raises
    ------
    ValueError
        If the number of values is not ``count``, or a single number is given for samples that hold several numbers.
    """
    has_length = hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        has_length = False
    found = len(value) if has_length else 1
    if has_length and found == count and not (isinstance(value, TensorSamples) and value.is_single):
        return value
    if count > 1 and state is not None and isinstance(value, _NUMBERS) and np.ndim(value) == 0:
        _check_number(value, count, state.meta)
    if count == 1 or not has_length:
        return [value.numpy() if isinstance(value, TensorSamples) else value] * count
    raise ValueError(
        f"Index length ({count}) and length of samples ({found}) must be equal for updating a tensor."
    )


_NUMBERS = (int, float, complex, np.generic, np.ndarray)


def _check_number(value: Any, count: int, meta: TensorMeta) -> None:
    """Refuse one number for several arrays: users expect it to fill the arrays, but it would replace each array.

    Raises
    ------
    ValueError
        If samples hold more than one number; class labels are allowed.
    """
    largest = meta.max_shape or (1,)
    if meta.htype != "class_label" and math.prod(largest) > 1:
        raise ValueError(
            f"one number for {count} samples of shapes up to {tuple(largest)} could mean to fill them or to replace "
            f"them: tensor[rows, :] = {value} fills them, and a list of {count} samples replaces them"
        )


# -- parts of samples ------------------------------------------------------------------------------------------


def _plan_parts(session: Session, name: str, rows: Sequence[int], index: Index, value: Any) -> Change:
    values = [value] if index.is_single else _several(value, len(rows))
    changes = [
        _plan_part(session, name, row, index.inside, _plain(part))
        for row, part in zip(rows, values, strict=True)
    ]

    def change_all(samples: DraftRows) -> None:
        for change in changes:
            change(samples)

    return change_all


def _plain(value: Any) -> Any:
    """Return the array of a tensor, or of a sample read from a file; other values unchanged."""
    if isinstance(value, TensorSamples):
        return value.numpy()
    return value.array if hasattr(value, "compressed_bytes") else value


def _plan_part(
    session: Session, name: str, row: int, inside: Sequence[tuple[Any, ...]], value: Any
) -> Change:
    state = session.schema().tensor(name)
    if state.sequence is None:
        return _plan_flat(session, name, row, inside, value)
    first, stop = state.sequence.span(row)
    subscript = expanded(inside[0], 1 + len(state.meta.max_shape))
    items = range(first, stop)[subscript[0]]
    deeper = [s for s in (subscript[1:], *inside[1:]) if s]
    if isinstance(items, int):
        if deeper:
            return _plan_flat(session, name, items, deeper, value)
        return _flat_update(state, [items], _one_item(value, _flat(state), session.linking))
    if deeper:
        return _plan_items(session, name, row, inside, value)
    column = encode_samples(_several(value, len(items), state), _flat(state), session.linking)
    return _flat_update(state, list(items), column)


def _plan_items(
    session: Session, name: str, row: int, inside: Sequence[tuple[Any, ...]], value: Any
) -> Change:
    """Overwrite the same part of several items of one shape in a sequence: read, change and encode the items."""
    state = session.schema().tensor(name)
    first, stop = state.sequence.span(row) if state.sequence is not None else (row, row + 1)
    draft = session.draft().tensors[state.key]
    items = range(first, stop)
    old = [] if any(map(draft.is_tiled, items)) else [session.latest(state.key, name, i) for i in items]
    if len({item.shape if isinstance(item, np.ndarray) else None for item in old} - {None}) != 1:
        raise InvalidOperationError(
            "the items of the sequence differ in shape, or are tiled: change a part of one item at a time"
        )
    changed = np.stack(old)
    put(changed, inside, _numbers(value, state, changed.dtype))
    column = encode_samples(changed, _flat(state), session.linking)
    return _flat_update(state, list(items), column, part=True)


_DOCUMENTS = ("json", "list")


def _one_item(value: Any, state: TensorState, linking: Linking) -> Column:
    """Encode an item, or a list that holds one item.

    For JSON and list tensors, whose items may be lists, a list of length one always counts as a list of items.
    """
    if state.meta.htype in _DOCUMENTS and isinstance(value, list) and len(value) == 1:
        return encode_sample(value[0], state, linking)
    try:
        return encode_sample(value, state, linking)
    except SampleAppendError:
        if not isinstance(value, list | tuple | np.ndarray) or len(value) != 1:
            raise
        return encode_sample(value[0], state, linking)


def _flat(state: TensorState) -> TensorState:
    """Return the state of a tensor whose rows are the items of its sequences."""
    return replace(state, meta=state.meta.with_(is_sequence=False), sequence=None)


def _flat_update(state: TensorState, rows: Sequence[int], column: Column, *, part: bool = False) -> Change:
    parts: list[Encoded] = [
        replace(p, meta=p.meta.with_(is_sequence=state.meta.is_sequence)) for p in column.parts
    ]
    column = replace(column, parts=parts)
    return partial(DraftRows.update_flat, key=state.key, rows=rows, column=column, partial=part)


def _plan_flat(
    session: Session, name: str, row: int, inside: Sequence[tuple[Any, ...]], value: Any
) -> Change:
    """Overwrite a part of a flat sample; of a tiled sample, only tiles that overlap the part are read and written."""
    state = session.schema().tensor(name)
    if state.meta.is_link:
        raise InvalidOperationError("a linked file can not be changed in part; assign another link")
    if session.draft().tensors[state.key].is_tiled(row):
        return _plan_tiles(session, name, row, inside, value)
    old = session.latest(state.key, name, row)
    if htype_named(state.meta.htype).storing is Storing.LIST:
        if len(inside) != 1 or len(inside[0]) != 1:
            raise TypeError("a list takes only one subscript")
        changed: Any = list(old)
        changed[inside[0][0]] = value
    elif isinstance(old, np.ndarray):
        changed = np.array(old)
        put(changed, inside, _numbers(value, state, changed.dtype))
    else:
        raise TypeError(f"a {state.meta.htype} sample can not be changed in part; assign the whole sample")
    return _flat_update(state, [row], encode_sample(changed, _flat(state), session.linking), part=True)


def _numbers(value: Any, state: TensorState, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the values for a part of a sample in the tensor's dtype; class names become numbers.

    Raises
    ------
    TensorDtypeMismatchError
        If a value does not fit; NumPy would wrap or truncate it.
    """
    if state.meta.htype == "class_label" and np.asarray(value).dtype.kind in "UO":
        known = list(state.info.get("class_names", []))
        (numbers,), names = to_indices([value], known)
        if names != known:
            raise ValueError(f"class {names[len(known)]!r} is unknown; add it to info.class_names first")
        value = numbers
    array = np.asarray(value)
    if dtype == np.bool_ and array.dtype.kind in "iu" and bool(((array == 0) | (array == 1)).all()):
        return array.astype(np.bool_)
    return cast(array, dtype, literal=not hasattr(value, "dtype") or array.size == 1)


# -- tiled samples ---------------------------------------------------------------------------------------------


def _plan_tiles(
    session: Session, name: str, row: int, inside: Sequence[tuple[Any, ...]], value: Any
) -> Change:
    key = session.schema().tensor(name).key
    reader = session.reader(key, name)
    state = session.schema().tensor(name)
    shape, tile = state.tiles.entries[row]
    where = region(shape, inside)
    if where is None:
        new: NDArray[Any] = np.array(reader.value(row))
        put(new, inside, _numbers(value, state, new.dtype))
        where = whole(shape)
    else:
        new = np.broadcast_to(_numbers(value, state, array_dtype(state.meta.dtype)), where.shape)
    tiles = {}
    for number in where.tiles(shape, tile):
        data = np.array(reader.part(row, box(shape, tile, number)))
        where.put_into(data, shape, tile, number, new)
        tiles[number] = _stored(data, state)
    return partial(DraftRows.write_tiles, key=key, flat_row=row, tiles=tiles)


def _stored(tile: NDArray[Any], state: TensorState) -> bytes:
    name = state.meta.sample_compression
    files = file_codec(name)
    if files is not None:
        return files.encode(tile)
    codec = byte_codec(name)
    data = np.ascontiguousarray(tile).tobytes()
    return bytes(chunk_bytes(data, tile.shape, state)) if codec is None else bytes(codec.encode(data))


# -- whole columns ---------------------------------------------------------------------------------------------


def update_rows(table: Table, rows: Any, columns: Mapping[str, Any]) -> None:
    """Replace rows of several columns of a table; see ``Dataset.update_rows``."""
    session = table.session
    wanted = ascending(rows)
    for name, values in columns.items():
        if len(values) != len(wanted):
            raise InvalidInputError(f"there are {len(wanted)} rows, but {len(values)} values for {name!r}")
    with session.mutex, NewClasses(session) as new, session.writing() as draft:
        states = table.states()
        encoded: dict[str, Column] = {}
        for name, values in columns.items():
            state = states[name]
            new.of([state])
            _check_inside(wanted, state)
            encoded[state.key] = _encoded(session, values, state, wanted)
        if len(wanted):
            for key, column in encoded.items():
                draft.rows.update(key, wanted, column)


def _check_inside(rows: NDArray[np.int64], state: TensorState) -> None:
    if len(rows) and (rows[0] < 0 or rows[-1] >= state.length):
        row = int(rows[0] if rows[0] < 0 else rows[-1])
        raise IndexError(f"row {row} is out of range: tensor {state.meta.name!r} has {state.length} rows")


def _encoded(session: Session, values: Any, state: TensorState, rows: NDArray[np.int64]) -> Column:
    state = _kept_whole(session, state, rows)
    with _as_update_error(f"samples in tensor {state.meta.name}"):
        return of_one_length(encode_samples(values, state, session.linking), state, is_new=False)
