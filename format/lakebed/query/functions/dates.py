"""Dates and times: integers that a tensor's info says are such, or ISO text; in microseconds since 1970, UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.bound import NUMBER, TEXT, TIME, Given, Info
from lakebed.query.functions.function import Function
from lakebed.query.functions.numeric import constant, constant_int
from lakebed.query.values.columns import Column, Constant, Numbers, Objects, Ragged, Texts, rows, strings

Moments = NDArray[np.datetime64]

UNITS = tuple("year quarter month week day dow doy hour minute second millisecond microsecond epoch".split())
# About 270,000 years of minutes; microseconds beyond are no moments.
_MOST_ADDED = 1 << 37
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def microseconds(text: str) -> int | None:
    """Return the moment that an ISO text names, in microseconds since 1970; None if it names none."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    apart = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (apart.days * 86_400 + apart.seconds) * 1_000_000 + apart.microseconds


def stored_as(moment: int, logical: str) -> int | float:
    """Return a moment as the number that a tensor with this logical type holds for it; a float between two of them."""
    count, size = 1, 86_400_000_000
    if not logical.startswith("date32"):
        unit = logical.partition("[")[2].partition("]")[0].partition(",")[0]
        count, size = _PER_SECOND.get(unit, 1_000_000), 1_000_000
    whole, rest = divmod(moment * count, size)
    return whole if rest == 0 else moment * count / size


def is_time(info: Info) -> bool:
    """Whether the integers of a column are moments."""
    return info.logical.startswith(("timestamp", "date32", "date64"))


def moments(column: Column, info: Info, name: str) -> Numbers:
    """Return a column as datetime64[us]; what is missing, or names no moment, is missing.

    Raises
    ------
    QueryError
        If it holds neither moments nor text.
    """
    if isinstance(column, Texts | Objects) or (
        isinstance(column, Constant) and isinstance(column.value, str)
    ):
        found = [microseconds(v) if isinstance(v, str) else None for v in rows(column)]
        gone = np.array([v is None for v in found], np.bool_)
        values = np.array([0 if v is None else v for v in found], np.int64).view("datetime64[us]")
        return Numbers(values, gone if gone.any() else None)
    if isinstance(column, Constant) and column.value is not None:
        column = Numbers(np.full(column.count, np.asarray(column.value).reshape(())))
    if not isinstance(column, Numbers) or isinstance(column, Ragged):
        raise QueryError(f"{name} needs one date or time per row", kind="type")
    logical = info.logical or "timestamp[us]"
    unit = (
        "D" if logical.startswith("date32") else logical.partition("[")[2].partition("]")[0].partition(",")[0]
    )
    values = column.values.reshape(len(column), -1)[:, 0] if column.values.ndim > 1 else column.values
    if values.dtype.kind not in "iu":
        raise QueryError(f"{name} needs a date or time, not other numbers", kind="type")
    return Numbers(
        values.astype(np.int64).view(f"datetime64[{unit}]").astype("datetime64[us]"), column.missing
    )


def part(unit: str, column: Column, info: Info) -> Column:
    """Return a part of dates and times, such as the year: int64."""
    whole = moments(column, info, unit.upper())
    return Numbers(_part(unit, whole.values), whole.missing)


