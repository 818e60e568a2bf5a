"""Random Arrow columns of every kind that a key or a cursor may have, and what is equal and greater in plain Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

SMALL = st.integers(-3, 3)
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.5, math.nan, -math.nan, math.inf, -math.inf, 5e-324])
TEXTS = st.text("ab\x00é😀", max_size=17)

KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): SMALL | st.sampled_from([-(2**63), 2**63 - 1, 2**32, 2**32 - 1]),
    pa.int32(): SMALL,
    pa.uint8(): st.integers(0, 3),
    pa.uint64(): st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    pa.float64(): FLOATS,
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, math.nan]),
    pa.bool_(): st.booleans(),
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.json_(): TEXTS,
    pa.binary(): st.binary(max_size=17),
    pa.large_binary(): st.binary(max_size=17),
    pa.binary(2): st.binary(min_size=2, max_size=2),
    pa.uuid(): st.sampled_from([bytes(16), bytes(15) + b"\1", b"\xff" * 16]),
    pa.timestamp("us", "UTC"): SMALL,
    pa.date32(): SMALL,
    pa.time64("us"): st.integers(0, 3),
    pa.duration("s"): SMALL,
    pa.null(): st.none(),
}


def column(kind: pa.DataType, cells: Sequence[Any], before: int = 0) -> pa.Array:
    """Return the cells as an array that begins and ends `before` cells from the ends of its buffers."""
    padded = [None] * before + list(cells) + [None] * before
    if isinstance(kind, pa.BaseExtensionType):
        whole = pa.ExtensionArray.from_storage(kind, pa.array(padded, kind.storage_type))
    elif pa.types.is_temporal(kind):
        whole = pa.array(padded, pa.int64()).cast(f"int{kind.bit_width}").view(kind)
    else:
        whole = pa.array(padded, kind)
    return whole.slice(before, len(cells))


@st.composite
def tables(
    draw: st.DrawFn, kinds: Sequence[pa.DataType] = tuple(KINDS), most: int = 3, at_least: int = 1
) -> tuple[list[pa.DataType], list[tuple[Any, ...]]]:
    """Draw the kinds of some columns, and rows of them; few values, so that rows meet."""
    chosen = draw(st.lists(st.sampled_from(list(kinds)), min_size=1, max_size=most))
    row = st.tuples(*(st.none() | KINDS[kind] for kind in chosen))
    return chosen, draw(st.lists(row, min_size=at_least, max_size=30))


def columns(kinds: Sequence[pa.DataType], rows: Sequence[tuple[Any, ...]], before: int = 0) -> list[pa.Array]:
    """Return the rows as columns."""
    return [column(kind, [row[i] for row in rows], before) for i, kind in enumerate(kinds)]


def same(cell: Any) -> Any:
    """Return what is equal for equal cells of a key, and only for them."""
    if isinstance(cell, float):
        return "NaN" if math.isnan(cell) else cell + 0.0
    return cell


def key(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return what is equal for equal keys."""
    return tuple(map(same, row))


def rank(cell: Any) -> tuple[Any, ...]:
    """Return what is greater for greater cells."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return (0,)
    return 1, cell.encode() if isinstance(cell, str) else cell


def ranks(row: Sequence[Any]) -> tuple[Any, ...]:
    """Return what is greater for newer rows."""
    return tuple(map(rank, row))
