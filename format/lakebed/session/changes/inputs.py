"""Samples given by a caller -> encoded columns: arrays, lists, Arrow data, or samples of another tensor."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, cast

import numpy as np

from lakebed.errors import MissingCredsError, SampleAppendError, UnusualSampleWarning
from lakebed.htypes.class_label import STRICT
from lakebed.session.tensor_samples import TensorSamples
from lakebed.versions.state import TensorState
from lakebed.writing.encode.arrow import chunks_of
from lakebed.writing.encode.column import encode_column, encode_one, is_arrow
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.encode.links import Linking, leads_nowhere, looked_at
from lakebed.writing.encode.missing_values import plain_column, with_absent
from lakebed.writing.encode.rows import row_length


def encode_sample(sample: Any, state: TensorState, linking: Linking) -> Column:
    """Encode one sample of any kind for a tensor; see ``Tensor.append``."""
    name = state.meta.name or state.key
    if isinstance(sample, TensorSamples):
        if sample.is_single:
            return encode_samples(sample, state, linking)
        sample = sample.numpy()
    return encode_one(sample, state.meta, state.info, name, linking)


def encode_samples(samples: Any, state: TensorState, linking: Linking) -> Column:
    """Encode a column of any kind for a tensor; see ``Tensor.extend``. Nulls in a tensor are kept."""
    name = state.meta.name or state.key
    if type(samples) is list and any(issubclass(kind, TensorSamples) for kind in set(map(type, samples))):
        return _encode_stored_among(samples, state, linking)
    if type(samples) is np.ndarray or not isinstance(samples, TensorSamples):
        return encode_column(samples, state.meta, state.info, name, linking)
    if samples.fits_stored(state.meta) and not state.info.get(STRICT):
        columns = samples.stored(state)
        if state.meta.is_link:
            columns = (_recoded(column, samples.creds_names(), linking, name) for column in columns)
        return joined(list(columns), state)
    if state.meta.is_link and samples.is_link and not samples.goes_inside:
        return encode_column(list(samples.links()), state.meta, state.info, name, linking.of_others())
    if samples.holds_nothing:
        return encode_column(
            [None] * (1 if samples.is_single else len(samples)), state.meta, state.info, name, linking
        )
    return encode_column(list(samples.recorded_values()), state.meta, state.info, name, linking)


def of_one_length(column: Column, state: TensorState, *, is_new: bool = True) -> Column:
    """Return encoded samples unchanged; for an embedding, first check that all vectors have the same length.

    Deep Lake 3.x stores vectors of any length. A tensor that already has vectors of different lengths accepts more
    of them, appended or as replacements, with a warning.

    Parameters
    ----------
    is_new
        True if the samples are added; False if they replace existing samples.

    Raises
    ------
    SampleAppendError
        If an added vector has another length.
    """
    meta = state.meta
    if meta.htype != "embedding":
        return column
    lengths = [length for part in column.parts for length in _lengths_of(part) if length]
    usual = row_length(meta) or (0 if meta.max_shape[-1:] > (0,) else next(iter(lengths), 0))
    odd = next((length for length in lengths if length != usual), None)
    if odd is None:
        return column
    if not usual or not is_new:
        there = f"of {usual:,} numbers" if usual else "of several lengths"
        warnings.warn(
            f"tensor {meta.name!r} has vectors {there}, and a sample has {odd:,}: they cannot be searched together",
            UnusualSampleWarning,
            stacklevel=2,
        )
        return column
    raise SampleAppendError(
        f"Failed to append to the tensor {meta.name!r}: its vectors have {usual:,} numbers, and a sample has "
        f"{odd:,}. Searches compare the vectors of an embedding, so all need the same length; a tensor of htype "
        "generic accepts any length"
    )


def _lengths_of(part: Encoded) -> list[int]:
    """Return the distinct lengths of vectors, in the order of their first occurrence."""
    shapes = part.block.shapes
    if shapes is None or isinstance(shapes, tuple):
        return list(shapes[-1:] if shapes else ())
    found: list[int] = list(dict.fromkeys(shapes[:, -1].tolist()))
    return found


def _encode_stored_among(samples: list[Any], state: TensorState, linking: Linking) -> Column:
    """Encode a list that mixes samples of tensors with other values; samples of tensors keep their stored bytes."""
    columns: list[Column] = []
    known = state
    for is_stored, run in groupby(samples, lambda sample: isinstance(sample, TensorSamples)):
        for piece in run if is_stored else [list(run)]:
            encode = encode_sample if is_stored else encode_samples
            columns.append(encode(piece, known, linking))
            if not state.meta.is_link:  # the extents of a tensor of links are those of the linked data
                known = after(known, columns[-1].parts)
    return joined_rows(columns, state)


def _recoded(column: Column, names: Callable[[int], str | None], linking: Linking, tensor: str) -> Column:
    """Replace the codes of credentials in links from another dataset by the codes that this dataset uses."""
    parts = []
    for part in column.parts:
        if part.creds is not None and part.creds.any():
            codes, places = np.unique(part.creds, return_inverse=True)
            try:
                new = np.array([linking.code(names(int(code))) for code in codes], dtype=np.uint32)
            except MissingCredsError as error:
                raise SampleAppendError(f"Failed to append to the tensor {tensor!r}: {error}") from error
            part = replace(part, creds=new[places])
        parts.append(part)
    return replace(column, parts=parts)


def encode_singly(
    samples: Any, state: TensorState, linking: Linking, *, strict: bool, progressbar: bool
) -> Column:
    """Encode a column sample by sample; links are checked together first.

    Parameters
    ----------
    strict
        Raise an error if a sample does not fit; otherwise leave it out.
    progressbar
        Show a progress bar.

    Raises
    ------
    SampleAppendError
        If a sample does not fit, or the samples cannot be counted.
    """
    columns: list[Column] = []
    known = state
    inputs = as_column(plain_column(samples), state)
    if state.meta.is_link and not isinstance(inputs, TensorSamples):
        inputs = list(inputs)
        linking = looked_at(inputs, state.meta, linking, partial(progress, shown=progressbar))
        rows = inputs if strict else [row for row in inputs if not leads_nowhere(row, linking)]
        try:
            return encode_samples(rows, state, linking)
        except SampleAppendError:
            if strict:
                raise
        progressbar = False
    arrow = is_arrow(inputs)
    if arrow:
        inputs = list(_rows_of(inputs))
    for sample in progress(inputs, shown=progressbar):
        try:
            column = of_one_length(
                (encode_samples if arrow else encode_sample)(sample, known, linking), known
            )
        except SampleAppendError:
            if strict:
                raise
            continue
        columns.append(column)
        known = after(known, column.parts)
    return joined_rows(columns, state)


def _rows_of(values: Any) -> Iterator[Any]:
    """Yield the rows of an Arrow array, each one as an array of length one."""
    for array in chunks_of(values):
        for i in range(len(array)):
            yield array[i : i + 1]


def joined(columns: Sequence[Column], state: TensorState) -> Column:
    """Join several columns of one tensor into one column."""
    parts = [part for column in columns for part in column.parts]
    items = [column.items for column in columns if column.items is not None]
    return Column(parts, np.concatenate([np.zeros(0, np.int64), *items]) if state.meta.is_sequence else None)


def joined_rows(columns: Sequence[Column], state: TensorState) -> Column:
    """Join columns of one row each; if the samples are arrays, empty samples before the first array become nulls."""
    column = joined(columns, state)
    return column if column.items is not None else replace(column, parts=with_absent(column.parts, state))


def as_column(samples: Any, state: TensorState) -> Any:
    """Return samples as an object that can be iterated over.

    Raises
    ------
    SampleAppendError
        If ``samples`` is a single value.
    """
    if isinstance(samples, str | bytes | Mapping) or not hasattr(samples, "__iter__"):
        raise SampleAppendError(
            f"Failed to append to the tensor {state.meta.name!r}: a column of samples must be an array or a list, "
            f"not a single {type(samples).__name__}"
        )
    return samples


def progress(samples: Any, *, shown: bool) -> Iterable[Any]:
    """Return the samples, with a progress bar on request."""
    if not shown:
        return cast("Iterable[Any]", samples)
    from tqdm import tqdm

    return cast("Iterable[Any]", tqdm(samples, desc="Extending"))


def after(state: TensorState, parts: Sequence[Encoded]) -> TensorState:
    """Return a tensor's state as it will be after the samples are added: htype, dtype, extents, info."""
    if not parts:
        return state
    info = dict(state.info)
    for part in parts:
        info.update(part.info)
    meta = parts[-1].meta
    for part in parts:
        bounds = part.block.shape_bounds()
        # Ignore the shape of a link itself; use the shape of the data that it refers to.
        if bounds is not None and len(meta.max_shape) in (0, len(bounds[1])):
            low, high = meta.widened(bounds)
            meta = meta.with_(min_shape=low, max_shape=high)
    return replace(state, meta=meta, info=info)