def _part(unit: str, values: Moments) -> NDArray[np.int64]:
    days = values.astype("datetime64[D]")
    months = values.astype("datetime64[M]").astype(np.int64)
    inside = (values - days).astype(np.int64)
    if unit == "year":
        return np.asarray(months // 12 + 1970)
    if unit == "quarter":
        return np.asarray(months % 12 // 3 + 1)
    if unit == "month":
        return np.asarray(months % 12 + 1)
    if unit == "day":
        return np.asarray((days - days.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) + 1)
    if unit == "dow":
        return np.asarray((days.astype(np.int64) + 4) % 7)
    if unit == "doy":
        return np.asarray((days - days.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64) + 1)
    if unit == "week":
        # The week of an ISO date is that of its Thursday.
        thursday = days - ((days.astype(np.int64) + 3) % 7).astype("timedelta64[D]") + np.timedelta64(3, "D")
        since = (thursday - thursday.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64)
        return np.asarray(since // 7 + 1)
    if unit == "epoch":
        return np.asarray(values.astype(np.int64) // 1_000_000)
    steps = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60),
             "millisecond": (1_000, 1_000), "microsecond": (1, 1_000_000)}  # fmt: skip
    size, count = steps[unit]
    return np.asarray(inside // size % count)


def unit_of(name: str) -> str:
    """Return a unit by its name; it may stand in the plural.

    Raises
    ------
    QueryError
        If there is no such unit.
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
    """Return dates and times as microseconds, for columns whose logical type is ``timestamp[us]``."""
    found = moments(column, info, name)
    return Numbers(found.values.astype(np.int64), found.missing)


def _timestamp(given: Given) -> Column:
    return as_moments(given.columns[0], given.infos[0], "TIMESTAMP")


def _date(given: Given) -> Column:
    found = moments(given.columns[0], given.infos[0], "DATE")
    return Numbers(
        found.values.astype("datetime64[D]").astype("datetime64[us]").astype(np.int64), found.missing
    )


def _truncated(given: Given) -> Column:
    unit = unit_of(str(constant(given, 0, "DATE_TRUNC")))
    found = moments(given.columns[1], given.infos[1], "DATE_TRUNC")
    codes = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s", "millisecond": "ms",
             "microsecond": "us"}  # fmt: skip
    if unit == "week":
        days = found.values.astype("datetime64[D]")
        cut: Any = days - ((days.astype(np.int64) + 3) % 7).astype("timedelta64[D]")
    elif unit == "quarter":
        months = found.values.astype("datetime64[M]").astype(np.int64)
        cut = (months - months % 3).view("datetime64[M]")
    elif unit in codes:
        cut = found.values.astype(f"datetime64[{codes[unit]}]")
    else:
        raise QueryError(f"DATE_TRUNC does not cut to {unit}", kind="type")
    return Numbers(cut.astype("datetime64[us]").astype(np.int64), found.missing)


_MICROSECONDS = {"week": 604_800_000_000, "day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000,
                 "second": 1_000_000, "millisecond": 1_000, "microsecond": 1}  # fmt: skip


def _apart(given: Given) -> Column:
    """Return how many whole units lie between two moments."""
    unit = unit_of(str(constant(given, 0, "DATE_DIFF")))
    first = moments(given.columns[1], given.infos[1], "DATE_DIFF")
    second = moments(given.columns[2], given.infos[2], "DATE_DIFF")
    gone = first.missing if second.missing is None else second.missing
    if first.missing is not None and second.missing is not None:
        gone = first.missing | second.missing
    if unit in ("year", "quarter", "month"):
        per = {"year": 12, "quarter": 3, "month": 1}[unit]
        months = [m.values.astype("datetime64[M]").astype(np.int64) // per for m in (first, second)]
        return Numbers(months[1] - months[0], gone)
    if unit not in _MICROSECONDS:
        raise QueryError(f"DATE_DIFF does not count {unit}", kind="type")
    apart = (second.values - first.values).astype(np.int64)
    return Numbers(np.trunc(apart / _MICROSECONDS[unit]).astype(np.int64), gone)


def _added(given: Given) -> Column:
    """Return moments that lie so many units later; a day that the month lacks is its last."""
    unit = unit_of(str(constant(given, 0, "DATE_ADD")))
    count = constant_int(given, 1, "DATE_ADD")
    found = moments(given.columns[2], given.infos[2], "DATE_ADD")
    if abs(count) > _MOST_ADDED:
        raise QueryError(f"DATE_ADD adds up to {_MOST_ADDED:,} units", kind="type")
    if unit in ("year", "quarter", "month"):
        months = found.values.astype("datetime64[M]")
        inside = found.values - months.astype("datetime64[us]")
        later = months + np.timedelta64(count * {"year": 12, "quarter": 3, "month": 1}[unit], "M")
        last = (later + np.timedelta64(1, "M")).astype("datetime64[D]") - np.timedelta64(1, "D")
        days = np.minimum(later.astype("datetime64[D]") + inside.astype("timedelta64[D]"), last)
        moved: Any = days.astype("datetime64[us]") + (inside - inside.astype("timedelta64[D]"))
    elif unit in _MICROSECONDS:
        moved = found.values + np.timedelta64(count * _MICROSECONDS[unit], "us")
    else:
        raise QueryError(f"DATE_ADD does not add {unit}", kind="type")
    return Numbers(moved.astype("datetime64[us]").astype(np.int64), found.missing)


def _part_of(given: Given) -> Column:
    return part(unit_of(str(constant(given, 0, "DATE_PART"))), given.columns[1], given.infos[1])


def _formatted(given: Given) -> Column:
    found = moments(given.columns[0], given.infos[0], "DATE_FORMAT")
    pattern = str(constant(given, 1, "DATE_FORMAT"))
    gone = np.zeros(given.count, np.bool_) if found.missing is None else found.missing
    values = found.values.tolist()
    return strings(
        [None if is_gone else v.strftime(pattern) for v, is_gone in zip(values, gone.tolist(), strict=True)]
    )


FUNCTIONS: list[Function] = [
    *map(_unit_function, ("year", "quarter", "month", "week", "day", "hour", "minute", "second")),
    *map(_unit_function, ("dow", "doy", "epoch")),
    Function("DATE_ADD", 3, 3, _added, TIME, 2.0),
    Function("DATE_PART", 2, 2, _part_of, NUMBER, 2.0),
    Function("TIMESTAMP", 1, 1, _timestamp, TIME, 2.0),
    Function("DATE", 1, 1, _date, TIME, 2.0),
    Function("DATE_TRUNC", 2, 2, _truncated, TIME, 2.0),
    Function("DATE_DIFF", 3, 3, _apart, NUMBER, 2.0),
    Function("DATE_FORMAT", 2, 2, _formatted, TEXT, 10.0),
]
