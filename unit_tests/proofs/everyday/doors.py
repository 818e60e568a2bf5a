"""How rows go in: the forms in which a program may hold them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from unit_tests.proofs.everyday.kinds import Kind, Random

PLAIN_DTYPES = ("int64", "float64")
"""Those that Python's own numbers get."""
DECLARED_DTYPES = ("bool", "int32", "int64", "uint8", "uint32", "float32", "float64")
"""Those that take Python's own numbers as they are."""


def _is_declared(kind: Kind) -> bool:
    """Whether the tensor has its dtype before the first sample."""
    return "dtype" in kind.options or kind.family not in ("generic", "sequence[generic]")


def spelled(kind: Kind, value: Any, style: str) -> Any:
    """One sample (an item of one, for sequences) as a program may hold it."""
    if style == "array" or value is None or kind.form != "array" or not value.size:
        return value
    if kind.labels and style == "names":
        names = [kind.options["class_names"][index] for index in np.atleast_1d(value).tolist()]
        return names if value.ndim else names[0]
    if value.ndim == 0 and style == "numpy":
        return value[()]
    fits = kind.dtype in (DECLARED_DTYPES if _is_declared(kind) else PLAIN_DTYPES)
    return value.tolist() if fits and not kind.smooth else value


def respelled(kind: Kind, values: list[Any], style: str) -> list[Any]:
    """Several rows as a program may hold them."""
    if not kind.is_sequence:
        return [spelled(kind, value, style) for value in values]
    return [None if row is None else [spelled(kind, item, style) for item in row] for row in values]


def _is_even(kind: Kind, values: list[Any]) -> bool:
    return (
        kind.form == "array"
        and not kind.is_sequence
        and bool(values)
        and all(value is not None for value in values)
        and len({value.shape for value in values}) == 1
    )


def _arrow_type(kind: Kind) -> Any:
    import pyarrow as pa

    if kind.form != "array":
        found = pa.string() if kind.form == "text" else pa.json_()
    else:
        found = pa.bool_() if kind.dtype == "bool" else pa.from_numpy_dtype(np.dtype(kind.dtype))
    for _ in kind.axes:
        found = pa.list_(found)
    return pa.list_(found) if kind.is_sequence else found


def _arrow_value(kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    if kind.is_sequence:
        flat = Kind(kind.options, kind.form, kind.dtype, kind.axes)
        return [_arrow_value(flat, item) for item in value]
    return json.dumps(value) if kind.form == "json" else value.tolist() if kind.form == "array" else value


def _fits_arrow(kind: Kind, values: list[Any]) -> bool:
    has_type = kind.form in ("text", "json") or (kind.form == "array" and not kind.dtype.startswith("c"))
    if not has_type or kind.smooth or (kind.is_sequence and kind.form == "json"):
        return False
    items = [item for row in values if row is not None for item in (row if kind.is_sequence else [row])]
    if kind.is_sequence and any(item is None for item in items):
        return False
    # An empty list says nothing of the axes inside it.
    return all(item is None or kind.form != "array" or item.size or item.ndim == 1 for item in items)


def arrow(kind: Kind, values: list[Any]) -> Any:
    """An Arrow array."""
    import pyarrow as pa

    return pa.array([_arrow_value(kind, value) for value in values], type=_arrow_type(kind))


def _chunked(kind: Kind, values: list[Any]) -> Any:
    import pyarrow as pa

    middle = len(values) // 2
    parts = [arrow(kind, [None, *values[:middle]]).slice(1), arrow(kind, values[middle:])]
    return pa.chunked_array(parts, type=_arrow_type(kind))


def _pandas(kind: Kind, values: list[Any]) -> Any:
    import pandas as pd

    if kind.is_scalar and not kind.is_sequence and not kind.dtype.startswith("c"):
        if all(value is not None for value in values):
            return pd.Series([value[()] for value in values], dtype=kind.dtype)
        if kind.dtype not in ("bool", "float16"):
            name = kind.dtype.replace("int", "Int").replace("uInt", "UInt").replace("float", "Float")
            return pd.Series([None if v is None else v.item() for v in values], dtype=name)
    found = pd.Series([None] * len(values), dtype=object)
    for number, value in enumerate(values):
        found.iat[number] = value
    return found


def _polars(kind: Kind, values: list[Any]) -> Any:
    import polars as pl

    return pl.Series(arrow(kind, values))


def _stacked(kind: Kind, values: list[Any]) -> Any:
    return np.stack(values)


def _always(kind: Kind, values: list[Any]) -> bool:
    return True


def _fits_polars(kind: Kind, values: list[Any]) -> bool:
    return _fits_arrow(kind, values) and kind.form != "json" and kind.dtype != "float16"


def _fits_pandas(kind: Kind, values: list[Any]) -> bool:
    declared = _is_declared(kind) or kind.dtype in PLAIN_DTYPES
    return not kind.is_sequence and kind.form in ("array", "text") and declared


Door = tuple[Callable[[Kind, list[Any]], bool], Callable[[Kind, list[Any]], Any]]
PLAIN: dict[str, Door] = {
    "list": (_always, lambda kind, values: values),
    "stack": (_is_even, _stacked),
}
"""Those that Deep Lake 3.9.52 has too."""
OURS: dict[str, Door] = {
    "tuple": (_always, lambda kind, values: tuple(values)),
    "iterator": (_always, lambda kind, values: iter(values)),
    "arrow": (_fits_arrow, arrow),
    "chunked": (_fits_arrow, _chunked),
    "pandas": (_fits_pandas, _pandas),
    "polars": (_fits_polars, _polars),
}
SPELLINGS = ("array", "array", "plain", "numpy", "names")


def through(kind: Kind, values: list[Any], random: Random, *, ours: bool) -> tuple[str, Any]:
    """Draw a door that rows fit through: its name, and the rows in that form.

    The draws do not depend on `ours`; where the other library has no such door, it gets a list.
    """
    doors = {**PLAIN, **OURS}
    fitting = [name for name, (fits, _) in doors.items() if fits(kind, values)]
    name = str(random.choice(fitting))
    style = str(random.choice(SPELLINGS))
    if name in OURS and not ours:
        name = "list"
    if name in ("list", "tuple", "iterator"):
        values = respelled(kind, values, style)
    return name if name not in ("list", "tuple") else f"{name} {style}", doors[name][1](kind, values)
