"""Dates and times of keys and cursors that are finer than their column, as exact numbers.

    column               cell            number beside it                         of
    date-time, time      microseconds    1704103200123456.789                     2024-01-01T10:00:00.123456789Z
    date                 days            19723.36000123456789: microseconds of    2024-01-01T10:00:00.123456789Z
                                         the day in eleven digits, then the rest

The numbers have the order of the moments, and the cell is the nearest value that is not later; so `exact` and
`upserts.numerals` handle them like other numbers.
"""

import json
import re
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal, localcontext

import pyarrow as pa

from destination_deeplake.columns import Kind

MOMENTS = frozenset((Kind.TIMESTAMP_TZ, Kind.TIMESTAMP, Kind.DATE, Kind.TIME_TZ, Kind.TIME))
"""Kinds of columns with moments."""

_CLOCK = re.compile(r"(?<!\d)(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?")
_DAY_DIGITS = 11
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND


def as_numbers(texts: pa.Array, cells: pa.Array, kind: Kind) -> pa.Array:
    """Return moments as numbers.

    Parameters
    ----------
    texts : pyarrow.Array
        Moments as JSON values of the records.
    cells : pyarrow.Array
        The cells that were read.
    kind : Kind
        Kind of their column.
    """
    pairs = zip(texts.to_pylist(), cells.to_pylist(), strict=True)
    return pa.array(
        [None if cell is None else _joined(cell, _fraction(text, kind)) for text, cell in pairs], pa.string()
    )


def refitted(
    numbers: Sequence[str], stored: pa.Array, before: Kind, kind: Kind
) -> tuple[list[int | str], list[str | None]]:
    """Return the cells of a wider column for moments, and the numbers of moments that the cells do not hold exactly.

    Parameters
    ----------
    numbers : sequence of str
        From `as_numbers`.
    stored : pyarrow.Array
        The cells of the wider column, converted without the exact numbers.
    before, kind : Kind
        Kinds of the old and the wider column.
    """
    parts = [_split(number) for number in numbers]
    if kind not in MOMENTS:
        texts = stored.storage if isinstance(stored, pa.ExtensionArray) else stored
        pairs = zip(texts.to_pylist(), parts, strict=True)
        return [_spliced(text, fraction, before) for text, (_, fraction) in pairs], [None] * len(parts)
    if before is Kind.DATE and kind is not Kind.DATE:
        parts = [
            (days * _DAY + int(fraction[:_DAY_DIGITS].ljust(_DAY_DIGITS, "0")), fraction[_DAY_DIGITS:])
            for days, fraction in parts
        ]
    return [cell for cell, _ in parts], [_joined(*part) if part[1] else None for part in parts]


def _fraction(text: str, kind: Kind) -> str:
    """Return the digits after the point of a moment's number."""
    found = _CLOCK.search(json.loads(text))
    if found is None:
        return ""
    hour, minute, second, digits = found.groups("")
    of_second = "" if second == "60" else digits
    rest = of_second[6:]
    if kind is Kind.DATE:
        seconds = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
        micros = seconds * _SECOND + int(of_second[:6].ljust(6, "0"))
        rest = f"{micros:0{_DAY_DIGITS}d}{rest}"
    return rest.rstrip("0")


def _joined(cell: int, fraction: str) -> str:
    """Return the sum of an integer and a fraction, given by its digits."""
    with localcontext() as context:
        context.prec = len(fraction) + 30
        return f"{Decimal(cell) + Decimal(f'0.{fraction or 0}'):f}"


def _split(number: str) -> tuple[int, str]:
    """Return the integer part of a number, rounded down, and the digits of its fraction."""
    with localcontext() as context:
        context.prec = len(number) + 30
        value = Decimal(number)
        below = value.to_integral_value(ROUND_FLOOR)
        return int(below), f"{value - below:f}".partition(".")[2].rstrip("0")


def _spliced(text: str, fraction: str, before: Kind) -> str:
    """Insert digits into the text of a moment, or its JSON string, at the position where they were cut off."""
    if before is Kind.DATE:
        micros = int(fraction[:_DAY_DIGITS].ljust(_DAY_DIGITS, "0"))
        second, micro = divmod(micros, _SECOND)
        clock = f"T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        end = len(text) - text.endswith('"')
        return f"{text[:end]}{clock}.{micro:06d}{fraction[_DAY_DIGITS:]}{text[end:]}"
    return re.sub(
        r"(:\d\d:\d\d)(?:\.(\d+))?", lambda m: f"{m[1]}.{(m[2] or '').ljust(6, '0')}{fraction}", text, count=1
    )
