"""Exact numbers of keys and cursors: numbers that their tensor would round are stored in a second tensor.

    id                    generic float64     9007199254740992.0, the nearest double
    _airbyte_exact/id     text                9007199254740993; null where `id` is exact

The second tensor is created with the first such number, so most streams do not have it. It decides which rows have the
same key (`upserts.numerals`). Dates and times that are finer than their column are such numbers, too (`moments`).
Numbers of other columns are rounded.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import lakebed
from destination_deeplake.columns import Kind
from destination_deeplake.stream.moments import MOMENTS, as_numbers, refitted
from destination_deeplake.tensors import TensorType
from lakebed.upserts.ndarrays import as_arrow, numbers_of, present
from lakebed.upserts.numerals import differing, spelled
from lakebed.upserts.numerals import numbers_of as spelled_numbers_of

_SLICE_ROWS = 1 << 18


def beside(
    cells: pa.Array, taken: pa.Array, rows: NDArray[np.int64], texts: pa.Array, kind: Kind
) -> pa.Array | None:
    """Return the numbers that the stored cells do not represent exactly.

    Parameters
    ----------
    cells, taken : pyarrow.Array
        The column as it is stored, and as it was read: integers or doubles.
    rows : int64, shape (numbers,)
        Ascending rows of numbers that may have been rounded.
    texts : pyarrow.Array
        These numbers as the source wrote them; strings that spell numbers have their quotes.
    kind : Kind
        Kind of the column; `moments` converts dates and times to numbers.

    Returns
    -------
    pyarrow.Array or None
        For each row: the exact number as a text in canonical spelling if the cell does not represent it, else null.
        None if all are null.
    """
    if kind in MOMENTS:
        texts = as_numbers(texts, taken.take(as_arrow(rows)), kind)
    found = spelled(texts, quoted=True)
    if cells.type != taken.type:
        more = np.setdiff1d(_changed(cells, taken), rows)
        rows = np.concatenate([rows, more])
        found = pa.concat_arrays([found, spelled_numbers_of(taken.take(as_arrow(more)))])
    kept = differing(cells.take(as_arrow(rows)), found)
    if not len(kept):
        return None
    places = np.zeros(len(cells), dtype=np.int64)
    places[rows[kept]] = kept
    absent = np.ones(len(cells), dtype=np.bool_)
    absent[rows[kept]] = False
    return found.take(as_arrow(places, absent=absent))


def numbers_of_field(numbers: pa.Table | None, field: str) -> tuple[NDArray[np.int64], pa.Array]:
    """Return rows and texts of the numbers of one field in `Batch.numbers`."""
    if numbers is None:
        return np.zeros(0, np.int64), pa.nulls(0, pa.string())
    rows, _, names, texts, _ = numbers.to_batches()[0].columns
    chosen = np.flatnonzero(numbers_of(names.indices) == names.dictionary.to_pylist().index(field))
    return numbers_of(rows)[chosen], texts.take(as_arrow(chosen))


def _changed(cells: pa.Array, taken: pa.Array) -> NDArray[np.int64]:
    """Return the rows whose number changed, or became null, when it was converted to the tensor's dtype."""
    before, after = numbers_of(taken), numbers_of(cells)
    is_number = present(taken) & np.isfinite(before)
    found: NDArray[np.int64] = np.flatnonzero(is_number & ~(present(cells) & (after == before)))
    return found


def refit(
    dataset: lakebed.Dataset, tensor: str, of_type: TensorType, before: Kind, kind: Kind, beside: str
) -> None:
    """Move exact numbers into a tensor whose new, wider type can hold them; other numbers stay.

    Parameters
    ----------
    dataset : lakebed.Dataset
        The dataset of both tensors.
    tensor : str
        The tensor.
    of_type : TensorType
        New type of the tensor.
    before, kind : Kind
        Old and new kind of its column.
    beside : str
        The tensor of exact numbers.
    """
    for start in range(0, len(dataset[beside]), _SLICE_ROWS):
        stop = min(start + _SLICE_ROWS, len(dataset[beside]))
        texts = dataset.read_columns(start, stop, [beside])[beside]
        rows = np.flatnonzero(present(texts))
        if not len(rows):
            continue
        texts = texts.take(as_arrow(rows))
        if before in MOMENTS:
            stored = dataset.take_rows(rows + start, [tensor])[tensor]
            moments, numbers = refitted(texts.to_pylist(), stored, before, kind)
            cells, left = pa.array(moments), pa.array(numbers, pa.string())
            if of_type.htype == "json":
                cells = pa.ExtensionArray.from_storage(pa.json_(), cells)
        else:
            cells, left = fitted(texts, of_type, kind)
        dataset.update_rows(rows + start, {tensor: cells, beside: left})


def fitted(texts: pa.Array, of_type: TensorType, kind: Kind) -> tuple[pa.Array, pa.Array]:
    """Return the cells of a tensor for numbers, and the texts of numbers that the cells do not represent exactly.

    Parameters
    ----------
    texts : pyarrow.Array
        Numbers in the spelling of `spelled`, none null.
    of_type : TensorType
        Type of the tensor.
    kind : Kind
        Kind of its column.
    """
    cells = _cells(texts, of_type, kind)
    kept = np.zeros(len(texts), dtype=np.bool_)
    if kind in (Kind.INT64, Kind.FLOAT64):
        kept[differing(cells, texts)] = True
    return cells, texts.take(as_arrow(np.arange(len(texts)), absent=~kept))


def _cells(texts: pa.Array, of_type: TensorType, kind: Kind) -> pa.Array:
    """Return the cells of a tensor for numbers."""
    if of_type.htype == "json":
        return pa.ExtensionArray.from_storage(pa.json_(), texts)
    if kind not in (Kind.INT64, Kind.FLOAT64):
        return texts
    dtype = np.dtype(of_type.dtype)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            numbers = np.array([float(text) for text in texts.to_pylist()]).astype(dtype)
        return as_arrow(numbers, absent=np.isinf(numbers))
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    whole = [int(text) if text.lstrip("-").isdecimal() else None for text in texts.to_pylist()]
    return pa.array([n if n is not None and least <= n <= most else None for n in whole], of_type.arrow)
