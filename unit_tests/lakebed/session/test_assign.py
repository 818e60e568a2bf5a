"""Assigning to samples and parts of them: the rules of 3.x (API.md 3; facts tested on 3.9.52)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from unit_tests.effort import examples
from unit_tests.lakebed.datasets import copy_of, create_on, new_memory, open_on, visible

Array = np.ndarray[Any, np.dtype[Any]]


@pytest.fixture
def ds() -> lakebed.Dataset:
    """Numbers 0 to 4, three 2 x 3 arrays, and texts."""
    ds = create_on(new_memory())
    ds.create_tensor("n", dtype="int64").extend(np.arange(5))
    ds.create_tensor("m").extend(np.zeros((3, 2, 3)))
    ds.create_tensor("t", htype="text").extend(["a", "b", "c"])
    return ds


def flat(tensor: lakebed.Tensor) -> list[list[Any]]:
    """Every sample as a list."""
    return [sample.tolist() for sample in tensor.numpy(aslist=True)]


# -- whole samples ---------------------------------------------------------------------------------------------


def test_rows_by_int_slice_and_list(ds: lakebed.Dataset) -> None:
    """Negative numbers count from the end; several rows take as many samples."""
    ds.n[1] = 10
    ds.n[-1] = 40
    ds.n[2:4] = [20, 30]
    assert flat(ds.n) == [[0], [10], [20], [30], [40]]
    ds.n[[3, 0]] = np.array([3, 9])
    ds.n[1:3] = ds.n[3:5]
    assert flat(ds.n) == [[9], [3], [40], [3], [40]]
    ds.n[:] = [1, 2, 3, 4, 5]
    assert ds.n.numpy().ravel().tolist() == [1, 2, 3, 4, 5]


def test_one_row_as_a_slice_takes_a_sample_or_a_list_of_one(ds: lakebed.Dataset) -> None:
    """Both mean the same, as in 3.9.52."""
    ds.m[0:1] = np.ones((2, 3))
    ds.m[1:2] = np.ones((1, 2, 3))
    ds.n[0:1] = 7
    ds.n[1:2] = [8]
    assert ds.m[0:2].numpy().min() == 1
    assert flat(ds.n)[:2] == [[7], [8]]


@pytest.mark.parametrize("value", [[5], [5, 6, 7], np.zeros(3), ["ab"]])
def test_as_many_samples_as_rows(ds: lakebed.Dataset, value: Any) -> None:
    """Anything else is refused and changes nothing."""
    with pytest.raises(lakebed.SampleUpdateError, match="length") as caught:
        ds.n[1:3] = value
    assert isinstance(caught.value.__cause__, ValueError)
    assert flat(ds.n) == [[0], [1], [2], [3], [4]]


def test_one_value_goes_to_all_rows(ds: lakebed.Dataset) -> None:
    ds.n[1:3] = 5
    ds.t[1:3] = "x"
    assert flat(ds.n) == [[0], [5], [5], [3], [4]]
    assert ds.t.text()[1:3] == ["x", "x"]
    with pytest.raises(lakebed.SampleUpdateError, match="not text"):
        ds.n[1:3] = "ab"
    assert flat(ds.n) == [[0], [5], [5], [3], [4]]


@pytest.mark.parametrize("value", [7, 2.5, True, np.float32(3), np.array(4)])
def test_one_number_replaces_no_arrays(ds: lakebed.Dataset, value: Any) -> None:
    """Meant to fill, it would leave a single number of each; a part is filled, and a list says what is meant."""
    ds.create_tensor("v", dtype="float64").extend(np.ones((4, 3)))
    ds.create_tensor("q", htype="sequence", dtype="float64").append([np.ones(3)] * 4)
    for assign in (
        lambda: ds.v.__setitem__(slice(1, 3), value),
        lambda: ds.q[0].__setitem__(slice(0, 2), value),
        lambda: ds.v[:].assign(value),
    ):
        with pytest.raises(lakebed.SampleUpdateError, match=r"one number for [24] samples of shapes"):
            assign()
    assert ds.v.numpy().tolist() == [[1.0] * 3] * 4
    assert ds.q[0].numpy().shape == (4, 3)
    ds.v[1:3, :] = value
    assert ds.v.numpy()[:, 0].tolist() == [1.0, value, value, 1.0]
    ds.v[1:3] = [value, value]
    assert [s.shape for s in ds.v.numpy(aslist=True)] == [(3,), (1,), (1,), (3,)]
    ds.v[0] = value
    assert ds.v[0].numpy().shape == (1,)


def test_one_label_goes_to_rows_of_several(ds: lakebed.Dataset) -> None:
    labels = ds.create_tensor("labels", htype="class_label", class_names=["cat", "dog"])
    labels.extend([[0, 1], [1], [0, 1]])
    labels[:2] = 1
    assert flat(labels) == [[1], [1], [0, 1]]


def test_a_row_behind_the_last_is_appended_and_the_gap_is_padding(ds: lakebed.Dataset) -> None:
    """The gap reads as empty samples and is on record as padding until somebody fills it."""
    ds.n[5] = 50
    assert flat(ds.n) == [[0], [1], [2], [3], [4], [50]]
    ds.n[8] = 80
    assert flat(ds.n)[5:] == [[50], [], [], [80]]
    ds.t[4] = "e"
    assert ds.t.text() == ["a", "b", "c", "", "e"]
    ds.n[6] = 60
    ds.flush()
    again = open_on(ds.storage)
    assert flat(again.n)[5:] == [[50], [60], [], [80]]
    pad = again._session.schema().tensor("n").pad
    assert pad is not None
    assert pad.bounds.tolist() == [7, 8]


@pytest.mark.parametrize(
    ("item", "value"), [(slice(7, 9), [1, 2]), ([7], [1]), (-6, 1), ((7, 0), 1), (slice(0, 2), [1])]
)
def test_only_a_plain_row_number_reaches_behind_the_end(ds: lakebed.Dataset, item: Any, value: Any) -> None:
    """Slices, lists and negative numbers name rows that are there."""
    with pytest.raises(lakebed.SampleUpdateError):
        ds.n[item] = value
    assert len(ds.n) == 5


@pytest.mark.parametrize(
    ("value", "cause"), [(0.5, TypeError), ("x", TypeError), (np.zeros((2, 2), int), ValueError)]
)
def test_samples_that_do_not_fit(ds: lakebed.Dataset, value: Any, cause: type[Exception]) -> None:
    """The cause says what is wrong; nothing changes."""
    with pytest.raises(lakebed.SampleUpdateError) as caught:
        ds.n[0] = value
    assert isinstance(caught.value.__cause__, cause)
    assert flat(ds.n)[0] == [0]


def test_none_empties_a_sample(ds: lakebed.Dataset) -> None:
    """An empty sample has extents of zero."""
    ds.n[1] = None
    ds.t[1] = None
    assert flat(ds.n)[:2] == [[0], []]
    assert ds.t.text() == ["a", "", "c"] or ds.t.text() == ["a", None, "c"]


def test_samples_may_get_another_shape(ds: lakebed.Dataset) -> None:
    """The tensor becomes ragged; its hidden shapes follow."""
    ds.m[1] = np.ones((4, 1))
    assert [s.shape for s in ds.m.numpy(aslist=True)] == [(2, 3), (4, 1), (2, 3)]
    assert ds["_m_shape"].numpy().tolist() == [[2, 3], [4, 1], [2, 3]]
    assert ds.m.shape == (3, None, None)


# -- parts of samples ------------------------------------------------------------------------------------------


def test_parts_of_a_sample(ds: lakebed.Dataset) -> None:
    """Subscripts may be chained, or given together with the row."""
    ds.m[0][1] = 5
    ds.m[0, 0, 1:] = [1, 2]
    ds.m[1][0:2][0] = 9
    ds.m[2][[0, 1], [2, 0]] = 4
    assert ds.m.numpy().tolist() == [
        [[0, 1, 2], [5, 5, 5]],
        [[9, 9, 9], [0, 0, 0]],
        [[0, 0, 4], [4, 0, 0]],
    ]


def test_parts_of_several_samples_take_a_value_each(ds: lakebed.Dataset) -> None:
    """The first axis of the value runs over the rows."""
    ds.m[:, 0] = [1, 2, 3]
    ds.m[1:, 1, 2] = [7, 8]
    assert ds.m.numpy()[:, 0].tolist() == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    assert ds.m.numpy()[:, 1, 2].tolist() == [0, 7, 8]
    ds.m[:, 0] = 5
    assert ds.m.numpy()[:, 0].tolist() == [[5.0] * 3] * 3
    with pytest.raises(lakebed.SampleUpdateError, match="length"):
        ds.m[:, 0] = [5, 6]


@pytest.mark.parametrize(("item", "value"), [((0, 5), 1), ((0, 0, 0, 0), 1), ((0, 0), [1, 2]), ((0, 0), "x")])
def test_parts_that_are_not_there(ds: lakebed.Dataset, item: Any, value: Any) -> None:
    """The sample stays as it was, and so does the tensor's length."""
    with pytest.raises(lakebed.SampleUpdateError):
        ds.m[item] = value
    assert ds.m.numpy().tolist() == np.zeros((3, 2, 3)).tolist()


