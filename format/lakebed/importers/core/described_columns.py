"""Columns of Arrow that an exporter of lakebed described: they become the same tensors again.

conversion column                       values
plain      numbers, texts               unchanged
parsed     text                         parsed JSON
arrays     lists of numbers             arrays of the dtype and the number of axes
items      lists                        sequences and polygons, item by item
files      struct<bytes, path>, binary  files
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.codecs.registry import sniff
from lakebed.codecs.sample import Sample
from lakebed.dataset.described import KEY, Described
from lakebed.documents.json_style import decode_custom, load
from lakebed.errors import IngestionError, LakebedError
from lakebed.htypes.base import Storing
from lakebed.importers.core.plan import TensorPlan
from lakebed.importers.folders.pictures import counted, form_of

_MOST_AXES = 32


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is a list of any kind."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is a number or a boolean."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Return whether a type is bytes of any length."""
    return any(
        of(kind) for of in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    )


def innermost(kind: pa.DataType) -> tuple[pa.DataType, int]:
    """Return the innermost type of nested lists, and their depth."""
    depth = 0
    while is_list(kind):
        kind, depth = kind.value_type, depth + 1
    return kind, depth


def described_columns(schema: pa.Schema) -> dict[str, Described]:
    """Return the descriptions of tensors by name of the column; empty if the descriptions are missing or damaged."""
    try:
        tensors = json.loads((schema.metadata or {})[KEY.encode()])["tensors"]
        found = {str(name): Described.from_json(value) for name, value in tensors.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return {name: one for name, one in found.items() if one is not None}


def described_column(
    name: str, field: pa.Field, said: Described, values: pa.Array | None
) -> tuple[str, TensorPlan] | None:
    """Return (conversion, plan of the tensor) of a column; None if its type contradicts the description."""
    kind, depth = innermost(field.type)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_file = is_binary(kind) or pa.types.is_struct(kind)
    items = int(said.is_sequence)
    is_array = said.storing is Storing.ARRAY and not said.is_file
    how = None
    if pa.types.is_null(kind) and not depth:
        how = "plain"
    elif is_file and depth == items and said.storing is Storing.ARRAY:
        how = "files"
    elif said.storing is Storing.TEXT and is_text and depth == items:
        how = "plain"
    elif said.storing in (Storing.JSON, Storing.LIST) and is_text and depth == items:
        how = "parsed"
    elif said.storing is Storing.POLYGON and _is_numeric(kind) and depth == 3 + items:
        how = "items"
    elif is_array and _is_numeric(kind) and items <= depth <= _MOST_AXES:
        how = "arrays" if depth else "plain"
    if how is None:
        return None
    kind_of = None
    if is_file and said.sample_compression is not None:
        kind_of = kind_of_files(said, _files_in(values))
    arguments = said.arguments(kind_of)
    return "items" if items and depth else how, TensorPlan(name, arguments, dict(said.info))


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind)) and not pa.types.is_null(kind)


def as_described(
    values: Any, how: str, said: Described, wrong: dict[int, str], file: Callable[[Any], Any]
) -> Any:
    """Return the values of a tensor; add the rows without a valid value to `wrong`, with the reason.

    Parameters
    ----------
    file
        Function that returns the file that a value names by path or address.
    """
    if how == "plain":
        return values
    if how == "arrays":
        even = _even(values, said)
        if even is not None:
            return even
    convert: Callable[[Any], Any] = {
        "parsed": _parsed,
        "arrays": lambda one: _array(one.values, said),
        "files": lambda one: _file(one, said, file),
        "items": lambda one: _items(one.values, said, file),
    }[how]
    found: list[Any] = []
    for row, one in enumerate(values):
        try:
            found.append(convert(one) if one.is_valid else None)
        except (LakebedError, ValueError, TypeError, OSError) as error:
            found.append(None)
            wrong.setdefault(row, str(error))
    return found


def _parsed(one: Any) -> Any:
    return decode_custom(load(one.as_py().encode("utf-8", "surrogatepass"), "a value"))


def _items(values: Any, said: Described, file: Callable[[Any], Any]) -> list[Any]:
    """Return the items of a sequence, or the parts of a polygon."""
    kind = values.type
    if said.storing is Storing.TEXT:
        return [str(one) for one in values.to_pylist()]
    if said.storing in (Storing.JSON, Storing.LIST):
        return [_parsed(one) for one in values]
    if pa.types.is_struct(kind) or is_binary(kind):
        return [_file(one, said, file) for one in values]
    if said.storing is Storing.POLYGON and said.is_sequence:
        return [[_array(part.values, said) for part in one.values] for one in values]
    if pa.types.is_primitive(kind):
        return [np.asarray(one, said.dtype) for one in values.to_pylist()]
    return [_array(one.values, said) for one in values]


