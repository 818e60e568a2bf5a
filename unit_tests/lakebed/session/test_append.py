"""append and extend of a dataset: the rules of 3.x for rows and columns (API.md 2.2; facts tested on 3.9.52)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.testing.faulty import FaultyStorage
from unit_tests.lakebed.datasets import create_on, new_memory, open_on


@pytest.fixture
def ds() -> lakebed.Dataset:
    """Tensors a, b and g/c, still empty."""
    ds = create_on(new_memory())
    ds.create_tensor("a", dtype="int64")
    ds.create_tensor("b", htype="text")
    ds.create_tensor("g/c", dtype="float32")
    return ds


def lengths(ds: lakebed.Dataset) -> list[int]:
    """Lengths of all visible tensors."""
    return [len(t) for t in ds.tensors.values()]


def test_a_row_names_every_tensor(ds: lakebed.Dataset) -> None:
    """A row is a dictionary with one sample per tensor; a group takes names of its own."""
    ds.append({"a": 1, "b": "x", "g/c": 0.5})
    assert lengths(ds) == [1, 1, 1]
    ds["g"].append({"c": 1.5})
    assert ds["g/c"].numpy().tolist() == [[0.5], [1.5]]


def test_rows_that_are_no_dictionary(ds: lakebed.Dataset) -> None:
    """The errors have the 3.x names."""
    with pytest.raises(lakebed.errors.SampleAppendingError, match="dictionary"):
        ds.append([1])  # type: ignore[arg-type]
    with pytest.raises(lakebed.errors.SampleExtendingError, match="dictionary"):
        ds.extend([1])  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["append", "extend"])
def test_missing_and_unknown_tensors(ds: lakebed.Dataset, method: str) -> None:
    """All tensors must be given unless the caller says what to do with the others; unknown ones are refused."""
    call = getattr(ds, method)
    one = {"a": 1} if method == "append" else {"a": [1]}
    with pytest.raises(KeyError, match=r"'b', 'g/c'.*skip_ok"):
        call(one)
    with pytest.raises(lakebed.TensorDoesNotExistError, match="nope"):
        call({**one, "nope": one["a"]}, skip_ok=True)
    call(one, append_empty=True)
    assert lengths(ds) == [1, 1, 1]
    assert ds.b[0].text() == ""
    with pytest.raises(lakebed.errors.EmptyTensorError):
        ds["g/c"][0].numpy()
    call(one, skip_ok=True)
    assert lengths(ds) == [2, 1, 1]


@pytest.mark.parametrize("method", ["append", "extend"])
def test_tensors_that_get_a_row_must_be_of_one_length(ds: lakebed.Dataset, method: str) -> None:
    """Rows do not come apart: what is written together must line up, as in 3.9.52."""
    ds.a.append(7)
    wrap = (lambda v: v) if method == "append" else (lambda v: [v])
    call = getattr(ds, method)
    row: dict[str, Any] = {"a": wrap(1), "b": wrap("x"), "g/c": wrap(1.0)}
    for given, options in ((row, {}), (row, {"skip_ok": True}), ({"a": wrap(1)}, {"append_empty": True})):
        with pytest.raises(ValueError, match="same length"):
            call(given, **options)
    assert lengths(ds) == [1, 0, 0]
    call({"b": wrap("x"), "g/c": wrap(1.0)}, skip_ok=True)
    call(row)
    assert lengths(ds) == [2, 2, 2]


def test_columns_must_be_of_one_length(ds: lakebed.Dataset) -> None:
    """Unequal columns are refused before anything is looked at."""
    with pytest.raises(ValueError, match="not of equal lengths"):
        ds.extend({"a": [1, 2], "b": ["x"], "g/c": [1.0, 2.0]})
    assert lengths(ds) == [0, 0, 0]


def test_nothing_to_add(ds: lakebed.Dataset) -> None:
    """No columns, and columns without rows, change nothing and publish nothing."""
    ds.flush()
    head = ds._session.snapshot.version_id
    ds.extend({}, skip_ok=True)
    ds.extend({"a": [], "b": [], "g/c": np.zeros(0, "f4")})
    ds.extend({"a": pa.array([], pa.int64()), "b": [], "g/c": []})
    ds.flush()
    assert lengths(ds) == [0, 0, 0]
    assert ds._session.snapshot.version_id == head


@pytest.mark.parametrize(
    "column",
    [
        [1, 2, 3],
        (1, 2, 3),
        np.array([1, 2, 3]),
        range(1, 4),
        iter([1, 2, 3]),
        pa.array([1, 2, 3]),
        pa.chunked_array([[1], [2, 3]]),
        {1: "a", 2: "b", 3: "c"}.keys(),
    ],
    ids=lambda c: type(c).__name__,
)
def test_columns_come_in_many_forms(ds: lakebed.Dataset, column: Any) -> None:
    """Anything that yields samples is a column."""
    ds.extend({"a": column, "b": ["x"] * 3, "g/c": np.zeros(3, "f4")})
    assert ds.a.numpy().ravel().tolist() == [1, 2, 3]


@pytest.mark.parametrize("column", ["abc", b"abc", {"x": 1}])
def test_columns_that_are_one_value(ds: lakebed.Dataset, column: Any) -> None:
    """A text or a document is one sample, not a column of letters or keys."""
    with pytest.raises(lakebed.errors.InvalidInputError, match="must be an array or a list"):
        ds.extend({"a": [1], "b": column, "g/c": [1.0]})
    with pytest.raises(lakebed.errors.InvalidInputError, match="must be an array or a list"):
        ds.b.extend(column)
    assert lengths(ds) == [0, 0, 0]


def test_ignore_errors_leaves_out_rows_that_do_not_fit(ds: lakebed.Dataset) -> None:
    """The other rows arrive, whole; nulls of Arrow columns stay nulls."""
    columns = {"a": [1, "bad", 3, 4], "b": pa.array(["p", "q", None, "s"]), "g/c": [1.0, 2.0, 3.0, "x"]}
    ds.extend(columns, ignore_errors=True)
    assert ds.a.numpy().ravel().tolist() == [1, 3]
    assert list(ds.b.values()) == ["p", None]
    assert lengths(ds) == [2, 2, 2]


def test_ignore_errors_does_not_hide_other_failures(ds: lakebed.Dataset) -> None:
    """A lock or a storage that fails is no row that does not fit."""
    ds.read_only = True
    with pytest.raises(lakebed.ReadOnlyModeError):
        ds.extend({"a": [1], "b": ["x"], "g/c": [1.0]}, ignore_errors=True)


def test_rows_from_another_dataset(ds: lakebed.Dataset) -> None:
    """A dataset, a view and single samples can be added; nulls, documents and lists stay what they are."""
    source = create_on(new_memory())
    for name, htype in (("a", "unspecified"), ("b", "text"), ("j", "json"), ("l", "list"), ("r", "generic")):
        source.create_tensor(name, htype=htype)
    source.extend(
        {
            "a": [1, 2, 3],
            "b": pa.array(["x", None, ""]),
            "j": pa.array(['{"k": [1]}', None, "7"], pa.json_()),
            "l": [[1, "a"], [], [None]],
            "r": [np.zeros((2, 2)), None, np.ones((1, 3))],
        }
    )
    target = create_on(new_memory())
    for name in source.tensors:
        target.create_tensor(name, htype=source[name].htype)
    target.extend(source)
    target.extend(source[1:])
    target.append({name: source[name][0] for name in source.tensors})
    target.append({name: source[name][1] for name in source.tensors})
    rows = [0, 1, 2, 1, 2, 0, 1]
    assert target.a.numpy().ravel().tolist() == [rows[i] + 1 for i in range(7)]
    assert list(target.b.values()) == [["x", None, ""][r] for r in rows]
    assert list(target.j.values()) == [[{"k": [1]}, None, 7][r] for r in rows]
    assert target["l"].list() == [[[1, "a"], [], [None]][r] for r in rows]
    shapes = [v.shape for v in target.r.numpy(aslist=True)]
    assert shapes == [[(2, 2), (0, 0), (1, 3)][r] for r in rows]


def test_a_tensor_may_extend_itself(ds: lakebed.Dataset) -> None:
    """Reading and writing the same tensor in one call takes what was there before."""
    ds.a.extend([1, 2])
    ds.a.extend(ds.a)
    ds.a.extend(ds.a[1:3])
    assert ds.a.numpy().ravel().tolist() == [1, 2, 1, 2, 2, 1]


def test_stored_bytes_move_between_tensors_of_one_kind() -> None:
    """Images are not encoded anew, so a lossy format loses nothing."""
    photo = np.random.default_rng(1).integers(0, 255, (30, 40, 3), dtype=np.uint8)
    source, target = create_on(new_memory()), create_on(new_memory())
    for ds in (source, target):
        ds.create_tensor("x", htype="image", sample_compression="jpeg")
        ds.create_tensor("s", htype="sequence[image]", sample_compression="jpeg")
    source.append({"x": photo, "s": [photo, photo[:9]]})
    target.extend(source)
    target.append(source[0])
    target.x[0:1] = source.x
    assert {target.x[i].tobytes() for i in range(2)} == {source.x[0].tobytes()}
    assert target.s[1][1].tobytes() == source.s[0][1].tobytes()
    assert [len(target[name]) for name in ("_x_shape", "_x_info", "_s_shape", "_s_id")] == [2, 2, 4, 2]


def test_the_cause_of_a_failed_row_is_kept(ds: lakebed.Dataset) -> None:
    """Errors have the 3.x names, and point at what can be done."""
    with pytest.raises(lakebed.errors.SampleExtendError, match="ignore_errors=True") as caught:
        ds.extend({"a": [1, "bad"], "b": ["x", "y"], "g/c": [1.0, 2.0]})
    assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(lakebed.SampleAppendError) as single:
        ds.append({"a": "bad", "b": "x", "g/c": 1.0})
    assert isinstance(single.value.__cause__, lakebed.errors.MetaError)
    assert lengths(ds) == [0, 0, 0]


def test_a_column_may_leave_out_samples_that_do_not_fit(ds: lakebed.Dataset) -> None:
    """What the first good sample settles holds for the next ones."""
    ds.create_tensor("open")
    ds.open.extend([np.ones((2, 2)), "x", np.ones(3), np.zeros((1, 4))], ignore_errors=True)
    assert [v.shape for v in ds.open.numpy(aslist=True)] == [(2, 2), (1, 4)]
    ds.a.extend(["x", "y"], ignore_errors=True)
    ds.create_tensor("s", htype="sequence", dtype="int64").extend([[1, 2], ["x"], []], ignore_errors=True)
    assert (len(ds.a), len(ds.s), ds.s.meta.length) == (0, 2, 2)


def test_progress_is_shown_when_asked_for(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows are counted off; the result is the same."""
    columns = {"a": [1, 2], "b": ["x", "y"], "g/c": [1.0, 2.0]}
    ds.extend(columns)
    ds.a.extend([3])
    assert capsys.readouterr().err == ""
    ds.a.pop()
    ds.extend(columns, progressbar=True)
    ds.a.extend([3, 4], progressbar=True)
    assert capsys.readouterr().err.count("2/2") >= 2
    assert ds.a.numpy().ravel().tolist() == [1, 2, 1, 2, 3, 4]
    with pytest.raises(lakebed.errors.SampleExtendError):
        ds["g"].extend({"c": ["bad"]}, progressbar=True)


