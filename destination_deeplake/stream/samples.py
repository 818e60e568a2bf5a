"""Conversion of columns for their tensors. A value that does not fit becomes null and is reported; the row stays.

    stored as                     what does not fit
    generic of a narrow dtype     a number beyond its range
    array of numbers              an array with a number beyond the range of the dtype
    class_label                   a number that is not an index; every text fits
    link                          anything that is not an address with a scheme that links may have
    json                          a value that is nested too deeply for readers
    file                          see `files`

Columns are checked as whole arrays; only rows that do not fit become Python objects.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import lakebed
from destination_deeplake.columns import REFUSED as REFUSED_VALUES
from destination_deeplake.tensors import LINK, TensorType, nested
from lakebed.upserts.ndarrays import numbers_of, present

Rows = NDArray[np.int64]
"""Positions of rows, ascending."""

NO_ROWS: Rows = np.empty(0, np.int64)
REFUSED = "DESTINATION_SERIALIZATION_ERROR"
TOO_LARGE = "DESTINATION_FIELD_SIZE_LIMITATION"

_MOST_TEXT = 1 << 16

_ADDRESS = r"^(?i:https?|s3|gs|az|file)://[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$"
"""Schemes that `lakebed.link` follows, without local paths, which differ between readers."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A column, converted for its tensor.

    Attributes
    ----------
    array : pyarrow.Array
        Values of the tensor's type; null in rows whose value did not fit.
    refused : ndarray of int64
        Rows whose value did not fit.
    reason : str
        Reason, as in `_airbyte_meta.changes`.
    """

    array: pa.Array
    refused: Rows = field(default_factory=lambda: NO_ROWS)
    reason: str = REFUSED


def validity_of(there: NDArray[np.bool_]) -> pa.Buffer | None:
    """Return the bitmap of rows that are not null; None if no row is null."""
    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))


def scalars(array: pa.Array, of_type: TensorType) -> Fitted:
    """Fit numbers to the dtype of a generic tensor."""
    if array.type == of_type.arrow and not of_type.nulls_as_nan:
        return Fitted(array)
    there = present(array)
    values, beyond = _cast(numbers_of(array), np.dtype(of_type.dtype))
    refused = there & beyond
    there = there & ~beyond
    if of_type.nulls_as_nan:
        return Fitted(pa.array(np.where(there, values, np.nan).astype(values.dtype)), np.flatnonzero(refused))
    return Fitted(_array(of_type.arrow, values, there), np.flatnonzero(refused))


def arrays(array: pa.Array, of_type: TensorType) -> Fitted:
    """Fit flat arrays of numbers to the dtype and the shape of a tensor."""
    there = present(array)
    lengths = np.where(there, np.diff(offsets_of(array)), 0)
    values, beyond = _cast(numbers_of(array.flatten()), np.dtype(of_type.dtype))
    refused = np.zeros(len(array), np.bool_)
    if beyond.any():
        row_of = np.repeat(np.arange(len(array)), lengths)
        refused[row_of[beyond]] = True
        values = values[~refused[row_of]]
        lengths[refused] = 0
        there = there & ~refused
    return Fitted(_lists(values, lengths, there, of_type), np.flatnonzero(refused))


def _lists(values: NDArray[Any], lengths: Rows, there: NDArray[np.bool_], of_type: TensorType) -> pa.Array:
    shape = of_type.shape
    if shape is None:
        return _outer(pa.array(values), lengths, there, of_type.arrow)
    if of_type.nulls_as_nan and not there.all():
        rows = np.full((len(there), int(np.prod(shape))), np.nan, values.dtype)
        rows[there] = values.reshape(-1, rows.shape[1])
        values, there = rows.reshape(-1), np.ones_like(there)
    flat = pa.array(values)
    rows_of_each = lengths // int(np.prod(shape[1:])) if shape[0] == 0 else there * shape[0]
    if len(shape) > 1:
        flat = nested(flat, shape[1:], of_type.arrow.value_type, int(rows_of_each.sum()))
    return _outer(flat, rows_of_each, there, of_type.arrow)


def _outer(items: pa.Array, lengths: Rows, there: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [validity_of(there), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(lengths), buffers, children=[items])


class Labels:
    """The names of a class_label tensor, which grow in order of arrival.

    Attributes
    ----------
    names : list of str
        Class names by index.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self._index = {name: index for index, name in enumerate(self.names)}

    def fit(self, array: pa.Array, of_type: TensorType) -> Fitted:
        """Fit names or indices; new names are added."""
        if not pa.types.is_string(array.type):
            return scalars(array, _INDEX)
        coded = array.dictionary_encode()
        index = np.array([self._of(name) for name in coded.dictionary.to_pylist()], np.uint32)
        there = present(coded.indices)
        # The index under a null is arbitrary, so use 0.
        codes = np.where(there, numbers_of(coded.indices), 0)
        values = index[codes] if len(index) else np.zeros(len(array), np.uint32)
        return Fitted(_array(of_type.arrow, values, there))

    def _of(self, name: str) -> int:
        index = self._index.setdefault(name, len(self.names))
        if index == len(self.names):
            self.names.append(name)
        return index


_INDEX = TensorType("generic", "uint32", None, pa.uint32())


def links(array: pa.Array, of_type: TensorType) -> Fitted:
    """Fit addresses to a tensor of links."""
    # Imported here, because that takes a tenth of a second, and few streams have links.
    import pyarrow.compute as pc

    there = present(array)
    leads = pc.fill_null(pc.match_substring_regex(array, _ADDRESS), False)
    refused = there & ~numbers_of(leads)
    keys = (
        pa.nulls(len(array), pa.string())
        if of_type.creds_key is None
        else pa.repeat(of_type.creds_key, len(array))
    )
    absent = pa.array(~there | refused)
    rows = pa.StructArray.from_arrays([array, keys], fields=list(LINK), mask=absent)
    return Fitted(rows, np.flatnonzero(refused))