def _file(one: Any, said: Described, file: Callable[[Any], Any]) -> Any:
    value = one.as_py()
    data = value.get("bytes") if isinstance(value, Mapping) else value
    return file_value(data, said) if isinstance(data, bytes) else file(value)


def file_value(data: bytes, said: Described) -> Any:
    """Return a file as a value of the tensor; a file without a signature (TGA) has the tensor's compression."""
    sample = Sample(buffer=data, compression=None if sniff(data) else said.sample_compression)
    extents = said.more.get("shape")
    if said.sample_compression is None and isinstance(extents, list) and len(extents) == 3:
        # The array was written as PNG, which drops an axis of one channel: restore that axis.
        array = np.asarray(sample.array)
        return array[..., None] if array.ndim == 2 else array
    return sample


def nested_value(value: Any, said: Described) -> Any:
    """Return parsed JSON as a value of the tensor: documents, arrays, or sequences of them."""
    if said.storing in (Storing.JSON, Storing.LIST):
        return decode_custom(value)
    if not isinstance(value, list):
        raise IngestionError("a list was expected")
    if said.storing is Storing.TEXT:
        return [str(one) for one in value]
    if said.storing is Storing.POLYGON and said.is_sequence:
        return [[_nested_array(part, said) for part in one] for one in value]
    if said.storing is Storing.POLYGON or said.is_sequence:
        return [_nested_array(one, said) for one in value]
    return _nested_array(value, said)


def _nested_array(value: Any, said: Described) -> NDArray[Any]:
    found = np.array(value, said.dtype)
    return found if found.size else found.reshape(_known_extents(list(found.shape), said))


def _even(values: Any, said: Described) -> NDArray[Any] | None:
    """Return rows of one shape as one array; None if shapes differ, or a row is null or empty."""
    try:
        return _array(values, said, is_full=True)
    except IngestionError:
        return None


def _array(values: Any, said: Described, *, is_full: bool = False) -> NDArray[Any]:
    """Return nested lists as an array.

    Parameters
    ----------
    is_full
        Whether to refuse empty lists, too.

    Raises
    ------
    IngestionError
        If lists on one level differ in length, or contain nulls.
    """
    import pyarrow.compute as pc

    extents = [len(values)]
    while pa.types.is_nested(values.type):
        lengths = pc.unique(pc.list_value_length(values)).to_pylist()
        if values.null_count or len(lengths) > 1 or (is_full and not any(lengths)):
            raise IngestionError("an array was expected, but the lists differ in length or contain nulls")
        extents.append(lengths[0] if lengths else 0)
        values = pc.list_flatten(values)
    if values.null_count:
        raise IngestionError("null inside a list of numbers, which arrays cannot hold")
    if not prod(extents):
        extents = _known_extents(extents, said)
    found = values.to_numpy(zero_copy_only=False)
    return np.asarray(found, said.dtype or found.dtype).reshape(extents)


def _known_extents(found: list[int], said: Described) -> list[int]:
    """Return the shape of an empty array; an empty list has no inner extents, so take those of the description."""
    told = said.more.get("shape")
    known = found.index(0) + 1
    if not isinstance(told, list) or len(told) < known:
        return found
    inside = [one if isinstance(one, int) and 0 <= one < 1 << 31 else 0 for one in told[known:]]
    return [*found[:known], *inside]


def _files_in(values: Any) -> Iterator[bytes]:
    """Yield the files of a column, or of its lists."""
    for value in values.to_pylist() if values is not None else ():
        for one in value if isinstance(value, list) else [value]:
            data = one.get("bytes") if isinstance(one, Mapping) else one
            if isinstance(data, bytes):
                yield data


def kind_of_files(said: Described, files: Iterable[bytes], wish: str | None = None) -> str | None:
    """Return the kind of some files if it differs from the tensor's compression; None if it does not.

    Parameters
    ----------
    wish
        Option of the user for images, see :func:`~lakebed.importers.folders.pictures.form_of`.
    """
    kinds = counted((sniff(data), len(data)) for data in files)
    if not kinds or list(kinds) == [said.sample_compression]:
        return None
    return form_of(kinds, wish) if said.base.startswith("image") else min(kinds)
