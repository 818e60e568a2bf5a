"""Rows into all tensors of a dataset at once, or into none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.codecs.block import empty_block
from lakebed.dataset.session import Session
from lakebed.dataset.tensor import Tensor
from lakebed.errors import (
    LakebedError,
    SampleAppendingError,
    SampleExtendingError,
    TensorDoesNotExistError,
)
from lakebed.versions.state import Snapshot
from lakebed.writing.coerce import Encoded, encode_column, encode_one, is_arrow
from lakebed.writing.draft import Draft
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
        if not skip_ok:
            _check_equal_lengths(schema, names)
        encoded: dict[str, list[Encoded]] = {}
        for name, value in sample.items():
            full = normalize(name, group)
            state = schema.tensor(full)
            one = value.numpy() if isinstance(value, Tensor) else value
            encoded[state.key] = [encode_one(one, state.meta, state.info, full)]
        _fill_empty(schema, missing if append_empty else [], 1, encoded)
        _write(session, draft, encoded)


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
    if ignore_errors:
        for i in range(count):
            row = {name: values[i] for name, values in columns.items()}
            try:
                append_row(session, names, group, row, skip_ok=skip_ok, append_empty=append_empty)
            except (LakebedError, ValueError, TypeError):
                continue  # asked for: a row that does not fit is left out, the dataset stays as it was
        return
    with session.writing() as draft:
        schema = session.schema()
        encoded: dict[str, list[Encoded]] = {}
        for name, values in columns.items():
            full = normalize(name, group)
            state = schema.tensor(full)
            encoded[state.key] = encode_column(values, state.meta, state.info, full)
        _fill_empty(schema, missing if append_empty else [], count, encoded)
        _write(session, draft, encoded)


def _column(values: Any) -> Any:
    if isinstance(values, Tensor):
        return list(values.values())
    if hasattr(values, "__len__"):
        return values
    if is_arrow(values):
        import pyarrow as pa

        return pa.chunked_array(values)
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


def _check_equal_lengths(schema: Snapshot, names: Mapping[str, str]) -> None:
    lengths = {name: schema.tensor(full).meta.length for name, full in names.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            "When appending using Dataset.append or Dataset.extend, all tensors being updated are expected to have "
            f"the same length; they have {lengths}. Pass `skip_ok=True` to append to some of them."
        )


def _fill_empty(schema: Snapshot, names: list[str], count: int, encoded: dict[str, list[Encoded]]) -> None:
    for full in names:
        state = schema.tensor(full)
        if state.meta.htype is None:
            encoded[state.key] = [Encoded(empty_block(count, len(state.meta.max_shape) or None), state.meta)]
        else:
            encoded[state.key] = encode_column([None] * count, state.meta, state.info, full)


def _write(session: Session, draft: Draft, encoded: Mapping[str, list[Encoded]]) -> None:
    """Put everything into the draft; all samples are encoded by now, so only storage can fail."""
    try:
        for key, columns in encoded.items():
            draft.extend(key, columns)
    except BaseException:
        # Some tensors have the rows and others do not: nothing unpublished may survive that.
        session.discard()
        raise
