"""What the values of a column are like: `Stats` of types.ts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.errors import InvalidInputError
from lakebed.verbs.condition import quoted
from lakebed.viewer.cells import plain
from lakebed.viewer.queries import Answer
from lakebed.viewer.schema import kind_of, logical

_MOST_NUMBERS = 4_000_000
_MOST_TEXTS = 200_000
_MOST_TOP = 200
_MOST_BINS = 50
_LONGEST = 200
_IN_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "d": 86400.0}


def of_tensor(tensor: lakebed.Tensor, name: str, rows: NDArray[np.int64] | None) -> dict[str, Any]:
    """Return the statistics of a tensor, of some rows or of all; where they are many, of some that lie evenly."""
    total = len(tensor) if rows is None else len(rows)
    kind = kind_of(tensor)
    is_counted = kind in ("scalar", "label") and not tensor.is_sequence
    most = _MOST_NUMBERS if is_counted else _MOST_TEXTS
    step = max(1, -(-total // most))
    chosen = tensor[::step] if rows is None else tensor[rows[::step].tolist()]
    found = _blank(name, total, step > 1)
    if tensor.holds_nothing:
        return found | {"nulls": total}
    mask = chosen.null_mask()
    found["nulls"] = 0 if mask is None else int(mask.sum()) * step
    if kind == "scalar" and not tensor.is_sequence:
        _numbers(
            found,
            np.asarray(chosen.numpy(aslist=False, masked=True)),
            mask,
            name,
            tensor.info.get("logical_type"),
        )
    elif kind == "label" and not tensor.is_sequence:
        values = [np.asarray(value).reshape(-1) for value in chosen.values() if value is not None]
        _labels(found, values, name, list(tensor.info.get("class_names") or ()))
    elif kind == "text" and tensor.base_htype == "text" and not tensor.is_sequence:
        _texts(found, [value for value in chosen.values() if value is not None], name)
    elif kind not in ("text", "json") and not tensor.is_sequence:
        shapes, counts = np.unique(np.asarray(chosen.shapes()), axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")[:_MOST_TOP]
        found["shapes"] = [{"shape": shapes[at].tolist(), "count": int(counts[at]) * step} for at in order]
    return found


def of_computed(answer: Answer, name: str) -> dict[str, Any]:
    """Return the statistics of a column that a query computes."""
    column = answer.found.column(name)
    total = len(column)
    step = max(1, -(-total // _MOST_TEXTS))
    values = column[::step].once()
    found = _blank(name, total, step > 1)
    known = [value for value in values if value is not None]
    found["nulls"] = (len(values) - len(known)) * step
    if known and all(isinstance(value, str) for value in known):
        _texts(found, known, name)
    elif known and all(np.size(value) == 1 and np.asarray(value).dtype.kind in "biuf" for value in known):
        numbers = np.array([np.asarray(value).reshape(-1)[0] for value in known])
        if column.class_names:
            _labels(found, [numbers], name, list(column.class_names))
        else:
            _numbers(found, numbers, None, name, column.info.logical)
    return found


def _blank(name: str, rows: int, is_sampled: bool) -> dict[str, Any]:
    nothing = dict.fromkeys(("distinct", "min", "max", "mean", "histogram", "top", "shapes"))
    return {"tensor": name, "rows": rows, "nulls": 0, **nothing, "sampled": is_sampled}


def _numbers(
    found: dict[str, Any], values: NDArray[Any], mask: NDArray[np.bool_] | None, name: str, stored: Any
) -> None:
    values = values.reshape(-1) if mask is None else values.reshape(len(mask), -1)[~mask].reshape(-1)
    if values.dtype.kind not in "biuf":
        return
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not len(finite):
        return
    distinct, counts = np.unique(finite, return_counts=True)
    found["distinct"] = len(distinct)
    word = logical(stored)
    if word is not None:
        unit = str(stored).partition("[")[2].partition("]")[0].partition(",")[0] or (
            "d" if word == "date" else "s"
        )
        seconds = _IN_SECONDS.get(unit, 1.0)
        low, high = float(distinct[0]) * seconds, float(distinct[-1]) * seconds
        found |= {"min": low, "max": high}
        numbers = distinct.astype(np.float64) * seconds
    else:
        low, high = plain(distinct[0])[0], plain(distinct[-1])[0]
        found |= {
            "min": int(low) if isinstance(low, bool) else low,
            "max": int(high) if isinstance(high, bool) else high,
        }
        numbers = distinct.astype(np.float64)
        found["mean"] = plain(float(np.average(numbers, weights=counts)))[0]
        if len(distinct) <= _MOST_BINS and values.dtype.kind in "biu":
            found["top"] = _top(distinct.tolist(), counts.tolist(), lambda one: _equals(name, str(int(one))))
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(numbers[-1] - numbers[0])
    if np.isfinite(spread):
        is_whole = values.dtype.kind in "biu" and word is None
        bins, reach = (_MOST_BINS if spread else 1), (float(numbers[0]), float(numbers[-1]))
        if is_whole:  # bars of equally many numbers
            width = np.ceil((spread + 1) / _MOST_BINS)
            bins = int(np.ceil((spread + 1) / width))
            reach = (reach[0], reach[0] + bins * width)
        if reach[0] == reach[1]:
            reach = (reach[0] - 0.5, reach[1] + 0.5)
        if np.all(
            np.diff(np.linspace(*reach, bins + 1)) > 0
        ):  # between numbers that are too large are no edges
            heights, edges = np.histogram(numbers, bins=bins, range=reach, weights=counts)
            found["histogram"] = {"edges": edges.tolist(), "counts": heights.astype(np.int64).tolist()}


def _labels(found: dict[str, Any], values: Sequence[NDArray[Any]], name: str, names: Sequence[Any]) -> None:
    numbers = np.concatenate(values) if values else np.empty(0, np.int64)
    distinct, counts = np.unique(numbers, return_counts=True)
    found["distinct"] = len(distinct)
    words = {int(one): str(names[int(one)]) for one in distinct if 0 <= int(one) < len(names)}

    def condition(one: int) -> str:
        return _equals(name, _text(words[one]) if one in words else str(one), is_in=True)

    order = np.argsort(-counts, kind="stable")[:_MOST_TOP]
    found["top"] = [
        {
            "label": words.get(int(distinct[at]), str(int(distinct[at])))[:_LONGEST],
            "count": int(counts[at]),
            "condition": condition(int(distinct[at])),
        }
        for at in order
    ]


def _texts(found: dict[str, Any], texts: Sequence[str], name: str) -> None:
    counts = Counter(texts)
    found["distinct"] = len(counts)
    common = counts.most_common(_MOST_TOP)
    found["top"] = [
        {"label": text[:_LONGEST], "count": count, "condition": _equals(name, _text(text))}
        for text, count in common
        if len(text) <= 20 * _LONGEST
    ]


def _top(values: Sequence[Any], counts: Sequence[int], condition: Any) -> list[dict[str, Any]]:
    pairs = sorted(zip(values, counts, strict=True), key=lambda pair: -pair[1])[:_MOST_TOP]
    return [{"label": str(value), "count": count, "condition": condition(value)} for value, count in pairs]


def _equals(name: str, text: str, *, is_in: bool = False) -> str:
    """Return the condition that a column is, or holds, a value; "" of columns that queries cannot name."""
    try:
        column = quoted(name)
    except InvalidInputError:
        return ""
    return f"contains({column}, {text})" if is_in else f"{column} = {text}"


def _text(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
