"""Functions over items: what ends up in the dataset, whoever does the work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import (
    AllSamplesSkippedError,
    HubComposeEmptyListError,
    HubComposeIncompatibleFunction,
    InvalidInputDataError,
    InvalidOutputDatasetError,
    InvalidTransformDataset,
    SampleAppendError,
    SampleAppendingError,
    TensorDoesNotExistError,
    TensorMismatchError,
    TransformError,
    UnsupportedParameterException,
    UnsupportedSchedulerError,
    WorkerDied,
)
from lakebed.maintenance.verify import verify
from unit_tests.effort import examples
from unit_tests.lakebed.transforms import functions

WORKERS = {
    "serial": {"num_workers": 0},
    "threads": {"num_workers": 2},
    "process": {"num_workers": 1, "scheduler": "processed"},
}
Make = Callable[[], lakebed.Dataset]


@pytest.fixture(params=["serial", "threads"])
def workers(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"progressbar": False, **WORKERS[request.param]}


@pytest.fixture(params=WORKERS)
def anywhere(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Workers of every kind."""
    return {"progressbar": False, **WORKERS[request.param]}


@pytest.fixture(params=["serial", "threads", pytest.param("process", marks=pytest.mark.soak)])
def nearby(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The same where other tests see what is special about processes."""
    return {"progressbar": False, **WORKERS[request.param]}


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make datasets with tensors ``a`` (whatever comes first) and ``b`` (text)."""
    made = iter(range(100))

    def new() -> lakebed.Dataset:
        ds = lakebed.empty(tmp_path / f"ds{next(made)}")
        ds.create_tensor("a")
        ds.create_tensor("b", htype="text")
        return ds

    return new


def rows(ds: lakebed.Dataset) -> list[tuple[Any, str]]:
    """Rows of a dataset as a new reader sees them."""
    ds = lakebed.load(ds.path, read_only=True)
    findings = verify(ds.storage, deep=True)
    assert findings.is_sound, findings.damage
    return [(ds.a[i].numpy().item(), ds.b[i].text()) for i in range(len(ds))]


# -- rows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50, 1000])
def test_one_row_an_item_in_order(make: Make, workers: dict[str, Any], count: int) -> None:
    ds = make()
    report = functions.pair(factor=3).eval(list(range(count)), ds, **workers)
    assert rows(ds) == [(3 * i, f"item {i}") for i in range(count)]
    assert (report.items, report.rows, report.skipped) == (count, count, 0)


def test_many_rows_an_item_and_none(make: Make, nearby: dict[str, Any]) -> None:
    ds = make()
    functions.copies().eval([2, 0, 3, 1, 0], ds, **nearby)
    assert rows(ds) == [(n, f"{n}.{i}") for n in (2, 0, 3, 1, 0) for i in range(n)]


def test_rows_come_after_those_that_are_there(make: Make, workers: dict[str, Any]) -> None:
    ds = make()
    ds.append({"a": 7, "b": "first"})
    functions.pair().eval([1, 2], ds, **workers)
    functions.pair().eval([3], ds, **workers)
    assert [a for a, _ in rows(ds)] == [7, 1, 2, 3]


def test_images_and_labels_of_several_workers(tmp_path: Path, anywhere: dict[str, Any]) -> None:
    """Names of classes that workers meet on their own are one list in the end."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("images", htype="image", sample_compression="png")
    ds.create_tensor("labels", htype="class_label")
    functions.images().eval(range(60), ds, **{**anywhere, "num_workers": 2 * bool(anywhere["num_workers"])})
    ds = lakebed.load(tmp_path / "ds", read_only=True)
    assert sorted(ds.labels.info.class_names) == ["cat", "dog", "emu", "zebra"]
    names = [ds.labels.info.class_names[int(n)] for n in ds.labels.numpy().ravel()]
    assert names == [("cat", "dog", "emu")[i % 3] if i % 5 else "zebra" for i in range(60)]
    for i in (0, 17, 59):
        rng = np.random.default_rng(i)
        assert np.array_equal(ds.images[i].numpy(), rng.integers(0, 255, (40, 30 + i % 7, 3), np.uint8))
    assert verify(ds.storage, deep=True).is_sound


def test_the_first_row_settles_the_type_for_all_workers(make: Make, workers: dict[str, Any]) -> None:
    """Integers after a float are floats, in whatever part they come."""
    ds = make()
    functions.pair().eval([0.5, *range(1, 300)], ds, **workers)
    assert ds.a.dtype == np.float64
    assert [a for a, _ in rows(ds)] == [0.5, *range(1, 300)]


def test_a_tensor_that_never_gets_a_value_does_not_let_items_be_done_twice(
    make: Make, workers: dict[str, Any]
) -> None:
    calls = []

    @lakebed.compute
    def without_a(item: int, out: Any) -> None:
        calls.append(item)
        out.append({"a": None, "b": str(item)})

    ds = make()
    without_a().eval(range(300), ds, **workers)
    assert sorted(calls) == list(range(300))
    assert ds.b.data()["value"] == [str(i) for i in range(300)]


def test_arrays_that_a_function_uses_again_are_kept_as_they_were(make: Make) -> None:
    buffer = np.zeros(3, np.int64)

    @lakebed.compute
    def reused(item: int, out: Any) -> None:
        buffer[:] = item
        out.append({"a": buffer, "b": "x"})

    ds = make()
    reused().eval(range(5), ds, progressbar=False)
    assert ds.a.numpy().tolist() == [[i] * 3 for i in range(5)]


@pytest.mark.parametrize("kind", ["list", "tuple", "range", "array", "arrow", "iterator", "set", "indexed"])
def test_inputs_of_every_kind(make: Make, anywhere: dict[str, Any], kind: str) -> None:
    data: Any = {
        "list": [0, 1, 2, 3],
        "tuple": (0, 1, 2, 3),
        "range": range(4),
        "array": np.arange(4),
        "arrow": pa.array([0, 1, 2, 3]),
        "iterator": iter([0, 1, 2, 3]),
        "set": {0, 1, 2, 3},
        "indexed": Indexed(),
    }[kind]
    ds = make()
    if "scheduler" in anywhere and kind not in ("arrow", "indexed"):
        pytest.skip("other tests send lists and arrays to processes, and these go as they do")
    functions.pair().eval(data, ds, **anywhere)
    assert rows(ds) == [(i, f"item {i}") for i in range(4)]


class Indexed:
    """Asked for items by number."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> int:
        return range(4)[i]


def test_a_long_generator_is_drawn_as_it_is_needed(make: Make, workers: dict[str, Any]) -> None:
    ds = make()
    functions.pair().eval((i for i in range(2500)), ds, **workers)
    assert [a for a, _ in rows(ds)] == list(range(2500))


def test_rows_of_a_table_are_dictionaries(make: Make, workers: dict[str, Any]) -> None:
    ds = make()
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})
    lakebed.transform(_same, table, ds, num_workers=workers["num_workers"])
    assert rows(ds) == [(1, "x"), (2, "y"), (3, "")]


