"""Statistics of a column as JSON for the page (`Stats` of types.ts)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.errors import InvalidInputError
from lakebed.verbs.condition import quoted
from lakebed.viewer.cells import kind_of, plain
from lakebed.viewer.queries import Answer
from lakebed.viewer.schema import logical

_MOST_NUMBERS = 4_000_000
_MOST_TEXTS = 200_000
_MOST_TOP = 200
_MOST_BINS = 50
_LONGEST = 200
_IN_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "d": 86400.0}


def of_answer(answer: Answer, name: str) -> dict[str, Any]:
    """Return the statistics of a column of an answer."""
    if name in answer.sources:
        return of_tensor(answer.opened.tensor(answer.sources[name]), name, answer.rows)
    column = answer.found.column(name)
    step = max(1, -(-len(column) // _MOST_TEXTS))
    values = column[::step].once()
    known = [value for value in values if value is not None]
    nulls = (len(values) - len(known)) * step
    found = _blank(name, len(column), nulls, step > 1)
    if known and all(isinstance(value, str) for value in known):
        return found | _texts(known, name)
    arrays = [
        np.asarray(value) for value in known if not isinstance(value, list)
    ]  # leave out lists, whose values may be of several types
    if (
        known
        and len(arrays) == len(known)
        and all(one.size == 1 and one.dtype.kind in "biuf" for one in arrays)
    ):
        numbers = np.array([one.reshape(-1)[0] for one in arrays])
        if column.class_names:
            return found | _labels(numbers, name, column.class_names)
        return found | _numbers(numbers, name, column.info.logical)
    return found


def of_tensor(tensor: lakebed.Tensor, name: str, rows: NDArray[np.int64] | None) -> dict[str, Any]:
    """Return the statistics of a tensor, for some rows or all; of many rows, evenly spaced ones are read."""
    # A tensor may be shorter than other tensors: leave out rows beyond its end.
    rows = None if rows is None else rows[rows < len(tensor)]
    total, kind = len(tensor) if rows is None else len(rows), kind_of(tensor)
    most = _MOST_NUMBERS if kind in ("scalar", "label") and not tensor.is_sequence else _MOST_TEXTS
    step = max(1, -(-total // most))
    if tensor.holds_nothing:
        return _blank(name, total, total, step > 1)
    chosen = tensor[::step] if rows is None else tensor[rows[::step].tolist()]
    mask = chosen.null_mask()
    found = _blank(name, total, 0 if mask is None else int(mask.sum()) * step, step > 1)
    if tensor.is_sequence or kind == "json":
        return found
    if kind == "scalar":
        values = np.asarray(chosen.numpy(aslist=False, masked=True))
        values = values if mask is None else values.reshape(len(mask), -1)[~mask]
        return found | _numbers(values.reshape(-1), name, tensor.info.get("logical_type"))
    if kind == "label":
        parts = [np.asarray(value).reshape(-1) for value in chosen.values() if value is not None]
        numbers = np.concatenate(parts) if parts else np.empty(0, np.int64)
        return found | _labels(numbers, name, list(tensor.info.get("class_names") or ()))
    if kind == "text":
        is_plain = tensor.base_htype == "text"
        return found | (_texts([one for one in chosen.values() if one is not None], name) if is_plain else {})
    shapes, counts = np.unique(np.asarray(chosen.shapes()), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_TOP]
    found["shapes"] = [{"shape": shapes[at].tolist(), "count": int(counts[at]) * step} for at in order]
    return found


def _blank(name: str, rows: int, nulls: int, is_sampled: bool) -> dict[str, Any]:
    nothing = dict.fromkeys(("distinct", "min", "max", "mean", "histogram", "top", "shapes"))
    return {"tensor": name, "rows": rows, "nulls": nulls, **nothing, "sampled": is_sampled}


def _numbers(values: NDArray[Any], name: str, stored: Any) -> dict[str, Any]:
    if values.dtype.kind not in "biuf":
        return {}
    values = values.astype(np.uint8) if values.dtype.kind == "b" else values
    distinct, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if not len(distinct):
        return {}
    found: dict[str, Any] = {"distinct": len(distinct)}
    word, is_whole = logical(stored), values.dtype.kind != "f"
    numbers = distinct.astype(np.float64)
    if word is not None:
        unit = str(stored).partition("[")[2].partition("]")[0].partition(",")[0]
        numbers *= _IN_SECONDS.get(unit or ("d" if word == "date" else "s"), 1.0)
        found |= {"min": float(numbers[0]), "max": float(numbers[-1])}
    else:
        low, high = (plain(one)[0] for one in distinct[[0, -1]])
        found |= {"min": low, "max": high, "mean": plain(float(np.average(numbers, weights=counts)))[0]}
        if len(distinct) <= _MOST_BINS and is_whole:
            words = [str(int(one)) for one in distinct]
            found["top"] = _top(words, counts, words, name)
    return found | {"histogram": _histogram(numbers, counts, is_whole=is_whole and word is None)}


def _histogram(
    numbers: NDArray[np.float64], counts: NDArray[np.int64], *, is_whole: bool
) -> dict[str, Any] | None:
    """Return the bars of a histogram of sorted numbers; for integers, each bar covers the same number of integers."""
    low, high, bins = float(numbers[0]), float(numbers[-1]), _MOST_BINS if len(numbers) > 1 else 1
    if is_whole:
        width = math.ceil((high - low + 1) / _MOST_BINS)
        bins = math.ceil((high - low + 1) / width)
        high = low + bins * width
    if low == high:
        low, high = low - 0.5, high + 0.5
    with np.errstate(over="ignore", invalid="ignore"):
        edges = np.linspace(low, high, bins + 1)
    # The numbers are so large that edges between them cannot be represented.
    if not np.all(np.diff(edges) > 0):
        return None
    heights, edges = np.histogram(numbers, bins=bins, range=(low, high), weights=counts)
    return {"edges": edges.tolist(), "counts": heights.astype(np.int64).tolist()}


def _labels(values: NDArray[Any], name: str, names: Sequence[Any]) -> dict[str, Any]:
    distinct, counts = np.unique(values, return_counts=True)
    words = {one: str(names[one]) for one in map(int, distinct) if 0 <= one < len(names)}
    labels = [words.get(one, str(one)) for one in map(int, distinct)]
    texts = [_text(words[one]) if one in words else str(one) for one in map(int, distinct)]
    return {"distinct": len(distinct), "top": _top(labels, counts, texts, name, is_in=True)}


def _texts(texts: Sequence[str], name: str) -> dict[str, Any]:
    counts = Counter(texts)
    common = [pair for pair in counts.most_common(_MOST_TOP) if len(pair[0]) <= 20 * _LONGEST]
    top = _top(
        [text for text, _ in common], [n for _, n in common], [_text(text) for text, _ in common], name
    )
    return {"distinct": len(counts), "top": top}


def _top(
    labels: Sequence[str], counts: Any, texts: Sequence[str], name: str, *, is_in: bool = False
) -> list[dict[str, Any]]:
    """Return the most frequent values, each with the condition that selects its rows."""
    order = np.argsort(-np.asarray(counts, np.int64), kind="stable")[:_MOST_TOP].tolist()
    found = ((labels[at][:_LONGEST], int(counts[at]), _equals(name, texts[at], is_in)) for at in order)
    return [{"label": label, "count": count, "condition": condition} for label, count, condition in found]


def _equals(name: str, text: str, is_in: bool) -> str:
    """Return the condition that a column equals or contains a value; "" for columns that queries cannot name."""
    try:
        column = quoted(name)
    except InvalidInputError:
        return ""
    return f"contains({column}, {text})" if is_in else f"{column} = {text}"


def _text(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
