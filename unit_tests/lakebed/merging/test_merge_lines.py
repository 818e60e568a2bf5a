"""Several lines that merge each other in any order: nothing is lost, nothing comes twice, nothing that went returns."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

import lakebed
from lakebed.storage.memory import MemoryStorage
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.datasets import create_on, new_memory, open_on

BRANCHES = ("main", "one", "two")
START = 12

Rows = dict[int, tuple[int, int | None]]
"""By the number of a row: how often it was written, and its value; None once it is deleted."""


@dataclass
class Lines:
    """A dataset and what its branches must hold.

    Every row is written on one branch only, so that there are no conflicts, and of two lines the one that has seen
    more writes of a row is right.
    """

    storage: MemoryStorage
    choose: random.Random
    rows: dict[str, Rows] = field(default_factory=dict)
    next: int = START

    def begin(self) -> None:
        """Make the dataset and its branches."""
        ds = create_on(self.storage)
        ds.create_tensor("id", dtype="int64")
        ds.create_tensor("value", dtype="int64", chunk_compression="lz4")
        ds.create_tensor("text", htype="text")
        ds.create_tensor("many", htype="sequence", dtype="int16")
        start = range(START)
        ds.extend({"id": list(start), "value": [0] * START, **self.wide(start)})
        ds.commit("start")
        for name in BRANCHES:
            self.rows[name] = dict.fromkeys(start, (0, 0))
            if name != "main":
                ds.checkout(name, create=True)
                ds.checkout("main")
        ds.close()

    def wide(self, numbers: range | list[int]) -> dict[str, list[object]]:
        """Columns that tell the number of a row, too."""
        return {"text": [f"row {n}" for n in numbers], "many": [np.full(n % 4, n, "i2") for n in numbers]}

    def owned(self, branch: str) -> list[int]:
        """Rows of a branch that it may write."""
        number = BRANCHES.index(branch)
        return [n for n, (_, value) in self.rows[branch].items() if value is not None and n % 3 == number]

    def step(self, ds: lakebed.Dataset, branch: str) -> None:
        """Do something on a branch."""
        rows, what = (
            self.rows[branch],
            self.choose.choice(["add", "add", "change", "change", "delete", "commit"]),
        )
        if what == "add":
            while self.next % 3 != BRANCHES.index(branch):
                self.next += 1
            numbers = [self.next + 3 * i for i in range(self.choose.randint(1, 3))]
            self.next = numbers[-1] + 1
            ds.extend({"id": numbers, "value": [1] * len(numbers), **self.wide(numbers)})
            rows.update(dict.fromkeys(numbers, (1, 1)))
        elif what == "commit":
            ds.commit(allow_empty=True)
        elif mine := self.owned(branch):
            number = self.choose.choice(mine)
            row = ds.id.numpy().ravel().tolist().index(number)
            count, value = rows[number][0] + 1, self.choose.randint(10, 99)
            if what == "delete":
                ds.pop(row)
            else:
                ds.value[row] = value
            rows[number] = (count, None if what == "delete" else value)

    def merge(self, ds: lakebed.Dataset, into: str, other: str) -> None:
        """Merge without any conflict."""
        ds.merge(other)
        mine, its = self.rows[into], self.rows[other]
        self.rows[into] = {
            n: max((rows[n] for rows in (mine, its) if n in rows), key=lambda row: row[0])
            for n in dict.fromkeys([*mine, *its])
        }

    def check(self, branch: str) -> None:
        """Compare what readers see."""
        ds = open_on(self.storage, branch, read_only=True)
        numbers = ds.id.numpy().ravel().tolist()
        wanted = {n: value for n, (_, value) in self.rows[branch].items() if value is not None}
        assert len(numbers) == len(set(numbers))
        assert dict(zip(numbers, ds.value.numpy().ravel().tolist(), strict=True)) == wanted
        columns = self.wide(numbers)
        assert ds.text.data()["value"] == columns["text"]
        found = [np.ravel(row.numpy()).tolist() for row in ds.many]
        assert found == [np.ravel(row).tolist() for row in columns["many"]]


@pytest.mark.parametrize("seed", range(200 if IS_SOAK else 4))
def test_lines_that_merge_in_any_order_agree(seed: int) -> None:
    """Rows, changes and deletions of three branches that merge crosswise come to every branch, once and for all."""
    choose = random.Random(seed)
    lines = Lines(new_memory(), choose)
    lines.begin()
    for _ in range(25):
        into, other = choose.sample(BRANCHES, 2)
        ds = open_on(lines.storage, into)
        for _ in range(choose.randint(0, 3)):
            lines.step(ds, into)
        if choose.random() < 0.5:
            lines.merge(ds, into, other)
        ds.close()
        lines.check(into)
    for into, other in (("main", "one"), ("main", "two"), ("one", "main"), ("two", "main")):
        ds = open_on(lines.storage, into)
        lines.merge(ds, into, other)
        ds.close()
    for branch in BRANCHES:
        lines.check(branch)
    assert lines.rows["main"] == lines.rows["one"] == lines.rows["two"]
