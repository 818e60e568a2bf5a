"""What scripts for Deep Lake 3.9.52 do on an ordinary day comes out as it does there."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pydicom.data
import pytest

import lakebed
from lakebed import Dataset
from lakebed.errors import (
    CommitFailed,
    DatasetHandlerError,
    IncompatibleHtypeError,
    InvalidOperationError,
    SampleAppendError,
    SampleUpdateError,
)
from lakebed.testing import FaultyStorage
from lakebed.testing.schedule import Fault, Planned, refused
from unit_tests.lakebed.datasets import create_on, new_memory, open_on


@pytest.fixture
def ds() -> Dataset:
    return lakebed.empty("mem://")


# -- datasets in memory ------------------------------------------------------------------------------------------------


def test_every_dataset_in_memory_without_a_name_is_a_new_one(ds: Dataset) -> None:
    ds.create_tensor("x").append(1)
    other = lakebed.empty("mem://")
    assert not other.tensors
    assert (len(ds), ds.path, other.path) == (1, "mem://", "mem://")
    assert len(lakebed.deepcopy(ds, "mem://")) == len(lakebed.copy(ds, "mem://", progressbar=False)) == 1
    assert not lakebed.dataset("mem://").tensors


def test_there_is_no_dataset_in_memory_to_be_found_without_a_name(ds: Dataset) -> None:
    assert ds.path == "mem://"
    assert not lakebed.exists("mem://")
    for attempt in (lakebed.load, lakebed.delete):
        with pytest.raises(DatasetHandlerError):
            attempt("mem://")


# -- grey images -------------------------------------------------------------------------------------------------------

GREY = np.arange(3 * 8 * 8, dtype=np.uint8).reshape(3, 8, 8)


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_grey_images_in_one_array_stay_without_channels(ds: Dataset, compression: str | None) -> None:
    images = ds.create_tensor("i", htype="image", chunk_compression=compression)
    images.extend(GREY)
    images.append(GREY[0])
    images.extend([GREY[1], GREY[2]])
    assert images.shape == (6, 8, 8)
    assert (images.meta.min_shape, images.meta.max_shape) == ([8, 8], [8, 8])
    assert np.array_equal(images.numpy()[:3], GREY)
    images[0] = GREY[2]
    images[1:3] = GREY[:2]
    assert np.array_equal(images[:3].numpy(), GREY[[2, 0, 1]])
    with pytest.raises(SampleAppendError, match="expected to be 2"):
        images.append(np.zeros((8, 8, 3), np.uint8))


@pytest.mark.parametrize(
    "add",
    [
        lambda images: images.append(GREY[0]),
        lambda images: images.extend([GREY[0]]),
        lambda images: images.extend(GREY[:1, :, :, np.newaxis]),
    ],
)
def test_grey_images_one_by_one_get_a_channel(ds: Dataset, add: Callable[[Any], None]) -> None:
    images = ds.create_tensor("i", htype="image", chunk_compression="lz4")
    add(images)
    images.append(GREY[1])
    images.extend(GREY)
    assert images.shape == (5, 8, 8, 1)


def test_grey_images_in_rows_of_a_dataset_get_a_channel(ds: Dataset) -> None:
    ds.create_tensor("i", htype="image", chunk_compression="lz4")
    ds.extend({"i": GREY})
    ds.append({"i": GREY[0]})
    assert ds.i.shape == (4, 8, 8, 1)


def test_grey_images_of_a_compression_each_get_a_channel(ds: Dataset) -> None:
    images = ds.create_tensor("i", htype="image", sample_compression="lz4")
    images.extend(GREY)
    assert images.shape == (3, 8, 8, 1)


def test_empty_samples_before_grey_images_in_one_array_get_their_rank(ds: Dataset) -> None:
    images = ds.create_tensor("i", htype="image", chunk_compression="lz4")
    images.append(None)
    images.extend(GREY)
    assert [image.shape for image in images] == [(0, 0), *[(8, 8)] * 3]
    assert images.meta.min_shape == [0, 0]


def test_tiled_grey_images_in_one_array_stay_without_channels(ds: Dataset) -> None:
    images = ds.create_tensor("i", htype="image", chunk_compression="lz4", tiling_threshold=30)
    images.extend(GREY)
    assert images.shape == (3, 8, 8)
    assert np.array_equal(images.numpy(), GREY)


def test_sequences_of_grey_images_in_arrays_stay_without_channels(ds: Dataset) -> None:
    images = ds.create_tensor("s", htype="sequence[image]", chunk_compression="lz4")
    images.extend([GREY, GREY[:2]])
    images.append([GREY[0], GREY[1]])
    assert [image.shape for image in images] == [(3, 8, 8), (2, 8, 8), (2, 8, 8)]


# -- sequences ---------------------------------------------------------------------------------------------------------


def test_sequences_are_updated_by_broadcasting(ds: Dataset) -> None:
    x = ds.create_tensor("x", htype="sequence")
    expected = np.arange(4 * 3 * 2).reshape(4, 3, 2)
    x.extend(expected)
    expected = expected.copy()
    x += 3
    expected += 3
    x[:3] *= 2
    expected[:3] *= 2
    x[0][2][1] *= 7
    expected[0][2][1] *= 7
    x[1][:2][0] = np.array([100, 200])
    expected[1][:2][0] = [100, 200]
    x[2][1:][:, 0] = 5
    expected[2][1:][:, 0] = 5
    assert np.array_equal(x.numpy(), expected)


def test_sequences_of_other_lengths_take_a_number_in_place(ds: Dataset) -> None:
    x = ds.create_tensor("x", htype="sequence[image]", sample_compression="png")
    x.append([np.full((4, 4, 3), 1, np.uint8)] * 2)
    x.append([np.full((4, 4, 3), 5, np.uint8)] * 3)
    x += 3
    assert [np.unique(row.numpy()).tolist() for row in x] == [[4], [8]]
    assert [row.shape for row in x] == [(2, 4, 4, 3), (3, 4, 4, 3)]


def test_one_item_for_a_whole_sequence_is_refused(ds: Dataset) -> None:
    x = ds.create_tensor("x", htype="sequence[image]", sample_compression="png")
    x.append([np.full((3, 3, 3), 1, np.uint8)] * 2)
    with pytest.raises(SampleUpdateError, match=r"Index length \(2\)"):
        x[0] = np.zeros((3, 3, 3), np.uint8)
    x[0] = np.zeros((3, 3, 3, 3), np.uint8)
    assert x[0].shape == (3, 3, 3, 3)


def test_a_part_of_items_of_other_shapes_is_refused(ds: Dataset) -> None:
    x = ds.create_tensor("x", htype="sequence")
    x.append([np.ones((2, 2), np.int64), np.ones((3, 2), np.int64)])
    with pytest.raises(SampleUpdateError, match="one item at a time"):
        x[0][:2][:, 0] = 7
    assert all((item == 1).all() for item in x[0].numpy(aslist=True))


# -- updates that do not fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 4])
def test_an_update_of_too_few_or_many_items_changes_nothing(ds: Dataset, count: int) -> None:
    ds.create_tensor("images", htype="image", sample_compression="png")
    ds.create_tensor("labels")
    before = np.ones((5, 25, 30, 3), np.uint8)
    ds.extend({"images": before, "labels": np.arange(5)})
    for change in ({"images": [before[0] * 0] * count}, {"labels": [7] * count}):
        with pytest.raises(SampleUpdateError):
            ds[:3].update({"labels": [7, 8, 9], **change} if "images" in change else change)
    with pytest.raises(SampleUpdateError):
        ds.labels[0:3] = [1] * count
    with pytest.raises(SampleUpdateError):
        ds.images[0] = np.ones((2, 25, 30), np.uint8)
    assert np.array_equal(ds.images.numpy(), before)
    assert ds.labels.numpy().ravel().tolist() == [0, 1, 2, 3, 4]


def test_only_tensors_are_assigned_to(ds: Dataset) -> None:
    ds.create_group("group")
    ds.create_tensor("group/y").extend([1, 2, 3, 4])
    with pytest.raises(TypeError, match="update takes a dictionary"):
        ds[3] = 10
    for whole in (ds, ds[3]):
        with pytest.raises(TypeError, match="groups do not support item assignment"):
            whole.group = 10
        with pytest.raises(TypeError, match="groups do not support item assignment"):
            whole["group"] = 10
    ds[3].group.y = 12
    ds.note = "an attribute"
    assert ds.group.y.numpy().ravel().tolist() == [1, 2, 3, 12]


# -- views -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds[:2].create_tensor("n"),
        lambda ds: ds[:2].create_tensor_like("n", ds.a),
        lambda ds: ds[:2].create_group("n"),
        lambda ds: ds[:2].delete_tensor("a"),
        lambda ds: ds[:2].delete_group("g"),
        lambda ds: ds[:2].rename_tensor("a", "c"),
        lambda ds: ds[:2].delete(),
        lambda ds: ds[:2].append({"a": 1}),
        lambda ds: ds[:2].extend({"a": [1]}),
        lambda ds: ds[:2].pop(),
        lambda ds: ds[0].pop(0),
        lambda ds: ds[:2].reset(),
        lambda ds: ds[:2].commit(),
        lambda ds: ds[:2].checkout("b", create=True),
        lambda ds: ds[:2].merge("main"),
        lambda ds: ds[:2].delete_branch("main"),
        lambda ds: ds.g[:2].create_tensor("q"),
        lambda ds: setattr(ds[:2], "read_only", True),
        lambda ds: ds.a[:2].append(5),
        lambda ds: ds.a[0].append(5),
        lambda ds: ds.a[:2].extend([5]),
        lambda ds: ds.a[:2].pop(0),
        lambda ds: ds.a[:2].clear(),
        lambda ds: ds[:2].a.append(5),
    ],
)
def test_a_view_changes_neither_rows_nor_structure(ds: Dataset, change: Callable[[Any], object]) -> None:
    ds.create_tensor("a").extend([1, 2, 3])
    ds.create_group("g")
    with pytest.raises(InvalidOperationError):
        change(ds)
    assert (list(ds.tensors), list(ds.groups), len(ds), ds.read_only) == (["a"], ["g"], 3, False)


def test_all_rows_are_no_view(ds: Dataset) -> None:
    a = ds.create_tensor("a")
    a[:].append(1)
    ds.a[:].extend([2, 3])
    ds[:].append({"a": 4})
    ds[:].create_tensor("b")
    assert a.numpy().ravel().tolist() == [1, 2, 3, 4]
    assert list(ds.tensors) == ["a", "b"]


# -- htypes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "htype"),
    [
        ((2, 3, 4, 5), "image"),
        ((3, 4, 5), "image"),
        ((3, 4, 2), "image"),
        ((7,), "image"),
        ((5, 5), "class_label"),
        ((5, 5, 4), "bbox"),
        ((5, 5), "bbox"),
        ((5, 6), "bbox.3d"),
        ((5,), "point"),
        ((5, 4), "point"),
        ((5,), "keypoints_coco"),
        ((5, 5, 5, 2), "binary_mask"),
    ],
)
def test_an_htype_that_samples_do_not_fit_is_refused(ds: Dataset, shape: tuple[int, ...], htype: str) -> None:
    x = ds.create_tensor("x")
    x.append(np.ones(shape, np.uint8))
    with pytest.raises(IncompatibleHtypeError):
        x.htype = htype
    assert x.htype == "generic"


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 1), (3, 4, 3), (3, 4, 4)])
def test_arrays_become_images(ds: Dataset, shape: tuple[int, ...]) -> None:
    x = ds.create_tensor("x")
    x.append(np.ones(shape, np.uint8))
    x.htype = "image"
    assert x.htype == "image"


# -- tensors of nothing ------------------------------------------------------------------------------------------------


def test_empty_samples_of_another_tensor_are_empty_samples(ds: Dataset) -> None:
    nothing, x = ds.create_tensor("nothing"), ds.create_tensor("x")
    nothing.extend([None, None])
    x.extend(nothing)
    x.extend([nothing[0], nothing[1]])
    x.append(nothing[0])
    assert (len(x), x.is_empty_tensor) == (5, True)
    x.append(7)
    x.extend([nothing[0], 8])
    assert [row.tolist() for row in x.numpy(aslist=True)] == [[]] * 5 + [[7], [], [8]]


def test_an_array_beside_empty_samples_must_fit_all_the_same(ds: Dataset) -> None:
    nothing, x = ds.create_tensor("nothing"), ds.create_tensor("x", dtype="uint8")
    nothing.append(None)
    with pytest.raises(SampleAppendError):
        x.extend([nothing[0], 300])
    assert len(x) == 0


def test_sequences_without_items_have_shapes(ds: Dataset) -> None:
    x = ds.create_tensor("x", htype="sequence")
    assert x.shapes().shape == (0, 0)  # type: ignore[union-attr]
    x.append([None, None])
    assert x.shapes().shape == (1, 2, 0)  # type: ignore[union-attr]
    x.append([])
    assert [shapes.shape for shapes in x.shapes()] == [(2, 0), (0, 0)]
    x.append([3])
    assert [shapes.tolist() for shapes in x.shapes()] == [[[0], [0]], [], [[1]]]


@pytest.mark.parametrize("nothing", [[], (), None, ""])
def test_an_empty_list_is_an_empty_text(ds: Dataset, nothing: Any) -> None:
    x = ds.create_tensor("x", htype="text")
    x.append(nothing)
    x.extend([nothing, "a"])
    x[2] = nothing
    ds.append({"x": nothing})
    ds.extend({"x": [nothing]})
    assert x.numpy().tolist() == [[""]] * 5


def test_an_empty_dictionary_equals_what_is_read_of_it(ds: Dataset) -> None:
    x = ds.create_tensor("x", htype="json")
    x.append({})
    assert x[0].numpy() == {}
    assert x[0].dict() == {}


# -- stored bytes ------------------------------------------------------------------------------------------------------


def test_bytes_are_those_of_exactly_one_sample(ds: Dataset) -> None:
    x = ds.create_tensor("x", htype="sequence[image]", sample_compression="png")
    x.extend(np.ones((2, 2, 4, 4, 3), np.uint8))
    for several in (x[:2], x[:], x[0, 1, 0]):
        with pytest.raises(ValueError, match="exactly 1 sample"):
            several.tobytes()
    assert x[0, 1].tobytes().startswith(b"\x89PNG")


# -- names -------------------------------------------------------------------------------------------------------------


def test_columns_are_selected_by_tuples_of_names(ds: Dataset) -> None:
    for name in ("a/b", "c/d", "e"):
        ds.create_tensor(name).extend([1, 2])
    assert sorted(ds[[("a", "b"), ("c", "d")]].tensors) == ["a/b", "c/d"]
    assert sorted(ds[0][["e", ("c", "d")]].tensors) == ["c/d", "e"]
    assert ds[[("a", "b")]][1]["a/b"].numpy().tolist() == [2]
    with pytest.raises(KeyError):
        ds[[("a", "nope")]]
    with pytest.raises(TypeError):
        ds[[("a", 1)]]


def test_names_may_begin_with_underscores(ds: Dataset) -> None:
    ds.create_tensor("__temp_1").extend([1, 2])
    assert ds.__temp_1.numpy().ravel().tolist() == [1, 2]
    assert ds[1].__temp_1.numpy().tolist() == [2]
    ds[0].__temp_1 = 5
    assert ds["__temp_1"].numpy().ravel().tolist() == [5, 2]
    with pytest.raises(AttributeError):
        _ = ds.__temp_2
    assert not hasattr(ds, "__array_interface__")


# -- info --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "written"), [(0, "0"), (1.5, "1.5"), (True, "true"), (None, "null"), ("a", "a")]
)
def test_keys_of_info_are_what_json_makes_of_them(ds: Dataset, key: Any, written: str) -> None:
    info = ds.create_tensor("x").info
    for change in (
        lambda: info.__setitem__(key, 5),
        lambda: info.update({key: 5}),
        lambda: info.replace_with({key: 5}),
    ):
        change()
        assert (info[key], info[written], key in info, info.get(key)) == (5, 5, True, 5)
        assert info == {key: 5}
        assert dict(info) == {written: 5}
        assert info.pop(key) == 5
        assert len(info) == 0


def test_a_key_of_info_that_json_has_no_form_for_is_refused(ds: Dataset) -> None:
    with pytest.raises(lakebed.errors.InfoError):
        ds.info[(1, 2)] = "x"
    with pytest.raises(KeyError):
        ds.info[(1, 2)]
    assert not ds.info


def test_nested_values_of_info_change_with_the_next_key() -> None:
    ds = lakebed.empty("mem://nested-info")
    ds.info["list"] = [1, [2, 3]]
    ds.info["list"][1].append(4)
    ds.info["other"] = 1
    ds.flush()
    assert lakebed.load("mem://nested-info").info == {"list": [1, [2, 3, 4]], "other": 1}


# -- versions ----------------------------------------------------------------------------------------------------------


def test_a_view_of_an_old_commit_stays_there(ds: Dataset) -> None:
    ds.create_tensor("x").extend([1, 2, 3])
    first = ds.commit()
    ds.x[0] = 10
    second = ds.commit()
    ds.checkout(first)
    view, columns, row = ds[:2], ds[["x"]], ds[0]
    ds.checkout(second)
    later = ds[:1]
    ds.checkout("main")
    ds.x.append(4)
    for _ in range(2):
        assert view.x.numpy().ravel().tolist() == [1, 2]
        assert [r.x.numpy().item() for r in view] == [1, 2]
        assert (view[1:].x.numpy().item(), view.x[0].numpy().item(), len(view)) == (2, 1, 2)
        assert columns.x.numpy().ravel().tolist() == [1, 2, 3]
        assert (row.x.numpy().item(), later.x.numpy().item()) == (1, 10)
        assert (view.commit_id, later.commit_id) == (first, second)
        ds.checkout("other", create=True)
        ds.x[1] = 7
        ds.checkout("main")
        ds.delete_branch("other")
    assert ds.x.numpy().ravel().tolist() == [10, 2, 3, 4]


def test_a_view_of_a_head_ends_with_a_checkout(ds: Dataset) -> None:
    ds.create_tensor("x").extend([1, 2, 3])
    first = ds.commit()
    view, columns = ds[:2], ds[["x"]]
    ds.checkout(first)
    for read in (lambda: view.x, lambda: view[1:].x, lambda: len(view), lambda: columns.x):
        with pytest.raises(lakebed.errors.InvalidViewException):
            read()


def test_a_view_of_an_old_commit_changes_nothing(ds: Dataset) -> None:
    ds.create_tensor("x").extend([1, 2, 3])
    first = ds.commit()
    ds.checkout(first)
    view = ds[:2]
    ds.checkout("main")
    with pytest.raises(lakebed.errors.ReadOnlyModeError):
        view.x[0] = 9
    assert ds.x.numpy().ravel().tolist() == [1, 2, 3]


@pytest.mark.parametrize("flushes", [0, 1, 2])
@pytest.mark.parametrize("asks", ["before", "between", "by diff"])
def test_the_pending_id_is_that_of_the_next_commit(ds: Dataset, flushes: int, asks: str) -> None:
    x = ds.create_tensor("x")
    told = ds.pending_commit_id
    for i in range(flushes):
        x.append(i)
        ds.flush()
        if asks == "between":
            assert ds.pending_commit_id == told
    if asks == "by diff":
        assert ds.diff(as_dict=True)["tensor"][0]["commit_id"] == told
    assert ds.commit("one", allow_empty=True) == told == ds.commit_id
    assert ds.pending_commit_id != told
    assert x.numpy().size == flushes
    assert [entry["commit"] for entry in ds.commits] == [told]
    ds.checkout(told)
    assert (ds.pending_commit_id, ds.x.num_samples) == (told, flushes)


def test_every_branch_has_a_pending_id(ds: Dataset) -> None:
    ds.create_tensor("x").append(1)
    ds.commit()
    main = ds.pending_commit_id
    ds.checkout("side", create=True)
    side = ds.pending_commit_id
    ds.x.append(2)
    ds.flush()
    ds.checkout(main)
    assert (ds.branch, ds.pending_commit_id) == ("main", main)
    ds.checkout(side)
    assert (ds.branch, ds.commit(), len(ds)) == ("side", side, 2)
    ds.checkout("main")
    assert (ds.commit(allow_empty=True), len(ds)) == (main, 1)


def test_a_pending_id_is_forgotten_when_its_commit_fails() -> None:
    storage = new_memory()
    create_on(storage).close()
    faulty = FaultyStorage(storage)
    ds = open_on(faulty)
    ds.create_tensor("x").append(1)
    told = ds.pending_commit_id
    faulty.schedule = Planned(Fault(nth=0, methods={"put_many", "put"}, error=refused))
    with pytest.raises(lakebed.errors.StorageError):
        ds.commit()
    faulty.schedule = Planned()
    assert ds.commit() != told
    assert ds.x.numpy().tolist() == [[1]]


def test_a_commit_that_has_nothing_to_say_keeps_the_pending_id(ds: Dataset) -> None:
    ds.create_tensor("x").append(1)
    ds.commit()
    told = ds.pending_commit_id
    with pytest.raises(lakebed.errors.EmptyCommitError):
        ds.commit()
    ds.x.append(2)
    assert ds.commit() == told


def test_what_is_pending_has_differences_and_details(ds: Dataset) -> None:
    ds.create_tensor("x").extend([1, 2])
    first = ds.commit()
    ds.x[0] = 5
    ds.flush()
    ds.x.append(3)
    told = ds.pending_commit_id
    assert ds.get_commit_details(told)["commit"] == ds.get_commit_details("HEAD")["commit"] == told
    changes = ds.diff(first, as_dict=True)["tensor"][0][0]
    assert (changes["commit_id"], changes["x"]["data_added"], changes["x"]["data_updated"]) == (
        told,
        [2, 3],
        {0},
    )
    assert ds.diff(told, first, as_dict=True)["tensor"][0][0]["commit_id"] == told


def test_the_branch_that_is_checked_out_is_not_deleted(ds: Dataset) -> None:
    with pytest.raises(lakebed.errors.VersionControlError, match="currently checked out branch: main"):
        ds.delete_branch("main")


# -- what others do ----------------------------------------------------------------------------------------------------


def test_a_dataset_that_somebody_deletes_is_said_to_be_gone(tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x")
    ds.flush()
    ds.x.append(2)
    shutil.rmtree(tmp_path / "ds")
    with pytest.raises(CommitFailed, match="was deleted while this process was writing it"):
        ds.flush()


def test_a_dataset_is_made_anew_where_its_folder_was_deleted_before_all_of_it_was_published(
    tmp_path: Path,
) -> None:
    old = lakebed.empty(tmp_path / "ds")
    old.create_tensor("x", dtype="int64")
    for value in range(5):
        old.x.append(value)
    shutil.rmtree(tmp_path / "ds")
    with pytest.warns(
        UserWarning, match="deleted while it was written here; its unpublished changes are dropped"
    ):
        new = lakebed.empty(tmp_path / "ds")
    new.create_tensor("x", dtype="int64").extend([7, 8])
    del old
    new.x.append(9)
    new.flush()
    assert lakebed.load(tmp_path / "ds", read_only=True).x.numpy().ravel().tolist() == [7, 8, 9]


# -- copies ------------------------------------------------------------------------------------------------------------


def test_like_onto_itself_empties_in_place(tmp_path: Path) -> None:
    path = str(tmp_path / "ds")
    ds = lakebed.empty(path)
    ds.create_tensor("x", htype="class_label", class_names=["a"]).extend([0, 0])
    ds.create_tensor("y").extend([1, 2])
    ds.info["k"] = 1
    first = ds.commit()
    with pytest.raises(DatasetHandlerError):
        lakebed.like(path, path)
    only = lakebed.like(path, path, tensors=["x"], overwrite=True)
    assert (len(only.x), len(only.y), only.x.info["class_names"]) == (0, 2, ["a"])
    whole = lakebed.like(only, only, overwrite=True)
    whole.x.append("a")
    assert (len(whole.x), len(whole.y), whole.info["k"]) == (1, 0, 1)
    whole.checkout(first)
    assert (len(whole.x), len(whole.y)) == (2, 2)


def test_like_onto_itself_takes_no_old_commit(tmp_path: Path) -> None:
    path = str(tmp_path / "ds")
    ds = lakebed.empty(path)
    ds.create_tensor("x").append(1)
    first = ds.commit()
    with pytest.raises(DatasetHandlerError):
        lakebed.like(path, f"{path}@{first}", overwrite=True)
    with pytest.raises(DatasetHandlerError):
        lakebed.copy(path, path, overwrite=True)
    assert len(lakebed.load(path)) == 1


def test_like_onto_itself_in_memory(ds: Dataset) -> None:
    ds.create_tensor("x").append(1)
    assert len(lakebed.like(ds, ds, overwrite=True).x) == len(ds.x) == 0


# -- texts -------------------------------------------------------------------------------------------------------------


def test_tensors_are_printed_as_made_and_sorted_once_they_are_committed(
    ds: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("x", "images", "a"):
        ds.create_tensor(name)
    assert str(ds) == "Dataset(path='mem://', tensors=['x', 'images', 'a'])"
    ds.commit()
    ds.create_tensor("b")
    assert str(ds) == "Dataset(path='mem://', tensors=['a', 'images', 'x', 'b'])"
    ds.rename_tensor("images", "c")
    assert str(ds) == "Dataset(path='mem://', tensors=['a', 'x', 'b', 'c'])"
    ds.summary()
    rows = [
        line.split()[0]
        for line in capsys.readouterr().out.splitlines()
        if "generic" in line or "None" in line
    ]
    assert rows == ["a", "x", "b", "c"]


@pytest.mark.parametrize("name", ["MR_small.dcm", "MR_small_bigendian.dcm"])
def test_a_scan_that_begins_like_a_tiff_file_is_a_scan(ds: Dataset, name: str) -> None:
    """The preamble of DICOM files may hold the header of another kind; the mark behind it decides."""
    path = Path(pydicom.data.get_testdata_file(name, download=False))
    assert path.read_bytes()[:4] == b"II*\0"
    scan = lakebed.read(path)
    assert scan.compression == "dcm"
    ds.create_tensor("x", htype="dicom", sample_compression="dcm").append(scan)
    assert ds.x[0].tobytes() == path.read_bytes()
    np.testing.assert_array_equal(ds.x[0].numpy()[..., 0], pydicom.dcmread(path).pixel_array)


def test_a_coloured_mesh_in_text_is_stored_and_read(ds: Dataset) -> None:
    """As programs write a coloured cloud: prefixed colours of whole numbers, blanks at the ends of lines."""
    names = ("x", "y", "z", "diffuse_red", "diffuse_green", "diffuse_blue")
    header = "".join(f"property {'float' if len(name) == 1 else 'uchar'} {name}\n" for name in names)
    file = f"ply\nformat ascii 1.0\nelement vertex 2\n{header}end_header\n0 0.5 1 255 0 7 \n1 1 1 1 2 3 \n".encode()
    ds.create_tensor("x", htype="mesh", sample_compression="ply").append(lakebed.read(file))
    assert ds.x[0].tobytes() == file
    assert ds.x[0].numpy().tolist() == [[0, 0.5, 1, 255, 0, 7], [1, 1, 1, 1, 2, 3]]


def test_rows_in_a_loop_warn_of_nothing(ds: Dataset) -> None:
    """docs/coming-from-deep-lake-3.md says so: single rows come from a chunk that is read once."""
    ds.create_tensor("x", dtype="int32").extend(np.arange(200, dtype="i4"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [int(ds[i].x.numpy()[0]) + int(ds.x[i].numpy()[0]) for i in range(200)] == list(
            range(0, 400, 2)
        )
