"""Rows of Python as columns: Arrow columns if all values of a column have one type, otherwise Python values.

values                                        column
integers; integers and floats; booleans       Arrow's numbers, if no digit is lost
text, dates, times, decimals, bytes           Arrow's
UUIDs, paths, pandas' periods and intervals   their text
lists and arrays of numbers, one axis         lists; of fixed size if all have one length
arrays and lists of several axes, tensors     Python values: arrays
files (`lakebed.read`), pictures of Pillow    Python values: files of media
links, paths of files of media                Python values: links and files
dictionaries, mixed values                    Python values: JSON
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.codecs.sample import Sample
from lakebed.errors import IngestionError
from lakebed.htypes.documents import plain_value
from lakebed.htypes.registry import FILE_KINDS
from lakebed.htypes.text import spelled
from lakebed.importers.core.plan import TensorPlan, media
from lakebed.importers.core.source import suffix_of
from lakebed.importers.folders.pictures import IMAGE_KINDS
from lakebed.links.link import LinkedSample
from lakebed.links.read import read
from lakebed.writing.encode.column import in_arrow_unit
from lakebed.writing.encode.missing_values import plain_rows

# Types whose values JSON can represent, or that a text can represent without loss.
_TOLD = (bool, int, float, str, bytes, date, time, timedelta)
_PLAIN = {type(None), bool, int, float, str}


@dataclass
class PythonColumns:
    """Columns of rows.

    Parameters
    ----------
    count
        Number of rows.
    names
        Keys in order.
    arrow
        Columns of Arrow by key.
    apart
        Columns of Python values by key.
    documents
        Keys in `apart` whose values are JSON.
    files
        Key in `apart` whose values are files -> its tensor.
    """

    count: int
    names: Sequence[str]
    arrow: dict[str, Any] = field(default_factory=dict)
    apart: dict[str, Sequence[Any]] = field(default_factory=dict)
    documents: set[str] = field(default_factory=set)
    files: dict[str, TensorPlan] = field(default_factory=dict)


def columns_of_rows(
    rows: Iterable[Mapping[str, Any]] | Mapping[str, Any],
    documents: Sequence[str] = (),
    embeddings: Sequence[str] = (),
    wished: Container[str] = (),
) -> PythonColumns:
    """Return the columns of rows.

    Parameters
    ----------
    rows
        Dictionaries; or a dictionary of columns.
    documents, embeddings
        Keys whose values are stored as JSON, and keys whose integers are stored as floats.
    wished
        Keys whose files the user describes.

    Raises
    ------
    IngestionError
        If a row is not a dictionary, a key is not text, or columns differ in length.
    """
    columns = _of_columns(rows) if isinstance(rows, Mapping) else _of_rows(list(rows))
    found = PythonColumns(len(next(iter(columns.values()), ())), list(columns))
    for name, column in columns.items():
        raw, kinds = plain_rows([_plain(value) for value in column])
        values = list(raw)
        if name not in wished and (plan := _files(name, values)) is not None:
            form = plan.arguments["sample_compression"]
            found.files[name], found.apart[name] = plan, [_file(value, form) for value in values]
            continue
        if kinds is not None and not kinds <= _PLAIN:
            values = [value if isinstance(value, Decimal) else spelled(value) for value in values]
        is_document = name in documents
        arrays = None if is_document else _arrays(values)
        made = None if is_document or arrays is not None else _arrow(values, is_vector=name in embeddings)
        if arrays is not None:
            found.apart[name] = arrays
        elif made is not None:
            found.arrow[name] = made
        else:
            found.documents.add(name)
            found.apart[name] = [_document(value, name, row) for row, value in enumerate(values)]
    return found


def _of_rows(rows: list[Any]) -> dict[str, Sequence[Any]]:
    names: dict[str, None] = {}
    for at, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise IngestionError(f"rows must be dictionaries, but row {at} is of type {type(row).__name__}")
        for key in row:
            if not isinstance(key, str):
                raise IngestionError(
                    f"row {at} has the key {key!r}; keys must be texts, the names of tensors"
                )
        names |= dict.fromkeys(row)
    return {name: [row.get(name) for row in rows] for name in names}


def _of_columns(columns: Mapping[Any, Any]) -> dict[str, Sequence[Any]]:
    found: dict[str, Any] = {}
    for name, values in columns.items():
        way = next((way for way in ("to_pylist", "to_list") if hasattr(values, way)), None)
        plain = _plain(values if way is None else getattr(values, way)())
        is_column = isinstance(plain, Iterable) and not isinstance(plain, str | bytes | Mapping)
        if not isinstance(name, str) or not is_column:
            raise IngestionError(
                f"{name!r} is of type {type(values).__name__}: a dictionary of columns must have names, and lists or "
                "arrays of values; pass one row as a list of one dictionary, [{...}]"
            )
        found[name] = plain if isinstance(plain, list | tuple | np.ndarray) else list(plain)
    lengths = {name: len(values) for name, values in found.items()}
    if len({*lengths.values()}) > 1:
        raise IngestionError(f"columns differ in length: {lengths}")
    return found


def _plain(value: Any) -> Any:
    """Convert a value of another library to a value of NumPy or Python; moments get units that Arrow supports."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return in_arrow_unit(value)
    if type(value) is np.ndarray and value.ndim == 0:
        return value[()]
    if isinstance(value, np.ndarray | np.generic | Sample) or _is_picture(value):
        return value
    if hasattr(value, "detach"):  # a tensor of PyTorch, perhaps with a gradient or on a device
        value = value.detach().cpu()
    return _plain(np.asarray(value)) if hasattr(value, "__array__") else value