def test_text_has_no_parts_lists_have_items() -> None:
    """A list's item can be replaced; a text only as a whole."""
    ds = create_on(new_memory())
    ds.create_tensor("t", htype="text").append("abc")
    ds.create_tensor("l", htype="list").append([1, [2], "x"])
    ds.create_tensor("j", htype="json").append({"a": 1})
    ds.l[0][1] = {"deep": 3}
    ds.j[0] = [1, {"b": 2}]
    assert ds.l.list() == [[1, {"deep": 3}, "x"]]
    assert ds.j.dict() == [[1, {"b": 2}]]
    for name in ("t", "j"):
        with pytest.raises(lakebed.SampleUpdateError, match="whole"):
            ds[name][0][0] = "w"


def test_class_names_stand_for_their_numbers() -> None:
    """A new name is added when a whole sample is assigned."""
    ds = create_on(new_memory())
    labels = ds.create_tensor("labels", htype="class_label", class_names=["a", "b"])
    labels.extend([["a", "b"], ["a", "a"]])
    labels[1, 1] = "b"
    labels[0] = ["c", "a"]
    assert labels.numpy().tolist() == [[2, 0], [0, 1]]
    assert labels.info.class_names == ["a", "b", "c"]
    with pytest.raises(lakebed.SampleUpdateError, match="unknown"):
        labels[0, 0] = "z"


