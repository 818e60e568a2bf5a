"""Nulls are filled or masked, dates and times come as such, and rows in any order come chunk by chunk."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import DynamicTensorNumpyError, InvalidInputError, InvalidOperationError
from lakebed.reading.columns import scan
from lakebed.session import columns

NUMBER = itertools.count()


def tensor(values: list[Any] | pa.Array, **settings: Any) -> lakebed.Tensor:
    ds = lakebed.empty(f"mem://filled-{next(NUMBER)}")
    made = ds.create_tensor("t", max_chunk_size=2000, **settings)
    made.extend(values)
    return made


@pytest.mark.parametrize(
    ("values", "settings", "fill", "dtype", "expected"),
    [
        ([1, None, 3], {"dtype": "int32"}, -1, "int32", [1, -1, 3]),
        ([1, None, 3], {"dtype": "int32"}, -1.0, "int32", [1, -1, 3]),
        ([1, None, 3], {"dtype": "uint8"}, -1, "int64", [1, -1, 3]),
        ([1, None, 3], {"dtype": "int32"}, float("nan"), "float64", [1.0, float("nan"), 3.0]),
        ([0.5, None], {"dtype": "float32"}, float("nan"), "float32", [0.5, float("nan")]),
        ([True, None], {"dtype": "bool"}, False, "bool", [True, False]),
        ([1, 2], {"dtype": "int32"}, -1, "int32", [1, 2]),
        ([None, None], {"dtype": "int32"}, 7, "int32", [7, 7]),
        (["cat", None], {"htype": "class_label"}, 9, "uint32", [0, 9]),
    ],
    ids=str,
)
def test_numbers_are_filled(
    values: list[Any], settings: dict[str, Any], fill: Any, dtype: str, expected: list[Any]
) -> None:
    found = tensor(values, **settings).numpy(fill=fill)

    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array(expected).reshape(-1, 1))


def test_arrays_text_and_documents_are_filled() -> None:
    vector = tensor([[1.0, 2.0], None, [3.0, 4.0]], htype="embedding")
    assert vector.numpy(fill=0).tolist() == [[1, 2], [0, 0], [3, 4]]
    assert vector.numpy(fill=[7, 8])[1].tolist() == [7, 8]
    assert vector[1].numpy(fill=5).tolist() == [5, 5] or vector[1].numpy(fill=5).tolist() == [5]
    assert tensor(["a", None, ""], htype="text").numpy(fill="?").tolist() == [["a"], ["?"], [""]]
    assert tensor([{"a": 1}, None], htype="json").numpy(fill={"b": 2}).tolist() == [[{"a": 1}], [{"b": 2}]]
    with pytest.raises(InvalidInputError, match="or a sample of shape"):
        vector.numpy(fill=[1, 2, 3])
    with pytest.raises(DynamicTensorNumpyError):
        tensor([[1.0], None, [3.0, 4.0]]).numpy(fill=0)


def test_a_fill_that_would_round_is_refused() -> None:
    large = tensor([2**60 + 1, None, 3], dtype="int64")

    with pytest.raises(InvalidInputError, match=f"would round {2**60 + 1} of tensor 't'"):
        large.numpy(fill=float("nan"))
    with pytest.raises(InvalidInputError, match="which is not a number"):
        large.numpy(fill="x")
    with pytest.raises(InvalidInputError, match="holds text"):
        tensor(["a", None], htype="text").numpy(fill=3)
    with pytest.raises(InvalidInputError, match="cannot be combined"):
        large.numpy(fill=0, masked=True)
    assert large.numpy(fill=-1).ravel().tolist() == [2**60 + 1, -1, 3]


@pytest.mark.parametrize("rows", [slice(None), [3, 0, 1, 1], slice(None, None, -1)], ids=str)
def test_masks(rows: Any) -> None:
    values = [5, None, 7, None]
    found = tensor(values, dtype="int16")[rows].numpy(masked=True)
    wanted = np.array(values, object)[rows].tolist()

    assert isinstance(found, np.ma.MaskedArray)
    assert (found.dtype, found.tolist()) == (np.dtype("int16"), [[value] for value in wanted])
    image = tensor([np.ones((2, 2), "u1"), None])
    assert image.numpy(masked=True).mask[:, 0, 0].tolist() == [False, True]


def test_the_error_without_them_says_how_many_and_what_to_do() -> None:
    with pytest.raises(
        DynamicTensorNumpyError, match=r"2 of 4 rows are null, the first is row 1: pass masked=True, or fill="
    ):
        tensor([1, None, 3, None]).numpy()


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (pa.timestamp("us"), "M8[us]"),
        (pa.timestamp("ns", "UTC"), "M8[ns]"),
        (pa.date32(), "M8[D]"),
        (pa.date64(), "M8[ms]"),
        (pa.time32("s"), "m8[s]"),
        (pa.duration("ms"), "m8[ms]"),
    ],
    ids=str,
)
def test_dates_and_times_on_request(kind: pa.DataType, dtype: str) -> None:
    number = 86_400_000 if dtype == "M8[ms]" else 3
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    moments = tensor(pa.array([number, None, 0], width).cast(kind))

    found = moments.numpy(datetimes=True)
    assert found.dtype == dtype
    assert found.ravel().tolist() == np.array([number, "NaT", 0], dtype).tolist()
    assert moments[1:].numpy(datetimes=True, masked=True).mask.ravel().tolist() == [True, False]
    ds = lakebed.Dataset(moments._handle)
    batch = next(iter(ds.batches(5, datetimes=True)))["t"]
    assert (batch.dtype, np.isnat(batch).ravel().tolist()) == (np.dtype(dtype), [False, True, False])
    assert not isinstance(next(iter(ds.batches(5)))["t"].dtype, np.dtypes.DateTime64DType)


def test_a_fill_for_moments_and_numbers_that_are_none() -> None:
    moments = tensor(pa.array([0, None]).cast(pa.timestamp("s")))
    filled = moments.numpy(datetimes=True, fill=np.datetime64("2024-01-01"))
    assert filled.ravel().tolist() == np.array(["1970-01-01", "2024-01-01"], "M8[s]").tolist()
    with pytest.raises(InvalidOperationError, match="no dates or times"):
        tensor([1]).numpy(datetimes=True)
    with pytest.raises(InvalidOperationError, match="sequences"):
        tensor([[1, 2]], htype="sequence[generic]").numpy(masked=True)


@pytest.mark.parametrize(("dense", "rows", "nbytes"), [(1, 50, 1 << 20), (3, 64, 300), (1000, 8, 1)])
def test_rows_in_any_order_are_what_single_rows_are(
    monkeypatch: pytest.MonkeyPatch, dense: int, rows: int, nbytes: int
) -> None:
    monkeypatch.setattr(scan, "_DENSE", dense)
    monkeypatch.setattr(columns, "_MOST_ROWS", rows)
    monkeypatch.setattr(columns, "_MOST_BYTES", nbytes)
    rng = np.random.default_rng(3)
    count = 500
    gone = rng.random(count) < 0.3
    data: dict[str, list[Any]] = {
        "number": rng.integers(0, 1000, count).tolist(),
        "holes": [None if g else int(i) for i, g in enumerate(gone)],
        "vector": [[i, i + 1] for i in range(count)],
        "text": [None if g else "é" * (i % 9) + str(i) for i, g in enumerate(gone)],
        "plain": [str(i) for i in range(count)],
        "document": [None if g else {"i": i} for i, g in enumerate(gone)],
        "ragged": [list(range(i % 4)) for i in range(count)],
    }
    ds = lakebed.empty(f"mem://filled-{next(NUMBER)}")
    for name in data:
        htype = {"text": "text", "plain": "text", "document": "json"}.get(name, "unspecified")
        ds.create_tensor(name, htype=htype, max_chunk_size=700)
    ds.extend(data)
    order = rng.integers(0, count, 333).tolist()

    at = 0
    for batch in ds[order].batches(40):
        for name, column in batch.items():
            wanted = [data[name][row] for row in order[at : at + 40]]
            found = [value.tolist() if isinstance(value, np.ndarray) else value for value in column]
            if name in ("number", "holes"):
                wanted = [[value] for value in wanted]
            assert found == wanted, name
        at += 40
    assert at >= len(order)
