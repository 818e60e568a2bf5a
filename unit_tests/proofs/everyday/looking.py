"""Every way to read a tensor, against the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from unit_tests.proofs.everyday.kinds import Kind, Random
from unit_tests.proofs.everyday.model import (
    Column,
    Disagreement,
    State,
    check_array,
    check_row,
    check_rows,
    may_be_null,
)

MANY = 60
"""Rows that are read one by one at most."""


def canonical(kind: Kind, found: Any) -> Any:
    """A row that `numpy(aslist=True)` gave, in the form of the model."""
    if kind.is_sequence:
        flat = Kind(kind.options, kind.form)
        return [canonical(flat, item) for item in found]
    if kind.form in ("text", "json"):
        if not isinstance(found, np.ndarray) or found.shape != (1,):
            raise Disagreement(f"{found!r} of shape {np.shape(found)}, not one value")
        return found.tolist()[0]
    if kind.form in ("list", "tag"):
        return found.tolist()
    return found


def _some(random: Random, count: int) -> list[int]:
    """A few rows: the first, the last, some between; all of few."""
    if count <= 6:
        return list(range(count))
    return [0, count - 1, *random.integers(0, count, 4).tolist()]


def _cut(random: Random, count: int) -> slice:
    a, b = sorted(random.integers(0, count + 1, 2).tolist())
    step = int(random.choice([1, 1, 2, 3, -1]))
    return slice(a, b, step) if step > 0 or b >= count else slice(b, a, step)


class Look:
    """Looks at one tensor of a dataset in every way; each method is one."""

    def __init__(
        self, dataset: Any, name: str, column: Column, length: int, random: Random, *, ours: bool
    ) -> None:
        self.dataset, self.name, self.column, self.random, self.ours = dataset, name, column, random, ours
        self.length = length
        self.tensor = dataset[name]
        self.rows = column.rows
        self.kind = column.kind

    def _check(self, expected: list[Any], found: Any) -> None:
        check_rows(self.column, expected, [canonical(self.kind, row) for row in found])

    def count(self) -> None:
        if len(self.tensor) != len(self.rows):
            raise Disagreement(f"{len(self.tensor)} rows, not {len(self.rows)}")

    def singly(self) -> None:
        for row in _some(self.random, len(self.rows)):
            found = self.tensor[row].numpy(aslist=True) if self.kind.is_sequence else self.tensor[row].numpy()
            check_row(self.column, self.rows[row], canonical(self.kind, found))

    def from_behind(self) -> None:
        for row in _some(self.random, len(self.rows)):
            found = self.tensor[row - len(self.rows)].numpy(aslist=self.kind.is_sequence)
            check_row(self.column, self.rows[row], canonical(self.kind, found))

    def whole_as_list(self) -> None:
        self._check(self.rows, self.tensor.numpy(aslist=True))

    def whole(self) -> None:
        if self.kind.form != "array" or self.kind.is_sequence or not self.rows:
            return
        try:
            found = self.tensor.numpy()
        except Exception as error:
            if type(error).__name__ == "DynamicTensorNumpyError" and not self.column.is_even:
                return
            raise
        if not self.column.is_even:
            raise Disagreement(f"one array of shape {found.shape} for samples of different shapes")
        self._check(self.rows, list(found))

    def sliced(self) -> None:
        cut = _cut(self.random, len(self.rows))
        self._check(self.rows[cut], self.tensor[cut].numpy(aslist=True))

    def sliced_again(self) -> None:
        first = slice(*sorted(self.random.integers(0, len(self.rows) + 1, 2).tolist()))
        part = self.rows[first]
        second = slice(*sorted(self.random.integers(0, len(part) + 1, 2).tolist()))
        self._check(part[second], self.tensor[first][second].numpy(aslist=True))

    def picked(self) -> None:
        rows = self.random.integers(0, len(self.rows), min(len(self.rows), 9)).tolist() if self.rows else []
        if rows:
            self._check([self.rows[row] for row in rows], self.tensor[rows].numpy(aslist=True))

    def iterated(self) -> None:
        if len(self.rows) <= MANY:
            self._check(
                self.rows, [sample.numpy(aslist=True) for sample in self.tensor] if self.kind.is_sequence
                else [sample.numpy() for sample in self.tensor]
            )  # fmt: skip

    def by_rows(self) -> None:
        for row in _some(self.random, min(len(self.rows), self.length)):
            found = self.dataset[row][self.name].numpy(aslist=self.kind.is_sequence)
            check_row(self.column, self.rows[row], canonical(self.kind, found))
        cut = _cut(self.random, self.length)
        found = self.dataset[cut][self.name].numpy(aslist=True)
        self._check(self.rows[: self.length][cut], found)

    def values_of_data(self) -> None:
        if self.kind.is_sequence:
            return
        for row in _some(self.random, len(self.rows)):
            found = self.tensor[row].data()["value"]
            check_row(self.column, self.rows[row], found)
            if self.kind.labels:
                labels = [] if self.rows[row] is None else self.rows[row].tolist()
                names = [self.kind.options["class_names"][index] for index in labels]
                if list(self.tensor[row].data()["text"]) != names:
                    raise Disagreement(f"{self.tensor[row].data()['text']}, not {names}")

    def typed(self) -> None:
        method = {"text": "text", "json": "dict", "list": "list", "tag": "list"}.get(self.kind.form)
        if method is None or self.kind.is_sequence or not self.rows:
            return
        check_rows(self.column, self.rows, list(getattr(self.tensor, method)()))
        row = int(self.random.integers(0, len(self.rows)))
        check_row(self.column, self.rows[row], getattr(self.tensor[row], method)())

    def shapes(self) -> None:
        if self.kind.form != "array" or self.kind.is_sequence:
            return
        for row in _some(self.random, len(self.rows)):
            if tuple(self.tensor[row].shape) != self.column.shape(self.rows[row]):
                raise Disagreement(f"shape {self.tensor[row].shape}, not {self.column.shape(self.rows[row])}")
        every = np.array([self.column.shape(row) for row in self.rows])
        lengths = [axis[0] if len(set(axis)) == 1 else None for axis in every.T.tolist()]
        found = list(self.tensor.shape)
        if self.ours and self.rows and found != [len(self.rows), *lengths]:
            raise Disagreement(f"shape {found}, not {[len(self.rows), *lengths]}")

    def dtype(self) -> None:
        if self.kind.form == "array" and str(np.dtype(self.tensor.dtype)) != self.kind.dtype:
            raise Disagreement(f"dtype {self.tensor.dtype}, not {self.kind.dtype}")

    def inside(self) -> None:
        """Parts of samples: by a second subscript, and by one of several axes."""
        if self.kind.form != "array" or self.kind.is_sequence or self.kind.lossy:
            return
        for row in _some(self.random, len(self.rows))[:3]:
            value = self.rows[row]
            if value is None or not value.size:
                continue
            box = tuple(slice(*sorted(self.random.integers(0, n + 1, 2).tolist())) for n in value.shape)
            one = tuple(int(self.random.integers(0, n)) for n in value.shape)
            check_array(value[box], self.tensor[(row, *box)].numpy())
            check_array(value[box[0]], self.tensor[row][box[0]].numpy())
            if self.tensor[(row, *one)].numpy() != value[one]:
                raise Disagreement(f"element {one} of row {row}")
        if self.column.is_even and self.rows and self.rows[0] is not None and self.rows[0].size:
            stop = self.rows[0].shape[0]
            found = self.tensor[0 : len(self.rows), 0 : max(stop - 1, 1)].numpy()
            check_array(np.stack([row[0 : max(stop - 1, 1)] for row in self.rows]), found)

    def items(self) -> None:
        """Items of sequences."""
        if not self.kind.is_sequence:
            return
        flat = Kind(self.kind.options, self.kind.form)
        for row in _some(self.random, len(self.rows)):
            items = self.rows[row] or []
            if not items:
                continue
            one = int(self.random.integers(0, len(items)))
            single = Column(self.kind, [], self.column.rank)
            for found in (self.tensor[row, one].numpy(), self.tensor[row][one].numpy()):
                check_row(single, [items[one]], [canonical(flat, found)])

    def stored_values(self) -> None:
        check_rows(self.column, self.rows, list(self.tensor.values()), nulls=True)

    def batches(self) -> None:
        size = int(self.random.choice([1, 2, 7, 64, 1000]))
        if len(self.rows) / size > 200:
            return
        order: Any = slice(None)
        if self.random.random() < 0.3 and self.length:
            order = self.random.integers(0, self.length, 9).tolist()
        expected = [self.rows[row] for row in order] if isinstance(order, list) else self.rows
        found: list[Any] = []
        for batch in self.dataset[order].batches(size, [self.name]):
            if len(batch[self.name]) > size:
                raise Disagreement(f"a batch of {len(batch[self.name])}, not {size}")
            found.extend(batch[self.name])
        check_rows(self.column, expected, [self._of_batch(row) for row in found], nulls=True)

    def _of_batch(self, row: Any) -> Any:
        if row is np.ma.masked or (isinstance(row, np.ma.MaskedArray) and row.mask.all() and row.size):
            return None
        if self.kind.form == "array" and not self.kind.is_sequence:
            return None if row is None else np.atleast_1d(np.asarray(row))
        return row

    def arrow(self) -> None:
        import pyarrow as pa

        if self.kind.dtype.startswith("complex"):
            return
        cut = slice(*sorted(self.random.integers(0, self.length + 1, 2).tolist()))
        self._check_arrow(pa.table(self.dataset[[self.name]])[self.name], self.rows, named=True)
        self._check_arrow(pa.table(self.dataset[cut][[self.name]])[self.name], self.rows[cut], named=True)

    def arrow_of_rows(self) -> None:
        if self.kind.dtype.startswith("complex"):
            return
        cut = slice(*sorted(self.random.integers(0, len(self.rows) + 1, 2).tolist()))
        found = self.dataset.read_columns(cut.start, cut.stop, [self.name])[self.name]
        self._check_arrow(found, self.rows[cut])
        rows = np.flatnonzero(self.random.random(len(self.rows)) < 0.4)
        found = self.dataset.take_rows(rows, [self.name])[self.name]
        self._check_arrow(found, [self.rows[row] for row in rows.tolist()])

    def _check_arrow(self, found: Any, rows: list[Any], *, named: bool = False) -> None:
        """Compare an Arrow column; ``named``: classes have their names there."""
        found.validate(full=True)
        values = found.to_pylist()
        if named and self.tensor.base_htype == "class_label":
            names = list(self.tensor.info.class_names or ())
            values = [_numbers_of(value, names) for value in values]
        if len(values) != len(rows):
            raise Disagreement(f"Arrow: {len(values)} rows, not {len(rows)}")
        for number, (row, value) in enumerate(zip(rows, values, strict=True)):
            if not _arrow_agrees(self.column, row, value):
                raise Disagreement(f"Arrow, row {number} of these: {str(value)[:200]}, not {str(row)[:200]}")

    def taken_over(self) -> None:
        """Rows handed to another dataset."""
        from lakebed import empty

        if self.kind.form == "array" and "dtype" not in self.kind.options and self.column.is_blank:
            return
        other = empty("mem://taken-over", overwrite=True)
        other.create_tensor("x", **self.kind.options)
        cut = slice(*sorted(self.random.integers(0, len(self.rows) + 1, 2).tolist()))
        other.x.extend(self.tensor[cut])
        column = Column(self.kind)
        column.extend(self.rows[cut])
        # An empty row among single numbers is a null, and of nothing but nulls nothing can be read.
        if not column.is_blank and not all(map(may_be_null, column.rows)):
            Look(other, "x", column, len(column.rows), self.random, ours=True).whole_as_list()


def _numbers_of(value: Any, names: list[str]) -> Any:
    """Return the numbers of classes; a class without a name is its number as text."""
    if isinstance(value, list):
        return [_numbers_of(one, names) for one in value]
    if isinstance(value, str):
        return names.index(value) if value in names else int(value)
    return value


def _arrow_agrees(column: Column, row: Any, value: Any) -> bool:
    kind = column.kind
    if value is None and may_be_null(row):
        return True
    if row is None:
        return not column.tells_nulls and value in ([], "", "{}", "[]", "[null]")
    if kind.form in ("json", "list", "tag") and not kind.is_sequence:
        return json.dumps(json.loads(value)) == json.dumps(row)
    if kind.form == "array" and not kind.lossy:
        items = row if kind.is_sequence else [row]
        given = value if kind.is_sequence else [value]
        return len(items) == len(given) and all(
            _flat(kind, item).tobytes() == _flat(kind, seen).tobytes()
            for item, seen in zip(items, given, strict=True)
        )
    if kind.form == "text":
        return bool(value == [item or "" for item in row] if kind.is_sequence else value == row)
    return value is not None


def _flat(kind: Kind, value: Any) -> np.ndarray[Any, Any]:
    if value is None:
        return np.empty(0, kind.dtype)
    if isinstance(value, np.ndarray):
        return value.ravel()
    while isinstance(value, list) and value and isinstance(value[0], list):
        value = [element for part in value for element in part]
    return np.asarray(value, kind.dtype).ravel()


BOTH = (
    *(
        "count",
        "singly",
        "from_behind",
        "whole_as_list",
        "whole",
        "sliced",
        "sliced_again",
        "picked",
        "iterated",
    ),
    *("by_rows", "values_of_data", "typed", "shapes", "dtype", "inside", "items"),
)
"""Ways that Deep Lake 3.9.52 has too."""
OURS = ("stored_values", "batches", "arrow", "arrow_of_rows", "taken_over")
NEED_SAMPLES = frozenset({*BOTH, *OURS} - {"count"})


def ways(random: Random, count: int | None, *, ours: bool) -> list[str]:
    """Draw some ways to look, or take all; the draws do not depend on `ours`."""
    every = [*BOTH, *OURS]
    found = every if count is None else random.choice(every, count, replace=False).tolist()
    return [way for way in found if ours or way in BOTH]


def look(
    dataset: Any, state: State, random: Random, *, ours: bool, count: int | None = None
) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """Yield looks at all tensors: name of the tensor, name of the way, what looks."""
    for name, column in state.columns.items():
        for way in ["count", *ways(random, count, ours=ours)]:
            if column.is_blank and way in NEED_SAMPLES:
                continue
            seed = int(random.integers(0, 2**31))
            seen = Look(dataset, name, column, state.length, np.random.default_rng(seed), ours=ours)
            yield name, way, getattr(seen, way)
