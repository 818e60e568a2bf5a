"""Saved views: the rows that were selected, of the commit that they were of, whatever happens to the dataset since."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import lakebed
from lakebed.errors import (
    CheckoutError,
    DatasetCorruptError,
    DatasetExistsError,
    DatasetViewSavingError,
    InvalidInputError,
    InvalidOperationError,
    ReadOnlyModeError,
    UnsupportedParameterException,
    VersionControlError,
)
from lakebed.views import catalog, selectors
from unit_tests.lakebed.afar import Afar
from unit_tests.lakebed.datasets import create_on, new_memory, open_on

ROWS = 12


def filled(ds: lakebed.Dataset) -> lakebed.Dataset:
    """Twelve rows of four kinds of tensors, committed."""
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.create_tensor("group/ragged", dtype="float32")
    ds.extend(
        {
            "x": np.arange(ROWS),
            "text": [f"text {i}" for i in range(ROWS)],
            "image": [np.full((4, 4 + i, 3), i, np.uint8) for i in range(ROWS)],
            "group/ragged": [np.full(i, i, np.float32) for i in range(ROWS)],
        }
    )
    ds.commit("twelve rows")
    return ds


@pytest.fixture(params=["disk", "memory", "store"])
def ds(request: pytest.FixtureRequest, tmp_path: Path) -> lakebed.Dataset:
    if request.param == "disk":
        return filled(lakebed.empty(tmp_path / "ds"))
    return filled(create_on(new_memory() if request.param == "memory" else Afar()))


@pytest.fixture
def disk(tmp_path: Path) -> lakebed.Dataset:
    return filled(lakebed.empty(tmp_path / "ds"))


def numbers(ds: Any) -> list[int]:
    return [int(n) for n in np.ravel(ds.x.numpy())]


SELECTIONS: dict[str, Any] = {
    "all": slice(None),
    "a run": slice(3, 7),
    "every second, backwards": slice(10, 2, -2),
    "the last": slice(-3, None),
    "none": slice(4, 4),
    "in another order": [7, 2, 9],
    "again and again": [5, 5, 1, 5],
    "by a mask": [i % 3 == 0 for i in range(ROWS)],
    "one in a list": [4],
    "an array": np.array([8, 0]),
}


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", SELECTIONS)
def test_rows_come_back_in_their_order(disk: lakebed.Dataset, name: str, optimize: bool) -> None:
    view = disk[SELECTIONS[name]]
    rows = list(view.sample_indices)
    view.save_view(id="v", optimize=optimize, verbose=False)
    disk.x[5] = 500  # the view is of the commit

    found = lakebed.load(disk.path).load_view("v")

    assert numbers(found) == rows
    assert found.text.numpy(aslist=True) == [f"text {i}" for i in rows]
    assert [image.shape for image in found.image.numpy(aslist=True)] == [(4, 4 + i, 3) for i in rows]
    assert [len(r) for r in found["group/ragged"].numpy(aslist=True)] == rows
    assert list(found.sample_indices) == rows
    assert (found.is_view, found.is_optimized, found.read_only) == (True, optimize, True)


def test_everywhere(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """On disks, in memory and in stores: saved, listed, loaded, optimized, deleted, and no file is left."""
    monkeypatch.setattr(catalog, "_CONFIRM_REMOTE", 0.02)
    before = {key for key, _ in ds.storage.list()}
    ds[[3, 1]].save_view(message="two", id="v")
    ds[7].save_view(id="one", optimize=True, verbose=False, tensors=["x", "group"])

    assert [(v.id, v.message, v.virtual, v.commit_id) for v in ds.get_views()] == [
        ("v", "two", True, ds.commit_id),
        ("one", "", False, ds.commit_id),
    ]
    assert numbers(ds.load_view("v")) == [3, 1]
    one = ds.load_view("one")
    assert (set(one.tensors), len(one), one.x.numpy().tolist()) == ({"group/ragged", "x"}, 1, [7])
    assert numbers(ds.load_view("v", optimize=True, num_workers=2, progressbar=False)) == [3, 1]
    assert ds.get_view("v").virtual is False
    ds.delete_view("v")
    ds.get_view("one").delete()
    assert ds.get_views() == []
    left = {key for key, _ in ds.storage.list()} - before
    assert left == {"queries.json"}


def test_single_rows_and_parts_of_samples(disk: lakebed.Dataset) -> None:
    disk[4].save_view(id="row")
    disk[2:5, 0:2].save_view(id="parts")
    disk[6, 1].save_view(id="part of a row")
    disk[[1, 2], [0, 1], 2].save_view(id="lists")

    assert disk.load_view("row").image.numpy().shape == (4, 8, 3)
    assert [s.shape for s in disk.load_view("parts").image.numpy(aslist=True)] == [
        (2, 6, 3),
        (2, 7, 3),
        (2, 8, 3),
    ]
    assert disk.load_view("part of a row").image.numpy().shape == (10, 3)
    for name in ("row", "parts", "part of a row", "lists"):
        saved = {
            "row": disk[4],
            "parts": disk[2:5, 0:2],
            "part of a row": disk[6, 1],
            "lists": disk[[1, 2], [0, 1], 2],
        }[name]
        found = disk.load_view(name).image.numpy(aslist=True)
        for mine, theirs in zip(found, saved.image.numpy(aslist=True), strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("way", ["copy", "materialize"])
def test_copies_of_parts_are_what_the_view_shows(tmp_path: Path, way: str) -> None:
    Image.fromarray(np.full((6, 5, 3), 7, np.uint8)).save(tmp_path / "linked.png")
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("photo", htype="image", sample_compression="jpeg")
    ds.create_tensor("group/box", htype="bbox")
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("linked", htype="link[image]", sample_compression="png")
    for i in range(6):
        box = None if i == 2 else np.arange(12, dtype=np.float32).reshape(3, 4) + i
        photo = np.full((8 + i, 10, 3), 20 * i, np.uint8)
        link = lakebed.link(str(tmp_path / "linked.png"))
        ds.append({"photo": photo, "group/box": box, "x": i, "linked": link})
    ds.info["about"] = "parts"
    ds.commit()

    view = ds[[4, 2, 1], 0:2]
    lakebed.allow_links(tmp_path)
    if way == "copy":
        made = view.copy(tmp_path / "made", progressbar=False)
    else:
        assert view.materialize(tmp_path / "made", progressbar=False) == []
        made = lakebed.load(tmp_path / "made")
    assert made.photo.meta.sample_compression == "jpeg"
    assert [s.shape for s in made.photo.numpy(aslist=True)] == [(2, 10, 3)] * 3
    assert [int(s.mean().round()) for s in made.photo.numpy(aslist=True)] == [80, 40, 20]
    assert made["group/box"].to_arrow().to_pylist()[1] is None
    assert made["group/box"][0].numpy().tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]
    assert made.x.numpy().ravel().tolist() == [4, 2, 1]
    assert not made.linked.meta.is_link
    assert made.linked[1].numpy().shape == (2, 5, 3)
    assert made.info["about"] == "parts"
    one = ds[3, 1:3].copy(tmp_path / "one", tensors=["photo"], progressbar=False)
    assert one.photo.numpy().shape == (1, 2, 10, 3)


def test_parts_that_are_no_samples_are_told(disk: lakebed.Dataset, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="a query reads whole samples"):
        disk[2:5, 0:2].query("SELECT *")
    with pytest.raises(DatasetExistsError):
        disk[2:5, 0:2].copy(disk.copy(tmp_path / "there", progressbar=False).path, progressbar=False)
    for view in (disk[2:5, 0, 0], disk[2, 1], disk[2:5, [0, 1], [0, 1]], disk[2:5, ..., 0]):
        with pytest.raises(InvalidOperationError, match="SELECT image"):
            view.copy(tmp_path / "pixels", tensors=["image"], progressbar=False)
    assert not (tmp_path / "pixels").exists()
    lists = disk[2:5, [2, 0]].copy(tmp_path / "lists", tensors=["image"], progressbar=False)
    np.testing.assert_array_equal(lists.image[1].numpy(), disk.image[3].numpy()[[2, 0]])


def test_what_cannot_be_stored_is_refused(disk: lakebed.Dataset) -> None:
    """Before anything is written."""
    for view in (disk[2:5, ..., 0], disk[2:5, 0:2][:, 1]):
        with pytest.raises(DatasetViewSavingError):
            view.save_view(id="v")
    with pytest.raises(DatasetViewSavingError, match=r"view\.copy\(dest\)"):
        disk[2:5, 0:2].save_view(id="v", optimize=True, verbose=False)
    for name in ("", "..", "a/../b", "/a", "a//b", "a\\b", "nul\0"):
        with pytest.raises(DatasetViewSavingError, match="cannot be the id of a view"):
            disk[:2].save_view(id=name)
    with pytest.raises(TypeError, match="expected `str`"):
        disk[:2].save_view(id=5)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedParameterException, match="'wrong'"):
        disk[:2].save_view(id="v", wrong=1)
    assert disk.get_views() == []
    assert not [key for key, _ in disk.storage.list(".queries/")]


def test_only_what_is_committed_is_saved(disk: lakebed.Dataset) -> None:
    commit = disk.commit_id
    disk.x[0] = 100
    with pytest.raises(DatasetViewSavingError, match="uncommitted changes"):
        disk[:2].save_view(id="v", ignore_errors=True)

    old = lakebed.load(f"{disk.path}@{commit}")
    old[:2].save_view(id="v")

    assert numbers(disk.load_view("v")) == [0, 1]
    fresh = lakebed.empty("mem://fresh", overwrite=True)
    fresh.create_tensor("x")
    with pytest.raises(DatasetViewSavingError):
        fresh.save_view()


def test_read_only_datasets(disk: lakebed.Dataset, tmp_path: Path) -> None:
    disk[:2].save_view(id="v")
    ro = lakebed.load(disk.path, read_only=True)

    for call in (lambda: ro[:1].save_view(), lambda: ro.delete_view("v"), ro.get_view("v").optimize):
        with pytest.raises(ReadOnlyModeError):
            call()
    assert ro.get_view("v").virtual
    ro[[3, 2]].save_view(path=tmp_path / "outside")
    assert numbers(lakebed.load(tmp_path / "outside")) == [3, 2]


def test_names(disk: lakebed.Dataset) -> None:
    """Given ones are taken once; others are told by the content, and the same content is one view."""
    disk[:2].save_view(id="v")
    with pytest.raises(DatasetViewSavingError, match="View with id v already exists"):
        disk[:3].save_view(id="v")
    disk[[5, 4]].save_view(id="v", overwrite=True, message="new")
    first, second = disk[:2].save_view(message="a"), disk[:2].save_view(message="b")
    disk[:3].save_view()

    assert numbers(disk.load_view("v")) == [5, 4]
    views = disk.get_views()
    assert [v.message for v in views] == ["new", "b", ""]
    assert all(len(v.id) == 64 and int(v.id, 16) for v in views[1:])
    assert views[1].id in first
    assert views[1].id in second
    for missing in (disk.get_view, disk.load_view, disk.delete_view):
        with pytest.raises(KeyError, match="No view with id nope"):
            missing("nope")


def test_ids_inside_of_one_another(disk: lakebed.Dataset) -> None:
    """As 3.x takes them; one goes without the other."""
    disk[:1].save_view(id="p")
    disk[1:3].save_view(id="p/q")
    disk[3:6].save_view(id="p/VDS_INDEX")

    disk.delete_view("p")

    assert numbers(disk.load_view("p/q")) == [1, 2]
    assert numbers(disk.load_view("p/VDS_INDEX")) == [3, 4, 5]
    disk[:4].save_view(id="p")
    disk.delete_view("p/q")
    assert numbers(disk.load_view("p")) == [0, 1, 2, 3]


def test_views_of_branches(disk: lakebed.Dataset) -> None:
    disk.checkout("side", create=True)
    disk.append({"x": 77, "text": "t", "image": np.zeros((2, 2, 3), np.uint8), "group/ragged": [1.0]})
    commit = disk.commit("one more")
    disk[[-1, 0]].save_view(id="side")
    disk.checkout("main")
    disk[:1].save_view(id="main")

    assert [v.id for v in disk.get_views(commit)] == ["side"]
    found = disk.load_view("side")
    assert (numbers(found), found.branch, found.commit_id) == ([77, 0], "side", commit)
    assert disk.branch == "main"


def test_what_views_show_is_not_lost(disk: lakebed.Dataset) -> None:
    """Neither a branch goes nor the history; collections keep it all. Copied rows need no commit."""
    disk.checkout("side", create=True)
    disk.x[0] = 50
    disk.commit("another")
    disk[:2].save_view(id="v")
    disk.checkout("main")

    with pytest.raises(VersionControlError, match="saved views 'v'"):
        disk.delete_branch("side", force=True)
    disk.get_view("v").optimize(progressbar=False)
    disk.delete_branch("side", force=True)
    disk[2:4].save_view(id="w")
    with pytest.raises(VersionControlError, match="views 'w' show"):
        disk.squash()
    lakebed.gc(disk.path, grace=0)
    assert numbers(disk.load_view("v")) == [50, 1]
    assert numbers(disk.load_view("w")) == [2, 3]


def test_a_commit_that_is_gone_is_named(disk: lakebed.Dataset) -> None:
    disk[:2].save_view(id="v")
    docs = json.loads(disk.storage.get("queries.json"))
    docs[0]["source-dataset-version"] = "ab" * 20
    disk.storage.put("queries.json", json.dumps(docs).encode())

    with pytest.raises(CheckoutError, match=r"view 'v' .* commit abab"):
        disk.load_view("v")


def test_views_of_views(disk: lakebed.Dataset) -> None:
    disk[[9, 7, 5, 3]].save_view(id="v")
    disk.load_view("v")[1:3].save_view(id="w")
    whole = disk.load_view("v").no_view_dataset
    stale = disk.get_view("v")
    copied = disk.load_view("v", optimize=True, progressbar=False)

    assert (len(whole), whole.is_view) == (ROWS, False)
    assert stale.virtual
    assert stale.optimize(progressbar=False).virtual is False
    assert numbers(disk.load_view("w")) == [7, 5]
    assert list(copied[1:3].sample_indices) == [7, 5]
    with pytest.raises(InvalidOperationError, match=r"ds\[view.sample_indices\]"):
        copied[:1].save_view(id="x")
    disk[copied[1:3].sample_indices].save_view(id="x")
    assert numbers(disk.load_view("x")) == [7, 5]


def test_tensors_and_groups(disk: lakebed.Dataset) -> None:
    """Row numbers are of all tensors, as in 3.x; copies are of those that are shown or chosen."""
    disk[["x", "text"]][:3].save_view(id="v")
    disk[["x", "text"]][:3].save_view(id="columns", optimize=True, verbose=False)
    disk["group"][:3].save_view(id="group", optimize=True, verbose=False)

    assert len(disk.load_view("v").tensors) == 4
    assert set(disk.load_view("columns").tensors) == {"text", "x"}
    assert list(disk.load_view("group").tensors) == ["ragged"]


def test_tensors_of_different_lengths() -> None:
    ds = lakebed.empty("mem://uneven", overwrite=True)
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("short", dtype="int64")
    ds.x.extend(np.arange(6))
    ds.short.extend(np.arange(4))
    ds.commit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds[:].save_view(id="even")
        ds.max_view.save_view(id="padded")

        assert numbers(ds.load_view("even")) == [0, 1, 2, 3]
        padded = ds.load_view("padded")
        assert numbers(padded) == [0, 1, 2, 3, 4, 5]
        assert [len(s) for s in padded.short.numpy(aslist=True)] == [1, 1, 1, 1, 0, 0]


SHORT: dict[str, dict[str, Any]] = {
    "numbers": {"dtype": "int64"},
    "image": {"htype": "image", "sample_compression": "png"},
    "text": {"htype": "text"},
    "json": {"htype": "json"},
    "label": {"htype": "class_label", "class_names": ["a", "b"]},
    "box": {"htype": "bbox"},
    "sequence": {"htype": "sequence[generic]", "dtype": "int64"},
    "links": {"htype": "link[image]", "sample_compression": "png"},
    "packed": {"dtype": "int64", "chunk_compression": "lz4"},
}


def uneven(path: Path) -> lakebed.Dataset:
    """A tensor of six rows, and one of each kind of four rows."""
    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    Image.fromarray(picture).save(path.with_suffix(".png"))
    values: dict[str, Any] = {
        "numbers": [1, 2],
        "image": picture,
        "text": "text",
        "json": {"a": 1},
        "label": "b",
        "box": np.ones((2, 4), np.float32),
        "sequence": [[1], [2]],
        "links": lakebed.link(str(path.with_suffix(".png"))),
        "packed": [3],
    }
    ds = lakebed.empty(path)
    ds.create_tensor("x", dtype="int64").extend(np.arange(6))
    for name, kind in SHORT.items():
        ds.create_tensor(name, **kind).extend([values[name]] * 4)
    ds.commit()
    return ds


@pytest.mark.parametrize("way", ["view", "place", "copy", "unlinked", "materialized"])
@pytest.mark.parametrize("rows", [[5, 0, 4, 1], [1, 5], [0, 3]])
def test_copies_have_empty_samples_beyond_shorter_tensors(tmp_path: Path, way: str, rows: list[int]) -> None:
    ds = uneven(tmp_path / "ds")
    shown = ds.max_view[rows]
    if way == "view":
        shown.save_view(id="v", verbose=False)
        ds.get_view("v").optimize(progressbar=False)
        copied = ds.load_view("v")
    elif way == "place":
        shown.save_view(path=tmp_path / "copy", optimize=True, verbose=False)
        copied = lakebed.load(tmp_path / "copy")
    elif way == "materialized":
        shown.materialize(tmp_path / "copy", progressbar=False)
        copied = lakebed.load(tmp_path / "copy")
    else:
        copied = shown.copy(tmp_path / "copy", unlink=way == "unlinked", progressbar=False)

    assert numbers(copied.max_view) == rows
    assert lakebed.verify(tmp_path / "ds", deep=True).is_sound
    if way != "view":
        assert lakebed.verify(tmp_path / "copy", deep=True).is_sound
    for name in SHORT:
        assert len(copied[name]) == len(rows)
        for at, row in enumerate(rows):
            one, other = copied[name][at], shown[name][at]
            if row < 4:
                assert one.shape == other.shape
                assert np.array_equal(one.numpy(), other.numpy())
            else:
                # Empty text and documents have one item, which a tensor that ends before has not.
                assert one.numpy().tolist() == {"text": [""], "json": [{}]}.get(name, [])


@pytest.mark.parametrize("selected", [slice(None), slice(2, None), slice(None, None, -1)])
def test_a_copied_view_has_the_rows_of_the_longest_tensor(tmp_path: Path, selected: slice) -> None:
    """Like the view that lists row numbers, whichever way the rows were selected."""
    ds = uneven(tmp_path / "ds")
    ds.max_view[selected].save_view(id="rows", verbose=False)
    ds.max_view[selected].save_view(id="copy", optimize=True, verbose=False)
    rows, copy = ds.load_view("rows"), ds.load_view("copy")
    assert len(rows) == len(copy)
    assert numbers(rows) == numbers(copy)
    assert [s.shape for s in rows.image] == [s.shape for s in copy.image]


@pytest.mark.parametrize("optimize", [False, True])
def test_a_view_works_as_a_dataset(disk: lakebed.Dataset, tmp_path: Path, optimize: bool) -> None:
    rows = [9, 2, 2, 7, 0]
    disk[rows].save_view(id="v", optimize=optimize, verbose=False)
    view = disk.load_view("v")

    assert [int(row.x.numpy()[0]) for row in view] == rows
    assert numbers(view[1:4]) == rows[1:4]
    assert numbers(view[[4, 0]]) == [0, 9]
    assert view[-1].text.text() == "text 0"
    assert [n for batch in view.batches(2) for n in np.ravel(batch["x"])] == rows
    assert pa.table(view[["x", "text"]])["text"].to_pylist() == [f"text {i}" for i in rows]
    loader = lakebed.Loader(view, batch_size=2, shuffle=True, seed=3, tensors=["x"])
    assert sorted(int(n) for batch in loader for n in np.ravel(batch["x"])) == sorted(rows)
    copied = view.copy(tmp_path / "copy", progressbar=False)
    assert numbers(copied) == rows
    view.materialize(tmp_path / "whole", progressbar=False)
    assert numbers(lakebed.load(tmp_path / "whole")) == rows
    assert numbers(pickle.loads(pickle.dumps(view))) == rows
    lakebed.export_to("parquet", view[["x", "text"]], tmp_path / "parquet", progressbar=False)

    @lakebed.compute
    def double(sample: Any, out: Any) -> None:
        out.append({"y": sample.x.numpy() * 2})

    target = lakebed.empty(tmp_path / "target")
    target.create_tensor("y", dtype="int64")
    double().eval(view, target, progressbar=False)
    assert np.ravel(target.y.numpy()).tolist() == [2 * n for n in rows]
    for change in (lambda: view.x.append(1), lambda: view.x.__setitem__(0, 3), lambda: view.commit()):
        with pytest.raises((ReadOnlyModeError, InvalidOperationError)):
            change()
    view.summary()
    assert "read_only=True" in str(view)


def test_more_rows_than_are_listed(monkeypatch: pytest.MonkeyPatch, disk: lakebed.Dataset) -> None:
    """The list stays small; the rows are in the data of the view."""
    monkeypatch.setattr(selectors, "MOST_LISTED", 3)
    disk[[3, 1, 2]].save_view(id="few")
    disk[[3, 1, 2, 0]].save_view(id="many")

    assert disk.get_view("few").info["source-dataset-index"] == [[3, 1, 2]]
    assert disk.get_view("many").info["source-dataset-index"] is None
    assert numbers(disk.load_view("many")) == [3, 1, 2, 0]


def test_many_rows() -> None:
    """Beyond one chunk of row numbers, and the entry is small."""
    ds = lakebed.empty("mem://many", overwrite=True)
    ds.create_tensor("x", dtype="uint8", create_id_tensor=False, create_shape_tensor=False)
    count = 2_100_000
    ds.x.extend(np.zeros((count, 1), np.uint8))
    ds.commit()
    rows = np.random.default_rng(1).permutation(count)
    ds[rows].save_view(id="v")

    assert len(ds.storage.get("queries.json")) < 1000
    assert len([key for key, _ in ds.storage.list(".queries/v/VDS_INDEX/chunks/")]) == 3
    np.testing.assert_array_equal(ds.load_view("v").sample_indices, rows)


def test_what_chose_the_rows_is_kept(disk: lakebed.Dataset) -> None:
    """A query says so of the view that it makes, in ``_query_text``; an expression or function in ``_filter_text``."""
    view = disk[[1, 2]]
    view._query_text = "SELECT * WHERE x > 0 LIMIT 2"
    view.save_view(id="q")
    view = disk[[1]]
    view._filter_text = "x == 1"
    view.save_view(id="f")

    entry = disk.get_view("q")
    assert (entry.tql_query, entry.query) == ("SELECT * WHERE x > 0 LIMIT 2", None)
    assert (disk.get_view("f").tql_query, disk.get_view("f").query) == (None, "x == 1")
    assert entry["tql_query"] == entry.get("tql_query")
    assert entry.get("nope", 3) == 3
    with pytest.raises(KeyError):
        entry["nope"]


# -- elsewhere ---------------------------------------------------------------------------------------------------------


def test_at_a_place_of_its_own(disk: lakebed.Dataset, tmp_path: Path) -> None:
    """Opening the place opens the view; copies are datasets like others."""
    place, copied = tmp_path / "place", tmp_path / "copied"
    disk[[4, 2]].save_view(message="m", path=place)
    assert disk[[4, 2]].save_view(path=copied, optimize=True, verbose=False) == str(copied)
    with pytest.raises(DatasetViewSavingError, match="already exists"):
        disk[:1].save_view(path=place)

    view = lakebed.load(place)

    assert (numbers(view), view.read_only, view.is_view, view.path) == ([4, 2], True, True, disk.path)
    assert numbers(lakebed.load(copied)) == [4, 2]
    disk[[1]].save_view(path=place, overwrite=True)
    assert numbers(lakebed.load(place)) == [1]
    assert disk.get_views() == []
    with pytest.raises(ReadOnlyModeError):
        lakebed.load(place).save_view()


def test_a_view_leads_nowhere_else(disk: lakebed.Dataset, tmp_path: Path) -> None:
    """What somebody else wrote into it makes nothing ask a server."""
    disk[[4, 2]].save_view(path=tmp_path / "place")
    file = tmp_path / "place" / "dataset_info.json"
    doc = json.loads(file.read_text())
    for source in ("s3://bucket/ds", "https://example.com/ds", "mem://ds"):
        file.write_text(json.dumps({**doc, "source-dataset": source}))
        with pytest.raises(lakebed.errors.InvalidInputError, match="is elsewhere"):
            lakebed.load(tmp_path / "place")
    file.write_text(json.dumps({**doc, "source-dataset": str(tmp_path / "nothing")}))
    with pytest.raises(lakebed.errors.DatasetNotFoundError):
        lakebed.load(tmp_path / "place")


def test_a_dataset_that_moves_takes_its_views_along(disk: lakebed.Dataset, tmp_path: Path) -> None:
    """Renamed, copied, packed, backed up and restored."""
    disk[[4, 2]].save_view(id="v")
    disk[[1, 0]].save_view(id="copied", optimize=True, verbose=False)
    lakebed.deepcopy(disk.path, tmp_path / "copy", progressbar=False)
    lakebed.pack(disk.path, tmp_path / "packed.lake", progressbar=False)
    lakebed.backup(disk.path, tmp_path / "backups", progressbar=False)
    lakebed.restore(tmp_path / "backups", tmp_path / "restored", progressbar=False)
    disk.close()
    (tmp_path / "ds").rename(tmp_path / "moved")

    for name in ("copy", "packed.lake", "restored", "moved"):
        found = lakebed.load(tmp_path / name, read_only=True)
        assert numbers(found.load_view("v")) == [4, 2], name
        assert numbers(found.load_view("copied")) == [1, 0], name


# -- what 3.9.52 wrote -------------------------------------------------------------------------------------------------


def test_views_of_3_9_52(golden: Path) -> None:
    ds = lakebed.load(golden / "f13_views", read_only=True)
    listed = json.loads((golden / "f13_views" / "queries.json").read_text())

    assert [entry.info for entry in ds.get_views()] == listed
    for entry in ds.get_views():
        found = entry.load()
        folder = golden / "f13_views" / ".queries" / (entry.info.get("path") or entry.id)
        stored = lakebed.load(folder, read_only=True) if not entry.virtual else None
        assert found.is_optimized is not entry.virtual
        if stored is not None:
            assert list(found.tensors) == list(stored.tensors)
        for name in found.tensors:
            list(found[name].numpy(aslist=True))


def test_the_files_are_those_of_3_9_52(golden: Path, disk: lakebed.Dataset) -> None:
    """Byte for byte, but for ids, addresses and times."""
    entry = json.loads((golden / "f13_views" / "queries.json").read_text())
    theirs = golden / "f13_views" / ".queries" / "list"
    (info,) = [one for one in entry if one["id"] == "list"]
    rows = info["source-dataset-index"][0]
    disk[rows].save_view(id="list")
    ours = Path(disk.path) / ".queries" / "list"

    mine = {str(p.relative_to(ours)): p.read_bytes() for p in ours.rglob("*") if p.is_file()}
    known = {str(p.relative_to(theirs)): p.read_bytes() for p in theirs.rglob("*") if p.is_file()}
    for files in (mine, known):
        (chunk,) = [name for name in files if "/chunks/" in name]
        files["chunk"] = files.pop(chunk)
        files["VDS_INDEX/chunks_index/unsharded"] = files["VDS_INDEX/chunks_index/unsharded"][:-16]
        files.pop("dataset_info.json")
    assert mine == known
    (saved,) = json.loads((Path(disk.path) / "queries.json").read_text())
    assert saved.keys() | {"message"} == info.keys() | {"message"}
    assert list(saved) == [key for key in info if key in saved]


def test_masks_of_3_9_52_give_the_rows_that_were_meant(disk: lakebed.Dataset) -> None:
    """It stores the zeros and ones of a mask as the numbers of rows."""
    mask = [i in (2, 5) for i in range(ROWS)]
    disk[[int(one) for one in mask]].save_view(id="v")
    docs = json.loads(disk.storage.get("queries.json"))
    docs[0]["source-dataset-index"] = [mask]
    disk.storage.put("queries.json", json.dumps(docs).encode())

    assert numbers(disk.load_view("v")) == [2, 5]


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{}",
        b"[1]",
        b'[{"id": 3}]',
        b'[{"id": "v"}]',
        b'[{"id": "v", "source-dataset-version": "../x"}]',
        b'[{"id": "../v", "source-dataset-version": "ab"}]',
        b'[{"id": "v", "path": "/etc", "source-dataset-version": "ab"}]',
        b'[{"id": "v", "virtual-datasource": 3, "source-dataset-version": "ab"}]',
        b"[" * 100_000,
    ],
)
def test_a_damaged_list_is_reported(disk: lakebed.Dataset, data: bytes) -> None:
    """And nothing is written over it."""
    disk.storage.put("queries.json", data)
    with pytest.raises(DatasetCorruptError, match="saved views"):
        disk.get_views()
    with pytest.raises(DatasetCorruptError, match="saved views"):
        disk[:2].save_view(id="v")
    assert disk.storage.get("queries.json") == data
    assert numbers(disk[:2]) == [0, 1]


def test_damaged_data_are_reported(disk: lakebed.Dataset) -> None:
    for name in ("gone", "row", "wrong", "single"):
        disk[[1, 2]].save_view(id=name)
    disk.storage.delete_prefix(".queries/gone/")
    disk.storage.delete(".queries/wrong/dataset_meta.json")
    docs = json.loads(disk.storage.get("queries.json"))
    docs[3]["first-index-subscriptable"] = False
    disk.storage.put("queries.json", json.dumps(docs).encode())
    (chunk,) = [key for key, _ in disk.storage.list(".queries/row/VDS_INDEX/chunks/")]
    data = bytearray(disk.storage.get(chunk))
    data[-8:] = (10**6).to_bytes(8, "little")
    disk.storage.put(chunk, bytes(data))

    for name, why in (
        ("gone", "missing"),
        ("row", "row 1000000"),
        ("single", "one row lists 2 row numbers"),
    ):
        with pytest.raises(DatasetCorruptError, match=why):
            disk.load_view(name)
    with pytest.raises(lakebed.errors.CorruptError):
        disk.load_view("wrong")
    disk.delete_view("gone")
    assert [v.id for v in open_on(disk.storage).get_views()] == ["row", "wrong", "single"]
