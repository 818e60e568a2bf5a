"""What values of several columns are compared as, or put into one column as, where their numbers mean different things.

sides                                  become
moments, or durations, of two units    numbers of the finer unit
class labels of two lists              numbers in a list that holds the names of both
class labels and texts                 the names of classes
moments and texts                      moments; a text that names none is missing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.bound import TEXT, Apply, Bound, Given, Info, Unknown, Value
from lakebed.query.functions.casts import label_names
from lakebed.query.functions.dates import microseconds
from lakebed.query.values.columns import Column, Constant, Numbers, Objects, Ragged, Texts, by_row, rows
from lakebed.query.values.elementwise import mapped

_PER_DAY = {
    "day": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000,
}  # fmt: skip
"""Unit -> how many of it make a day; the finest last."""

_KINDS = {
    "timestamp": "moment",
    "date32": "moment",
    "date64": "moment",
    "time32": "time of day",
    "time64": "time of day",
    "duration": "duration",
}


@dataclass(frozen=True, slots=True)
class Domain:
    """What values of several columns become.

    Attributes
    ----------
    info
        What is known of them then: a logical type, class names, or that they are text.
    """

    info: Info


def time_of(info: Info) -> tuple[str, str] | None:
    """Return what times numbers stand for, such as ``moment``, and their unit; None if for none."""
    name, _, rest = info.logical.partition("[")
    kind = _KINDS.get(name)
    unit = rest.rstrip("]").partition(",")[0]
    return None if kind is None or unit not in _PER_DAY else (kind, unit)


def shared(infos: Sequence[Info]) -> Domain | None:
    """Return what values of several columns become before they meet; None where they may meet as they are.

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
            raise QueryError(f"a {kinds} are not compared, and make no column", kind="type")
        has_text = has_text and times[0][0] == "moment"
        logicals = {info.logical for info in infos if time_of(info) is not None}
        if not has_text and len(logicals) == 1:
            return None
        return Domain(_time_info(times, logicals, has_text=has_text))
    lists = list(dict.fromkeys(info.class_names for info in infos if info.class_names is not None))
    if lists and has_text:
        return Domain(TEXT)
    if len(lists) > 1:
        names = tuple(dict.fromkeys(name for some in lists for name in some))
        return Domain(Info("array", class_names=names, htype="class_label"))
    return None


def _time_info(times: Sequence[tuple[str, str]], logicals: set[str], *, has_text: bool) -> Info:
    units = [unit for _, unit in times] + (["us"] if has_text else [])
    unit = max(units, key=list(_PER_DAY).index)
    kind = times[0][0]
    if kind == "moment":
        zones = {logical.partition("tz=")[2].rstrip("]") for logical in logicals}
        zone = zones.pop() if len(zones) == 1 else "UTC"
        logical = f"timestamp[{unit if unit != 'day' else 's'}{f', tz={zone}' if zone else ''}]"
    elif kind == "duration":
        logical = f"duration[{unit}]"
    else:
        logical = f"time{'32' if unit in ('s', 'ms') else '64'}[{unit}]"
    return Info("array", np.dtype(np.int64), logical=logical)


def converted(column: Column, info: Info, domain: Domain) -> Column:
    """Return a column of these values as what they become beside others.

    Raises
    ------
    QueryError
        If a moment cannot be told in the finer unit.
    """
    if domain.info.logical:
        return _as_times(column, info, domain.info)
    names = info.class_names
    if domain.info.kind == "text":
        if names is None:
            return column
        return _as_texts(column, names)
    if names is None or domain.info.class_names is None or names == domain.info.class_names:
        return column
    return _as_classes(column, names, domain.info.class_names)


def of(node: Bound, domain: Domain, at: int) -> Bound:
    """Return an expression as what its values become; its own values if that is the same."""
    info = node.info
    if isinstance(node, Unknown):
        return Unknown(domain.info)
    if isinstance(node, Value) and node.value is None:
        return node
    text = node.value if isinstance(node, Value) and not node.is_read else None
    if isinstance(text, str) and domain.info.logical and microseconds(text) is None:
        raise QueryError(f"{text!r} is no date such as '2026-01-31' or '2026-01-31 12:00'", kind="type")
    is_same = info.logical == domain.info.logical and info.class_names == domain.info.class_names
    if is_same and (domain.info.kind == info.kind or not (info.logical or info.class_names)):
        return node

    def compute(given: Given) -> Column:
        return converted(given.columns[0], info, domain)

    told = replace(domain.info, rank=info.rank, is_group=info.is_group, coords=info.coords)
    return Apply("CONVERTED", compute, (node,), told, at, 1.0)


def aligned(nodes: Sequence[Bound], at: int) -> list[Bound]:
    """Return expressions as what their values become where they meet."""
    domain = shared([node.info for node in nodes])
    return list(nodes) if domain is None else [of(node, domain, at) for node in nodes]


def in_one_unit(nodes: Sequence[Bound], at: int) -> list[Bound]:
    """Return moments and durations, of which sums and differences are made, in the finer unit of both."""
    units = [found[1] if (found := time_of(node.info)) is not None else None for node in nodes]
    if None in units or len(set(units)) == 1:
        return list(nodes)
    unit = max((unit for unit in units if unit is not None), key=list(_PER_DAY).index)
    return [of(node, Domain(Info("array", logical=f"duration[{unit}]")), at) for node in nodes]


# -- columns ---------------------------------------------------------------------------------------------------------


def _as_times(column: Column, info: Info, wanted: Info) -> Column:
    of_wanted = time_of(wanted)
    unit = of_wanted[1] if of_wanted is not None else "us"
    told = time_of(info)
    if told is not None:
        return mapped(column, lambda values: _rescaled(values, told[1], unit), "CONVERTED")
    if isinstance(column, Texts | Objects) or (
        isinstance(column, Constant) and isinstance(column.value, str)
    ):
        factor = _PER_DAY[unit] // _PER_DAY["us"]
        found = [microseconds(value) if isinstance(value, str) else None for value in rows(column)]
        gone = np.array([value is None for value in found], np.bool_)
        moments = np.array([0 if value is None else value for value in found], np.int64)
        return Numbers(_multiplied(moments, factor), gone if gone.any() else None)
    return column


def _rescaled(given: Any, unit: str, wanted: str) -> NDArray[Any]:
    """Return integers of a unit as those of a finer one."""
    values: NDArray[Any] = np.asarray(given)
    if values.dtype.kind not in "iu":
        return values
    return _multiplied(values.astype(np.int64), _PER_DAY[wanted] // _PER_DAY[unit])


def _multiplied(values: NDArray[np.int64], factor: int) -> NDArray[np.int64]:
    if factor == 1 or not values.size:
        return values
    most = np.iinfo(np.int64).max // factor
    if int(values.max()) > most or int(values.min()) < -most:
        raise QueryError(
            "a moment is too far away to be told in nanoseconds, as the other side is: say TIMESTAMP(x) there, which "
            "counts microseconds",
            kind="runtime",
        )
    return values * factor


def _as_texts(column: Column, names: tuple[str, ...]) -> Column:
    """Return labels as the names of their classes; a label without a name is its number in digits."""
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
    """Return labels as numbers in another list of names; one without a name keeps its distance from the list's end."""
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
