"""JSON values as texts that go in the order of the values: cursors of which the type is not known.

`false` and `true` are lowest, then numbers by their value, exactly, then strings by code point, then arrays and objects
by their text. A null stays a null.
"""

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

_BIAS = 10**19
"""Added to exponents, so that they are not negative; beyond those that `Decimal` has."""
_COMPLEMENT = str.maketrans("0123456789", "9876543210")


def sortable(column: pa.Array) -> pa.Array:
    """Return texts whose order is that of JSON values.

    Parameters
    ----------
    column : pyarrow.Array of json or string
        JSON texts.
    """
    texts = column.storage if isinstance(column, pa.ExtensionArray) else column
    # Cursors repeat seldom, so nothing is gained by looking at each value only once.
    return pa.array([None if text is None else _sortable(text) for text in texts.to_pylist()], pa.string())


def _sortable(text: str) -> str | None:
    value: Any = json.loads(text, parse_int=_decimal, parse_float=_decimal, parse_constant=Decimal)
    if value is None:
        return None
    if isinstance(value, bool):
        return f"0{value:d}"
    if isinstance(value, Decimal):
        return f"1{_number(value)}"
    return f"2{value}" if isinstance(value, str) else f"3{text}"


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits: infinity, or nothing
        return Decimal(float(text))


def _number(value: Decimal) -> str:
    """Return a text whose order is that of the number: sign, exponent, digits; of a negative one their complement."""
    if not value.is_finite():
        return "0" if value.is_nan() else ("8" if value > 0 else "1")
    if not value:
        return "4"
    digits = "".join(map(str, value.as_tuple().digits)).strip("0")
    size = f"{value.adjusted() + _BIAS:020d}{digits}"
    return f"5{size}" if value > 0 else f"3{size.translate(_COMPLEMENT)}:"