def _same(row: dict[str, Any]) -> dict[str, Any]:
    return row


@pytest.mark.parametrize("data", [{"a": 1}, "text", b"bytes", np.array(3), 5, None])
def test_what_has_no_items_is_refused(make: Make, data: Any) -> None:
    ds = make()
    with pytest.raises(InvalidInputDataError):
        functions.pair().eval(data, ds, progressbar=False)


# -- datasets ----------------------------------------------------------------------------------------------------


def filled(ds: lakebed.Dataset, count: int = 6) -> lakebed.Dataset:
    ds.extend({"a": np.arange(count), "b": [str(i) for i in range(count)]})
    ds.flush()
    return ds


def test_rows_of_a_dataset_and_of_views(make: Make, anywhere: dict[str, Any]) -> None:
    source = filled(make())
    views = ((source, range(6)), (source[1:4], range(1, 4)), (source[[0, 5]], (0, 5)))
    for view, expected in views[2:] if "scheduler" in anywhere else views:
        ds = make()
        functions.plus_one().eval(view, ds, **anywhere)
        assert rows(ds) == [(i + 1, str(i)) for i in expected]


def test_workers_read_the_version_that_was_given(make: Make) -> None:
    """Rows that were added to the input after the call began, or on another commit, are not taken."""
    source = filled(make())
    commit = source.commit()
    source.append({"a": 100, "b": "later"})
    source.flush()
    old = lakebed.load(f"{source.path}@{commit}", read_only=True)
    ds = make()
    functions.plus_one().eval(old, ds, num_workers=2, scheduler="processed", progressbar=False)
    assert [a for a, _ in rows(ds)] == [1, 2, 3, 4, 5, 6]