def _is_picture(value: Any) -> bool:
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def _files(name: str, values: Sequence[Any]) -> TensorPlan | None:
    """Return the tensor of a column of files, links or pictures; None for other columns."""
    kinds = {_kind_of_file(value) for value in values if value is not None}
    if not kinds or None in kinds:
        return None
    found = {(htype, is_link) for htype, _, is_link in filter(None, kinds)}
    forms = {form for _, form, _ in filter(None, kinds)}
    htype, is_link = found.pop()
    if found or (len(forms) > 1 and htype != "image"):
        return None
    # Pictures of several kinds are stored as PNG, which is lossless, because no report lists losses here.
    return media(name, htype, compression=forms.pop() if len(forms) == 1 else "png", link=is_link)


def _kind_of_file(value: Any) -> tuple[str, str, bool] | None:
    """Return (htype, kind of file, whether the value is a link) of a file; None for other values."""
    if _is_picture(value):
        return "image", "png", False
    is_link = isinstance(value, LinkedSample)
    if isinstance(value, Sample):
        kind = value.compression
    elif is_link or isinstance(value, PurePath):
        suffix = suffix_of(str(value.path) if is_link else value.name)
        kind = IMAGE_KINDS.get(suffix, suffix[1:])
    else:
        return None
    htype = next((htype for htype, kinds in FILE_KINDS.items() if kind in kinds), None)
    return None if htype is None else (htype, str(kind), is_link)


def _file(value: Any, compression: object) -> Any:
    """Return a value for the tensor: the file at a path; for a picture of another kind, its pixels."""
    if isinstance(value, PurePath):
        value = read(str(value))
    return value.array if isinstance(value, Sample) and value.compression != compression else value


def _arrays(values: Sequence[Any]) -> list[Any] | None:
    """Return values of several axes as arrays, and empty lists as arrays without rows; None if other values occur."""
    there = [value for value in values if value is not None]
    if there and all(isinstance(value, np.ndarray) and value.ndim > 1 for value in there):
        return list(values)
    found = [None if value is None else _array(value) for value in values]
    wide = [array for array in found if array is not None and array.ndim > 1]
    if not wide or len({array.ndim for array in wide}) > 1:
        return None
    dtype = np.result_type(*wide)
    if dtype.kind == "f" and any(array.dtype.kind in "iu" and not _is_exact(array, dtype) for array in wide):
        return None
    empty = np.empty((0, *wide[0].shape[1:]), dtype)
    made: list[Any] = []
    for value, array in zip(values, found, strict=True):
        if array is not None and array.ndim == wide[0].ndim:
            made.append(array.astype(dtype, copy=False))
        elif value is None or (isinstance(value, list | tuple) and not value):
            made.append(None if value is None else empty)
        else:
            return None
    return made


def _is_exact(array: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    return bool((array.astype(dtype).astype(array.dtype) == array).all())


def _array(value: Any) -> NDArray[Any] | None:
    """Return an array, or nested lists of numbers of one kind, as an array; None for other values."""
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "biufc" else None
    is_list = isinstance(value, list | tuple) and len(value) > 0
    if not is_list or not isinstance(value[0], list | tuple | np.ndarray):
        return None
    kinds = set(_kinds(value))
    if not kinds or not (kinds <= set("iuf") or kinds == {"b"}):
        return None
    try:
        array = np.array(value)
    except (ValueError, OverflowError):  # the inner lists differ in length, or a number is too large
        return None
    may_round = array.dtype.kind == "f" and kinds & {"i", "u"}
    is_exact = not may_round or _is_exact(np.array(value, object), array.dtype)
    return array if array.dtype.kind in "biuf" and is_exact else None


def _kinds(value: Any) -> Iterator[str]:
    """Yield the kinds of the values of nested lists, as NumPy's dtypes name them."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from _kinds(one)
    elif isinstance(value, np.ndarray | np.generic):
        yield value.dtype.kind
    else:
        yield {bool: "b", int: "i", float: "f"}.get(type(value), "O")


def _arrow(values: list[Any], *, is_vector: bool) -> Any:
    """Return values as a column of Arrow; None if Arrow has no type for them."""
    there = [value for value in values if value is not None]
    lists = [value for value in there if isinstance(value, list | tuple | np.ndarray)]
    if any(isinstance(value, Mapping | set) for value in there):
        return None
    if lists and (len(lists) < len(there) or not all(map(_is_numbers, lists))):
        return None
    try:
        column = pa.array(values)
        if is_vector and lists and pa.types.is_integer(column.type.value_type):
            column = column.cast(pa.list_(pa.float64()))
        lengths = {len(value) for value in lists}
        if len(lengths) == 1 and pa.types.is_list(column.type):
            column = column.cast(pa.list_(column.type.value_type, lengths.pop()))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return column


def _is_numbers(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "biuf"
    return all(isinstance(one, int | float | np.number | np.bool_) for one in value)


def _document(value: Any, name: str, row: int) -> Any:
    """Return a value as JSON.

    Raises
    ------
    IngestionError
        If the value contains an object that JSON cannot represent.
    """
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "c":
        return plain_value(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _document(one, name, row) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_document(one, name, row) for one in value]
    value = spelled(value)
    if value is None or isinstance(value, _TOLD):
        return plain_value(value)
    kind = getattr(value, "dtype", type(value).__name__)
    raise IngestionError(
        f"row {row}: {name!r} is of type {kind}, which no tensor type fits. Create the tensors with "
        "ds.create_tensor, and add the rows with ds.extend(rows)"
    )
