"""Tables: which tensors, which rows, at which version; here and in other processes."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.errors import MemoryDatasetCanNotBePickledError, VersionReplaced
from lakebed.reading.subscripts import Index
from lakebed.session.table import Table
from unit_tests.lakebed.datasets import create_on, new_memory

LENGTH = 12


def table_of(ds: lakebed.Dataset, *names: str) -> Table:
    return Table(ds._session, {name: name for name in names})


def filled(path: Path | str, rows: int = LENGTH) -> lakebed.Dataset:
    ds = lakebed.empty(path)
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.extend({"x": np.arange(rows), "text": [f"row {i}" for i in range(rows)]})
    return ds


def values(table: Table) -> list[Any]:
    """What a worker does with a table: it reads every selected row of every column."""
    rows = table.rows()
    return [[np.asarray(table.reader(name).value(int(row))).item() for row in rows] for name in table.names]


def part_of(table: Table) -> tuple[int, list[int], list[Any], str, bool]:
    read_only = table.session.read_only
    return len(table), [int(row) for row in table.rows()], values(table), table.version, read_only


selectors = st.one_of(
    st.slices(LENGTH),
    st.lists(st.integers(-LENGTH, LENGTH - 1), max_size=8),
    st.lists(st.booleans(), min_size=LENGTH, max_size=LENGTH).map(np.array),
)


@given(first=selectors, second=st.slices(4))
def test_rows_are_selected_as_of_an_array(first: Any, second: slice) -> None:
    table = table_of(filled(f"mem://{new_memory().url.rpartition('/')[2]}-rows"), "x", "text")
    expected = np.arange(LENGTH)[np.asarray(first, np.int64) if isinstance(first, list) else first][second]

    chosen = table[first][second]

    assert list(chosen.rows()) == expected.tolist()
    assert len(chosen) == len(expected)
    assert values(chosen) == [expected.tolist(), [f"row {i}" for i in expected]]
    assert len(chosen.whole) == len(table) == LENGTH


@given(first=selectors)
def test_a_pickled_table_selects_the_same(first: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    table = table_of(filled(tmp_path_factory.mktemp("table") / "ds"), "text", "x")[first]

    again = pickle.loads(pickle.dumps(table))

    assert part_of(again) == (*part_of(table)[:4], True)
    assert dict(again.names) == dict(table.names)


def test_columns_are_named_and_ordered_as_asked() -> None:
    ds = filled("mem://table-columns")
    table = Table(ds._session, {"a": "x", "b": "text"}, Index()[3:5])

    assert list(table.only(["b", "a"]).names.items()) == [("b", "text"), ("a", "x")]
    assert table.only(["b"]).index == table.index
    assert table.state("a").meta.dtype == "int64"
    assert {name: state.key for name, state in table.states().items()} == {"a": "x", "b": "text"}
    assert table.scan("a").column(3, 5).ravel().tolist() == [3, 4]
    assert table.companion("a", "id") is not None
    assert table.companion("a", "null") is None
    with pytest.raises(KeyError):
        table.only(["x"])


def test_a_table_is_as_long_as_its_shortest_tensor() -> None:
    ds = filled("mem://table-lengths")
    ds.x.extend([12, 13])

    table = table_of(ds, "x", "text")

    assert (len(table), table.length, table.longest) == (12, 12, 14)
    assert len(table.rows_of("x")) == 14
    assert len(table[-2:]) == 2
    assert [int(row) for row in table[-2:].rows()] == [10, 11]
    assert len(Table(ds._session, {})) == 0


def test_a_table_cannot_be_changed() -> None:
    names = {"x": "x"}
    table = Table(filled("mem://table-frozen")._session, names)
    names["text"] = "text"

    assert list(table.names) == ["x"]
    with pytest.raises(TypeError):
        table.names["text"] = "text"  # type: ignore[index]
    with pytest.raises(AttributeError):
        table.index = Index()  # type: ignore[misc]


def test_unpublished_rows_count_here_and_are_published_for_others(tmp_path: Path) -> None:
    ds = filled(tmp_path / "ds")
    ds.flush()
    ds.append({"x": 100, "text": "new"})
    table = table_of(ds, "x", "text")
    assert len(table) == LENGTH + 1

    again = pickle.loads(pickle.dumps(table))

    assert values(again[-1:]) == [[100], ["new"]]


def test_another_process_reads_the_same_rows(tmp_path: Path) -> None:
    ds = filled(tmp_path / "ds", 5_000)
    ds.commit("first")
    tables = [table_of(ds, "x", "text")[first::3] for first in range(3)]

    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(part_of, tables))

    assert [(f[:4]) for f in found] == [part_of(table)[:4] for table in tables]
    assert sorted(row for f in found for row in f[1]) == list(range(5_000))
    assert all(f[4] for f in found), "a worker only reads"


def test_a_table_stays_at_its_version(tmp_path: Path) -> None:
    """Also where the writer goes on: the head that it had is replaced, but read as long as its files are there."""
    ds = filled(tmp_path / "ds")
    ds.flush()
    data = pickle.dumps(table_of(ds, "x"))
    version = ds._session.snapshot.version_id
    holder = pickle.loads(data)  # as the process that sent it, it reads this version
    ds.extend({"x": [100], "text": ["new"]})
    ds.flush()
    ds.x[0] = 50
    ds.commit("newer")
    assert version not in ds._session.tree.commits

    again = pickle.loads(data)

    assert again.version == version == holder.version
    assert values(again) == values(holder) == [list(range(LENGTH))]


def test_a_version_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = filled(tmp_path / "ds")
    ds.flush()
    data = pickle.dumps(table_of(ds, "x"))
    ds.extend({"x": [100], "text": ["new"]})
    ds.flush()
    ds.close()
    lakebed.gc(tmp_path / "ds", grace=0)

    with pytest.raises(VersionReplaced):
        pickle.loads(data)


def test_a_commit_is_read_whatever_becomes_of_its_branch(tmp_path: Path) -> None:
    ds = filled(tmp_path / "ds")
    first = ds.commit("first")
    old = lakebed.load(f"{tmp_path / 'ds'}@{first}", read_only=True)
    data = pickle.dumps(table_of(old, "x"))
    ds.pop(0)
    ds.commit("second")

    assert pickle.loads(data).version == first
    assert values(pickle.loads(data)) == [list(range(LENGTH))]


def test_memory_stays_here() -> None:
    with pytest.raises(MemoryDatasetCanNotBePickledError):
        pickle.dumps(table_of(filled("mem://table-pickled"), "x"))


def test_secrets_stay_here(tmp_path: Path) -> None:
    ds = filled(tmp_path / "ds")
    ds.add_creds_key("ours")
    ds.populate_creds("ours", {"aws_access_key_id": "id", "aws_secret_access_key": "canary-secret"})

    data = pickle.dumps(table_of(ds, "x"))

    assert b"canary" not in data
    assert pickle.loads(data).session.credentials.populated["ours"].left_behind


def test_a_group_and_its_tensors() -> None:
    ds = create_on(new_memory())
    ds.create_tensor("g/x", dtype="int64")
    ds.g.extend({"x": [1, 2, 3]})

    table = ds.g._table(["x"])

    assert dict(table.names) == {"x": "g/x"}
    assert values(table[1:]) == [[2, 3]]
