"""Datasets made from others: like, copy, deepcopy, delete (API.md 1; facts tested on 3.9.52)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.copying import copy
from lakebed.copying.deepcopy import deepcopy
from lakebed.htypes.registry import HTYPES
from lakebed.session import places
from lakebed.storage.memory import open_memory
from lakebed.testing.faulty import FaultyStorage
from unit_tests.lakebed.datasets import create_on, new_memory, open_on, visible

_NUMBER = itertools.count()


def place() -> str:
    """An address where nothing is yet."""
    return f"mem://copying-{next(_NUMBER)}"


@pytest.fixture
def ds() -> lakebed.Dataset:
    """A commit, changes on top of it, a branch with another row, groups, info."""
    ds = create_on(new_memory())
    ds.create_tensor("a", dtype="int64")
    ds.create_tensor("g/b", htype="text", sample_compression="lz4")
    ds.create_tensor("l", htype="class_label", class_names=["x", "y"], chunk_compression="lz4")
    ds.extend({"a": [1, 2, 3], "g/b": ["x", "y", "z"], "l": ["x", "y", "x"]})
    ds.info["k"] = 1
    ds.commit("first")
    ds.append({"a": 4, "g/b": "w", "l": "q"})
    ds.checkout("side", create=True)
    ds.append({"a": 5, "g/b": "v", "l": "y"})
    ds.checkout("main")
    return ds


def labels(ds: lakebed.Dataset) -> list[str]:
    """Names of the class labels."""
    return [text[0] for text in ds.l.data()["text"]]


# -- like ------------------------------------------------------------------------------------------------------


def test_like(ds: lakebed.Dataset) -> None:
    """Structure, settings and info, no rows and no history; the new place is named first."""
    made = lakebed.like(place(), ds)
    assert (list(made.tensors), len(made), made.commits) == (["a", "g/b", "l"], 0, [])
    assert (dict(made.info), made.l.info.class_names) == ({"k": 1}, ["x", "y", "q"])
    assert made["g/b"].meta.sample_compression == "lz4"
    made.append({"a": 1, "g/b": "t", "l": "q"})
    assert (len(made["_a_id"]), len(ds.a)) == (1, 4)


def test_like_some_tensors(ds: lakebed.Dataset) -> None:
    """A group's name stands for all in it; a name of nothing is an error; the source may be an address."""
    ds.flush()
    assert list(lakebed.like(place(), ds.storage.url, tensors=["g", "a"]).tensors) == ["a", "g/b"]
    with pytest.raises(lakebed.TensorDoesNotExistError, match="nope"):
        lakebed.like(place(), ds, tensors=["nope"])


# -- copy ------------------------------------------------------------------------------------------------------


def test_copy(ds: lakebed.Dataset) -> None:
    """The present state without its history."""
    copied = lakebed.copy(ds, place(), progressbar=False)
    assert visible(copied) == {**visible(ds), "commits": []}
    assert copied.branches == ["main"]
    copied.a.append(9)
    assert len(ds.a) == 4


def test_copy_from_an_address(ds: lakebed.Dataset) -> None:
    """A branch or commit in it counts."""
    ds.flush()
    first = next(entry["commit"] for entry in ds.commits if entry["message"] == "first")
    for ref, last in (("side", 5), (first, 3), ("main", 4)):
        copied = lakebed.copy(f"{ds.storage.url}@{ref}", place(), progressbar=False)
        assert copied.a.numpy().ravel().tolist() == list(range(1, last + 1))


def test_copy_of_selections(ds: lakebed.Dataset) -> None:
    """Rows in the order selected, columns, groups."""
    assert ds[1:3].copy(place(), progressbar=False).a.numpy().ravel().tolist() == [2, 3]
    picked = ds[[3, 0]].copy(place(), progressbar=False)
    assert (picked.a.numpy().ravel().tolist(), labels(picked)) == ([4, 1], ["q", "x"])
    assert len(ds[0].copy(place(), progressbar=False)) == 1
    assert list(ds.copy(place(), tensors=["g"], progressbar=False).tensors) == ["g/b"]
    assert list(ds[["a", "l"]].copy(place(), progressbar=False).tensors) == ["a", "l"]
    inner = ds["g"].copy(place(), progressbar=False)
    assert (list(inner.tensors), inner.b.text()) == (["b"], ["x", "y", "z", "w"])