# -- sequences -------------------------------------------------------------------------------------------------


@pytest.fixture
def rows() -> lakebed.Tensor:
    """Sequences of 2, 0, 3 and 1 numbers."""
    ds = create_on(new_memory())
    tensor = ds.create_tensor("s", htype="sequence", dtype="int64")
    tensor.extend([[1, 2], [], [3, 4, 5], [6]])
    return tensor


def items(tensor: lakebed.Tensor) -> list[list[int]]:
    """The numbers of every sequence."""
    return [[int(item[0]) for item in row] for row in tensor.numpy(aslist=True)]


def test_items_of_a_sequence(rows: lakebed.Tensor) -> None:
    """One item, some, a part of one, negative numbers."""
    rows[0][1] = 20
    rows[2, 0:2] = [30, 40]
    rows[2][-1] = 50
    rows[3, 0, 0] = 60
    rows[2, 2] = [[50]]
    assert items(rows) == [[1, 20], [], [30, 40, 50], [60]]
    for item in ((0, 2), (1, 0)):
        with pytest.raises(lakebed.SampleUpdateError):
            rows[item] = 1


def test_whole_sequences_may_change_their_length(rows: lakebed.Tensor) -> None:
    """Companions with one entry per item follow; ids stay those of the rows."""
    ids = rows._companion("id")
    before = [ids.value(i).tolist() for i in range(4)] if ids is not None else []
    rows[0] = [7]
    rows[1] = [8, 9]
    rows[2:4] = [[], [1, 2, 3]]
    assert items(rows) == [[7], [8, 9], [], [1, 2, 3]]
    shape, ids = rows._companion("shape"), rows._companion("id")
    assert shape is not None
    assert ids is not None
    assert (shape.state.length, ids.state.length) == (6, 4)
    assert [ids.value(i).tolist() for i in range(4)] == before