def test_tensors_of_different_lengths_are_cut_or_padded(make: Make, workers: dict[str, Any]) -> None:
    source = make()
    source.a.extend([1, 2, 3])
    source.b.extend(["x"])
    source.flush()
    ds = make()
    functions.plus_one().eval(source, ds, **workers)
    assert rows(ds) == [(2, "x")]
    padded = make()
    functions.plus_one().eval(source, padded, pad_data_in=True, **workers)
    assert padded.a.numpy().ravel().tolist() == [2, 3, 4]


def test_in_place(make: Make, nearby: dict[str, Any]) -> None:
    ds = filled(make())
    ds.commit()
    functions.plus_one().eval(ds, **nearby)
    assert rows(ds) == [(i + 1, str(i)) for i in range(6)]
    assert len(ds.commits) == 1
    ds.reset()
    assert rows(ds) == [(i, str(i)) for i in range(6)]


def test_in_place_keeps_infos_and_tensors_that_are_left_out(tmp_path: Path, workers: dict[str, Any]) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("a")
    ds.create_tensor("l", htype="class_label", class_names=["cat", "dog"])
    ds.a.info["unit"] = "mm"
    ds.extend({"a": [1, 2], "l": ["dog", "cat"]})
    only = lakebed.compute(_only_a)
    only().eval(ds, skip_ok=True, **workers)
    assert ds.a.numpy().ravel().tolist() == [10, 20]
    assert ds.l.numpy().ravel().tolist() == [1, 0]
    assert ds.a.info["unit"] == "mm"
    assert ds.l.info.class_names == ["cat", "dog"]


def _only_a(row: Any, out: Any) -> None:
    out.a.append(row.a.numpy() * 10)


def test_in_place_refuses_rows_that_would_not_match_the_others(make: Make) -> None:
    ds = filled(make())

    @lakebed.compute
    def twice(row: Any, out: Any) -> None:
        out.a.extend([row.a.numpy()] * 2)

    with pytest.raises(InvalidOutputDatasetError, match="none for tensor 'b', which keeps 6"):
        twice().eval(ds, skip_ok=True, progressbar=False)
    assert rows(ds) == [(i, str(i)) for i in range(6)]


def test_in_place_of_a_view_is_refused(make: Make) -> None:
    ds = filled(make())
    with pytest.raises(InvalidOutputDatasetError, match="would drop the other rows"):
        functions.plus_one().eval(ds[:2], progressbar=False)
    assert len(rows(ds)) == 6


def test_read_only(make: Make) -> None:
    ds = filled(make())
    ds.close()
    reader = lakebed.load(ds.path, read_only=True)
    with pytest.raises(InvalidOutputDatasetError, match="read_only"):
        functions.plus_one().eval(reader, progressbar=False)
    report = functions.plus_one().eval(reader, read_only_ok=True, progressbar=False)
    assert report.rows == 6
    assert rows(ds) == [(i, str(i)) for i in range(6)]


# -- errors ------------------------------------------------------------------------------------------------------


def test_an_item_that_fails_leaves_the_dataset_as_it_was(make: Make, anywhere: dict[str, Any]) -> None:
    ds = make()
    ds.append({"a": 7, "b": "first"})
    with pytest.raises(
        TransformError, match=r"failed at index 40 of the input data on the item: 40\."
    ) as caught:
        functions.fails_at(bad=40).eval(list(range(100)), ds, **anywhere)
    assert isinstance(caught.value.__cause__, KeyError)
    assert (caught.value.index, caught.value.checkpoint) == (40, None)
    assert rows(ds) == [(7, "first")]
    functions.fails_at(bad=None).eval(list(range(3)), ds, **anywhere)
    assert [a for a, _ in rows(ds)] == [7, 0, 1, 2]


