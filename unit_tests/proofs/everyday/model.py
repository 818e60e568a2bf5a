"""What a dataset must hold, in plain Python, and whether what was read is that."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unit_tests.proofs.everyday.kinds import Kind

EMPTY: dict[str, Any] = {"text": "", "json": {}, "list": [], "tag": [None], "polygon": []}
"""What None reads as in the ways of 3.x, where samples are no arrays."""


class Disagreement(AssertionError):
    """What was read is not what was given."""


@dataclass
class Column:
    """One tensor: its rows as they were given, arrays of at least one axis; None is an empty sample.

    `rank` is None until a sample was there; `padded` tells that some empty samples filled a gap, which are no nulls.
    """

    kind: Kind
    rows: list[Any] = field(default_factory=list)
    rank: int | None = None
    padded: bool = False

    def normal(self, value: Any) -> Any:
        """Return a value as it must come back."""
        if value is not None and self.kind.is_sequence:
            return [self._item(item) for item in value]
        return self._item(value)

    def _item(self, value: Any) -> Any:
        return np.atleast_1d(value) if isinstance(value, np.ndarray) else value

    def _note(self, row: Any) -> None:
        for item in (row or []) if self.kind.is_sequence else [row]:
            if item is not None and self.rank is None:
                self.rank = item.ndim if isinstance(item, np.ndarray) else 1

    def extend(self, values: list[Any]) -> None:
        for value in values:
            row = self.normal(value)
            self._note(row)
            self.rows.append(row)

    def replace(self, at: int, value: Any) -> None:
        """Replace a row; one behind the end is appended, and the gap filled."""
        self.padded |= at > len(self.rows)
        self.rows.extend([None] * (at + 1 - len(self.rows)))
        self.rows[at] = self.normal(value)
        self._forget()
        self._note(self.rows[at])

    def remove(self, rows: list[int]) -> None:
        for row in sorted(rows, reverse=True):
            del self.rows[row]
        self._forget()

    def _forget(self) -> None:
        """Forget the rank with the last sample; those of sequences are their items."""
        if not (any(self.rows) if self.kind.is_sequence else self.rows):
            self.rank = None

    @property
    def is_blank(self) -> bool:
        """Whether nothing can be read for want of a dtype and rank."""
        return self.rank is None and self.kind.form == "array"

    def shape(self, row: Any) -> tuple[int, ...]:
        """Shape of an array sample."""
        return (0,) * (self.rank or 0) if row is None else tuple(row.shape)

    @property
    def tells_nulls(self) -> bool:
        """Whether None must be told from an empty sample: single numbers have no other one, and gaps are no nulls."""
        return not (self.padded or self.kind.is_sequence or (self.rank == 1 and self.kind.form == "array"))

    @property
    def is_even(self) -> bool:
        return len({self.shape(row) for row in self.rows}) <= 1


@dataclass
class State:
    """One version."""

    columns: dict[str, Column] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> State:
        """Rows are never changed in place, so lists of the same rows do."""
        columns = {name: Column(c.kind, list(c.rows), c.rank, c.padded) for name, c in self.columns.items()}
        return State(columns, copy.deepcopy(self.info))

    @property
    def length(self) -> int:
        return min((len(c.rows) for c in self.columns.values()), default=0)

    @property
    def is_in_step(self) -> bool:
        return len({len(c.rows) for c in self.columns.values()}) <= 1


def check_row(column: Column, expected: Any, found: Any, *, nulls: bool = False) -> None:
    """Compare a row with what was read, in canonical form: a list of items for sequences.

    `nulls` is for ways that tell None from an empty sample.
    """
    if not column.kind.is_sequence:
        _check_item(column, expected, found, nulls=nulls)
        return
    items = [] if expected is None else expected
    if not isinstance(found, list) or len(found) != len(items):
        raise Disagreement(f"{_brief(found)}, not {len(items)} items")
    for item, seen in zip(items, found, strict=True):
        _check_item(column, item, seen)


def check_rows(column: Column, expected: list[Any], found: Any, *, nulls: bool = False) -> None:
    """Compare several rows with what was read."""
    if len(found) != len(expected):
        raise Disagreement(f"{len(found)} rows, not {len(expected)}")
    for number, (row, seen) in enumerate(zip(expected, found, strict=True)):
        try:
            check_row(column, row, seen, nulls=nulls)
        except Disagreement as wrong:
            raise Disagreement(f"row {number} of these: {wrong}") from None


def may_be_null(row: Any) -> bool:
    """Whether a row may be told as null: None, and what is the same in the file: one axis of no length."""
    return row is None or (isinstance(row, np.ndarray) and row.shape == (0,))


def _check_item(column: Column, expected: Any, found: Any, *, nulls: bool = False) -> None:
    kind = column.kind
    if nulls and found is None and may_be_null(expected):
        return
    if nulls and expected is None and column.tells_nulls:
        raise Disagreement(f"{_brief(found)}, not null")
    if expected is None and kind.form == "array":
        is_empty = isinstance(found, np.ndarray) and found.size == 0
        if not is_empty or not (kind.is_sequence or found.shape == (0,) * (column.rank or 0)):
            raise Disagreement(f"{_brief(found)}, not empty of rank {column.rank}")
    elif expected is None:
        if found != EMPTY[kind.form]:
            raise Disagreement(f"{_brief(found)}, not empty")
    elif kind.form == "array":
        check_array(expected, found, lossy=kind.lossy, inside=kind.is_sequence)
    elif kind.form == "polygon":
        if not isinstance(found, list) or len(found) != len(expected):
            raise Disagreement(f"{_brief(found)}, not {len(expected)} polygons")
        for polygon, seen in zip(expected, found, strict=True):
            check_array(polygon, seen)
    elif found != expected or json.dumps(found) != json.dumps(expected):
        raise Disagreement(f"{_brief(found)}, not {_brief(expected)}")


def check_array(expected: Any, found: Any, *, lossy: bool = False, inside: bool = False) -> None:
    """Compare arrays: dtype, shape, bytes; pixels of lossy compressions may change a little."""
    if not isinstance(found, np.ndarray):
        raise Disagreement(f"{_brief(found)}, not an array of shape {expected.shape}")
    if inside and expected.size == found.size == 0:
        return  # 3.9.52 gives empty items another shape
    if found.dtype != expected.dtype or found.shape != expected.shape:
        raise Disagreement(f"{found.dtype} {found.shape}, not {expected.dtype} {expected.shape}")
    if lossy:
        distance = float(np.abs(found.astype(float) - expected).mean()) if found.size else 0.0
        if distance > 25:
            raise Disagreement(f"pixels differ by {distance} on average")
    elif found.tobytes() != expected.tobytes() and not (
        found.dtype == bool and np.array_equal(found, expected)
    ):
        raise Disagreement(f"{_brief(found.ravel()[:8])}, not {_brief(expected.ravel()[:8])}")


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 200 else f"{text[:200]}..."
