"""Domains: the common meaning of numbers that meet in a comparison, a sum or a column.

sides                                  become
moments, or durations, of two units    numbers of the finer unit
class labels of two lists              numbers in a list that holds the names of both
class labels and texts                 the names of classes
moments and texts                      moments; a text that is not a date becomes a missing value
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.functions.casts import label_names
from lakebed.query.functions.dates import microseconds, parsed
from lakebed.query.relations.bound import Apply, Bound, Unknown, Value
from lakebed.query.values.columns import Column, Constant, Numbers, Objects, Ragged, Texts, by_row
from lakebed.query.values.elementwise import mapped
from lakebed.query.values.info import TEXT, Given, Info

_PER_DAY = {
    "day": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000,
}  # fmt: skip
"""Unit -> units in a day, from coarse to fine."""

_KINDS = {
    "timestamp": "moment",
    "date32": "moment",
    "date64": "moment",
    "time32": "time of day",
    "time64": "time of day",
    "duration": "duration",
}


def time_of(info: Info) -> tuple[str, str] | None:
    """Return (kind of time, unit) of numbers that stand for times, such as ``moment``; None for other numbers."""
    name, _, rest = info.logical.partition("[")
    kind = _KINDS.get(name)
    unit = rest.rstrip("]").partition(",")[0]
    return None if kind is None or unit not in _PER_DAY else (kind, unit)


def shared(infos: Sequence[Info]) -> Info | None:
    """Return the common type that several columns must be converted to; None if no conversion is needed.

    Raises
    ------
    QueryError
        If they are times of different kinds, such as moments and durations.
    """
    times = [found for found in map(time_of, infos) if found is not None]
    has_text = any(info.kind == "text" for info in infos)
    if times:
        if len({kind for kind, _ in times}) > 1:
            kinds = " and a ".join(sorted({kind for kind, _ in times}))
            raise QueryError(f"a {kinds} cannot be compared, nor share a column", kind="type")
        has_text = has_text and times[0][0] == "moment"
        logicals = {info.logical for info in infos if time_of(info) is not None}
        if not has_text and len(logicals) == 1:
            return None
        return _time_info(times[0][0], _finest([unit for _, unit in times] + ["us"] * has_text), logicals)
    lists = list(dict.fromkeys(info.class_names for info in infos if info.class_names is not None))
    if lists and has_text:
        return TEXT
    if len(lists) > 1:
        names = tuple(dict.fromkeys(name for some in lists for name in some))
        return Info("array", class_names=names, htype="class_label")
    return None


def _finest(units: Sequence[str]) -> str:
    return max(units, key=list(_PER_DAY).index)


def _time_info(kind: str, unit: str, logicals: set[str]) -> Info:
    if kind == "moment":
        zones = {logical.partition("tz=")[2].rstrip("]") for logical in logicals}
        zone = zones.pop() if len(zones) == 1 else "UTC"
        logical = f"timestamp[{unit if unit != 'day' else 's'}{f', tz={zone}' if zone else ''}]"
    elif kind == "duration":
        logical = f"duration[{unit}]"
    else:
        logical = f"time{'32' if unit in ('s', 'ms') else '64'}[{unit}]"
    return Info("array", np.dtype(np.int64), logical=logical)


def converted(column: Column, info: Info, domain: Info) -> Column:
    """Convert a column to a domain.

    Raises
    ------
    QueryError
        If a moment is too far from 1970 for the finer unit.
    """
    if domain.logical:
        return _as_times(column, info, domain)
    names = info.class_names
    if names is None or (domain.kind != "text" and domain.class_names in (None, names)):
        return column
    return (
        _as_texts(column, names)
        if domain.class_names is None
        else _as_classes(column, names, domain.class_names)
    )


def of(node: Bound, domain: Info, at: int) -> Bound:
    """Return an expression converted to a domain; the expression itself if it is already in that domain."""
    info = node.info
    if isinstance(node, Unknown):
        return Unknown(domain)
    if isinstance(node, Value) and node.value is None:
        return node
    text = node.value if isinstance(node, Value) and not node.is_read else None
    if isinstance(text, str) and domain.logical and microseconds(text) is None:
        raise QueryError(no_date(text), kind="type")
    is_same = info.logical == domain.logical and info.class_names == domain.class_names
    if is_same and (domain.kind == info.kind or not (info.logical or info.class_names)):
        return node

    def compute(given: Given) -> Column:
        return converted(given.columns[0], info, domain)

    told = replace(domain, rank=info.rank, is_group=info.is_group, coords=info.coords, unit=info.unit)
    return Apply("CONVERTED", compute, (node,), told, at, 1.0)


def no_date(text: str) -> str:
    """Return the message of the error about a text that is compared with dates, but is not a date."""
    return f"{text!r} is not a date such as '2026-01-31' or '2026-01-31 12:00'"


def aligned(nodes: Sequence[Bound], at: int) -> list[Bound]:
    """Return expressions converted to the domain that they share."""
    domain = shared([node.info for node in nodes])
    return list(nodes) if domain is None else [of(node, domain, at) for node in nodes]


def in_one_unit(nodes: Sequence[Bound], at: int) -> list[Bound]:
    """Convert the moments and durations in a sum or difference to the finer unit of its operands."""
    units = [found[1] for node in nodes if (found := time_of(node.info)) is not None]
    if len(units) < len(nodes) or len(set(units)) == 1:
        return list(nodes)
    return [of(node, Info("array", logical=f"duration[{_finest(units)}]"), at) for node in nodes]


# -- columns ---------------------------------------------------------------------------------------------------------


def _as_times(column: Column, info: Info, wanted: Info) -> Column:
    of_wanted, told = time_of(wanted), time_of(info)
    per_day = _PER_DAY["us" if of_wanted is None else of_wanted[1]]
    if told is not None:
        return mapped(column, lambda values: _rescaled(values, per_day // _PER_DAY[told[1]]), "CONVERTED")
    found = parsed(column)
    return (
        column
        if found is None
        else Numbers(_rescaled(found.values, per_day // _PER_DAY["us"]), found.missing)
    )


def _rescaled(values: NDArray[Any], factor: int) -> NDArray[Any]:
    """Convert integers to a finer unit."""
    if values.dtype.kind not in "iu":
        return values
    values = values.astype(np.int64)
    if factor == 1 or not values.size:
        return values
    most = np.iinfo(np.int64).max // factor
    if int(values.max()) > most or int(values.min()) < -most:
        raise QueryError(
            "the moment is out of range for the nanoseconds of the other side: write TIMESTAMP(x) for that side, which "
            "makes microseconds of them",
            kind="runtime",
        )
    return values * factor


def _as_texts(column: Column, names: tuple[str, ...]) -> Column:
    """Return labels as class names; a label without a name becomes its number in digits."""
    if isinstance(column, Numbers) and column.values[:1].size == 1:
        values = column.values.reshape(-1).astype(np.int64)
        if not len(values) or (int(values.min()) >= 0 and int(values.max()) < len(names)):
            indices = pa.array(values, mask=column.missing)
            return Texts(
                pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string())).dictionary_decode()
            )
    if isinstance(column, Constant):
        return Constant(label_names(column.value, names), column.count)
    return by_row(len(column), lambda value: label_names(value, names), [column], "CONVERTED")


def _as_classes(column: Column, names: tuple[str, ...], wanted: tuple[str, ...]) -> Column:
    """Renumber labels for another list of names.

    A label without a name, n places beyond the old list, becomes the label n places beyond the new list.
    """
    places = {name: number for number, name in reversed(list(enumerate(wanted)))}
    table = np.array([places[name] for name in names], np.int64)

    def renumbered(values: Any) -> NDArray[np.int64]:
        values = np.asarray(values).astype(np.int64)
        inside = (values >= 0) & (values < len(table))
        beyond = np.where(values < 0, values, values - len(table) + len(wanted))
        return np.where(inside, table[np.where(inside, values, 0)] if len(table) else 0, beyond)

    if isinstance(column, Ragged | Numbers | Constant | Objects):
        return mapped(column, renumbered, "CONVERTED")
    return column
