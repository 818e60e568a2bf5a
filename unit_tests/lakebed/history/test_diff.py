"""`Dataset.diff` and `Tensor.modified_samples`: what Deep Lake 3.9.52 answers, to the character where it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import TensorModifiedError, VersionNotFoundError

RULE = "-" * 120
UNTOUCHED = {
    "created": False,
    "cleared": False,
    "info_updated": False,
    "data_added": [0, 0],
    "data_updated": set(),
    "data_deleted": set(),
    "data_transformed_in_place": False,
}


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    """Ten rows in one tensor, two in another that lies in a group, all committed."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("a", dtype="int64")
    ds.create_tensor("g/t", htype="text")
    ds.a.extend(np.arange(10))
    ds["g/t"].extend(["x", "y"])
    ds.commit("base")
    return ds


def of(ds: lakebed.Dataset, tensor: str) -> dict[str, Any]:
    """What the head changed in a tensor, without what it did not."""
    found = ds.diff(as_dict=True)
    assert found is not None
    (entry,) = found["tensor"]
    return {key: value for key, value in entry[tensor].items() if value != UNTOUCHED[key]}


def printed(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str], *ids: str) -> str:
    capsys.readouterr()
    assert ds.diff(*ids) is None
    return capsys.readouterr().out


def test_the_dictionary_of_an_unchanged_head(ds: lakebed.Dataset) -> None:
    """Every visible tensor is there, hidden ones are not."""
    nothing = {
        "author": None,
        "message": None,
        "date": None,
        "info_updated": False,
        "renamed": {},
        "deleted": [],
    }
    head = ds.pending_commit_id
    assert ds.diff(as_dict=True) == {
        "dataset": [{"commit_id": head, **nothing}],
        "tensor": [{"commit_id": head, "a": UNTOUCHED, "g/t": UNTOUCHED}],
    }


def test_every_kind_of_change_to_samples(ds: lakebed.Dataset) -> None:
    """Rows that are added, replaced, removed, also those that nobody has published yet."""
    with ds:
        ds.a.append(1)
        ds.a[[0, 3]] = np.array([[5], [6]])
        assert of(ds, "a") == {"data_added": [10, 11], "data_updated": {0, 3}}
        ds.a.pop(0)
        assert of(ds, "a") == {"data_added": [9, 10], "data_updated": {2}, "data_deleted": {0}}
        ds.a.pop(9)
        assert of(ds, "a") == {"data_added": [9, 9], "data_updated": {2}, "data_deleted": {0}}
    ds.a.info["k"] = 1
    assert of(ds, "a") == {
        "data_added": [9, 9],
        "data_updated": {2},
        "data_deleted": {0},
        "info_updated": True,
    }
    ds.a.clear()
    ds.a.append(1)
    assert of(ds, "a") == {"cleared": True, "data_added": [0, 1]}
    assert of(ds, "g/t") == {}


def test_removed_rows_have_the_numbers_of_the_version_before(ds: lakebed.Dataset) -> None:
    """3.9.52 forgets the second removal of row 3; here all three are there."""
    for row in (3, 3, 0):
        ds.a.pop(row)
    assert of(ds, "a") == {"data_added": [7, 7], "data_deleted": {0, 3, 4}}


def test_new_tensors(ds: lakebed.Dataset) -> None:
    """An info that comes with the htype counts as updated; so does that of class labels whenever one is written."""
    ds.create_tensor("new")
    ds.create_tensor("label", htype="class_label", class_names=["x"])
    ds.create_tensor("gone").append(1)
    ds.delete_tensor("gone")
    assert of(ds, "new") == {"created": True}
    assert of(ds, "label") == {"created": True, "info_updated": True}
    ds.commit()
    ds.label.append(0)
    assert of(ds, "label") == {"info_updated": True, "data_added": [0, 1]}
    ds.commit()
    ds.label[0] = 0
    assert of(ds, "label") == {"info_updated": True, "data_added": [1, 1], "data_updated": {0}}
    ds.commit()
    ds.label.pop()
    assert of(ds, "label") == {"data_deleted": {0}}


