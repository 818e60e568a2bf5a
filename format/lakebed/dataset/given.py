"""What a caller hands in as samples -> encoded columns: arrays, lists, Arrow data, or samples of another tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from lakebed.dataset.readable import Readable
from lakebed.errors import MissingCredsError, SampleAppendError
from lakebed.versions.state import TensorState
from lakebed.writing.coerce import encode_column, encode_one
from lakebed.writing.encoded import Column, Encoded
from lakebed.writing.link_rows import Linking, leads_nowhere, looked_at


def encode_sample(sample: Any, state: TensorState, linking: Linking) -> Column:
    """Encode one sample, given in any way or as a tensor, for the tensor of that state; see ``Tensor.append``."""
    name = state.meta.name or state.key
    if isinstance(sample, Readable):
        if sample.is_single:
            return encode_samples(sample, state, linking)
        sample = sample.numpy()
    return encode_one(sample, state.meta, state.info, name, linking)


def encode_samples(samples: Any, state: TensorState, linking: Linking) -> Column:
    """Encode a column, given in any way or as a tensor, whose nulls stay nulls; see ``Tensor.extend``."""
    name = state.meta.name or state.key
    if not isinstance(samples, Readable):
        return encode_column(samples, state.meta, state.info, name, linking)
    if samples.fits_stored(state.meta):
        columns = samples.stored(state)
        if state.meta.is_link:
            columns = (_recoded(column, samples.creds_names(), linking, name) for column in columns)
        return joined(list(columns), state)
    if state.meta.is_link and samples.is_link and not samples.goes_inside:
        return encode_column(list(samples.links()), state.meta, state.info, name, linking)
    column = encode_column(list(samples.values()), state.meta, state.info, name, linking)
    nulls = samples.null_mask()
    if nulls is None or len(column.parts) != 1:
        return column
    return replace(column, parts=[replace(column.parts[0], nulls=nulls)])


def _recoded(column: Column, names: Callable[[int], str | None], linking: Linking, tensor: str) -> Column:
    """Give links of one dataset the codes that their credentials have in another."""
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
    """Encode a column sample by sample; links are looked at together before.

    Parameters
    ----------
    strict
        Raise if a sample does not fit; otherwise it is left out.
    progressbar
        Show how far it is.

    Raises
    ------
    SampleAppendError
        If a sample does not fit, or the samples can not be counted off.
    """
    columns: list[Column] = []
    known = state
    given = as_column(samples, state)
    if state.meta.is_link and not isinstance(given, Readable):
        given = list(given)
        linking = looked_at(given, state.meta, linking, partial(progress, shown=progressbar))
        rows = given if strict else [row for row in given if not leads_nowhere(row, linking)]
        try:
            return encode_samples(rows, state, linking)
        except SampleAppendError:
            if strict:
                raise
        progressbar = False
    for sample in progress(given, shown=progressbar):
        try:
            column = encode_sample(sample, known, linking)
        except SampleAppendError:
            if strict:
                raise
            continue
        columns.append(column)
        known = after(known, column.parts)
    return joined(columns, state)


def joined(columns: Sequence[Column], state: TensorState) -> Column:
    """Return columns of one tensor as one."""
    parts = [part for column in columns for part in column.parts]
    items = [column.items for column in columns if column.items is not None]
    return Column(parts, np.concatenate([np.zeros(0, np.int64), *items]) if state.meta.is_sequence else None)


def as_column(samples: Any, state: TensorState) -> Any:
    """Return what can be iterated over sample by sample.

    Raises
    ------
    SampleAppendError
        If it is one value.
    """
    if isinstance(samples, str | bytes | Mapping) or not hasattr(samples, "__iter__"):
        raise SampleAppendError(
            f"Failed to append to the tensor {state.meta.name!r}: a column of samples must be an array or a list, "
            f"not one {type(samples).__name__}"
        )
    return samples


def progress(samples: Any, *, shown: bool) -> Iterable[Any]:
    """Return the samples, with a progress bar if it is to be shown."""
    if not shown:
        return cast("Iterable[Any]", samples)
    from tqdm import tqdm

    return cast("Iterable[Any]", tqdm(samples, desc="Extending"))


def after(state: TensorState, parts: Sequence[Encoded]) -> TensorState:
    """Return what a tensor will have learned once it takes in some encoded samples: htype, dtype, rank, info."""
    if not parts:
        return state
    info = dict(state.info)
    for part in parts:
        info.update(part.info)
    meta = parts[-1].meta
    if not meta.max_shape:
        ranks = (part.block.shape_bounds() for part in reversed(parts))
        bounds = next((b for b in ranks if b is not None), None)
        if bounds is not None:
            meta = meta.with_(min_shape=bounds[0], max_shape=bounds[1])
    return replace(state, meta=meta, info=info)
