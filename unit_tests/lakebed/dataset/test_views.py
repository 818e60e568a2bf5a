"""Views of unequal tensors, attributes of 3.x, pickling, printed selections (API.md 2.1; facts tested on 3.9.52)."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.dataset.tensor_chapters.shape import ShapeInterval
from lakebed.errors import InvalidInputError
from unit_tests.lakebed.datasets import create_on, new_memory


@pytest.fixture(scope="module")
def uneven() -> lakebed.Dataset:
    """Tensors of 3, 1, 1, 2 and 0 rows."""
    ds = create_on(new_memory())
    ds.create_tensor("a", dtype="int64").extend([1, 2, 3])
    ds.create_tensor("b").append(np.ones((2, 2)))
    ds.create_tensor("t", htype="text").append("x")
    ds.create_tensor("g/j", htype="json").extend([{"k": 1}, [2]])
    ds.create_tensor("none")
    return ds


def test_lengths(uneven: lakebed.Dataset) -> None:
    """A dataset is as long as its shortest tensor, and says so once they differ."""
    assert (uneven.max_len, uneven.min_len, uneven.num_samples) == (3, 0, 0)
    with pytest.warns(UserWarning, match="differ in length"):
        assert len(uneven) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (len(uneven.max_view), len(uneven[["a"]])) == (3, 3)
    assert (uneven[0].num_samples, uneven.a[0].num_samples, len(uneven.a[0])) == (0, 3, 1)


def test_the_longest_view_pads_with_empty_samples(uneven: lakebed.Dataset) -> None:
    """Rows that a tensor lacks read as empty when they are named; slices end where the tensor does."""
    view = uneven.max_view
    assert (view.is_view, view.b.pad_tensor, uneven.b.pad_tensor) == (False, True, False)
    assert view[2].b.numpy().shape == (0, 0)
    assert view.b[2].shape == (0, 0)
    assert [v.shape for v in view[[0, 2]].b.numpy(aslist=True)] == [(2, 2), (0, 0)]
    assert (len(view.b), len(view[0:3].b), view[1:3].b.numpy(aslist=True)) == (1, 1, [])
    assert [(row.a.numpy().item(), row.t.text()) for row in view] == [(1, "x"), (2, ""), (3, "")]
    assert view[2]["g"].j.dict() == {}
    assert (len(view[1:]), len(view[[0, 2]])) == (2, 2)
    with pytest.raises(IndexError):
        view[3]


def test_the_shortest_view_has_what_all_have(uneven: lakebed.Dataset) -> None:
    """It is a selection of rows."""
    view = uneven[["a", "b"]].min_view
    assert (view.is_view, len(view), view.a.numpy().tolist()) == (True, 1, [[1]])
    assert repr(view.index) == "Index([slice(None, 1, None)])"
    assert len(view.no_view_dataset.a) == 3
    assert uneven.no_view_dataset is uneven


def test_indices_of_a_selection(uneven: lakebed.Dataset) -> None:
    """They count in the whole dataset."""
    ds = uneven[["a"]]
    assert list(ds.sample_indices) == [0, 1, 2]
    assert list(ds[1:].sample_indices) == [1, 2]
    assert list(ds[[2, 0]].sample_indices) == [2, 0]
    assert list(ds[1:][1].a.sample_indices) == [2]
    assert list(uneven.max_view.sample_indices) == [0, 1, 2]


def test_a_view_ends_when_rows_change_through_the_dataset() -> None:
    """As in 3.9.52: rows added or replaced end it, changes through itself, in place or of structure do not."""

    def fresh() -> lakebed.Dataset:
        ds = create_on(new_memory())
        ds.create_tensor("a", dtype="int64").extend(list(range(20)))
        ds.create_tensor("g/b").extend(list(range(20)))
        return ds

    def add(ds: lakebed.Dataset) -> None:
        ds.append({"a": 1, "g/b": 2})

    ending: list[Any] = [
        lambda ds: ds.a.append(1),
        lambda ds: ds.a.extend([1]),
        lambda ds: ds["g/b"].append(1),
        lambda ds: ds.a.__setitem__(0, 5),
        lambda ds: ds.checkout("x", create=True),
        lambda ds: ds.extend({"a": [1], "g/b": [2]}),
        add,
    ]
    lasting: list[Any] = [
        lambda ds: ds[0].update({"a": 5}),
        lambda ds: ds.pop(0),
        lambda ds: ds.create_tensor("z"),
        lambda ds: ds.info.update(a=1),
        lambda ds: ds.commit(),
        lambda ds: ds.flush(),
        lambda ds: ds.a.__iadd__(1),
        lambda ds: ds.rechunk(),
    ]
    for change in ending + lasting:
        ds = fresh()
        views = [ds[5:15], ds[3], ds[[1, 2]], ds[5:15]["g"].root, ds.min_view]
        tensors = [ds.a[5:15], ds[5:15].a, ds.a]
        change(ds)
        for view in views:
            if change in lasting:
                assert view.a.numpy().size
                continue
            for call in (lambda: view.a, lambda: view.tensors, lambda: view.summary()):  # noqa: B023
                with pytest.raises(lakebed.errors.InvalidViewException, match="again"):
                    call()
            assert repr(view).startswith("Dataset(path=")
        assert [tensor.numpy().size for tensor in tensors][:2] == [10, 10]
    for row in ds:
        ds.a.append(1)
        assert row.a.numpy().size == 1
        break


# -- attributes ------------------------------------------------------------------------------------------------


def test_attributes_of_3x(uneven: lakebed.Dataset) -> None:
    """Scripts that look at them find them; nothing needs an account."""
    assert (uneven.client, uneven.token, uneven.org_id, uneven.is_optimized) == (None, None, None, False)
    assert uneven.username
    uneven.set_token("x")
    assert uneven.storage.url.startswith("mem://")
    assert (uneven["g"].group_index, uneven.group_index, repr(uneven.index)) == ("g", "", "Index([])")
    uneven.maybe_flush()
    uneven.clear_cache()
    for name in ("a", "g/j"):
        assert name in uneven
    assert "j" in uneven["g"]
    for item in ("g", "_a_id", 3):
        assert item not in uneven
    assert uneven.size_approx() > uneven[["a"]].size_approx() > 0
    assert uneven["g"].size_approx() == uneven["g"][["j"]].size_approx() > 0
    for call in (uneven.a.play, uneven.a[0].play):
        with pytest.raises(lakebed.errors.InvalidOperationError):
            call()


def test_attributes_of_tensors(uneven: lakebed.Dataset) -> None:
    """Sizes, flags, equality of selections."""
    a, b = uneven.a, uneven.b
    assert (a.size, b.size, b[0].size, b.ndim, b[0].ndim) == (3, 4, 4, 3, 2)
    assert (a.verify, a.hidden, a.is_sequence, a.is_link) == (False, False, False, False)
    assert (uneven["_a_id"].hidden, uneven.none.size, uneven.none.shape) == (True, 0, (0,))
    assert a == uneven["a"]
    assert a[0] != a
    assert a[[0, 1]] == a[[0, 1]]
    assert a[0] != None  # noqa: E711 - not a value
    assert (a[0] == a[0], a[0] == a[1], a[0] != a[1]) == (True, False, True)
    assert len({a, uneven["a"], b}) == 2
    assert uneven.a.sample_info is None


def test_only_links_and_videos_have_their_forms(uneven: lakebed.Dataset) -> None:
    """Others say what they are for."""
    for call in (
        uneven.a.path,
        uneven.a.creds_key,
        lambda: uneven.a.timestamps,
        uneven.a.text,
        uneven.t.dict,
    ):
        with pytest.raises(lakebed.errors.InvalidOperationError, match="Only supported for"):
            call()


def test_module_attributes() -> None:
    """Names of htypes and compressions."""
    assert (lakebed.htype.IMAGE_RGB, lakebed.htype.DEFAULT) == ("image.rgb", "generic")
    assert {"jpeg", "lz4", None} <= set(lakebed.compressions)
    assert lakebed.htypes[:2] == ["audio", "bbox"]
    assert sorted(v for k, v in vars(lakebed.htype).items() if k.isupper()) == lakebed.htypes
    assert lakebed.tensor is lakebed.Tensor


def test_the_seed() -> None:
    """It is remembered; only integers and None are one."""
    assert lakebed.random.get_seed() is None
    lakebed.random.seed(3)
    assert lakebed.random.get_seed() == 3
    for wrong in ("x", 1.5, True):
        with pytest.raises(TypeError, match="integer"):
            lakebed.random.seed(wrong)  # type: ignore[arg-type]
    lakebed.random.seed()
    assert lakebed.random.get_seed() is None


# -- shapes ----------------------------------------------------------------------------------------------------


def test_shape_interval(uneven: lakebed.Dataset) -> None:
    """Bounds per axis, the sample axis first, one sample included."""
    ds = create_on(new_memory())
    x = ds.create_tensor("x")
    x.extend([np.zeros((4, 5, 3)), np.zeros((4, 6, 3)), np.zeros((8, 6, 3))])
    interval = x.shape_interval
    assert (interval.lower, interval.upper, interval.is_dynamic) == ((3, 4, 5, 3), (3, 8, 6, 3), True)
    assert (str(interval), interval.astuple(), len(interval)) == ("(3, 4:8, 5:6, 3)", (3, None, None, 3), 4)
    assert [str(t.shape_interval) for t in (x[0], x[0:2], uneven.a, uneven.none)] == [
        "(1, 4, 5, 3)",
        "(2, 4, 5:6, 3)",
        "(3, 1)",
        "(0,)",
    ]
    assert x[0:2].shape_interval == ShapeInterval((2, 4, 5, 3), (2, 4, 6, 3))
    assert np.asarray(x.shapes()).tolist() == [[4, 5, 3], [4, 6, 3], [8, 6, 3]]
    assert np.asarray(x[0].shapes()).tolist() == [[4, 5, 3]]
    assert (x.is_dynamic, x[0].is_dynamic, x.size, x[0].size) == (True, False, None, 60)


@pytest.mark.parametrize(("lower", "upper"), [((1, 2), (1,)), ((3,), (2,))])
def test_shape_intervals_that_contradict_themselves(lower: Any, upper: Any) -> None:
    """They are refused."""
    with pytest.raises(lakebed.errors.InvalidShapeIntervalError):
        ShapeInterval(lower, upper)


# -- printing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("select", "text"),
    [
        (lambda x: x[0:10][2], "[2]"),
        (lambda x: x[2:10][1:3], "[slice(3, 5, 1)]"),
        (lambda x: x[2:10:2][1:3], "[slice(4, 8, 2)]"),
        (lambda x: x[[3, 4, 5]][1], "[4]"),
        (lambda x: x[1:9][[0, 2]], "[(1, 3)]"),
        (lambda x: x[:][3], "[3]"),
        (lambda x: x[:5][-1], "[slice(None, 5, None), -1]"),
        (lambda x: x[[True, False] * 10], f"[{(True, False) * 10}]"),
        (lambda x: x.t[2:10][1:3, 0], "[slice(3, 5, 1), 0]"),
        (lambda x: x.t[0][1:3][0], "[0, 1]"),
        (lambda x: x.t[0, 1:3][1, 2], "[0, 2, 2]"),
        (lambda x: x.t[:, 1][0], "[0, 1]"),
        (lambda x: x.t[0:4, 1:3][0][0], "[0, 1]"),
        (lambda x: x.t[0][[0, 1]][0], "[0, 0]"),
    ],
)
def test_printed_selections(select: Any, text: str) -> None:
    """Selections of selections print as one, where that can be told without a length."""
    ds = create_on(new_memory())
    ds.create_tensor("t").extend(np.zeros((20, 4, 5)))
    found = select(ds)
    assert repr(found.index) == f"Index({text})"
    assert f"index=Index({text})" in str(found)


def test_paths_print_as_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative ones too; a branch is not part of it."""
    monkeypatch.chdir(tmp_path)
    ds = lakebed.empty("./here")
    assert str(ds) == "Dataset(path='./here', tensors=[])"
    ds.flush()
    assert lakebed.load("./here@main").path == "./here"
    assert str(ds.create_group("g")) == "Dataset(path='./here', group_index='g', tensors=[])"


