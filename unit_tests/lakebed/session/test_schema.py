"""Tensors and groups made after others, renamed and removed (API.md 2.2; facts tested on 3.9.52)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lakebed
from lakebed.session import schema
from unit_tests.lakebed.datasets import create_on, new_memory, open_on


@pytest.fixture
def ds() -> lakebed.Dataset:
    """Tensors a, g/b and g/h/c."""
    ds = create_on(new_memory())
    ds.create_tensor("a", dtype="int64").extend([1, 2, 3])
    ds.create_tensor("g/b", htype="text").extend(["x", "y"])
    ds.create_tensor("g/h/c", htype="class_label", class_names=["p", "q"], chunk_compression="lz4").append(
        "q"
    )
    return ds


# -- like ------------------------------------------------------------------------------------------------------


def test_create_tensor_like(ds: lakebed.Dataset) -> None:
    """Settings, info and companions are those of the other; samples are not copied."""
    made = ds.create_tensor_like("g/x", ds["g/h/c"])
    assert (made.key, made.htype, made.meta.chunk_compression, len(made)) == ("g/x", "class_label", "lz4", 0)
    assert made.info.class_names == ["p", "q"]
    assert set(made.meta.links) == {"g/_x_id", "g/_x_shape"}
    made.extend(["p", "r"])
    assert (made.info.class_names, ds["g/h/c"].info.class_names) == (["p", "q", "r"], ["p", "q"])
    assert (len(ds["g/_x_id"]), len(ds["g/h/_c_id"])) == (2, 1)


def test_create_tensor_like_one_of_another_dataset(ds: lakebed.Dataset) -> None:
    """The dtype that the other learned comes along, its extents do not."""
    other = create_on(new_memory())
    made = (
        other["g"].create_tensor_like("n", ds.a)
        if "g" in other.groups
        else other.create_tensor_like("n", ds.a)
    )
    assert (made.dtype, made.meta.max_shape, made.meta.length) == (np.dtype("int64"), [], 0)
    with pytest.raises(lakebed.TensorAlreadyExistsError):
        other.create_tensor_like("n", ds.a)
    with pytest.raises(lakebed.errors.InvalidInputError, match="tensor"):
        other.create_tensor_like("m", "a")  # type: ignore[arg-type]


def test_unlink_leaves_the_data_settings() -> None:
    """A tensor of linked images becomes one that holds images."""
    ds = create_on(new_memory())
    links = ds.create_tensor("links", htype="link[image]", sample_compression="jpeg")
    assert ds.create_tensor_like("same", links).htype == "link[image]"
    assert ds.create_tensor_like("data", links, unlink=True).htype == "image"


# -- renaming --------------------------------------------------------------------------------------------------


def test_rename_tensor(ds: lakebed.Dataset) -> None:
    """Companions get their names; samples, and whoever holds the tensor, see no difference; the key stays."""
    held = ds.a
    renamed = ds.rename_tensor("a", "aa")
    assert (str(renamed), renamed.key) == ("Tensor(key='aa')", "a")
    assert str(ds["g"].rename_tensor("b", "b2")) == "Tensor(key='g/b2')"
    ds.aa.append(4)
    assert held.numpy().ravel().tolist() == [1, 2, 3, 4]
    ds.flush()
    again = open_on(ds.storage)
    assert set(again.tensors) == {"aa", "g/b2", "g/h/c"}
    assert "a" not in again
    assert again.aa.numpy().ravel().tolist() == [1, 2, 3, 4]
    assert (len(again["_aa_id"]), len(again["g/_b2_id"])) == (4, 2)
    assert again.aa.meta.name == "aa"


def test_a_name_that_became_free_can_be_used_again(ds: lakebed.Dataset) -> None:
    """The new tensor and its companions have files and rows of their own."""
    ds.rename_tensor("a", "old")
    ds.create_tensor("a", htype="text").extend(["new", "newer"])
    ds.old.append(4)
    ds.flush()
    again = open_on(ds.storage)
    assert again.a.text() == ["new", "newer"]
    assert again.old.numpy().ravel().tolist() == [1, 2, 3, 4]
    assert [len(again[name]) for name in ("_a_id", "_old_id", "_old_shape")] == [2, 4, 4]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("nope", "x", lakebed.TensorDoesNotExistError),
        ("g", "x", lakebed.TensorDoesNotExistError),
        ("a", "g/a", lakebed.RenameError),
        ("g/b", "b", lakebed.RenameError),
        ("a", "g", lakebed.TensorGroupAlreadyExistsError),
        ("g/b", "g/h", lakebed.TensorGroupAlreadyExistsError),
        ("a", "taken", lakebed.TensorAlreadyExistsError),
        ("a", "a", lakebed.TensorAlreadyExistsError),
        ("a", "index", lakebed.InvalidTensorNameError),
        ("a", "", lakebed.errors.InvalidInputError),
    ],
)
def test_names_that_a_tensor_can_not_get(
    ds: lakebed.Dataset, old: str, new: str, error: type[Exception]
) -> None:
    """The error is that of 3.x, and the tensors keep their names."""
    ds.create_tensor("taken")
    with pytest.raises(error):
        ds.rename_tensor(old, new)
    assert set(ds.tensors) == {"a", "g/b", "g/h/c", "taken"}


def test_rename_group(ds: lakebed.Dataset) -> None:
    """Everything inside moves along; groups whose names begin alike do not."""
    ds.create_tensor("g1/z").append(5)
    ds.rename_group("g", "k")
    ds["k"].rename_group("h", "h2")
    assert set(ds.tensors) == {"a", "k/b", "k/h2/c", "g1/z"}
    assert (set(ds.groups), set(ds["k"].groups)) == ({"k", "g1"}, {"h2"})
    ds["k/b"].append("z")
    ds.flush()
    again = open_on(ds.storage)
    assert again["k/b"].text() == ["x", "y", "z"]
    assert again["g1/z"].numpy().tolist() == [[5]]
    assert again["k/h2/c"].data()["text"] == [["q"]]


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("nope", "x", lakebed.TensorGroupDoesNotExistError),
        ("a", "x", lakebed.TensorGroupDoesNotExistError),
        ("g", "a", lakebed.TensorAlreadyExistsError),
        ("g", "g", lakebed.TensorGroupAlreadyExistsError),
        ("g/h", "h", lakebed.RenameError),
        ("g", "index", lakebed.InvalidTensorGroupNameError),
    ],
)
def test_names_that_a_group_can_not_get(
    ds: lakebed.Dataset, old: str, new: str, error: type[Exception]
) -> None:
    """The error is that of 3.x, and the groups keep their names."""
    with pytest.raises(error):
        ds.rename_group(old, new)
    assert set(ds.meta.groups) == {"g", "g/h"}


# -- removing --------------------------------------------------------------------------------------------------


def test_delete_tensor(ds: lakebed.Dataset) -> None:
    """Companions go too; the commit before still has everything."""
    commit = ds.commit()
    ds.delete_tensor("a")
    ds["g"].delete_tensor("b")
    assert set(ds.tensors) == {"g/h/c"}
    assert not any(key.startswith("_a_") for key in ds.meta.tensors)
    with pytest.raises(AttributeError):
        _ = ds.a
    ds.commit()
    ds.checkout(commit)
    assert ds.a.numpy().ravel().tolist() == [1, 2, 3]
    assert ds["g/b"].text() == ["x", "y"]


def test_a_deleted_name_starts_anew(ds: lakebed.Dataset) -> None:
    """No sample of the tensor before shows."""
    ds.commit()
    ds.delete_tensor("a")
    ds.create_tensor("a", htype="text").append("new")
    ds.flush()
    assert open_on(ds.storage).a.text() == ["new"]


def test_delete_group(ds: lakebed.Dataset) -> None:
    """Only what lies inside; 3.9.52 also drops the entry of g1 when g is deleted."""
    ds.create_tensor("g1/z")
    ds["g"].delete_group("h")
    assert (set(ds.tensors), set(ds.meta.groups)) == ({"a", "g/b", "g1/z"}, {"g", "g1"})
    ds.delete_group("g")
    assert (set(ds.tensors), set(ds.meta.groups)) == ({"a", "g1/z"}, {"g1"})


def test_what_is_not_there_can_not_be_deleted(ds: lakebed.Dataset) -> None:
    """A group is no tensor, and the other way round."""
    for name in ("nope", "g"):
        with pytest.raises(lakebed.TensorDoesNotExistError):
            ds.delete_tensor(name)
    for name in ("nope", "a"):
        with pytest.raises(lakebed.TensorGroupDoesNotExistError):
            ds.delete_group(name)


def test_large_tensors_need_a_word(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit, `large_ok` says that it is meant."""
    ds.flush()
    monkeypatch.setattr(schema, "LARGE", 10)
    for call, name in ((ds.delete_tensor, "a"), (ds.delete_group, "g")):
        with pytest.raises(lakebed.errors.TensorTooLargeToDelete, match="large_ok"):
            call(name)
        call(name, large_ok=True)
    assert not ds.tensors