def test_a_sequence_behind_the_last(rows: lakebed.Tensor) -> None:
    """The gap is filled with empty sequences."""
    rows[6] = [9]
    assert items(rows) == [[1, 2], [], [3, 4, 5], [6], [], [], [9]]


# -- tiled samples ---------------------------------------------------------------------------------------------

LAYOUTS = [
    {},
    {"sample_compression": "lz4"},
    {"chunk_compression": "lz4"},
    {"sample_compression": "png", "htype": "image"},
]


def tiled(**how: Any) -> tuple[lakebed.Dataset, Array]:
    """A dataset whose first sample is cut into tiles, committed, and that sample."""
    ds = create_on(new_memory())
    image = (np.arange(60 * 50) % 251).reshape(60, 50).astype(np.uint8)
    tensor = ds.create_tensor("x", dtype="uint8", tiling_threshold=1000, **how)
    tensor.append(image)
    tensor.append(image[:3, :3])
    ds.commit()
    return ds, image[..., None] if how.get("htype") else image


SUBSCRIPTS: list[Any] = [
    (slice(10, 40), slice(20, 30)),
    (5,),
    (slice(None), 7),
    (59, 49),
    (slice(None, None, 3), slice(40, None, -2)),
    (slice(30, 33), Ellipsis),
    (slice(0, 0),),
    ([0, 59], [49, 0]),
]


@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("subscript", SUBSCRIPTS)
def test_a_part_of_a_tiled_sample(how: dict[str, Any], subscript: Any) -> None:
    """It reads back as an array would, and the commit before keeps its own, inherited tiles."""
    ds, image = tiled(**how)
    expected = image.copy()
    expected[subscript] = 200
    ds.x[0][subscript] = 200
    assert np.array_equal(ds.x[0].numpy(), expected)
    ds.flush()
    again = open_on(ds.storage)
    assert np.array_equal(again.x[0].numpy(), expected)
    assert np.array_equal(again.x[1].numpy(), image[:3, :3])
    again.checkout(str(again.commit_id))
    assert np.array_equal(again.x[0].numpy(), image)


def test_only_touched_tiles_are_written() -> None:
    """The other chunks of the sample stay where the commit before put them."""
    ds, _ = tiled()
    before = ds._session.schema().tensor("x").table
    ds.x[0][0:2, 0:2] = 9
    ds.flush()
    after = ds._session.schema().tensor("x").table
    keys = [{t.key(row) for row in range(len(t))} for t in (before, after)]
    assert len(keys[0]) == len(keys[1]) > 3
    assert len(keys[0] & keys[1]) == len(keys[0]) - 1


def test_values_are_spread_over_tiles() -> None:
    """A value of the part's shape, or one that broadcasts to it, lands where it belongs."""
    ds, image = tiled()
    value = np.arange(30 * 20).reshape(30, 20).astype(np.uint8)
    ds.x[0][20:50, 15:35] = value
    ds.x[0, 0] = np.arange(50)
    ds.x[0][10:20][2:4, 5] = [[7], [8]][0]
    expected = image.copy()
    expected[20:50, 15:35] = value
    expected[0] = np.arange(50)
    expected[12:14, 5] = 7
    assert np.array_equal(ds.x[0].numpy(), expected)
    with pytest.raises(lakebed.SampleUpdateError):
        ds.x[0][0:3, 0:3] = np.zeros((2, 2))