def test_the_item_that_failed_is_handed_back(make: Make, nearby: dict[str, Any]) -> None:
    """So that it can be taken out of the input."""
    ds = make()
    items = list(range(50))
    with pytest.raises(TransformError) as caught:
        functions.fails_at(bad=40).eval(items, ds, **nearby)
    items.remove(caught.value.sample)
    functions.fails_at(bad=40).eval(items, ds, **nearby)
    assert [a for a, _ in rows(ds)] == [*range(40), *range(41, 50)]


def test_the_row_that_failed_is_handed_back(make: Make, workers: dict[str, Any]) -> None:
    @lakebed.compute
    def fails(row: Any, out: Any) -> None:
        out.a.append(1 // (row.a.numpy().item() - 4))

    ds = filled(make())
    with pytest.raises(TransformError) as caught:
        fails().eval(ds, skip_ok=True, **workers)
    assert (caught.value.index, caught.value.sample.b.text()) == (4, "4")


def test_what_was_only_iterated_over_is_not_asked_again(make: Make, workers: dict[str, Any]) -> None:
    with pytest.raises(TransformError) as caught:
        functions.fails_at(bad=4).eval(iter(range(9)), make(), **workers)
    assert (caught.value.index, caught.value.item, caught.value.sample) == (4, "4", None)


def test_a_sample_that_does_not_fit_names_its_item(make: Make, workers: dict[str, Any]) -> None:
    ds = make()
    with pytest.raises(TransformError, match="index 40") as caught:
        functions.unencodable_at(bad=40).eval(list(range(100)), ds, **workers)
    assert isinstance(caught.value.__cause__, SampleAppendError)
    assert rows(ds) == []


@pytest.mark.parametrize("function", [functions.fails_at, functions.unencodable_at])
def test_items_that_fail_can_be_left_out(
    make: Make, anywhere: dict[str, Any], function: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ds = make()
    report = function(bad=40).eval(list(range(100)), ds, ignore_errors=True, **anywhere)
    assert [a for a, _ in rows(ds)] == [i for i in range(100) if i != 40]
    assert (report.items, report.rows, report.skipped) == (100, 99, 1)
    assert (report.errors[0].index, report.errors[0].item) == (40, "40")
    assert report.file is None  # the report says it all
    assert "No. of samples skipped: 1 (1.0%)" in capsys.readouterr().out


def test_all_items_left_out_is_an_error(make: Make, workers: dict[str, Any]) -> None:
    ds = make()
    with pytest.raises(AllSamplesSkippedError, match=r"1 and 2"):
        functions.raises_unpicklable().eval([1, 2], ds, ignore_errors=True, **workers)
    assert rows(ds) == []


def test_errors_that_cannot_be_pickled_are_told(make: Make) -> None:
    with pytest.raises(TransformError) as caught:
        functions.raises_unpicklable().eval(
            [1], make(), num_workers=1, scheduler="processed", progressbar=False
        )
    assert "Unpicklable: 1 and 2" in str(caught.value.__cause__)
    assert any("raises_unpicklable" in note for note in caught.value.__cause__.__notes__)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (lambda item, out: out.a.append(item), TensorMismatchError),
        (lambda item, out: out.c.append(item), TensorDoesNotExistError),
        (lambda item, out: out.append({"a": item, "b": "", "c": 1}), TensorDoesNotExistError),
        (lambda item, out: (out.a.extend([1, 2]), out.b.append("x")), InvalidTransformDataset),
        (lambda item, out: out.append([item]), SampleAppendingError),
        (lambda item, out: out.append({"a": item}, skip_ok=True), ValueError),
    ],
    ids=["one missing", "unknown", "unknown in a row", "uneven", "no row", "skip_ok in append"],
)
def test_rows_that_do_not_fit_the_dataset(make: Make, function: Any, cause: type[Exception]) -> None:
    ds = make()
    with pytest.raises(TransformError, match="index 0") as caught:
        lakebed.compute(function)().eval([1, 2], ds, progressbar=False)
    assert isinstance(caught.value.__cause__, cause)
    assert rows(ds) == []


