"""Append rows to all tensors of a dataset, or to none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import (
    InvalidKeyTypeError,
    SampleAppendError,
    SampleAppendingError,
    SampleExtendError,
    TensorDoesNotExistError,
    TensorInvalidSampleShapeError,
)
from lakebed.session.changes.inputs import (
    after,
    encode_sample,
    encode_samples,
    joined_rows,
    of_one_length,
    progress,
)
from lakebed.session.changes.new_classes import NewClasses
from lakebed.session.row_classes import row_of
from lakebed.session.table import Table
from lakebed.session.tensor_samples import TensorSamples
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing.draft.draft import Draft
from lakebed.writing.encode.column import is_arrow, ranked
from lakebed.writing.encode.encoded import Column
from lakebed.writing.encode.links import Linking, looked_at
from lakebed.writing.encode.missing_values import plain_column
from lakebed.writing.names import normalize


def append_row(
    table: Table, group: str, sample: Mapping[str, Any], *, skip_ok: bool, append_empty: bool
) -> None:
    """Append one row: see ``Dataset.append``."""
    if not isinstance(sample, Mapping):
        sample = row_of(sample) or sample
    if not isinstance(sample, Mapping):
        raise SampleAppendingError(
            "Cannot append: a row is a dictionary from tensor names to samples, "
            f"for example {{'x': 1}}, not {type(sample).__name__}"
        )
    missing = _check_names(table, group, sample, skip_ok=skip_ok, append_empty=append_empty)
    session = table.session
    with session.mutex, NewClasses(session) as new, session.writing() as draft:
        states = _states(session.schema(), group, sample, missing if append_empty else [])
        new.of(states.values())
        draft.rows.extend(
            {
                state.key: of_one_length(encode_sample(sample.get(name), state, session.linking), state)
                for name, state in states.items()
            }
        )
        if not missing:
            draft.expect_rows(group, {name: state.key for name, state in states.items()})


def extend_rows(
    table: Table,
    group: str,
    samples: Any,
    *,
    skip_ok: bool,
    append_empty: bool,
    ignore_errors: bool,
    progressbar: bool = False,
) -> None:
    """Append many rows given as columns, or as a table: see ``Dataset.extend``."""
    if not isinstance(samples, Mapping):
        from lakebed.session.changes.incoming_tables import columns_of_table

        samples = columns_of_table(samples)
    if not samples:
        return
    missing = _check_names(table, group, samples, skip_ok=skip_ok, append_empty=append_empty)
    columns = columns_of(samples)
    count, session = len(next(iter(columns.values()))), table.session
    with session.mutex, NewClasses(session) as new, session.writing() as draft:
        states = _states(session.schema(), group, columns, missing if append_empty else [])
        new.of(states.values())
        columns |= {name: [None] * count for name in states.keys() - columns.keys()}
        if ignore_errors or progressbar:
            encoded = _row_by_row(
                columns, states, count, session.linking, strict=not ignore_errors, progressbar=progressbar
            )
            draft.rows.extend(encoded)
        else:
            extend_draft(
                draft, {states[name].key: values for name, values in columns.items()}, session.linking
            )


def extend_draft(draft: Draft, columns: Mapping[str, Any], linking: Linking) -> None:
    """Append columns of one length, by tensor key.

    After an error some tensors may have new samples and others none, so the caller must discard the draft.
    """
    draft.extend(columns, lambda values, state: _encoded(values, state, linking))


def _row_by_row(
    columns: Mapping[str, Any],
    states: Mapping[str, TensorState],
    count: int,
    linking: Linking,
    *,
    strict: bool,
    progressbar: bool,
) -> dict[str, Column]:
    """Encode columns row by row; rows with a sample that does not fit are left out, or raise an error if ``strict``."""
    known = dict(states)
    found: dict[str, list[Column]] = {name: [] for name in columns}
    seen = {
        name: looked_at(values, states[name].meta, linking) if states[name].meta.is_link else linking
        for name, values in columns.items()
    }
    for i in progress(range(count), shown=progressbar):
        try:
            row = {
                name: _encoded(values[i : i + 1], known[name], seen[name]) for name, values in columns.items()
            }
        except SampleExtendError:
            if strict:
                raise
            continue
        for name, column in row.items():
            found[name].append(column)
            known[name] = after(known[name], column.parts)
    return {states[name].key: joined_rows(parts, states[name]) for name, parts in found.items()}


def _encoded(values: Any, state: TensorState, linking: Linking) -> Column:
    try:
        if isinstance(values, np.ndarray) and not state.meta.is_sequence:
            # Give the array the same axes as if its samples were appended one by one.
            values = ranked(values, state.meta)
        return of_one_length(encode_samples(values, state, linking), state)
    except SampleAppendError as error:
        raise SampleExtendError(
            f"{str(error).rstrip('.')}. If you wish to skip the samples that cause errors, please specify "
            "`ignore_errors=True`."
        ) from (error.__cause__ or error)


def pop_rows(table: Table, index: object) -> None:
    """Remove rows from all tensors that have them: see ``Dataset.pop``."""
    with table.session.mutex, table.session.writing() as draft:
        states = list(table.states().values())
        rows = checked_rows(index, max((state.length for state in states), default=0), "dataset")
        for state in states:
            draft.rows.pop(state.key, rows[rows < state.length])


def columns_of(samples: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of each tensor as a column that has a length and can be sliced.

    Raises
    ------
    ValueError
        If the columns differ in length.
    SampleExtendError
        If a value is not a column.
    """
    columns = {name: _column(values, name) for name, values in samples.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Incoming samples are not of equal lengths. Incoming sample sizes: {lengths}")
    return columns


def _column(values: Any, name: str) -> Any:
    """Return a column that has a length and can be sliced."""
    if type(values) in (np.ndarray, list):
        return values
    try:
        values = plain_column(values)
    except TensorInvalidSampleShapeError as error:
        raise SampleExtendError(str(error)) from error
    if isinstance(values, TensorSamples | np.ndarray | list | tuple):
        return values
    if is_arrow(values):
        import pyarrow as pa

        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        return pa.chunked_array(values) if hasattr(values, "__arrow_c_stream__") else pa.array(values)
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise SampleExtendError(
            f"column {name!r}: a column of samples must be an array or a list, not a single {type(values).__name__}; "
            "append takes one row"
        )
    return list(values)


def _meant(schema: Snapshot, group: str, name: str) -> TensorState:
    """Return the tensor that a name in a row refers to."""
    full = normalize(name, group)
    found = schema.find(full)
    return schema.tensor(schema.stored_name(full)) if found is None else found


def _check_names(
    table: Table, group: str, sample: Mapping[str, Any], *, skip_ok: bool, append_empty: bool
) -> list[str]:
    """Check the names of a row; return the full names of tensors that the row lacks."""
    names = table.names
    known = set(names.values())
    inputs = [normalize(str(name), group) for name in sample]
    if not known.issuperset(inputs):
        schema = table.session.structure()
        inputs = [schema.stored_name(full) for full in inputs]
    for name, full in zip(sample, inputs, strict=True):
        if full not in known:
            raise TensorDoesNotExistError.among(str(name), names)
    missing = [name for name, full in names.items() if full not in inputs]
    if missing and not (skip_ok or append_empty):
        raise KeyError(
            f"Required tensors not provided: {missing}. Pass either `skip_ok=True` to skip tensors "
            "or `append_empty=True` to append empty samples to unspecified tensors."
        )
    return [names[name] for name in missing]


def _states(
    schema: Snapshot, group: str, names: Iterable[str], missing: Iterable[str]
) -> dict[str, TensorState]:
    """Return the tensors that a row names and the tensors that the row lacks; all must have the same length."""
    states = {name: _meant(schema, group, name) for name in names}
    states |= {name: schema.tensor(name) for name in missing}
    if len({state.length for state in states.values()}) > 1:
        lengths = {state.meta.name or state.key: state.length for state in states.values()}
        raise ValueError(
            "When appending using Dataset.append or Dataset.extend, all tensors being updated are expected to have "
            f"the same length; they have {lengths}. Pass `skip_ok=True` and name tensors of one length only."
        )
    return states


def checked_rows(index: object, length: int, what: str) -> NDArray[np.int64]:
    """Return the rows to remove: int64, ascending.

    Parameters
    ----------
    index
        A row number, a list of row numbers, a slice, or None for the last row.
    length
        Number of rows of the longest tensor from which rows are removed.
    what
        ``tensor`` or ``dataset``, for messages.

    Raises
    ------
    IndexError
        If a row does not exist, or a number is negative.
    ValueError
        If a row is named twice.
    InvalidKeyTypeError
        If ``index`` is of another type.
    """
    if index is None:
        index = [max(length - 1, 0)]
    if isinstance(index, slice):
        chosen = range(length)[index]
        return np.sort(np.arange(chosen.start, chosen.stop, chosen.step, dtype=np.int64))
    if isinstance(index, np.ndarray) and index.ndim == 1 and index.dtype.kind in "iu":
        return _in_range(index.astype(np.int64), length, what)
    items = index.tolist() if isinstance(index, np.ndarray) else index
    items = [items] if hasattr(items, "__index__") else items
    if isinstance(items, str | bytes | dict) or not isinstance(items, Iterable):
        raise InvalidKeyTypeError(
            f"{index!r} names no rows to pop; give a row number, a list of them or a slice"
        )
    numbers = [_row_number(item) for item in items]
    try:
        rows = np.array(numbers, dtype=np.int64)
    except OverflowError as error:
        row = max(numbers, key=abs)
        raise IndexError(f"Index {row} is out of range: there are {length} samples.") from error
    return _in_range(rows, length, what)


def _in_range(rows: NDArray[np.int64], length: int, what: str) -> NDArray[np.int64]:
    is_ascending = bool((rows[1:] > rows[:-1]).all())
    found = rows if is_ascending else np.unique(rows)
    if len(found) < len(rows):
        raise ValueError("Duplicate indices are not allowed.")
    if len(found) and length == 0:
        raise IndexError(f"Can't pop from empty {what}.")
    if len(found) and found[0] < 0:
        raise IndexError(f"Pop doesn't support negative indices. Row {found[0]} is row {found[0] + length}.")
    if len(found) and found[-1] >= length:
        longest = "The longest tensor has" if what == "dataset" else "The tensor has"
        row = rows[rows >= length][0]
        raise IndexError(f"Index {row} is out of range. {longest} {length} samples.")
    return found


def _row_number(item: object) -> int:
    if not hasattr(item, "__index__") or isinstance(item, bool):
        raise InvalidKeyTypeError(f"{item!r} is not a row number")
    return int(item.__index__())
