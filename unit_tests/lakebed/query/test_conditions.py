"""A condition that is asked again is not found out again, and never answered by what was true before."""

from __future__ import annotations

import gc
from pathlib import Path
from weakref import ref

import numpy as np
import pytest

import lakebed
from lakebed.query.binding.binding import Binder
from lakebed.query.engine import conditions


def made(url: Path | str) -> lakebed.Dataset:
    ds = lakebed.empty(url, overwrite=True)
    ds.create_tensor("kind", htype="class_label", class_names=["wren", "kite", "gull"])
    ds.create_tensor("n", dtype="int64")
    ds.extend({"kind": np.arange(60) // 20, "n": np.arange(60)})
    ds.commit()
    return ds


def rows(found: lakebed.Dataset) -> list[int]:
    return [int(row) for row in found.sample_indices]


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every expression that is bound."""
    found: list[object] = []
    bind = Binder.bind

    def counted(self: Binder, node: object) -> object:
        found.append(node)
        return bind(self, node)  # type: ignore[arg-type]

    monkeypatch.setattr(Binder, "bind", counted)
    return found


@pytest.mark.parametrize(
    "condition",
    [
        "kind == 'kite'",
        "n BETWEEN 3 AND 9 OR NOT n < 50",
        "n IN (4, 7) AND kind != 'gull'",
        "kind IS NOT NULL AND -n > -4",
        "n % 7 == 3",
    ],
)
def test_a_condition_is_bound_once(condition: str, bound: list[object]) -> None:
    ds = made("mem://bound-once")
    text = f"SELECT * WHERE {condition}"
    first = rows(ds.query(text))
    assert first
    assert bound
    bound.clear()
    assert rows(ds.query(text)) == first
    assert rows(ds[10:].query(text)) == [row for row in first if row >= 10]
    assert bound == []


@pytest.mark.parametrize(
    "condition",
    ["abs(n) > 50", "n > ?", 'n IN (SELECT n FROM "mem://inner")', "twice(n) > 100", "n > ROW_NUMBER() - 1"],
)
def test_what_may_be_another_thing_the_next_time_is_bound_again(condition: str, bound: list[object]) -> None:
    ds = made("mem://bound-again")
    inner = made("mem://inner")
    inner.close()
    lakebed.query.register("twice", lambda n: 2 * n)
    given = [50] if "?" in condition else []
    text = f"SELECT * WHERE {condition}"
    first = rows(ds.query(text, parameters=given))
    bound.clear()
    assert rows(ds.query(text, parameters=given)) == first
    assert bound
    if "?" in condition:
        assert rows(ds.query(text, parameters=[57])) == [58, 59]
    if "twice" in condition:
        lakebed.query.register("twice", lambda n: 0 * n)
        assert rows(ds.query(text)) == []


def test_changes_of_a_dataset_are_seen(tmp_path: Path) -> None:
    """Appends, updates, classes, names, versions and other datasets between one query and the same again."""
    ds = made(tmp_path / "ds")
    text = "SELECT * WHERE kind == 'kite'"
    assert rows(ds.query(text)) == list(range(20, 40))
    ds.append({"kind": 1, "n": 60})
    assert rows(ds.query(text)) == [*range(20, 40), 60]
    ds.kind[0] = 1
    assert rows(ds.query(text)) == [0, *range(20, 40), 60]
    second = ds.commit()
    ds.kind.info["class_names"] = ["kite", "wren", "gull"]
    assert rows(ds.query(text)) == list(range(1, 20))
    ds.commit()
    ds.checkout(second)
    assert rows(ds.query(text)) == [0, *range(20, 40), 60]
    ds.checkout("main")
    assert rows(ds.query(text)) == list(range(1, 20))
    ds.rename_tensor("kind", "class")
    with pytest.raises(lakebed.errors.QueryError, match="kind"):
        ds.query(text)
    ds.rename_tensor("n", "kind")
    with pytest.raises(lakebed.errors.QueryError):
        ds.query(text)
    other = made("mem://other")
    assert rows(other.query(text)) == list(range(20, 40))
    assert len(lakebed.query(f"SELECT * FROM \"{tmp_path / 'ds'}\"@{second} WHERE kind == 'kite'")) == 22


def test_two_columns_are_both_looked_at() -> None:
    """What is kept with the first column of a condition holds only as long as the second is the same."""
    ds = made("mem://both")
    text = "SELECT * WHERE kind == 'kite' AND n < 25"
    assert rows(ds.query(text)) == list(range(20, 25))
    ds.n[30] = 0
    assert rows(ds.query(text)) == [*range(20, 25), 30]
    ds.rename_tensor("n", "m")
    ds.create_tensor("n", dtype="float32").extend(np.full(60, 24.5, np.float32))
    assert rows(ds.query(text)) == list(range(20, 40))


def test_nothing_is_kept_of_what_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    ds = made("mem://gone")
    for n in range(3 * conditions._MOST):
        assert len(ds.query(f"SELECT * WHERE n < {n % 60}")) == n % 60
    reader = ref(ds._table().reader("n"))
    kept = conditions._kept[reader()]  # type: ignore[index]
    assert 0 < len(kept) <= conditions._MOST
    many = ", ".join(map(str, range(conditions._LONGEST)))
    kept.clear()
    assert len(ds.query(f"SELECT * WHERE n IN ({many})")) == 60
    assert not kept
    ds.query("SELECT * WHERE n < 5 AND kind == 'wren'")
    ds.append({"kind": 1, "n": 60})
    assert len(ds.query("SELECT * WHERE n > 58")) == 2
    gc.collect()
    assert reader() is None