def test_sequences_count_as_one_row_each() -> None:
    """Their items do not make the tensors unequal."""
    ds = create_on(new_memory())
    ds.create_tensor("s", htype="sequence", dtype="int64")
    ds.create_tensor("n", dtype="int64")
    ds.append({"s": [1, 2, 3], "n": 1})
    ds.append({"s": [], "n": 2})
    ds.extend({"s": [[4], [5, 6]], "n": [3, 4]})
    ds.append({"n": 5}, append_empty=True)
    assert lengths(ds) == [5, 5]
    assert [len(row) for row in ds.s.numpy(aslist=True)] == [3, 0, 1, 2, 0]


def test_rows_are_whole_whatever_fails(ds: lakebed.Dataset) -> None:
    """When the storage gives out in the middle of a row, no tensor has it, hidden companions included."""
    ds.extend({"a": [1], "b": ["x"], "g/c": [1.0]})
    ds.close()
    for budget in range(8):
        faulty = FaultyStorage(
            ds.storage, fail_after=budget, error=lambda: lakebed.errors.StorageError("full")
        )
        victim = open_on(faulty)
        with suppress(lakebed.errors.StorageError):
            victim.append({"a": 2, "b": "y", "g/c": 2.0})
            victim[0].update({"a": 5, "b": "z"})
            victim.flush()
        victim._session.discard()
        seen = open_on(ds.storage)
        found = [len(seen[name]) for name in seen._session.schema().names(hidden=True)]
        assert len(set(found)) == 1
        assert (seen.a[0].numpy().item(), seen.b[0].text(), len(seen.a)) in ((1, "x", 1), (5, "z", 2))


def test_an_empty_tensor_adds_nothing(ds: lakebed.Dataset) -> None:
    """Whatever its kind."""
    ds.create_tensor("nothing")
    ds.a.extend(ds.nothing)
    ds.a.extend(ds.a)
    ds.nothing.extend(ds.b[0:0])
    assert (len(ds.a), len(ds.nothing)) == (0, 0)
