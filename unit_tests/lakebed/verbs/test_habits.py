"""Names of other libraries: every answer is what the object can do."""

from __future__ import annotations

import datetime as dt
import shutil
import tokenize
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.runtime import habits
from lakebed.runtime.absent import NAMES
from lakebed.storage.local import LocalStorage
from unit_tests.lakebed.datasets import copy_of, open_on

_NEEDS = {"to_excel": "openpyxl", "read_excel": "openpyxl", "to_tf_dataset": "tensorflow"}
CASES = [(kind, name) for kind in habits.TABLES for name in habits.answers(kind)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset, and tables of its rows."""
    folder = tmp_path_factory.mktemp("habits")
    ds = lakebed.empty(folder / "ds")
    ds.create_tensor("title", htype="text")
    ds.create_tensor("age", dtype="int64")
    ds.create_tensor("kind", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("vec", htype="embedding", dtype="float32")
    ds.extend(
        {
            "title": ["ann", "bob", *(f"n {i}" for i in range(14))],
            "age": [*range(7), *range(7), 3, 3],
            "kind": ["cat", "dog"] * 8,
            "vec": np.eye(16, 2, dtype=np.float32),
        }
    )
    ds.commit("sixteen rows")
    ds.close()
    ds.to_pandas(["age", "title"]).to_csv(folder / "rows.csv", index=False)
    ds.to_pandas(["age", "title"]).to_parquet(folder / "rows.parquet")
    return folder


@pytest.fixture
def names(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the answers name: a dataset, a result, files in the current folder."""
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    for file in ("rows.csv", "rows.parquet"):
        shutil.copy(folder / file, file)
    ds = open_on(copy_of(LocalStorage(folder / "ds")))
    ds.info["changed"] = True
    return {
        "ds": ds,
        "result": ds.query("SELECT age + 0 AS age, title"),
        "lakebed": lakebed,
        "pandas": pandas,
        "numpy": np,
    }


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind}.{name}" for kind, name in CASES])
def test_an_answer_runs_and_the_name_is_not_there(kind: str, name: str, names: dict[str, Any]) -> None:
    if name == "dt":
        names["ds"]["born"] = [dt.datetime(2020, 1, day + 1) for day in range(16)]  # noqa: DTZ001
    if name == "launch_app":
        names["ds"].create_tensor("photo", htype="image", sample_compression="png").extend(
            [np.ones((4, 4, 3), np.uint8)] * 16
        )
    if name in _NEEDS:
        pytest.importorskip(_NEEDS[name])
        if name == "read_excel":
            names["pandas"].DataFrame({"a": [1]}).to_excel("rows.xlsx", index=False)
    owner = {
        "Dataset": names["ds"],
        "Tensor": names["ds"]["age"],
        "Result": names["result"],
        "lakebed": lakebed,
    }[kind]
    code = habits.answers(kind)[name]
    with pytest.raises(AttributeError) as told:
        getattr(owner, name)
    assert str(told.value).endswith(f".{name} is not here: write {code}")
    exec(compile(code, name, "exec"), names)


def test_names_come_once_and_in_order() -> None:
    for kind, text in habits.TABLES.items():
        found = [name for line in text.splitlines() if line for name in line.split()[0].split(",")]
        assert len(found) == len(set(found)), kind
        assert not set(found) & set(NAMES.get(kind, {})), kind
        for code in habits.answers(kind).values():
            list(tokenize.generate_tokens(StringIO(code).readline))
    assert len(CASES) >= 120


def test_arguments_that_are_called_otherwise_elsewhere_are_taken(names: dict[str, Any]) -> None:
    for rows in (names["ds"], names["result"]):
        assert (
            rows.sort("age", reverse=True)["age"].tolist()
            == rows.sort("age", descending=True)["age"].tolist()
        )
        assert rows.sort(column_names="age")["age"].tolist() == rows.sort("age")["age"].tolist()
        assert (
            len(rows.drop_duplicates(subset="age"))
            == len(rows.dropna(subset=["age"]).drop_duplicates("age"))
            == 7
        )
        assert rows.sample(4, random_state=3)["age"].tolist() == rows.sample(4, seed=3)["age"].tolist()
        assert rows.shuffle(random_state=3)["age"].tolist() == rows.shuffle(seed=3)["age"].tolist()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "ds.sort('age', ascending=False)",
            "sort() got an unexpected argument 'ascending'; write descending=True for",
        ),
        ("ds.join(ds, left_on='age', right_on='age')", "'left_on'; write on={'mine': 'theirs'}"),
        (
            "ds.to_dict('records')",
            "to_dict() got an unexpected argument 'records'; ds.to_list() has the rows as",
        ),
        ("result.to_dict(orient='records')", "'orient'; ds.to_list() has the rows as dictionaries"),
        ("ds.sort_values('age', inplace=True)", "'inplace'; a view is returned, and nothing is changed"),
        ("ds.sample(3, sead=2)", "sample() got an unexpected argument 'sead'; did you mean 'seed'?"),
        ("ds['age'].unique(zzz=1)", "unique() got an unexpected argument 'zzz'; there are none"),
        ("ds.sample(3, seed=1, random_state=2)", "sample() got an unexpected argument 'random_state'"),
    ],
)
def test_other_arguments_of_elsewhere_say_what_to_write(code: str, told: str, names: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as caught:
        eval(code, names)
    assert told in str(caught.value)


def test_each_column_is_sorted_its_own_way(names: dict[str, Any]) -> None:
    found = names["ds"].sort_values(["kind", "age"], ascending=[False, True])

    assert found["kind"].tolist() == ["dog"] * 8 + ["cat"] * 8
    assert found["age"].tolist()[:8] == sorted(found["age"].tolist()[:8])