def test_structure_of_a_selection_can_not_change(ds: lakebed.Dataset) -> None:
    """It has no structure of its own."""
    view = ds[0:1]
    calls: list[Callable[[], object]] = [
        lambda: view.create_tensor("x"),
        lambda: view.create_tensor_like("x", ds.a),
        lambda: view.create_group("x"),
        lambda: view.rename_tensor("a", "x"),
        lambda: view.rename_group("g", "x"),
        lambda: view.delete_tensor("a"),
        lambda: view.delete_group("g"),
        lambda: view.rechunk(),
        lambda: view.delete(),
        lambda: view.commit(),
    ]
    for call in calls:
        with pytest.raises(lakebed.errors.InvalidOperationError, match="view"):
            call()


def test_allow_delete_is_stored() -> None:
    """It survives, and forbids to delete and to overwrite."""
    ds = lakebed.empty("mem://allow-delete")
    assert ds.allow_delete
    ds.allow_delete = False
    ds.flush()
    assert not lakebed.load("mem://allow-delete").allow_delete
    for call in (ds.delete, lambda: lakebed.delete(ds.path), lambda: lakebed.empty(ds.path, overwrite=True)):
        with pytest.raises(lakebed.DatasetHandlerError, match="allow_delete"):
            call()
    ds.allow_delete = True
    ds.delete()
    assert not lakebed.exists("mem://allow-delete")