def documents(array: pa.Array) -> Fitted:
    """Fit JSON texts: readers refuse too deep nesting (`lakebed.limits.MAX_JSON_DEPTH`), and with it the whole batch.

    Parameters
    ----------
    array : pyarrow.Array of json
        Each text valid JSON.
    """
    deepest = lakebed.limits.MAX_JSON_DEPTH
    texts = array.storage
    offsets = offsets_of(texts)
    # A text nested more deeply than the limit is longer than this, because each level takes two brackets.
    long = np.flatnonzero((np.diff(offsets) > 2 * deepest) & present(texts))
    data = memoryview(texts.buffers()[2] or b"").cast("B")
    refused: Rows = np.array(
        [row for row in long if lakebed.limits.json_depth(data[offsets[row] : offsets[row + 1]]) > deepest],
        np.int64,
    )
    if not len(refused):
        return Fitted(array)
    # Imported here, because that takes a tenth of a second, and few syncs need it.
    import pyarrow.compute as pc

    fits = np.ones(len(texts), np.bool_)
    fits[refused] = False
    kept = pc.if_else(pa.array(fits), texts, pa.scalar(None, texts.type))
    return Fitted(pa.ExtensionArray.from_storage(array.type, kept), refused)


def with_changes(meta: pa.Array, changes: Sequence[tuple[Rows, bytes]]) -> pa.Array:
    """Return `_airbyte_meta` with more changes in some rows; other rows are copied as blocks of text.

    Parameters
    ----------
    meta : pyarrow.Array of json
        Texts of the table, each of which ends with the changes.
    changes : sequence of (rows, text)
        From `change`.
    """
    more: dict[int, list[bytes]] = {}
    for rows, text in changes:
        for row in rows.tolist():
            more.setdefault(row, []).append(text)
    if not more:
        return meta
    texts = meta.storage
    offsets = offsets_of(texts).astype(np.int64)
    data = memoryview(texts.buffers()[2]).cast("B")
    pieces: list[bytes | memoryview] = []
    grown = np.zeros(len(offsets), np.int64)
    last = int(offsets[0])
    for row in sorted(more):
        end = int(offsets[row + 1]) - len(b"]}")
        text = b",".join(more[row])
        if data[end - 1] != ord("["):
            text = b"," + text
        pieces += [data[last:end], text]
        grown[row + 1] = len(text)
        last = end
    pieces.append(data[last : int(offsets[-1])])
    joined = b"".join(pieces)
    bounds = (offsets - offsets[0] + np.cumsum(grown)).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(joined)]
    storage = pa.Array.from_buffers(pa.string(), len(meta), buffers)
    return pa.ExtensionArray.from_storage(meta.type, storage)


def change(name: str, reason: str = REFUSED) -> bytes:
    """Return the entry of `_airbyte_meta.changes` for a value that became null."""
    entry = {"field": name, "change": "NULLED", "reason": reason}
    return json.dumps(entry, ensure_ascii=_is_broken(name), separators=(",", ":")).encode()


def refused_values(array: pa.Array, rows: Rows, name: str) -> pa.Table:
    """Return values that did not fit in the form of `Batch.refused`, without line numbers.

    Parameters
    ----------
    array : pyarrow.Array
        The column from the table.
    rows : ndarray of int64
        Rows of the values.
    name : str
        Name of the column in `change`.
    """
    texts, sizes, is_json = [], [], isinstance(array.type, pa.JsonType)
    for value in array.take(pa.array(rows)).to_pylist():
        if isinstance(value, bytes):
            sizes.append(2 + (len(value) + 2) // 3 * 4)
            text = f'"{base64.b64encode(value[:_MOST_TEXT]).decode()}"'
        else:
            text = value if is_json else json.dumps(value, ensure_ascii=False)
            sizes.append(len(text.encode()))
        texts.append(text.encode()[:_MOST_TEXT].decode("utf-8", "ignore"))
    return pa.table(
        {
            "row": pa.array(rows),
            "line_number": pa.nulls(len(rows), pa.int64()),
            "field": pa.array([name] * len(rows), pa.string()).dictionary_encode(),
            "text": pa.array(texts, pa.string()),
            "bytes": pa.array(sizes, pa.int64()),
        },
        schema=REFUSED_VALUES,
    )


def _is_broken(name: str) -> bool:
    """Tell whether a text has half a surrogate pair, which JSON can hold and UTF-8 cannot."""
    return any("\ud800" <= letter <= "\udfff" for letter in name)


def _cast(values: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return values as `dtype`, and the mask of values beyond its range."""
    if values.dtype == dtype:
        return values, np.zeros(len(values), np.bool_)
    if dtype.kind in "iub":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        beyond = ~((values >= low) & (values <= high))
        if values.dtype.kind == "f":
            beyond |= values != np.floor(values)
        return np.where(beyond, 0, values).astype(dtype), beyond
    with np.errstate(over="ignore", invalid="ignore"):
        cast = values.astype(dtype)
    return cast, np.isinf(cast) & np.isfinite(values)


def offsets_of(array: pa.Array) -> NDArray[Any]:
    """Return the starts of the texts, files or lists of an array, and the end of the last."""
    if not len(array):
        return np.zeros(1, np.int32)
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_list(array.type)
    offsets = np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32)
    return offsets[array.offset : array.offset + len(array) + 1]


def _array(kind: pa.DataType, values: NDArray[Any], there: NDArray[np.bool_]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [validity_of(there), pa.py_buffer(values)])