def schema(ds: lakebed.Dataset) -> tuple[dict[str, str], list[str]]:
    found = ds.diff(as_dict=True)
    assert found is not None
    (entry,) = found["dataset"]
    return entry["renamed"], entry["deleted"]


def test_names_that_change(ds: lakebed.Dataset) -> None:
    """Chains of names count once, in the order of the first; a deleted tensor has the name that it was known by."""
    ds.rename_tensor("a", "b")
    ds.rename_group("g", "h")
    ds.rename_tensor("b", "c")
    assert schema(ds) == ({"a": "c", "g/t": "h/t"}, [])
    assert of(ds, "c") == {"data_added": [10, 10]}
    ds.rename_tensor("c", "a")
    assert schema(ds) == ({"g/t": "h/t"}, [])
    ds.rename_tensor("a", "z")
    ds.delete_tensor("z")
    ds.create_tensor("a").append(1)
    assert schema(ds) == ({"g/t": "h/t"}, ["a"])
    assert of(ds, "a") == {"created": True, "data_added": [0, 1]}
    ds.delete_group("h")
    assert schema(ds) == ({}, ["a", "g/t"])


def test_a_deleted_group_stands_for_its_tensors(ds: lakebed.Dataset) -> None:
    """As in 3.9.52; a group that the last commit did not know is no news."""
    ds.create_tensor("new/x")
    ds.create_tensor("g/new")
    ds.delete_group("new")
    assert schema(ds) == ({}, [])
    ds.delete_group("g")
    assert schema(ds) == ({}, ["g"])