# -- datasets --------------------------------------------------------------------------------------------------


def test_assigning_through_the_dataset(ds: lakebed.Dataset) -> None:
    """A row, several, a column by item or attribute, through groups."""
    ds.create_tensor("g/c", dtype="float32").extend([1.0, 2.0])
    ds[0]["n"] = 10
    ds[1:3]["n"] = [20, 30]
    ds["n"][3] = 40
    ds.n[4] = 50
    ds["g"][0]["c"] = 7
    ds[1]["g/c"] = 8
    assert flat(ds.n) == [[10], [20], [30], [40], [50]]
    assert flat(ds["g/c"]) == [[7.0], [8.0]]
    ds["n"] = [1, 2, 3, 4, 5]
    ds.t = ["x", "y", "z"]
    ds[0].t = "w"
    assert flat(ds.n) == [[1], [2], [3], [4], [5]]
    assert ds.t.text() == ["w", "y", "z"]


def test_what_can_not_be_assigned_through_the_dataset(ds: lakebed.Dataset) -> None:
    """Only tensors can; attributes of no tensor's name are plain attributes."""
    ds.create_group("g")
    for item in (0, slice(2), 1.5, None, "g"):
        with pytest.raises(TypeError):
            ds[item] = 1
    with pytest.raises(IndexError):
        ds[9]["n"] = 1
    with pytest.raises(AttributeError):
        ds.tensors = 5  # type: ignore[misc, assignment]
    ds.note = 5
    assert ds.note == 5


def test_update_replaces_all_or_nothing(ds: lakebed.Dataset) -> None:
    """If one value does not fit, no tensor changes."""
    ds[0].update({"n": 100, "t": "hello"})
    assert (flat(ds.n)[0], ds.t[0].text()) == ([100], "hello")
    before = visible(ds)
    for bad in ({"n": 1, "t": "q", "m": "bad"}, {"n": 1.5, "t": "q"}, {"t": "q", "n": np.zeros((2, 2), int)}):
        with pytest.raises(lakebed.SampleUpdateError):
            ds[0].update(bad)
        assert visible(ds) == before
    with pytest.raises(lakebed.TensorDoesNotExistError):
        ds[0].update({"n": 1, "nope": 2})
    with pytest.raises(TypeError):
        ds[0].update([1])
    ds[1:3].update({"n": [7, 8], "t": ["u", "v"]})
    assert (flat(ds.n)[1:3], ds.t[1:3].text()) == ([[7], [8]], ["u", "v"])


def test_changes_are_seen_by_others_once_published(ds: lakebed.Dataset) -> None:
    """And only whole ones."""
    ds.flush()
    other = open_on(ds.storage)
    ds.n[0] = 99
    assert flat(open_on(copy_of(ds.storage)).n)[0] == [0]  # type: ignore[arg-type]
    ds.flush()
    assert flat(other.n)[0] == [0]
    assert flat(open_on(ds.storage).n)[0] == [99]


# -- in-place operators ----------------------------------------------------------------------------------------


def test_in_place_operators(ds: lakebed.Dataset) -> None:
    """On a tensor, a selection, a part of a sample, through the dataset."""
    n = ds.n
    n += 1
    ds.n *= 10
    ds["n"] -= 5
    assert flat(ds.n) == [[5], [15], [25], [35], [45]]
    n[:3] //= 10
    n[4] %= 7
    ds[3]["n"] += 5
    assert flat(ds.n) == [[0], [1], [2], [40], [3]]
    n <<= 1
    n |= 1
    n ^= 3
    n &= 255
    n >>= 1
    n **= 2
    assert flat(ds.n) == [[v * v] for v in [((x << 1 | 1) ^ 3) >> 1 for x in (0, 1, 2, 40, 3)]]
    ds.m[1] += 0.5
    ds.m[1][0] -= 1
    ds.m[2, :, 1] /= 2
    assert ds.m[1].numpy().tolist() == [[-0.5] * 3, [0.5] * 3]
    n += ds.n
    assert ds.n[3].numpy().tolist() == [2 * (((40 << 1 | 1) ^ 3) >> 1) ** 2]


