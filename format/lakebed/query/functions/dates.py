"""Dates and times: integers with a logical type, or ISO texts; functions return microseconds since 1970, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.functions.function import Function
from lakebed.query.functions.numeric import constant, constant_int
from lakebed.query.values.columns import (
    Column,
    Constant,
    Numbers,
    Objects,
    Texts,
    either,
    rows,
    strings,
)
from lakebed.query.values.info import NUMBER, TEXT, TIME, Given, Info

Moments = NDArray[np.datetime64]

UNITS = tuple("year quarter month week day dow doy hour minute second millisecond microsecond epoch".split())
_MOST_ADDED = 1 << 37
"""Maximum number of units that DATE_ADD adds; as minutes, this number is about 260,000 years."""

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def microseconds(text: str) -> int | None:
    """Return the moment of an ISO text in microseconds since 1970; None if it is not a date or time."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _unit_in(logical: str) -> str:
    """Return NumPy's unit for the integers of a logical type."""
    return (
        "D" if logical.startswith("date32") else logical.partition("[")[2].partition("]")[0].partition(",")[0]
    )


def stored_as(moment: int, logical: str) -> int | float:
    """Convert microseconds to the integers of a logical type; a float if the moment lies between two of them."""
    unit = _unit_in(logical)
    count, size = (1, 86_400_000_000) if unit == "D" else (_PER_SECOND.get(unit, 1_000_000), 1_000_000)
    whole, rest = divmod(moment * count, size)
    return whole if rest == 0 else moment * count / size


def is_time(info: Info) -> bool:
    """Return whether the integers of a column are moments."""
    return info.logical.startswith(("timestamp", "date32", "date64"))


def parsed(column: Column) -> Numbers | None:
    """Return the moments of texts in microseconds, missing for texts that are not dates; None for other columns."""
    is_text = isinstance(column, Constant) and isinstance(column.value, str)
    if not is_text and not isinstance(column, Texts | Objects):
        return None
    found = [microseconds(v) if isinstance(v, str) else None for v in rows(column)]
    gone = np.array([v is None for v in found], np.bool_)
    return Numbers(np.array([v or 0 for v in found], np.int64), gone if gone.any() else None)


def moments(column: Column, info: Info, name: str) -> Numbers:
    """Return dates and times as datetime64[us]; texts without a date are missing.

    Raises
    ------
    QueryError
        If the column holds other values.
    """
    found = parsed(column)
    if found is not None:
        return Numbers(found.values.view("datetime64[us]"), found.missing)
    if isinstance(column, Constant) and column.value is not None:
        column = Numbers(np.full(column.count, np.asarray(column.value).reshape(())))
    if not isinstance(column, Numbers):
        raise QueryError(f"{name} needs one date or time per row", kind="type")
    values = column.values.reshape(len(column), -1)[:, 0] if len(column) else column.values.reshape(-1)
    if values.dtype.kind not in "iu":
        raise QueryError(f"{name} needs a date or time, not other numbers", kind="type")
    unit = _unit_in(info.logical or "timestamp[us]")
    return Numbers(
        values.astype(np.int64).view(f"datetime64[{unit}]").astype("datetime64[us]"), column.missing
    )


def part(unit: str, column: Column, info: Info) -> Column:
    """Return one part of dates and times, such as the year: int64, shape (rows,)."""
    whole = moments(column, info, unit.upper())
    return Numbers(_part(unit, whole.values), whole.missing)


def _part(unit: str, values: Moments) -> NDArray[np.int64]:
    days = values.astype("datetime64[D]")
    number = days.astype(np.int64)
    months = values.astype("datetime64[M]").astype(np.int64)
    if unit == "year":
        return months // 12 + 1970
    if unit == "quarter":
        return months % 12 // 3 + 1
    if unit == "month":
        return months % 12 + 1
    if unit == "day":
        return _days_since(days, "M") + 1
    if unit == "dow":
        return (number + 4) % 7
    if unit == "doy":
        return _days_since(days, "Y") + 1
    if unit == "week":  # an ISO week belongs to the year that contains its Thursday
        return _days_since((number - (number + 3) % 7 + 3).view("datetime64[D]"), "Y") // 7 + 1
    if unit == "epoch":
        return values.astype(np.int64) // 1_000_000
    steps = {"hour": 24, "minute": 60, "second": 60, "millisecond": 1_000, "microsecond": 1_000_000}
    return np.asarray((values - days).astype(np.int64) // _MICROSECONDS[unit] % steps[unit])


def _days_since(days: Moments, unit: str) -> NDArray[np.int64]:
    """Return the number of days from the beginning of each date's month or year to the date."""
    return np.asarray((days - days.astype(f"datetime64[{unit}]").astype("datetime64[D]")).astype(np.int64))


def unit_of(name: str) -> str:
    """Return a unit by its name, which may be plural.

    Raises
    ------
    QueryError
        If the unit is unknown.
    """
    plain = name.lower()
    for candidate in (plain, plain.removesuffix("s")):
        if candidate in UNITS:
            return candidate
    raise QueryError(f"there is no unit {name!r} of time; there are {', '.join(UNITS)}", kind="type")


def _unit_function(unit: str) -> Function:
    return Function(
        unit.upper(), 1, 1, lambda given: part(unit, given.columns[0], given.infos[0]), NUMBER, 2.0
    )


def as_moments(column: Column, info: Info, name: str) -> Column:
    """Convert dates and times to integers: microseconds since 1970."""
    return _as_integers(moments(column, info, name))


def as_days(column: Column, info: Info, name: str) -> Column:
    """Return the beginning of the day of each date or time as an integer: microseconds since 1970."""
    found = moments(column, info, name)
    return _as_integers(Numbers(found.values.astype("datetime64[D]"), found.missing))


def _as_integers(found: Numbers) -> Column:
    return Numbers(found.values.astype("datetime64[us]").astype(np.int64), found.missing)


def _truncated(given: Given) -> Column:
    unit = unit_of(str(constant(given, 0, "DATE_TRUNC")))
    found = moments(given.columns[1], given.infos[1], "DATE_TRUNC")
    codes = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s", "millisecond": "ms",
             "microsecond": "us"}  # fmt: skip
    if unit == "week":
        days = found.values.astype("datetime64[D]").astype(np.int64)
        cut: Any = (days - (days + 3) % 7).view("datetime64[D]")
    elif unit == "quarter":
        months = found.values.astype("datetime64[M]").astype(np.int64)
        cut = (months - months % 3).view("datetime64[M]")
    elif unit in codes:
        cut = found.values.astype(f"datetime64[{codes[unit]}]")
    else:
        raise QueryError(f"DATE_TRUNC does not truncate to {unit}", kind="type")
    return _as_integers(Numbers(cut, found.missing))