def test_a_function_that_adds_nothing_at_all_is_an_error(make: Make) -> None:
    nothing = lakebed.compute(lambda item, out: None, name="nothing")
    with pytest.raises(TransformError, match="no item became a row"):
        nothing().eval([1, 2], make(), progressbar=False)
    assert nothing().eval([1, 2], make(), skip_ok=True, progressbar=False).rows == 0


def test_rows_may_leave_tensors_out(make: Make, workers: dict[str, Any]) -> None:
    ds = make()
    lakebed.compute(_sometimes)().eval([1, 2, 3, 4], ds, skip_ok=True, check_lengths=False, **workers)
    assert ds.a.numpy().ravel().tolist() == [1, 2, 3, 4]
    assert ds.b.data()["value"] == ["1", "3"]


def _sometimes(item: int, out: Any) -> None:
    out.a.append(item)
    if item % 2:
        out.b.append(str(item))


def test_an_output_of_uneven_tensors_is_refused(make: Make) -> None:
    ds = make()
    ds.a.append(1)
    with pytest.raises(InvalidOutputDatasetError, match="check_lengths=False"):
        functions.pair().eval([1], ds, progressbar=False)
    functions.pair().eval([5], ds, check_lengths=False, progressbar=False)
    assert (len(ds.a), len(ds.b)) == (2, 1)


def test_arguments_that_contradict_are_refused(make: Make) -> None:
    ds = make()
    with pytest.raises(UnsupportedSchedulerError, match="'bad'"):
        functions.pair().eval([1], ds, scheduler="bad")
    with pytest.raises(ValueError, match="num_workers is -1"):
        functions.pair().eval([1], ds, num_workers=-1)
    with pytest.raises(UnsupportedParameterException, match=r"did you mean 'num_workers'\?"):
        functions.pair().eval([1], ds, num_worker=2)
    with pytest.raises(InvalidOutputDatasetError, match="must be a dataset, not list"):
        functions.pair().eval([1])
    with pytest.raises(ValueError, match="inplace"):
        functions.plus_one().eval(ds, checkpoint_interval=1)
    memory = lakebed.empty("mem://transformed-by-processes")
    memory.create_tensor("a")
    with pytest.raises(InvalidOutputDatasetError, match="MemoryProvider"):
        functions.pair().eval([1], memory, num_workers=2, scheduler="processed")


# -- workers -----------------------------------------------------------------------------------------------------


def test_processes_are_others(make: Make) -> None:
    import os

    ds = make()
    functions.process_of().eval(range(50), ds, num_workers=2, scheduler="processed", progressbar=False)
    assert os.getpid() not in {a for a, _ in rows(ds)}


def test_closures_and_lambdas_go_to_processes(make: Make) -> None:
    offset = 10
    ds = make()
    lakebed.compute(lambda item, out: out.append({"a": item + offset, "b": "x"}))().eval(
        [1, 2], ds, num_workers=2, scheduler="processed", progressbar=False
    )
    assert [a for a, _ in rows(ds)] == [11, 12]


def test_a_worker_that_is_killed_once_does_no_harm(make: Make, tmp_path: Path) -> None:
    ds = make()
    functions.dies_at(bad=30, flag=str(tmp_path / "deaths"), times=1).eval(
        list(range(80)), ds, num_workers=2, scheduler="processed", progressbar=False
    )
    assert [a for a, _ in rows(ds)] == list(range(80))


def test_an_item_that_kills_its_worker_again_is_named(make: Make, tmp_path: Path) -> None:
    ds = make()
    with pytest.raises(TransformError, match="index 30") as caught:
        functions.dies_at(bad=30, flag=str(tmp_path / "deaths"), times=2).eval(
            list(range(80)), ds, num_workers=2, scheduler="processed", progressbar=False
        )
    assert isinstance(caught.value.__cause__, WorkerDied)
    assert "SIGKILL" in str(caught.value.__cause__)
    assert caught.value.item == "30"
    assert rows(ds) == []