def test_in_place_operators_that_do_not_fit(ds: lakebed.Dataset) -> None:
    """The dtype stays that of the tensor; ragged tensors have no array to compute on."""
    with pytest.raises(lakebed.SampleUpdateError):
        ds.n /= 2
    with pytest.raises(lakebed.SampleUpdateError):
        ds.n += [1, 2]
    ds.n.append([1, 2])
    with pytest.raises(lakebed.SampleUpdateError, match="different shapes"):
        ds.n += 1
    ds.n[:5] += 1
    assert flat(ds.n) == [[1], [2], [3], [4], [5], [1, 2]]


# -- against a model -------------------------------------------------------------------------------------------

ARRAYS = st.integers(0, 3).flatmap(
    lambda n: st.lists(st.integers(-100, 100), min_size=n, max_size=n).map(
        lambda v: np.array(v, dtype=np.int64)
    )
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.lists(ARRAYS, min_size=1, max_size=5)),
        st.tuples(st.just("set"), st.integers(0, 12), ARRAYS),
        st.tuples(st.just("part"), st.integers(0, 12), st.integers(-9, 9)),
        st.tuples(st.just("slice"), st.integers(0, 6), st.lists(ARRAYS, min_size=1, max_size=3)),
        st.tuples(st.just("add"), st.integers(0, 12), st.integers(-9, 9)),
        st.tuples(st.just("pop"), st.lists(st.integers(0, 12), max_size=4, unique=True)),
        st.tuples(st.just("clear")),
        st.tuples(st.just("rechunk")),
        st.tuples(st.just("flush")),
        st.tuples(st.just("commit")),
    ),
    max_size=14,
)


def _model_step(
    tensor: lakebed.Tensor, ds: lakebed.Dataset, model: list[Array], step: tuple[Any, ...]
) -> None:
    """Do one step to the tensor and to a list of arrays."""
    kind, *args = step
    if kind == "extend":
        tensor.extend(args[0])
        model.extend(args[0])
    elif kind == "set":
        tensor[args[0]] = args[1]
        model.extend([np.zeros(0, np.int64)] * (args[0] + 1 - len(model)))
        model[args[0]] = args[1]
    elif kind in ("part", "add") and args[0] < len(model):
        if kind == "part":
            tensor[args[0]][0:2] = args[1]
            model[args[0]] = model[args[0]].copy()
            model[args[0]][0:2] = args[1]
        else:
            tensor[args[0]] += args[1]
            model[args[0]] = model[args[0]] + args[1]
    elif kind == "slice" and args[0] + len(args[1]) <= len(model):
        tensor[args[0] : args[0] + len(args[1])] = args[1]
        model[args[0] : args[0] + len(args[1])] = args[1]
    elif kind == "pop":
        rows = [row for row in args[0] if row < len(model)]
        if rows:
            tensor.pop(rows)
            for row in sorted(rows, reverse=True):
                del model[row]
    elif kind == "clear":
        tensor.clear()
        model.clear()
    elif kind == "rechunk":
        ds.rechunk()
    elif kind == "flush":
        ds.flush()
    elif kind == "commit":
        ds.commit(allow_empty=True)


@settings(max_examples=examples(60), deadline=None)
@given(
    steps=STEPS,
    compression=st.sampled_from([{}, {"sample_compression": "lz4"}, {"chunk_compression": "lz4"}]),
)
def test_any_changes_read_back_like_those_of_a_list(
    steps: list[tuple[Any, ...]], compression: dict[str, Any]
) -> None:
    """Whatever is done, in memory and after opening again; hidden companions stay in step."""
    ds = create_on(new_memory())
    tensor = ds.create_tensor("x", dtype="int64", max_chunk_size=200, **compression)
    tensor.append(np.array([7], dtype=np.int64))
    model = [np.array([7], dtype=np.int64)]
    for step in steps:
        _model_step(tensor, ds, model, step)
    ds.flush()
    for seen in (ds, open_on(ds.storage)):
        if any(len(v) for v in model):
            assert [v.tolist() for v in seen.x.numpy(aslist=True)] == [v.tolist() for v in model]
        assert len(seen["_x_shape"]) == len(seen["_x_id"]) == len(seen.x) == len(model)
        if model:
            assert [int(s.sum()) for s in seen["_x_shape"].numpy(aslist=True)] == [len(v) for v in model]