_MICROSECONDS = {"week": 604_800_000_000, "day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000,
                 "second": 1_000_000, "millisecond": 1_000, "microsecond": 1}  # fmt: skip
_MONTHS = {"year": 12, "quarter": 3, "month": 1}


def _apart(given: Given) -> Column:
    """Return the number of whole units between two moments."""
    unit = unit_of(str(constant(given, 0, "DATE_DIFF")))
    first, second = (moments(given.columns[at], given.infos[at], "DATE_DIFF") for at in (1, 2))
    gone = either(first.missing, second.missing)
    if unit in _MONTHS:
        months = [m.values.astype("datetime64[M]").astype(np.int64) // _MONTHS[unit] for m in (first, second)]
        return Numbers(months[1] - months[0], gone)
    if unit not in _MICROSECONDS:
        raise QueryError(f"DATE_DIFF does not count {unit}", kind="type")
    apart = (second.values - first.values).astype(np.int64)
    return Numbers(np.trunc(apart / _MICROSECONDS[unit]).astype(np.int64), gone)


def _added(given: Given) -> Column:
    """Add units to moments; a day that the month lacks becomes its last day."""
    unit = unit_of(str(constant(given, 0, "DATE_ADD")))
    count = constant_int(given, 1, "DATE_ADD")
    found = moments(given.columns[2], given.infos[2], "DATE_ADD")
    if abs(count) > _MOST_ADDED:
        raise QueryError(f"DATE_ADD adds up to {_MOST_ADDED:,} units", kind="type")
    if unit in _MONTHS:
        months = found.values.astype("datetime64[M]")
        inside = found.values - months.astype("datetime64[us]")
        later = months + np.timedelta64(count * _MONTHS[unit], "M")
        last = (later + np.timedelta64(1, "M")).astype("datetime64[D]") - np.timedelta64(1, "D")
        days = np.minimum(later.astype("datetime64[D]") + inside.astype("timedelta64[D]"), last)
        moved: Any = days.astype("datetime64[us]") + (inside - inside.astype("timedelta64[D]"))
    elif unit in _MICROSECONDS:
        moved = found.values + np.timedelta64(count * _MICROSECONDS[unit], "us")
    else:
        raise QueryError(f"DATE_ADD does not add {unit}", kind="type")
    return _as_integers(Numbers(moved, found.missing))


def _part_of(given: Given) -> Column:
    return part(unit_of(str(constant(given, 0, "DATE_PART"))), given.columns[1], given.infos[1])


def _formatted(given: Given) -> Column:
    found = moments(given.columns[0], given.infos[0], "DATE_FORMAT")
    pattern = str(constant(given, 1, "DATE_FORMAT"))
    return strings([None if v is None else v.item().strftime(pattern) for v in rows(found)])


FUNCTIONS: list[Function] = [
    *map(_unit_function, "year quarter month week day hour minute second dow doy epoch".split()),
    Function("DATE_ADD", 3, 3, _added, TIME, 2.0),
    Function("DATE_PART", 2, 2, _part_of, NUMBER, 2.0),
    Function(
        "TIMESTAMP", 1, 1, lambda given: as_moments(given.columns[0], given.infos[0], "TIMESTAMP"), TIME, 2.0
    ),
    Function("DATE", 1, 1, lambda given: as_days(given.columns[0], given.infos[0], "DATE"), TIME, 2.0),
    Function("DATE_TRUNC", 2, 2, _truncated, TIME, 2.0),
    Function("DATE_DIFF", 3, 3, _apart, NUMBER, 2.0),
    Function("DATE_FORMAT", 2, 2, _formatted, TEXT, 10.0),
]
