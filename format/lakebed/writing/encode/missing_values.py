"""Missing values in the columns that users pass: None, NA, NaT, masked values, nulls of Arrow.

column                                          missing values
list, tuple, array of objects                   None, pandas.NA, pandas.NaT, numpy.ma.masked
numpy.ma.MaskedArray                            masked samples; a sample must be masked as a whole
pandas: numbers of NumPy                        none: NaN is a value
pandas: all other columns                       values for which pandas.isna is true: None, NaN, NA, NaT
Arrow (pyarrow, polars)                         nulls
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import TensorInvalidSampleShapeError
from lakebed.htypes.base import Storing
from lakebed.htypes.registry import htype_named
from lakebed.versions.state import TensorState
from lakebed.writing.encode.encoded import Encoded, Samples

Mask = NDArray[np.bool_]
Kinds = set[type]

_NONE = type(None)

SPELLED = ("period", "interval")
"""Prefixes of dtypes of pandas whose values are stored as text: in Arrow they are numbers that lose their meaning."""


def plain_column(values: Any) -> Any:
    """Convert a column of pandas, or a masked array, to an array, a list with None, or an Arrow array.

    Other columns are returned unchanged.

    Raises
    ------
    TensorInvalidSampleShapeError
        If a part of a sample is masked.
    """
    masks = _masks()
    if masks is not None and isinstance(values, masks.MaskedArray):
        return _unmasked(values)
    pandas = _pandas()
    if pandas is not None and isinstance(
        values, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)
    ):
        return _from_pandas(values, pandas)
    return values


def plain_rows(rows: Samples) -> tuple[Samples, Kinds | None]:
    """Return samples, with None for missing values, and their types; no types for numbers in an array."""
    if isinstance(rows, np.ndarray) and rows.dtype != object:
        return rows, None
    kinds = set(map(type, rows))
    others = _other_types() & kinds
    if not others:
        return rows, kinds
    return [None if type(row) in others else row for row in rows], (kinds - others) | {_NONE}


def plain_sample(value: Any) -> Any:
    """Return a sample; None if it is any kind of missing value."""
    return None if type(value) in _other_types() else value


def _other_types() -> set[type]:
    """Return the types of missing values except None."""
    masks, pandas = _masks(), _pandas()
    found: Kinds = set() if masks is None else {type(masks.masked)}
    return found if pandas is None else found | {type(pandas.NA), type(pandas.NaT)}


def _masks() -> Any:
    """Return numpy.ma if the program has imported it: otherwise it has no masked values, and the import is slow."""
    masks = sys.modules.get("numpy.ma")
    return masks if hasattr(masks, "masked") and hasattr(masks, "MaskedArray") else None


def _pandas() -> Any:
    """Return pandas if the program has imported it: otherwise it has no values of pandas' types."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    return pandas if hasattr(pandas, "api") and hasattr(pandas, "Series") else None


def _unmasked(values: np.ma.MaskedArray[Any, Any]) -> Any:
    mask: Mask = np.ma.getmaskarray(values)
    data = np.asarray(values.data)
    if values.ndim == 0 or not mask.any():
        return data
    if values.ndim == 1:
        if data.dtype.kind not in "biufmM":
            return [None if mask[i] else value for i, value in enumerate(data)]
        import pyarrow as pa

        return pa.array(data, mask=mask)
    flat = mask.reshape(len(mask), -1)
    gone = np.asarray(flat.all(axis=1))
    if bool((flat.any(axis=1) & ~gone).any()):
        raise TensorInvalidSampleShapeError(
            "a part of a sample is masked: only whole samples can be missing; give it values with filled()"
        )
    return [None if gone[i] else row for i, row in enumerate(data)]


def _from_pandas(values: Any, pandas: Any) -> Any:
    dtype = values.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biufc":
        return values.to_numpy()
    inner = getattr(dtype, "categories", None) if isinstance(dtype, pandas.CategoricalDtype) else values
    if str(getattr(inner, "dtype", "")).startswith(SPELLED):
        return [None if gone else str(value) for value, gone in zip(values, pandas.isna(values), strict=True)]
    if not isinstance(dtype, np.dtype) or dtype.kind in "mM":
        import pyarrow as pa

        from lakebed.htypes.arrow import storing_of

        try:
            array = pa.array(values)
        except (pa.ArrowException, TypeError, ValueError):  # Arrow has no type for these values
            array = None
        if isinstance(array, pa.Array | pa.ChunkedArray) and not pa.types.is_null(array.type):
            # Text in an Arrow column may count as JSON or as an address; text of pandas is plain text, so pass Python
            # texts.
            texts = storing_of(array) is Storing.TEXT
            return array.to_pylist() if texts else array
    objects = values.to_numpy(dtype=object)
    return [None if gone else value for value, gone in zip(objects, pandas.isna(objects), strict=True)]


def missing_rows(rows: Samples, kinds: Kinds | None) -> Mask | None:
    """Return a mask of the rows that are None, shape (rows,); None if no row is None.

    Parameters
    ----------
    kinds
        The types of the rows, as :func:`plain_rows` gives them.
    """
    if kinds is None or _NONE not in kinds:
        return None
    return np.fromiter((row is None for row in rows), np.bool_, len(rows))


def with_nulls(parts: Sequence[Encoded], nulls: Mask | None, logical: object) -> list[Encoded]:
    """Mark the nulls among encoded samples; single numbers need no marks, because nulls have no bytes.

    Parameters
    ----------
    nulls
        True for each sample that is null, shape (samples,); None if no sample is null.
    logical
        Logical type in the tensor's info.
    """
    if nulls is None or not parts or (_are_single_numbers(parts) and not _is_list(logical)):
        return list(parts)
    found, start = [], 0
    for part in parts:
        stop = start + part.block.count
        mask = nulls[start:stop]
        found.append(_with(part, mask))
        start = stop
    return found


def with_absent(parts: Sequence[Encoded], state: TensorState) -> Sequence[Encoded]:
    """Mark empty samples as nulls in all parts before the first array of several numbers.

    While a tensor holds only single numbers, an empty sample is a null; see ``DraftCompanions.keep_absent``.
    """
    if list(state.meta.max_shape) not in ([], [1]) or _is_list(state.info.get("logical_type")):
        return parts
    largest = [() if (bounds := part.block.shape_bounds()) is None else bounds[1] for part in parts]
    wide = next((i for i, shape in enumerate(largest) if shape > (1,)), 0)
    if not wide or len(largest[wide]) != 1 or parts[0].info.get("logical_type"):
        return parts
    if htype_named(parts[wide].meta.htype).storing is not Storing.ARRAY or state.meta.is_link:
        return parts
    found = [
        part if part.nulls is not None else _with(part, part.block.shape_array(1)[:, 0] == 0)
        for part in parts[:wide]
    ]
    return [*found, *parts[wide:]]


def _with(part: Encoded, nulls: Mask) -> Encoded:
    return replace(part, nulls=nulls) if nulls.any() else part


def _is_list(logical: object) -> bool:
    return isinstance(logical, str) and "list<" in logical


def _are_single_numbers(parts: Sequence[Encoded]) -> bool:
    """Return whether a tensor with these samples added holds only single numbers, as far as is known."""
    meta: TensorMeta = parts[-1].meta
    if htype_named(meta.htype).storing is not Storing.ARRAY or meta.is_link:
        return False
    largest = [tuple(meta.max_shape)]
    largest += [bounds[1] for part in parts if (bounds := part.block.shape_bounds()) is not None]
    ranks = {len(shape) for shape in largest if shape}
    return ranks == {1} and max(shape[0] for shape in largest if shape) == 1