def test_the_head_in_print(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """Schema first, then tensors by name, runs of rows shortened."""
    ds.info["k"] = 1
    ds.rename_tensor("g/t", "g/u")
    ds.create_tensor("B")
    ds.a.extend([1, 2])
    ds.a[[0, 2, 3, 4, 7]] = np.ones((5, 1), np.int64)
    ds["g/u"].append("z")
    ds["g/u"].pop(0)
    ds["g/u"].info["x"] = 1
    assert printed(ds, capsys) == (
        f"\n## Deep Lake Diff\n{RULE}\n\x1b[94mDiff in HEAD relative to the previous commit:\n\x1b[0m\n{'*' * 80}\n"
        "\x1b[93mcommit UNCOMMITTED HEAD\x1b[0m\nAuthor: None\nDate: None\nMessage: None\n\n"
        "- Updated dataset info \n\n- Renamed:\tg/t -> g/u\n\n\n"
        "B\n* Created tensor\n\n"
        "a\n* Added 2 samples: [10-12]\n* Updated 5 samples: [0, 2-4, 7]\n\n"
        "g/u\n* Added 1 sample: [1-2]\n* Deleted 1 sample: [0]\n* Updated tensor info\n\n"
        f"{RULE}\n"
    )


def test_other_schema_changes_in_print(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """The blank lines are those of 3.9.52."""
    ds.info["k"] = 1
    assert "\n\n- Updated dataset info \n\n\n\n---" in printed(ds, capsys)
    ds.delete_tensor("g/t")
    assert "\n\n- Updated dataset info \n\n- Deleted:\tg/t\n\n\n---" in printed(ds, capsys)
    ds.commit()
    ds.a.clear()
    ds.a.append(1)
    assert "\n\na\n* Cleared tensor\n* Added 1 sample: [0-1]\n\n---" in printed(ds, capsys)


def test_a_commit_in_print(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """It goes by its id, with author, date and message."""
    ds.a.append(1)
    commit = ds.commit("two\nlines")
    ds.checkout(commit)
    details = ds.get_commit_details(commit)
    assert printed(ds, capsys) == (
        f"\n## Deep Lake Diff\n{RULE}\n\x1b[94mDiff in {commit} (current commit) relative to the previous commit:\n"
        f"\x1b[0m\n{'*' * 80}\n\x1b[93mcommit {commit}\x1b[0m\nAuthor: {details['author']}\n"
        f"Date: {details['time']}\nMessage: two\nlines\n\na\n* Added 1 sample: [10-11]\n\n{RULE}\n"
    )


def test_two_lines_in_print(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """Both since the last version in common, the passed names in the titles."""
    base = ds.commit_id
    ds.checkout("dev", create=True)
    ds.a.append(1)
    empty = f"{RULE}\n\x1b[94mDiff in {{}}:\n\x1b[0m\nNo changes were made.\n\n"
    start = f"The 2 diffs are calculated relative to the most recent common ancestor ({base}) of "
    dev = (
        f"\x1b[94mDiff in {{}}:\n\x1b[0m\n{'*' * 80}\n\x1b[93mcommit UNCOMMITTED HEAD\x1b[0m\nAuthor: None\n"
        "Date: None\nMessage: None\n\na\n* Added 1 sample: [10-11]\n\n"
    )
    main = (
        f"{RULE}\n\x1b[94mDiff in {{}}:\n\x1b[0m\n{'*' * 80}\n\x1b[93mcommit UNCOMMITTED HEAD\x1b[0m\nAuthor: None\n"
        "Date: None\nMessage: None\n\nNo changes were made in this commit.\n"
    )
    title = "\n## Deep Lake Diff\n"
    assert printed(ds, capsys, "main") == (
        f"{title}{start}the current state and the commit passed.\n{RULE}\n{dev.format('HEAD')}"
        f"{main.format('main (target id)')}{RULE}\n"
    )
    assert printed(ds, capsys, "dev", str(base)) == (
        f"{title}{start}the two commits passed.\n{RULE}\n{dev.format('dev (target id 1)')}"
        f"{empty.format(f'{base} (target id 2)')}{RULE}\n"
    )


def commits(ds: lakebed.Dataset, *ids: str) -> tuple[list[str | None], list[str | None]]:
    """Messages of the versions on both sides, newest first."""
    found = ds.diff(*ids, as_dict=True)
    assert found is not None
    for left, right in zip(found["dataset"], found["tensor"], strict=True):
        assert [entry["commit_id"] for entry in left] == [entry["commit_id"] for entry in right]
    left, right = found["dataset"]
    return [entry["message"] for entry in left], [entry["message"] for entry in right]


def test_versions_between_two(ds: lakebed.Dataset) -> None:
    """On one line and on two, by branch, id, prefix and tag, with the uncommitted heads."""
    base = str(ds.commit_id)
    ds.a.append(1)
    two = ds.commit("two")
    ds.checkout("dev", create=True)
    ds.a.append(2)
    ds.commit("on dev")
    ds.checkout("main")
    ds.a.append(3)
    assert commits(ds, base) == ([None, "two"], [])
    assert commits(ds, two) == ([None], [])
    assert commits(ds, "main") == ([], [])
    assert commits(ds, base, two) == ([], ["two"])
    assert commits(ds, two, base[:10]) == (["two"], [])
    assert commits(ds, base, base) == ([], [])
    assert commits(ds, "dev") == ([None], [None, "on dev"])
    assert commits(ds, "dev", "main") == ([None, "on dev"], [None])
    assert commits(ds, "dev~1", base) == (["on dev", "two"], [])
    ds.checkout(two)
    assert commits(ds, "dev") == ([], [None, "on dev"])
    assert commits(ds, base) == (["two"], [])


def test_versions_that_are_not_there(ds: lakebed.Dataset) -> None:
    """Unknown names are KeyErrors; a second id without a first is a ValueError."""
    base = str(ds.commit_id)
    for ids in (["nope"], [""], [base, "nope"], ["nope", base]):
        with pytest.raises(VersionNotFoundError, match="does not exist in the dataset") as caught:
            ds.diff(*ids)
        assert isinstance(caught.value, KeyError)
    with pytest.raises(ValueError, match="id_2 without specifying id_1"):
        ds.diff(id_2=base)


def test_what_others_published_meanwhile_is_compared_with(ds: lakebed.Dataset) -> None:
    """Names are looked up in the history as it is now, not as it was when this dataset was opened."""
    mine = lakebed.load(ds.path, read_only=True)
    ds.checkout("later", create=True)
    ds.a.append(1)
    ds.commit("late")
    ds.close()
    assert commits(mine, "later") == ([None], [None, "late"])


def test_a_diff_reads_no_chunk(ds: lakebed.Dataset) -> None:
    """The records of the versions are all it takes."""
    base = str(ds.commit_id)
    ds.a[0] = 7
    ds.commit("two")
    ds.close()
    for chunk in Path(ds.path).rglob("chunks/*"):
        chunk.unlink()
    ds = lakebed.load(ds.path, read_only=True)
    assert commits(ds, base) == ([None, "two"], [])
    assert ds.a.modified_samples(base, return_indexes=True)[1] == [0]


# -- modified samples ----------------------------------------------------------------------------------------------


def modified(tensor: lakebed.Tensor, *target: str) -> dict[int, list[int]]:
    view, rows = tensor.modified_samples(*target, return_indexes=True)
    assert len(view) == len(rows)
    assert all(type(row) is int for row in rows)
    return dict(zip(rows, [sample.tolist() for sample in view.numpy(aslist=True)], strict=True))


def test_samples_that_were_modified(ds: lakebed.Dataset) -> None:
    """Added and replaced ones in order, since the last commit or any other on the line; a view that can be written."""
    base = str(ds.commit_id)
    assert modified(ds.a) == {}
    ds.a[8] = 3
    ds.a[2] = 4
    ds.a.append(1)
    assert modified(ds.a) == modified(ds.a, base) == {2: [4], 8: [3], 10: [1]}
    assert modified(ds.a, "main") == {}
    assert ds.a.modified_samples().numpy().tolist() == [[4], [3], [1]]
    ds.a.modified_samples()[0] = 9
    two = ds.commit()
    assert modified(ds.a) == modified(ds.a, two) == {}
    ds.a.pop(0)
    ds.a[0] = 5
    assert modified(ds.a) == {0: [5]}
    assert modified(ds.a, base) == {0: [5], 1: [9], 7: [3], 9: [1]}
    ds.checkout(two)
    assert modified(ds.a) == modified(ds.a, base) == {2: [9], 8: [3], 10: [1]}


def test_modified_samples_of_tensors_that_came_changed_names_or_were_cleared(ds: lakebed.Dataset) -> None:
    """A tensor is followed by what it is, not by what it is called."""
    base = str(ds.commit_id)
    ds.a[1] = 7
    ds.create_tensor("new").extend([1, 2])
    ds.commit()
    ds.rename_tensor("a", "z")
    ds.z[0] = 5
    assert modified(ds.z, base) == {0: [5], 1: [7]}
    assert modified(ds.new, base) == {0: [1], 1: [2]}
    ds.commit()
    ds.z.clear()
    ds.z.extend([6])
    assert modified(ds.z, base) == {0: [6]}
    ds.z.clear()
    assert modified(ds.z, base) == {}


def test_modified_sequences(ds: lakebed.Dataset) -> None:
    """Rows are counted, not items: 3.9.52 names rows that are not there."""
    ds.create_tensor("s", htype="sequence").extend([[1, 2, 3], [4, 5], [6]])
    ds.commit()
    ds.s[0] = [7, 8]
    ds.s.append([1])
    assert ds.s.modified_samples(return_indexes=True)[1] == [0, 3]
    ds.s.pop(3)
    ds.s.append([2])
    assert ds.s.modified_samples(return_indexes=True)[1] == [0, 3]


def test_versions_on_other_lines_have_no_modified_samples(ds: lakebed.Dataset) -> None:
    """Nor have versions that are not there."""
    ds.checkout("dev", create=True)
    ds.a.append(1)
    ds.commit()
    ds.checkout("main")
    for target in ("dev", "dev~1"):
        with pytest.raises(TensorModifiedError, match="not an ancestor"):
            ds.a.modified_samples(target)
    with pytest.raises(KeyError, match="nope"):
        ds.a.modified_samples("nope")


def test_before_the_first_commit_everything_is_new(tmp_path: Path) -> None:
    """Of an empty dataset there is nothing to tell."""
    ds = lakebed.empty(tmp_path / "fresh")
    found = ds.diff(as_dict=True)
    assert found is not None
    assert found["tensor"] == [{"commit_id": ds.pending_commit_id}]
    ds.create_tensor("a").extend([4, 5])
    assert of(ds, "a") == {"created": True, "data_added": [0, 2]}
    assert modified(ds.a) == {0: [4], 1: [5]}
