"""Named splits: saved, read, moved with their rows, copied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main
from lakebed.errors import InvalidInputError, ReadOnlyModeError


def rows_of(ds: lakebed.Dataset) -> dict[str, list[int]]:
    """Return the values of each split."""
    return {name: view.x.numpy().ravel().tolist() for name, view in ds.splits.items()}


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    """Ten rows."""
    made = lakebed.empty(tmp_path / "d")
    made.create_tensor("x", dtype="int64").extend(range(10))
    return made


def test_random_splits_are_kept(ds: lakebed.Dataset) -> None:
    """Views of `random_split` may be saved one after the other, and are there when the dataset is opened again."""
    assert ds.splits == {}
    parts = ds.random_split([0.5, 0.3, 0.2])
    names = ["train", "val", "test"]
    for name, part in zip(names, parts, strict=True):
        ds.save_split(name, part)
    wanted = {name: sorted(part.x.numpy().ravel().tolist()) for name, part in zip(names, parts, strict=True)}
    assert rows_of(ds) == wanted
    ds.commit("splits")
    ds.close()
    assert rows_of(lakebed.load(ds.path, read_only=True)) == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([1, 3, 3, -1], [1, 3, 9]),
        (np.array([2, 0]), [0, 2]),
        (np.arange(10) % 2 == 0, [0, 2, 4, 6, 8]),
        (slice(7, None), [7, 8, 9]),
        ([], None),
    ],
)
def test_what_rows_may_be(ds: lakebed.Dataset, given: Any, wanted: list[int] | None) -> None:
    """Numbers, masks and slices; a split without rows is none."""
    ds.save_split("a", given)
    assert rows_of(ds) == ({} if wanted is None else {"a": wanted})


def test_rows_belong_to_one(ds: lakebed.Dataset) -> None:
    """A row that is in another split is taken only on demand; saved again, a split has the new rows."""
    ds.save_split("a", [0, 1, 2])
    with pytest.raises(InvalidInputError, match="row 2 in 'a'"):
        ds.save_split("b", [2, 3])
    assert rows_of(ds) == {"a": [0, 1, 2]}
    ds.save_split("b", [2, 3], move=True)
    ds.save_split("a", [5])
    assert rows_of(ds) == {"a": [5], "b": [2, 3]}
    ds.delete_split("a")
    assert rows_of(ds) == {"b": [2, 3]}
    with pytest.raises(InvalidInputError, match="splits: b"):
        ds.delete_split("a")


def test_names_stay_with_their_rows(ds: lakebed.Dataset) -> None:
    """Removed rows leave the split, appended ones join what they name; views have their part."""
    ds.save_split("a", [0, 1, 2])
    ds.save_split("b", [7, 8])
    ds.pop(1)
    ds.append({"x": 10, "split": "b"})
    ds.append({"x": 11}, append_empty=True)
    assert rows_of(ds) == {"a": [0, 2], "b": [7, 8, 10]}
    assert rows_of(ds[1:7]) == {"a": [2], "b": [7]}
    assert rows_of(ds[5:].splits["b"]) == {"b": [7, 8, 10]}


def test_what_is_refused(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Nothing changes then."""
    with pytest.raises(IndexError, match="no row 10"):
        ds.save_split("a", [3, 10])
    with pytest.raises(InvalidInputError, match="mask"):
        ds.save_split("a", [True])
    with pytest.raises(InvalidInputError, match="numbers"):
        ds.save_split("a", [1.5])
    with pytest.raises(InvalidInputError, match="name"):
        ds.save_split("", [1])
    other = lakebed.empty(tmp_path / "e")
    other.create_tensor("x", dtype="int64").extend(range(10))
    with pytest.raises(InvalidInputError, match="another dataset"):
        ds.save_split("a", other[:3])
    other.create_tensor("split", htype="text").extend(["a"] * 10)
    with pytest.raises(InvalidInputError, match="rename"):
        other.save_split("a", [1])
    assert other.splits == {}
    assert "split" not in ds.tensors
    ds.commit("all")
    ds.close()
    with pytest.raises(ReadOnlyModeError):
        lakebed.load(ds.path, read_only=True).save_split("a", [1])


def test_parts_are_copied(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """By the commands, alone or together; a dataset whose name looks like a part is itself."""

    def copied(source: str) -> list[int]:
        done = CliRunner().invoke(main, ["cp", source, str(tmp_path / "out"), "--overwrite"])
        assert done.exit_code == 0, done.output
        values: list[int] = lakebed.load(tmp_path / "out", read_only=True).x.numpy().ravel().tolist()
        return values

    ds.save_split("train", [1, 2, 3, 5])
    ds.commit("splits")
    ds.create_tag("v1")
    ds.save_split("train", [4])
    ds.commit("others")
    ds.close()
    path = ds.path
    assert copied(f"{path}[2:4]") == [2, 3]
    assert copied(f"{path}[::-4]") == [9, 5, 1]
    assert copied(f"{path}[7, 0]") == [7, 0]
    assert copied(f"{path}:train") == [4]
    assert copied(f"{path}@v1:train[1:]") == [2, 3, 5]
    assert rows_of(lakebed.load(tmp_path / "out", read_only=True)) == {"train": [2, 3, 5]}
    lakebed.deepcopy(path, f"{path}:train", progressbar=False)
    assert len(copied(f"{path}:train")) == 10
    for wrong in (f"{path}[a]", f"{path}[]", f"{path}:none", f"{path}[1:2:3:4]"):
        failed = CliRunner().invoke(main, ["cp", wrong, str(tmp_path / "out2")])
        assert (failed.exit_code, (tmp_path / "out2").exists()) == (2, False)


def test_splits_print_short(ds: lakebed.Dataset) -> None:
    ds.save_split("train", [1, 2, 3])
    ds.save_split("val", [5])
    assert repr(ds.splits) == str(ds.splits) == "{'train': 3 rows, 'val': 1 rows}"
    assert isinstance(ds.splits, dict)


def test_every_command_that_reads_rows_takes_a_part(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Those that are of whole datasets say so."""

    def said(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, [*arguments])
        assert done.exit_code == code, done.output
        return done.output

    ds.save_split("val", [4, 6])
    ds.commit("splits")
    ds.create_tag("v1")
    ds.save_split("val", [1])
    ds.commit("others")
    ds.close()
    path = ds.path
    assert [row["x"] for row in json.loads(said("head", f"{path}@v1:val", "--json"))] == [4, 6]
    assert [row["x"] for row in json.loads(said("head", f"{path}[7,2]", "--json", "-t", "x"))] == [7, 2]
    assert json.loads(said("info", f"{path}:val", "--json"))["rows"] == 1
    assert said("query", f"{path}[3:8]", "SELECT x WHERE x > 5", "--csv").split() == ["x", "6", "7"]
    assert said("query", f"{path}:val", "SELECT *", "--count").strip() == "1"
    said("export", "csv", f"{path}@v1:val[1:]", str(tmp_path / "csv"), "--tensors", "x")
    assert [path.read_text().split() for path in (tmp_path / "csv").iterdir()] == [["x", "6"]]
    assert "splits: val" in said("head", f"{path}:train", code=2)
    for command in ("verify", "du", "log", "diff", "tag", "gc", "pack"):
        given = [f"{path}:val", *([str(tmp_path / "x.lake")] if command == "pack" else [])]
        assert "takes no part of a dataset" in said(command, *given, code=1)
    assert "takes no part" not in said("verify", f"{tmp_path}/none:val", code=1)