# -- items of many rows ------------------------------------------------------------------------------------------


@lakebed.compute
def long_item(item: int, out: Any, bad: int | None = None, by_tensor: bool = False) -> None:
    """Ten arrays an item: row by row, or one tensor after the other."""
    if by_tensor:
        out.a.extend([np.full(100, 10 * item + i) for i in range(10)])
    for i in range(10):
        if item == bad and i == 7:
            raise ValueError("in the middle")
        if not by_tensor:
            out.a.append(np.full(100, 10 * item + i))
        out.b.append(f"{item}.{i}")


@pytest.mark.parametrize("by_tensor", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("cache_size", [0, 0.002, 0.01, 16])
def test_rows_of_an_item_are_written_as_they_come(
    make: Make, workers: dict[str, Any], cache_size: float, by_tensor: bool
) -> None:
    """What a call makes is encoded before it ends, if it is more than the cache holds; rows stay in order."""
    ds = make()
    function = long_item(by_tensor=by_tensor)
    report = function.eval(range(7), ds, cache_size=cache_size, **workers)
    assert report.rows == 70
    assert [(int(a[0]), b) for a, b in zip(ds.a.numpy(), ds.b.data()["value"], strict=True)] == [
        (i, f"{i // 10}.{i % 10}") for i in range(70)
    ]


@pytest.mark.parametrize("by_tensor", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("cache_size", [0, 0.002, 16])
def test_nothing_stays_of_an_item_that_fails_in_the_middle(
    make: Make, workers: dict[str, Any], cache_size: float, by_tensor: bool
) -> None:
    ds = make()
    function = long_item(bad=3, by_tensor=by_tensor)
    report = function.eval(range(7), ds, cache_size=cache_size, ignore_errors=True, verbose=False, **workers)
    assert (report.rows, report.skipped) == (60, 1)
    assert ds.a.numpy()[:, 0].tolist() == [i for i in range(70) if i // 10 != 3]
    assert verify(ds.storage, deep=True).is_sound


@pytest.mark.parametrize("cache_size", [0, 16])
def test_unshared_rows_of_a_long_item(make: Make, cache_size: float) -> None:
    def uneven(item: int, out: Any) -> None:
        out.a.extend([np.arange(100)] * 5)
        out.b.extend(["x"] * (4 if item else 5))

    ds = make()
    with pytest.raises(TransformError, match="index 1") as caught:
        lakebed.compute(uneven)().eval([0, 1], ds, cache_size=cache_size, progressbar=False)
    assert isinstance(caught.value.__cause__, InvalidTransformDataset)
    assert "'a' 5, 'b' 4" in str(caught.value.__cause__)
    assert rows(ds) == []


# -- pipelines ---------------------------------------------------------------------------------------------------


@lakebed.compute
def spread(item: int, out: Any) -> None:
    for i in range(2):
        out.append({"number": item + i, "deep/name": f"n{item}"})


@lakebed.compute
def gathered(row: Any, out: Any) -> None:
    if row.number.numpy() != 3:
        out.append({"a": row.number, "b": row.deep.name.text()})


def test_functions_one_after_the_other(make: Make, nearby: dict[str, Any]) -> None:
    """Each is called with every row of the one before."""
    ds = make()
    pipeline = lakebed.compose([spread(), gathered()])
    assert len(pipeline) == 2
    pipeline.eval([1, 3, 5], ds, **nearby)
    assert rows(ds) == [(1, "n1"), (2, "n1"), (4, "n3"), (5, "n5"), (6, "n5")]


def test_compose_takes_calls_only() -> None:
    with pytest.raises(HubComposeEmptyListError):
        lakebed.compose([])
    with pytest.raises(HubComposeIncompatibleFunction, match="index 1"):
        lakebed.compose([spread(), gathered])


def test_a_function_called_with_a_sample_is_itself() -> None:
    assert lakebed.compute(lambda item, factor: item * factor)(factor=3)(5) == 15


# -- functions that return rows ----------------------------------------------------------------------------------


def test_batches(make: Make, anywhere: dict[str, Any]) -> None:
    ds = make()
    options = {name: value for name, value in anywhere.items() if name != "progressbar"}
    lakebed.transform(functions.squares, np.arange(1000), ds, batch_size=64, **options)
    assert rows(ds) == [(i * i, str(i)) for i in range(1000)]


def test_map_in_place_and_into_another(make: Make, anywhere: dict[str, Any]) -> None:
    options = {name: value for name, value in anywhere.items() if name != "progressbar"}
    source, ds = filled(make()), make()
    source.map(functions.doubled, ds, **options)
    assert rows(ds) == [(2 * i, str(i)) for i in range(6)]
    source.map(functions.doubled, **options)
    assert rows(source) == [(2 * i, str(i)) for i in range(6)]


def test_what_a_function_may_return(make: Make) -> None:
    answers = {0: None, 1: {"a": 1, "b": "x"}, 2: [{"a": 2, "b": "y"}, {"a": 3, "b": "z"}], 3: []}
    ds = make()
    lakebed.transform(answers.__getitem__, range(4), ds)
    assert rows(ds) == [(1, "x"), (2, "y"), (3, "z")]
    for wrong in (5, "text", [1]):
        with pytest.raises(TransformError) as caught:
            lakebed.transform(lambda item, wrong=wrong: wrong, [1], ds)
        assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(TransformError) as caught:
        lakebed.transform(lambda batch: {"a": [1], "b": ["x", "y"]}, [1, 2], ds, batch_size=2)
    assert isinstance(caught.value.__cause__, InvalidTransformDataset)
    assert len(rows(ds)) == 3


@settings(max_examples=examples(80))
@given(
    counts=st.lists(st.integers(0, 3), max_size=40),
    count=st.integers(1, 3),
    cache=st.sampled_from([0, 0.0001, 16]),
)
def test_any_counts_of_rows_and_workers(counts: list[int], count: int, cache: float) -> None:
    ds = lakebed.empty("mem://any-counts", overwrite=True)
    ds.create_tensor("a")
    ds.create_tensor("b", htype="text")
    functions.copies().eval(counts, ds, num_workers=count, cache_size=cache, skip_ok=True, progressbar=False)
    assert ds.b.data()["value"] == [f"{n}.{i}" for n in counts for i in range(n)]


@pytest.mark.parametrize("cache_size", [16, 0.0001])
@pytest.mark.parametrize("is_apart", [True, False])
def test_a_bad_row_costs_itself_or_its_item(cache_size: float, is_apart: bool) -> None:
    """Whether the rows of an item wait for its end or are written while it makes them."""
    ds = lakebed.empty("mem://")
    ds.create_tensor("x", dtype="int64")

    def rows(number: int) -> Any:
        for row in range(40):
            yield {"x": "no number" if number == 1 and row in (7, 30) else np.full(10, 100 * number + row)}

    report = lakebed.transform(
        rows, range(3), ds, ignore_errors=True, verbose=False, rows_apart=is_apart, cache_size=cache_size
    )
    good = [100 * number + row for number in range(3) for row in range(40)]
    if is_apart:
        good = [value for value in good if value not in (107, 130)]
        assert (report.skipped, report.skipped_rows, report.rows) == (0, 2, 118)
        assert [entry.item for entry in report.errors] == ["1, row 7 of it", "1, row 30 of it"]
    else:
        good = [value for value in good if not 100 <= value < 200]
        assert (report.skipped, report.skipped_rows, report.rows) == (1, 0, 80)
    assert [int(value[0]) for value in ds.x.numpy(aslist=True)] == good
    assert len(ds) == report.rows


def test_batches_that_all_fail_say_why() -> None:
    """A batch that fails is one item that is left out, and its items are no rows: the cause is told all the same."""
    made = lakebed.empty("mem://batches-that-fail", overwrite=True)
    made.create_tensor("x", dtype="int64")

    def fail(_: Any) -> Any:
        raise KeyError("oops")

    with pytest.raises(AllSamplesSkippedError, match="KeyError: 'oops'"):
        lakebed.transform(fail, list(range(10)), made, batch_size=5, ignore_errors=True, progressbar=False)
