"""Rows into all tensors of a dataset at once, or into none of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from lakebed.codecs.block import empty_block
from lakebed.dataset.session import Session
from lakebed.dataset.tensor import Tensor, encode_sample, encode_samples
from lakebed.errors import (
    SampleAppendError,
    SampleAppendingError,
    SampleExtendError,
    SampleExtendingError,
    TensorDoesNotExistError,
)
from lakebed.versions.state import Snapshot
from lakebed.writing.coerce import encode_column, is_arrow
from lakebed.writing.encoded import Column, Encoded
from lakebed.writing.names import normalize


def append_row(
    session: Session,
    names: Mapping[str, str],
    group: str,
    sample: Mapping[str, Any],
    *,
    skip_ok: bool,
    append_empty: bool,
) -> None:
    """Append one row: see ``Dataset.append``."""
    if not isinstance(sample, Mapping):
        raise SampleAppendingError(
            "Cannot append: a row is a dictionary from tensor names to samples, "
            f"for example {{'x': 1}}, not {type(sample).__name__}"
        )
    missing = _check_names(names, group, sample, skip_ok=skip_ok, append_empty=append_empty)
    with session.writing() as draft:
        schema = session.schema()
        columns: dict[str, Column] = {}
        for name, value in sample.items():
            state = schema.tensor(normalize(name, group))
            columns[state.key] = encode_sample(value, state)
        _fill_empty(schema, missing if append_empty else [], 1, columns)
        _check_equal_lengths(schema, columns)
        draft.extend(columns)


def extend_rows(
    session: Session,
    names: Mapping[str, str],
    group: str,
    samples: Mapping[str, Any],
    *,
    skip_ok: bool,
    append_empty: bool,
    ignore_errors: bool,
) -> None:
    """Append many rows given as columns: see ``Dataset.extend``."""
    if not isinstance(samples, Mapping):
        raise SampleExtendingError(
            "Cannot extend: samples are a dictionary from tensor names to columns, "
            f"for example {{'x': [1, 2]}}, not {type(samples).__name__}"
        )
    missing = _check_names(names, group, samples, skip_ok=skip_ok, append_empty=append_empty)
    columns = {name: _column(values) for name, values in samples.items()}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Incoming samples are not of equal lengths. Incoming sample sizes: {lengths}")
    if not columns:
        return
    count = next(iter(lengths.values()))
    if not ignore_errors:
        _extend(session, group, columns, count, missing if append_empty else [])
        return
    for i in range(count):
        row = {name: values[i : i + 1] for name, values in columns.items()}
        # Asked for: a row that does not fit is left out, the dataset stays as it was.
        with suppress(SampleAppendError):
            _extend(session, group, row, 1, missing if append_empty else [])


def _extend(
    session: Session, group: str, columns: Mapping[str, Any], count: int, empty: Sequence[str]
) -> None:
    with session.writing() as draft:
        schema = session.schema()
        encoded: dict[str, Column] = {}
        for name, values in columns.items():
            state = schema.tensor(normalize(name, group))
            encoded[state.key] = encode_samples(values, state)
        _fill_empty(schema, empty, count, encoded)
        _check_equal_lengths(schema, encoded)
        draft.extend(encoded)


def _column(values: Any) -> Any:
    """Return a column that has a length and can be sliced."""
    if isinstance(values, Tensor | np.ndarray | list | tuple):
        return values
    if is_arrow(values):
        import pyarrow as pa

        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        return pa.chunked_array(values) if hasattr(values, "__arrow_c_stream__") else pa.array(values)
    if isinstance(values, str | bytes | Mapping):
        raise SampleExtendError(
            f"a column of samples must be an array or a list, not one {type(values).__name__}"
        )
    return list(values)


def _check_names(
    names: Mapping[str, str], group: str, sample: Mapping[str, Any], *, skip_ok: bool, append_empty: bool
) -> list[str]:
    """Return the full names of tensors that the row leaves out."""
    known = set(names.values())
    given = [normalize(str(name), group) for name in sample]
    for name, full in zip(sample, given, strict=True):
        if full not in known:
            raise TensorDoesNotExistError(f"Tensor {name!r} does not exist.")
    missing = [name for name, full in names.items() if full not in given]
    if missing and not (skip_ok or append_empty):
        raise KeyError(
            f"Required tensors not provided: {missing}. Pass either `skip_ok=True` to skip tensors "
            "or `append_empty=True` to append empty samples to unspecified tensors."
        )
    return [names[name] for name in missing]


def _check_equal_lengths(schema: Snapshot, columns: Iterable[str]) -> None:
    lengths = {schema.tensors[key].meta.name or key: schema.tensors[key].meta.length for key in columns}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            "When appending using Dataset.append or Dataset.extend, all tensors being updated are expected to have "
            f"the same length; they have {lengths}. Pass `skip_ok=True` and name tensors of one length only."
        )


def _fill_empty(schema: Snapshot, names: Sequence[str], count: int, encoded: dict[str, Column]) -> None:
    for full in names:
        state = schema.tensor(full)
        if state.meta.htype is None:
            encoded[state.key] = Column(
                [Encoded(empty_block(count, len(state.meta.max_shape) or None), state.meta)]
            )
        else:
            encoded[state.key] = encode_column([None] * count, state.meta, state.info, full)