ROWS = st.lists(st.integers(-9, 9), max_size=4)
SEQUENCE_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.lists(ROWS, min_size=1, max_size=4)),
        st.tuples(st.just("set"), st.integers(0, 9), ROWS),
        st.tuples(st.just("item"), st.integers(0, 9), st.integers(0, 3), st.integers(-9, 9)),
        st.tuples(st.just("pop"), st.lists(st.integers(0, 9), max_size=3, unique=True)),
        st.tuples(st.just("flush")),
        st.tuples(st.just("commit")),
    ),
    max_size=12,
)


def _sequence_step(ds: lakebed.Dataset, model: list[list[int]], step: tuple[Any, ...]) -> None:
    """Do one step to the sequences and to a list of lists."""
    kind, *args = step
    if kind == "extend":
        ds.s.extend(args[0])
        model.extend(list(row) for row in args[0])
    elif kind == "set":
        ds.s[args[0]] = args[1]
        model.extend([] for _ in range(args[0] + 1 - len(model)))
        model[args[0]] = list(args[1])
    elif kind == "item" and args[0] < len(model) and args[1] < len(model[args[0]]):
        ds.s[args[0], args[1]] = args[2]
        model[args[0]][args[1]] = args[2]
    elif kind == "pop":
        rows = [row for row in args[0] if row < len(model)]
        if rows:
            ds.s.pop(rows)
            for row in sorted(rows, reverse=True):
                del model[row]
    elif kind == "flush":
        ds.flush()
    elif kind == "commit":
        ds.commit(allow_empty=True)


@settings(max_examples=examples(40), deadline=None)
@given(steps=SEQUENCE_STEPS)
def test_any_changes_of_sequences_read_back_like_those_of_lists(steps: list[tuple[Any, ...]]) -> None:
    """Items and their companions stay in step, whatever lengths change; every version can be opened."""
    ds = create_on(new_memory())
    ds.create_tensor("s", htype="sequence", dtype="int64").extend([[1, 2], [3]])
    model = [[1, 2], [3]]
    for step in steps:
        _sequence_step(ds, model, step)
    ds.commit(allow_empty=True)
    for seen in (ds, open_on(ds.storage)):
        if any(model):
            assert items(seen.s) == model
        assert (len(seen["_s_id"]), len(seen["_s_shape"])) == (len(model), sum(map(len, model)))
    for commit in ds.commits:
        again = open_on(ds.storage)
        again.checkout(commit["commit"])
        assert len(again.s) == len(again["_s_id"])


def test_an_ordinary_sample_stays_one_however_large() -> None:
    """Only appending, and replacing what is tiled already, cuts samples into tiles."""
    ds = create_on(new_memory())
    ds.create_tensor("x", dtype="uint8", tiling_threshold=1000)
    large = np.arange(3000, dtype=np.uint16).astype(np.uint8).reshape(50, 60)
    ds.x.extend([large, np.zeros((2, 2), np.uint8)])
    ds.x[1] = large
    ds.flush()
    state = ds.x._state
    assert state.tiles.indices.tolist() == [0]
    assert state.meta.tiling_threshold == 1000
    ds.x[0] = large + np.uint8(1)
    assert ds.x._state.tiles.indices.tolist() == [0]
    assert np.array_equal(ds.x[0].numpy(), large + np.uint8(1))
    assert np.array_equal(ds.x[1].numpy(), large)
