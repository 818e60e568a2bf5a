"""JSON values as texts that sort like the values, for cursors of unknown type.

The order is `false`, `true`, numbers by their exact value, strings by code point, then arrays and objects by their JSON
text. A null stays a null.
"""

import json
from typing import Any

import pyarrow as pa

from lakebed.upserts.numerals import ordered


class _Number(str):
    """A number as text."""

    __slots__ = ()


_CONSTANTS = {"NaN": "0", "-Infinity": "1", "Infinity": "8"}
"""Texts below and above those of all numbers."""


def sortable(column: pa.Array) -> pa.Array:
    """Return texts whose order is that of JSON values.

    Parameters
    ----------
    column : pyarrow.Array of json or string
        JSON texts.
    """
    texts = column.storage if isinstance(column, pa.ExtensionArray) else column
    # Cursors seldom repeat, so caching the result of each value gains nothing.
    found = [None if text is None else _sortable(text) for text in texts.to_pylist()]
    places = [place for place, text in enumerate(found) if isinstance(text, _Number)]
    orders = ordered(pa.array([found[place] for place in places], pa.string())).to_pylist()
    for place, order in zip(places, orders, strict=True):
        found[place] = f"1{order or _CONSTANTS[str(found[place])]}"
    return pa.array(found, pa.string())


def _sortable(text: str) -> str | None:
    """Return a text that sorts like the JSON value; for a number, its own text as a `_Number`."""
    value: Any = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    if value is None or isinstance(value, _Number):
        return value
    if isinstance(value, bool):
        return f"0{value:d}"
    return f"2{value}" if isinstance(value, str) else f"3{text}"