def test_copy_shows_how_far_it_is_when_asked(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes of whole tensors, one step per tensor of selected rows."""
    ds.flush()
    ds.copy(place(), progressbar=False)
    assert capsys.readouterr().err == ""
    ds.copy(place(), progressbar=True)
    assert "B/s" in capsys.readouterr().err
    ds[1:3].copy(place(), progressbar=True)
    assert "3/3" in capsys.readouterr().err


def _like(src: Any, dest: str, **how: Any) -> lakebed.Dataset:
    return lakebed.like(dest, src, **how)


@pytest.mark.parametrize("make", [lakebed.copy, lakebed.deepcopy, _like])
def test_an_occupied_place(ds: lakebed.Dataset, make: Any) -> None:
    """It is left alone unless `overwrite` says otherwise."""
    there = place()
    old = lakebed.empty(there)
    old.create_tensor("old").append(1)
    with pytest.raises(lakebed.DatasetHandlerError, match="already exists"):
        make(ds, there)
    assert list(lakebed.load(there).tensors) == ["old"]
    assert list(make(ds, there, overwrite=True).tensors) == ["a", "g/b", "l"]


@pytest.mark.parametrize("make", [lakebed.copy, lakebed.deepcopy])
def test_onto_itself(ds: lakebed.Dataset, make: Any) -> None:
    """Overwriting would remove the source first."""
    with pytest.raises(lakebed.DatasetHandlerError, match="itself"):
        make(ds, ds.storage.url, overwrite=True)
    assert len(ds.a) == 4


def test_nothing_to_copy() -> None:
    """A missing source is named; nothing is made at the destination."""
    there = place()
    for make in (lakebed.copy, lakebed.deepcopy):
        with pytest.raises(lakebed.DatasetHandlerError):
            make(place(), there)
    assert not lakebed.exists(there)
    with pytest.raises(lakebed.UnsupportedParameterException, match="zork"):
        lakebed.copy(place(), there, zork=1)


def test_a_copy_of_rows_that_fails_leaves_nothing(
    ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The destination is free again."""
    monkeypatch.setattr(copy, "columns", lambda *_: 1 / 0)
    there = place()
    with pytest.raises(ZeroDivisionError):
        ds[1:3].copy(there, progressbar=False)
    assert not lakebed.exists(there)
    assert list(open_memory(there.removeprefix("mem://")).list("")) == []


# -- what is stored is not decoded ------------------------------------------------------------------------------


def _samples() -> dict[str, tuple[dict[str, Any], list[Any]]]:
    """Tensors of many layouts: arguments of create_tensor, samples."""
    rng = np.random.default_rng(5)
    photo = rng.integers(0, 255, (20, 30, 3), dtype=np.uint8)
    large = rng.integers(0, 255, (60, 50), dtype=np.uint8)
    return {
        "ragged": ({"dtype": "float64"}, [np.ones((2, 3)), None, np.zeros((0, 4)), np.ones((1, 1))]),
        "jpeg": ({"htype": "image", "sample_compression": "jpeg"}, [photo, photo[:5], None, photo[:, :7]]),
        "png_chunks": ({"htype": "image", "chunk_compression": "png"}, [photo, photo[:5], photo[:3], photo]),
        "lz4": ({"sample_compression": "lz4", "dtype": "uint8"}, [large, large[:3], large[:1], large[:2]]),
        "tiled": (
            {"dtype": "uint8", "tiling_threshold": 1000},
            [large, large[:3, :3], large.T, large[:1, :1]],
        ),
        "tiled_png": (
            {"htype": "image", "sample_compression": "png", "tiling_threshold": 1000},
            [np.stack([large] * 3, axis=2), photo[:2], photo[:3], photo[:1]],
        ),
        "sequences": (
            {"htype": "sequence[image]", "sample_compression": "png"},
            [[photo], [], [photo[:2]] * 3, [photo]],
        ),
        "texts": ({"htype": "sequence[text]"}, [["a", "b"], [], ["c"], ["d"]]),
        "json": ({"htype": "json"}, [{"a": 1}, [1, 2], {}, {"b": [None]}]),
        "tags": ({"htype": "tag"}, [["a"], ["b", "c"], [], ["d"]]),
        "polygon": (
            {"htype": "polygon"},
            [[[[0, 0], [1, 1], [2, 0]]], [], [[[5, 5], [6, 6], [7, 5]]] * 2, []],
        ),
        "smaller": (
            {"htype": "image", "sample_compression": "png", "downsampling": (2, 2)},
            [photo, photo, photo[:12], photo],
        ),
    }


@pytest.mark.parametrize("layout", list(_samples()))
@pytest.mark.parametrize("rows", [slice(None), [2, 0]])
def test_stored_samples_are_moved_as_they_are(layout: str, rows: Any) -> None:
    """Values, stored bytes, recorded shapes and infos of every layout are those of the source."""
    how, samples = _samples()[layout]
    ds = create_on(new_memory())
    ds.create_tensor("x", **how).extend(samples)
    ds.commit()
    copied = ds[rows].copy(place(), progressbar=False)
    copied.flush()
    copied = lakebed.load(copied.path)
    order = list(range(len(samples)))[rows] if isinstance(rows, slice) else rows
    for new, old in enumerate(order):
        _assert_same(copied.x[new].numpy(aslist=True), ds.x[old].numpy(aslist=True))
        if layout in ("ragged", "jpeg", "lz4", "json", "tags", "polygon", "smaller"):
            assert copied.x[new].tobytes() == ds.x[old].tobytes()
    for kind in ("shape", "info", "downsampled_2", "downsampled_4"):
        name = f"_x_{kind}"
        if name in ds and layout != "sequences":
            for new, old in enumerate(order):
                _assert_same(copied[name][new].numpy(), ds[name][old].numpy())


def _assert_same(a: Any, b: Any) -> None:
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            _assert_same(x, y)
    else:
        assert np.array_equal(a, b)


def test_links_stay_links(tmp_path: Path) -> None:
    """The copy leads to the same file and remembers what was found there."""
    from PIL import Image

    Image.fromarray(np.full((4, 5, 3), 7, dtype=np.uint8)).save(tmp_path / "x.png")
    ds = create_on(new_memory())
    ds.create_tensor("x", htype="link[image]", sample_compression="png")
    ds.x.extend([lakebed.link(str(tmp_path / "x.png")), None])
    copied = ds.copy(place(), progressbar=False)
    assert copied.x.htype == "link[image]"
    assert copied.x[0].path().item() == str(tmp_path / "x.png")
    assert copied.x[0].numpy().shape == (4, 5, 3)
    assert copied.x[0].shape == (4, 5, 3)
    assert copied.x[0].sample_info == ds.x[0].sample_info


def test_every_htype_has_a_like() -> None:
    """Whatever can be created can be created again from its metadata, byte for byte."""
    ds = create_on(new_memory())
    needs = {
        "audio": "wav",
        "video": "mp4",
        "point_cloud": "las",
        "nifti": "nii",
        "mesh": "ply",
        "dicom": "dcm",
    }
    for name in HTYPES:
        how: dict[str, Any] = {"sample_compression": needs[name]} if name in needs else {}
        if name.startswith("image"):
            how = {"sample_compression": "png"}
        ds.create_tensor(name.replace(".", "_"), htype=name, **how)
    made = ds.like(place())
    for name in ds._session.schema().names(hidden=True):
        assert made._session.schema().tensor(name).meta == ds._session.schema().tensor(name).meta
        assert dict(made._session.schema().tensor(name).info) == dict(ds._session.schema().tensor(name).info)


# -- deepcopy --------------------------------------------------------------------------------------------------


def test_deepcopy(ds: lakebed.Dataset) -> None:
    """History and branches come along; the two are independent afterwards."""
    ds.a[0] = 100
    copied = lakebed.deepcopy(ds, place(), progressbar=False)
    assert (copied.branches, copied.branch) == (ds.branches, "main")
    assert visible(copied) == visible(ds)
    assert [c["commit"] for c in copied.commits] == [c["commit"] for c in ds.commits]
    copied.checkout("side")
    assert copied.a.numpy().ravel().tolist() == [1, 2, 3, 4, 5]
    copied.checkout("main")
    copied.pop(0)
    copied.commit()
    assert len(ds.a) == 4


def test_deepcopy_of_some_tensors(ds: lakebed.Dataset) -> None:
    """The others are gone from every version."""
    copied = ds.deepcopy(place(), tensors=["g"], progressbar=False)
    assert list(copied.tensors) == ["g/b"]
    for address in ("side", copied.commits[0]["commit"], copied.commits[-1]["commit"]):
        copied.checkout(address)
        assert (list(copied.tensors), copied.meta.groups) == (["g/b"], ["g"])
    copied.checkout("main")
    assert copied["g/b"].text() == ["x", "y", "z", "w"]
    assert set(copied.meta.tensors) == {"g/b", "g/_b_id"}
    copied.append({"g/b": "new"})
    copied.commit()


def test_deepcopy_of_a_view_is_refused(ds: lakebed.Dataset) -> None:
    """It has no history of its own."""
    with pytest.raises(TypeError, match="view"):
        ds[0:2].deepcopy(place())


def test_a_deepcopy_that_is_cut_off_is_no_dataset(ds: lakebed.Dataset) -> None:
    """The file that makes it one comes last."""
    ds.flush()
    files = len(list(ds.storage.list("")))
    for budget in (0, 1, files // 2, files - 2):
        target = new_memory()
        faulty = FaultyStorage(
            target, fail_after=budget, error=lambda: lakebed.errors.StorageError("cut off")
        )
        with pytest.raises(lakebed.errors.StorageError):
            deepcopy(ds.storage, faulty, None, progressbar=False)
        with pytest.raises(lakebed.DatasetHandlerError):
            open_on(target)


# -- delete and rename -----------------------------------------------------------------------------------------


def test_delete(ds: lakebed.Dataset) -> None:
    """Nothing is left, saved views included; a second time there is nothing to delete."""
    storage = open_memory("deleted")
    made = lakebed.deepcopy(ds, "mem://deleted", progressbar=False)
    storage.put(".queries/v/version_control_info.json", b"{}")
    made.delete()
    assert list(storage.list("")) == []
    with pytest.raises(lakebed.DatasetHandlerError, match="nothing to delete"):
        lakebed.delete("mem://deleted")
    with pytest.raises(lakebed.DatasetHandlerError, match="empty"):
        lakebed.delete("mem://deleted", force=True)
    with pytest.raises(lakebed.errors.InvalidOperationError, match="view"):
        ds[0:1].delete()


def test_large_datasets_need_a_word(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above 1 GB, `large_ok` says that it is meant."""
    made = lakebed.deepcopy(ds, place(), progressbar=False)
    monkeypatch.setattr(places, "LARGE", 10)
    for call in (made.delete, lambda **how: lakebed.delete(made.path, **how)):
        with pytest.raises(lakebed.DatasetTooLargeToDelete, match="large_ok"):
            call()
    made.delete(large_ok=True)
    assert not lakebed.exists(made.path)


def test_rename_needs_a_service(ds: lakebed.Dataset) -> None:
    """As in 3.x: only datasets of the vendor's service have names."""
    for call in (ds.rename, lambda name: lakebed.rename(ds.storage.url, name)):
        with pytest.raises(lakebed.RenameError, match="path"):
            call("new")


def test_rename_of_a_selection_names_the_dataset(ds: lakebed.Dataset) -> None:
    with pytest.raises(
        lakebed.InvalidOperationError, match="rename method cannot be called on a Dataset view"
    ):
        ds[:2].rename("new")


@pytest.mark.parametrize("rows", [[7, 2, 9], [0, 0, 2], [3, 5, 4, 6], [9, 8, 7]])
def test_rows_in_any_order_are_copied_in_it(rows: list[int]) -> None:
    """Also where the first and the last are as far apart as those of a run."""
    ds = lakebed.empty("mem://order", overwrite=True)
    ds.create_tensor("x", dtype="int64")
    ds.x.extend(np.arange(10))
    copied = ds[rows].copy("mem://order-copy", overwrite=True, progressbar=False)

    assert np.ravel(copied.x.numpy()).tolist() == rows


@pytest.mark.parametrize("way", ["copy", "view", "like"])
def test_infos_that_were_changed_in_place_are_copied(way: str) -> None:
    ds = lakebed.empty("mem://infos-in-place", overwrite=True)
    ds.create_tensor("kind", htype="class_label", class_names=["cat"]).append("cat")
    ds.info["log"] = ["made"]
    ds.commit()
    ds.info["log"].append("filled")
    ds.kind.info["class_names"].append("dog")
    made = {
        "copy": lambda: lakebed.copy(ds, "mem://infos-copied", overwrite=True, progressbar=False),
        "view": lambda: ds[:1].copy("mem://infos-copied", overwrite=True, progressbar=False),
        "like": lambda: lakebed.like("mem://infos-copied", ds, overwrite=True),
    }[way]()
    assert (made.info["log"], made.kind.info["class_names"]) == (["made", "filled"], ["cat", "dog"])
