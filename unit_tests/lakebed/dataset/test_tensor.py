"""Tensor: reading one, some and all samples in the forms of 3.x (API.md 3)."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import lakebed
from unit_tests.lakebed.datasets import create_on, new_memory

RAGGED = [np.zeros((1, 2)), np.ones((3, 4)), np.full((2, 2), 5.0)]


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    """One tensor of each kind, with three rows."""
    ds = create_on(new_memory())
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("fixed")
    ds.create_tensor("ragged")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("json", htype="json")
    ds.create_tensor("list", htype="list")
    ds.create_tensor("label", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("when")
    ds.create_tensor("nothing")
    ds.extend(
        {
            "n": [1, 2, 3],
            "fixed": np.arange(24, dtype="f4").reshape(3, 2, 4),
            "ragged": RAGGED,
            "text": ["a", "", "ö"],
            "json": [{"a": [1, None]}, None, 7],
            "list": [[1, "x"], [], [[2]]],
            "label": ["dog", "bird", 0],
            "when": pa.array([0, None, 86_400_000_000], pa.timestamp("us", "UTC")),
        },
        skip_ok=True,
    )
    return ds


def test_numpy_of_numbers(ds: lakebed.Dataset) -> None:
    """All samples are one array, one sample has its own shape, `aslist` gives one array per sample."""
    assert ds.n.numpy().tolist() == [[1], [2], [3]]
    assert (ds.fixed.numpy().shape, ds.fixed.numpy().dtype) == ((3, 2, 4), np.dtype("f4"))
    assert ds.fixed[1].numpy().tolist() == [[8.0, 9.0, 10.0, 11.0], [12.0, 13.0, 14.0, 15.0]]
    assert [v.shape for v in ds.fixed.numpy(aslist=True)] == [(2, 4)] * 3
    assert np.array_equal(np.asarray(ds.fixed), ds.fixed.numpy())
    assert np.asarray(ds.n, dtype="f8").dtype == np.dtype("f8")
    assert np.array_equal(ds.n.numpy(fetch_chunks=True), ds.n.numpy())


def test_results_are_the_callers(ds: lakebed.Dataset) -> None:
    """Arrays may be written into without changing what is read next."""
    for read in (
        lambda: ds.fixed.numpy(),
        lambda: ds.fixed[0].numpy(),
        lambda: ds.ragged.numpy(aslist=True)[1],
    ):
        first = read()
        first[...] = -1
        assert not np.array_equal(read(), first)


def test_numpy_of_ragged_samples(ds: lakebed.Dataset) -> None:
    """Samples of different shapes become a list, or one array where what is selected agrees."""
    assert all(map(np.array_equal, ds.ragged.numpy(aslist=True), RAGGED))
    with pytest.raises(lakebed.errors.DynamicTensorNumpyError, match="aslist"):
        ds.ragged.numpy()
    assert ds.ragged[1:2].numpy().shape == (1, 3, 4)
    assert ds.ragged[:, 0:1, 0:2].numpy().tolist() == [[[0.0, 0.0]], [[1.0, 1.0]], [[5.0, 5.0]]]
    assert ds.ragged[:, 0, 0].numpy().tolist() == [0.0, 1.0, 5.0]
    assert ds.ragged[1][2, [0, 3]].numpy().tolist() == [1.0, 1.0]
    with pytest.raises(lakebed.errors.DynamicTensorNumpyError):
        ds.ragged[:, 0].numpy()


def test_shapes(ds: lakebed.Dataset) -> None:
    """Varying axes are None; a single sample has no sample axis."""
    assert (ds.n.shape, ds.fixed.shape, ds.ragged.shape) == ((3, 1), (3, 2, 4), (3, None, None))
    assert (ds.text.shape, ds.json.shape, ds["list"].shape) == ((3, 1), (3, 1), (3, None))
    assert (ds.nothing.shape, ds.nothing.numpy().shape) == ((0,), (0,))
    assert (ds.ragged[1].shape, ds.ragged[0:2].shape, ds.ragged[2:].shape) == (
        (3, 4),
        (2, None, None),
        (1, 2, 2),
    )
    assert (ds.text[1].shape, ds["list"][0].shape, ds["list"][1:2].shape) == ((1,), (2,), (1, 0))
    assert (ds.fixed[1:, 0].shape, ds.fixed[0, 1].shape, ds.ragged[0, 0].shape) == ((2, 4), (4,), (2,))
    assert [ds.fixed.ndim, ds.fixed[0].ndim, ds.fixed[0, 0].ndim] == [3, 2, 1]
    assert [len(ds.n), len(ds.n[0]), len(ds.n[1:]), ds.n[0].num_samples] == [3, 1, 2, 3]
    assert [ds.ragged.is_dynamic, ds.fixed.is_dynamic] == [True, False]
    assert [ds.nothing.is_empty_tensor, ds.n.is_empty_tensor] == [True, False]


def test_kinds(ds: lakebed.Dataset) -> None:
    """Htype and dtype as 3.x shows them."""
    assert [(t.htype, t.base_htype) for t in (ds.n, ds.text, ds.nothing)] == [
        ("generic", "generic"),
        ("text", "text"),
        (None, None),
    ]
    assert (ds.n.dtype, ds.text.dtype, ds.nothing.dtype) == (np.dtype("int64"), np.dtype("<U"), None)
    assert (ds.n.is_sequence, ds.n.is_link, ds.n.hidden, ds["_n_id"].hidden) == (False, False, False, True)


def test_text(ds: lakebed.Dataset) -> None:
    """One text is a str, several are a list; other htypes are refused."""
    assert (ds.text[2].text(), ds.text.text(), ds.text[[2, 0]].text()) == ("ö", ["a", "", "ö"], ["ö", "a"])
    assert ds.text.numpy().tolist() == [["a"], [""], ["ö"]]
    assert ds.text[0].numpy().tolist() == ["a"]
    for wrong in (ds.n.text, ds.text.dict, ds.text.list, ds.json.text):
        with pytest.raises(lakebed.errors.InvalidOperationError, match="htype"):
            wrong()


def test_json_and_lists(ds: lakebed.Dataset) -> None:
    """Documents come as Python values; None was stored as {} and []."""
    assert ds.json.dict() == [{"a": [1, None]}, {}, 7]
    assert (ds.json[0].dict(), ds.json[2].dict()) == ({"a": [1, None]}, 7)
    assert ds.json.numpy().tolist() == [[{"a": [1, None]}], [{}], [7]]
    assert ds["list"].list() == [[1, "x"], [], [[2]]]
    assert ds["list"][0].list() == [1, "x"]
    assert [v.tolist() for v in ds["list"].numpy(aslist=True)] == [[1, "x"], [], [[2]]]
    assert ds["list"][0].numpy().tolist() == [1, "x"]
    with pytest.raises(lakebed.errors.InvalidOperationError, match="list and tag"):
        ds.n.list()


def test_data(ds: lakebed.Dataset) -> None:
    """`data()` has the form of the htype under `value`."""
    assert ds.n[0].data()["value"].tolist() == [1]
    assert ds.text.data() == {"value": ["a", "", "ö"]}
    assert ds.json[0].data() == {"value": {"a": [1, None]}}
    assert ds["list"].data() == {"value": [[1, "x"], [], [[2]]]}
    assert [v.shape for v in ds.ragged.data(aslist=True)["value"]] == [(1, 2), (3, 4), (2, 2)]


def test_class_labels_have_names(ds: lakebed.Dataset) -> None:
    """Labels are indices with their names beside them; unseen names are added to the info."""
    assert ds.label.numpy().ravel().tolist() == [1, 2, 0]
    assert ds.label.dtype == np.dtype("uint32")
    assert ds.label.info.class_names == ["cat", "dog", "bird"]
    assert ds.label.data()["text"] == [["dog"], ["bird"], ["cat"]]
    assert ds.label[0].data()["text"] == ["dog"]
    assert (ds.label[0].data()["value"].tolist(), ds.label[0:1].data()["text"]) == ([1], [["dog"]])


def test_moments(ds: lakebed.Dataset) -> None:
    """Numbers with a logical type come as dates and times from `data()`, as numbers from `numpy()`."""
    utc = dt.UTC
    moments = [dt.datetime(1970, 1, 1, tzinfo=utc), None, dt.datetime(1970, 1, 2, tzinfo=utc)]
    assert ds.when.data()["value"] == moments
    assert ds.when[2].data()["value"] == moments[2]
    assert ds.when[1].data()["value"] is None
    assert ds.when[2].numpy().tolist() == [86_400_000_000]
    assert [v.size for v in ds.when.numpy(aslist=True)] == [1, 0, 1]


def test_moments_beyond_python_stay_numbers() -> None:
    """A timestamp in the year 294,247 is no datetime; it is still readable."""
    ds = create_on(new_memory())
    ds.create_tensor("x")
    ds.extend({"x": pa.array([0, 2**63 - 1], pa.timestamp("us"))})
    assert ds.x.data()["value"] == [dt.datetime(1970, 1, 1), 2**63 - 1]  # noqa: DTZ001
    assert ds.x[1].data()["value"] == 2**63 - 1


@pytest.mark.parametrize(
    ("kind", "number", "value"),
    [
        ("date32[day]", 1, dt.date(1970, 1, 2)),
        ("time64[us]", 3_600_000_000, dt.time(1)),
        ("timestamp[us]", 0, dt.datetime(1970, 1, 1)),  # noqa: DTZ001  # a type without a zone
    ],
)
def test_logical_types_may_be_set_by_hand(kind: str, number: int, value: Any) -> None:
    """The info key alone decides, also for rows that are there already."""
    ds = create_on(new_memory())
    ds.create_tensor("x", dtype="int32" if "32" in kind else "int64")
    ds.extend({"x": [number]})
    assert ds.x[0].data()["value"].tolist() == [number]
    ds.x.info["logical_type"] = kind
    assert ds.x[0].data()["value"] == value
    assert pa.table(ds)["x"].to_pylist() == [value]
    ds.x.info["logical_type"] = "nonsense[x]"
    assert pa.table(ds)["x"].to_pylist() == [number]


def test_stored_bytes(ds: lakebed.Dataset) -> None:
    """`tobytes()` gives what is stored for one sample."""
    assert ds.n[1].tobytes() == (2).to_bytes(8, "little")
    assert ds.text[2].tobytes() == "ö".encode()
    assert ds.json[0].tobytes() == b'{"a": [1, null]}'
    with pytest.raises(ValueError, match="exactly 1 sample"):
        ds.n.tobytes()


def test_iteration(ds: lakebed.Dataset) -> None:
    """A tensor yields its samples, a single sample its first axis."""
    assert [int(t.numpy()[0]) for t in ds.n] == [1, 2, 3]
    assert [t.numpy().tolist() for t in ds.fixed[0]] == [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]
    assert [t.text() for t in ds.text[::-1]] == ["ö", "", "a"]


def test_nothing_selected(ds: lakebed.Dataset) -> None:
    """Empty selections are empty arrays and lists of the right kind."""
    assert ds.fixed[0:0].numpy().shape == (0, 2, 4)
    assert ds.fixed[[]].numpy(aslist=True) == []
    assert (ds.text[0:0].text(), ds.json[3:].dict(), len(ds.n[5:])) == ([], [], 0)


def test_samples_before_any_value() -> None:
    """A tensor of None only has length, but neither dtype nor rank: reading says so."""
    ds = create_on(new_memory())
    ds.create_tensor("x")
    ds.x.extend([None, None])
    assert len(ds.x) == 2
    with pytest.raises(lakebed.errors.EmptyTensorError):
        ds.x[0].numpy()
    ds.x.append(np.zeros((2, 2), "i1"))
    assert [v.shape for v in ds.x.numpy(aslist=True)] == [(0, 0), (0, 0), (2, 2)]
    assert (ds.x.meta.min_shape, ds.x.meta.max_shape) == ([0, 0], [2, 2])
    ds.flush()
    assert [v.shape for v in ds.x.numpy(aslist=True)] == [(0, 0), (0, 0), (2, 2)]


def test_one_number_in_many_forms() -> None:
    """Scalars, 0-d arrays and arrays of one are samples of shape (1,)."""
    ds = create_on(new_memory())
    ds.create_tensor("x", dtype="float32")
    for value in (1, 1.0, np.float64(1), np.array(1.0), np.array([1.0]), [1.0], True):
        ds.x.append(value)
    assert ds.x.numpy().tolist() == [[1.0]] * 7


def test_a_tensor_of_another_version_says_so(ds: lakebed.Dataset) -> None:
    """A tensor object whose tensor is not in the version checked out is an error that names it."""
    other = create_on(new_memory())
    first = other.commit("empty", allow_empty=True)
    tensor = other.create_tensor("late")
    other.commit("late")
    other.checkout(first)
    with pytest.raises((lakebed.errors.InvalidOperationError, lakebed.TensorDoesNotExistError), match="late"):
        tensor.numpy()


def test_a_tensor_tells_whether_samples_are_cut_into_tiles() -> None:
    ds = lakebed.empty("mem://")
    ds.create_tensor("x", dtype="uint8", tiling_threshold=400)
    ds.x.append(np.zeros(300, np.uint8))
    assert not ds.x.is_tiled
    ds.x.append(np.ones((30, 30), np.uint8).reshape(-1))
    assert ds.x.is_tiled
    assert ds.x[0].is_tiled  # of the tensor, whatever is selected


def test_single_rows_are_read_as_they_are_now(tmp_path: Path) -> None:
    """Row by row, by tensor and by dataset, the same as by slices: after each kind of change, wherever it was made."""
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("a/image", htype="image", sample_compression="jpeg")
    ds.create_tensor("n", dtype="int64")
    ds.extend({"a/image": [np.full((8 + i, 9, 3), 20 * i, np.uint8) for i in range(6)], "n": range(6)})
    images, numbers, group = ds["a/image"], ds.n, ds["a"]

    def check(expected: list[int]) -> None:
        length = len(expected)
        assert [int(numbers[i].numpy()[0]) for i in range(length)] == expected
        assert [int(ds[i - length]["n"].numpy()[0]) for i in range(length)] == expected
        for i, number in enumerate(expected):
            found = [
                images[i].numpy(),
                images[i - length].numpy(),
                ds[i]["a/image"].numpy(),
                group[i]["image"].numpy(),
            ]
            (other,) = images[i : i + 1].numpy(aslist=True)
            assert other.shape == (8 + number, 9, 3)
            assert all(np.array_equal(one, other) for one in found)
        for lacking in (length, -length - 1):
            for part in (images, numbers, ds, group):
                with pytest.raises(IndexError, match="out of range"):
                    part[lacking]

    def image(number: int) -> NDArray[np.uint8]:
        return np.full((8 + number, 9, 3), 20 * number, np.uint8)

    check([0, 1, 2, 3, 4, 5])
    first = ds.commit()
    ds[2].update({"a/image": image(9), "n": 9})
    check([0, 1, 9, 3, 4, 5])
    ds.append({"a/image": image(7), "n": 7})
    check([0, 1, 9, 3, 4, 5, 7])
    ds.pop(0)
    check([1, 9, 3, 4, 5, 7])
    ds.flush()
    check([1, 9, 3, 4, 5, 7])
    ds.rename_tensor("n", "m")
    assert int(numbers[1].numpy()[0]) == 9
    ds.rename_tensor("m", "n")
    ds.commit()
    ds.checkout(first)
    check([0, 1, 2, 3, 4, 5])
    ds.checkout("main")
    check([1, 9, 3, 4, 5, 7])
    last = images[5]
    ds.pop(5)
    with pytest.raises(IndexError, match="out of range"):
        last.numpy()
    check([1, 9, 3, 4, 5])


def test_rows_are_those_of_the_longest_tensor_that_is_shown() -> None:
    """Hidden tensors, tensors of other groups and of columns that were not chosen give a dataset no rows."""
    ds = lakebed.empty("mem://rows-of-the-longest")
    for name in ("a/long", "b/short", "c"):
        ds.create_tensor(name, dtype="int64")
    ds["a/long"].extend(range(5))
    ds["b/short"].extend(range(2))
    assert int(ds[4]["a/long"].numpy()[0]) == 4
    for part, length in ((ds, 5), (ds["a"], 5), (ds["b"], 2), (ds[["b/short"]], 2), (ds[:3], 3)):
        assert len(part[length - 1].tensors) > 0
        with pytest.raises(IndexError, match="out of range"):
            part[length]
