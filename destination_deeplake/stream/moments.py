"""Dates and times of keys and cursors that are finer than their column, as numbers beside it.

    column               cell            number beside it                         of
    date-time, time      microseconds    1704103200123456.789                     2024-01-01T10:00:00.123456789Z
    date                 days            19723.36000123456789: microseconds of    2024-01-01T10:00:00.123456789Z
                                         the day in eleven digits, then the rest

So they go in the order of their numbers, and the cell is what is next below: `exact` and `upserts.numerals` take them
for the numbers that they are.
"""

import json
import re
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal, localcontext

import pyarrow as pa

from destination_deeplake.columns import Kind

MOMENTS = frozenset((Kind.TIMESTAMP_TZ, Kind.TIMESTAMP, Kind.DATE, Kind.TIME_TZ, Kind.TIME))
"""Kinds of columns that this is about."""

_CLOCK = re.compile(r"(?<!\d)(\d{1,2}):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?")
_DAY_DIGITS = 11
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND


def as_numbers(texts: pa.Array, cells: pa.Array, kind: Kind) -> pa.Array:
    """Return moments as numbers.

    Parameters
    ----------
    texts : pyarrow.Array
        Moments as they stand in the JSON of the records.
    cells : pyarrow.Array
        What was read of them.
    kind : Kind
        Of their column.
    """
    pairs = zip(texts.to_pylist(), cells.to_pylist(), strict=True)
    return pa.array(
        [None if cell is None else _joined(cell, _fraction(text, kind)) for text, cell in pairs], pa.string()
    )


def refitted(
    numbers: Sequence[str], stored: pa.Array, before: Kind, kind: Kind
) -> tuple[list[int | str], list[str | None]]:
    """Return moments as a wider column takes them, and as numbers those that its cells do not stand for.

    Parameters
    ----------
    numbers : sequence of str
        From `as_numbers`.
    stored : pyarrow.Array
        What the wider column holds of them, without what was beside it.
    before, kind : Kind
        Of the column before, and of the wider one.
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
    """Return the digits behind the point of the number that a moment is."""
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
    """Return the number that is so much greater than an integer."""
    with localcontext() as context:
        context.prec = len(fraction) + 30
        return f"{Decimal(cell) + Decimal(f'0.{fraction or 0}'):f}"


def _split(number: str) -> tuple[int, str]:
    """Return the greatest integer below a number, and the digits by which the number is greater."""
    with localcontext() as context:
        context.prec = len(number) + 30
        value = Decimal(number)
        below = value.to_integral_value(ROUND_FLOOR)
        return int(below), f"{value - below:f}".partition(".")[2].rstrip("0")


def _spliced(text: str, fraction: str, before: Kind) -> str:
    """Put digits into the text of a moment, or of a JSON string that is one, in which it is cut."""
    if before is Kind.DATE:
        micros = int(fraction[:_DAY_DIGITS].ljust(_DAY_DIGITS, "0"))
        second, micro = divmod(micros, _SECOND)
        clock = f"T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        end = len(text) - text.endswith('"')
        return f"{text[:end]}{clock}.{micro:06d}{fraction[_DAY_DIGITS:]}{text[end:]}"
    return re.sub(
        r"(:\d\d:\d\d)(?:\.(\d+))?", lambda m: f"{m[1]}.{(m[2] or '').ljust(6, '0')}{fraction}", text, count=1
    )