# -- pickling --------------------------------------------------------------------------------------------------


def test_pickling(tmp_path: Path) -> None:
    """What arrives opens the dataset again, with the same selection and version; unpublished rows are published."""
    ds = lakebed.empty(tmp_path / "x")
    ds.create_tensor("g/a", dtype="int64").extend([1, 2, 3])
    commit = ds.commit()
    ds["g/a"].append(4)
    view = pickle.loads(pickle.dumps(ds[1:]["g"]))
    assert (view.group_index, view.a.numpy().ravel().tolist()) == ("g", [2, 3, 4])
    tensor = pickle.loads(pickle.dumps(ds["g/a"][[3, 0]]))
    assert tensor.numpy().ravel().tolist() == [4, 1]
    old = pickle.loads(pickle.dumps(lakebed.load(f"{tmp_path / 'x'}@{commit}", read_only=True)))
    assert (old.read_only, len(old["g/a"])) == (True, 3)


def test_memory_can_not_be_pickled(uneven: lakebed.Dataset) -> None:
    """No other process could see it."""
    for item in (uneven, uneven.a, uneven["g"], uneven[0]):
        with pytest.raises(lakebed.errors.MemoryDatasetCanNotBePickledError, match="memory"):
            pickle.dumps(item)


def test_names_print_in_the_order_of_3x(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As created where they were created, by name after opening; columns keep the order of creation."""
    ds = lakebed.empty(tmp_path / "x")
    for name in ("z", "g/b", "a"):
        ds.create_tensor(name)
    assert str(ds).endswith("tensors=['z', 'g/b', 'a'])")
    ds.flush()
    again = lakebed.load(tmp_path / "x")
    assert str(again).endswith("tensors=['a', 'g/b', 'z'])")
    again.summary()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[4:]] == ["a", "g/b", "z"]
    assert list(again.tensors) == ["z", "g/b", "a"]


@lakebed.compute
def _is_odd(row: Any, _: Any = None) -> bool:
    return bool(row.x.numpy()[0] % 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_filter_calls_what_compute_made(workers: int) -> None:
    ds = lakebed.empty("mem://filter-compute", overwrite=True)
    ds.create_tensor("x", dtype="int64")
    ds.x.extend(list(range(10)))
    for function in (_is_odd, _is_odd(), lambda row: row.x.numpy() % 2):
        assert list(ds.filter(function, workers, progressbar=False).x.numpy().ravel()) == [1, 3, 5, 7, 9]
    for wrong in (lambda row: "no", lambda row: None, lambda row: object(), lambda row: np.zeros(2)):
        with pytest.raises(InvalidInputError, match="row 0"):
            ds.filter(wrong, workers, progressbar=False)
