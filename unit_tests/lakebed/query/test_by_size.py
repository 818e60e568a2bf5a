"""Samples of many lengths, and groups, are reduced together: to the last bit as each of them alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lakebed
from lakebed.query.values import reductions as module
from lakebed.query.values.columns import Ragged
from lakebed.query.values.reductions import REDUCTIONS, by_size, count_different, reduced

ALONE = ("STD", "MEDIAN", "ARG_MIN", "ARG_MAX")


def samples(dtype: str, lengths: NDArray[np.int64], seed: int = 0) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    rng = np.random.default_rng(seed)
    flat = (rng.normal(size=int(lengths.sum())) * 50).astype(dtype)
    if np.dtype(dtype).kind == "f" and len(flat):
        flat[rng.integers(0, len(flat), 9)] = [
            np.nan,
            np.nan,
            np.inf,
            -np.inf,
            0.0,
            -0.0,
            1e30,
            -1e30,
            np.nan,
        ]
    ends = np.cumsum(lengths)
    return flat, [flat[end - n : end] for end, n in zip(ends.tolist(), lengths.tolist(), strict=True)]


@pytest.mark.parametrize("most", [1 << 20, 7])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8"])
@pytest.mark.parametrize("name", ALONE)
@pytest.mark.filterwarnings("ignore")
def test_each_answer_is_that_of_the_sample_alone(
    name: str, dtype: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_VALUES", most)
    rng = np.random.default_rng(1)
    lengths = np.concatenate([rng.integers(0, 40, 400), [0, 1, 1000, 5000, 1000], rng.integers(1, 5, 50)])
    flat, each = samples(dtype, lengths)
    found = reduced(name, Ragged(flat, lengths[:, None]))
    if dtype == "float16":
        each = [sample.astype(np.float64) for sample in each]
    right = np.array([REDUCTIONS[name](sample, None) for sample in each])
    assert found.values.dtype == right.dtype  # type: ignore[union-attr]
    np.testing.assert_array_equal(found.values, right)  # type: ignore[union-attr]
    assert found.values.tobytes() == right.tobytes()  # type: ignore[union-attr]


@pytest.mark.parametrize("axis", ["", ", 0"])
def test_sums_of_float16_do_not_overflow(axis: str) -> None:
    """Samples of one length and of many, a whole group, and lists: as NumPy computes them in float64."""
    ds = lakebed.empty("mem://halves", overwrite=True)
    for name in ("number", "even", "ragged"):
        ds.create_tensor(name, dtype="float16")
    numbers = np.linspace(200, 60000, 64, dtype=np.float16)
    ds.number.extend(numbers)
    ds.even.extend(numbers.reshape(64, 1) * np.float16([1, 0.5, 0.25]))
    ds.ragged.extend([numbers[: 1 + i % 7] for i in range(64)])
    for name, right in (
        ("sum", np.sum), ("mean", np.mean), ("std", np.std), ("var", np.var), ("median", np.median),
        ("prod", np.prod), ("l2_norm", np.linalg.norm),
    ):  # fmt: skip
        if axis and name == "l2_norm":
            continue
        for tensor in ("even", "ragged"):
            found = ds.query(f"SELECT {name}({tensor}{axis}) AS x").x.numpy().reshape(-1)
            wanted = [right(row.astype(np.float64)) for row in ds[tensor].numpy(aslist=True)]
            np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=f"{name} {tensor}")
        if name != "l2_norm":
            found = ds.query(f"SELECT {name}(number{axis}) AS x GROUP BY 1").x.numpy().item()
            assert found == pytest.approx(right(numbers.astype(np.float64)))


@pytest.mark.parametrize("dtype", ["float64", "int8", "bool"])
def test_different_values_are_counted(dtype: str) -> None:
    lengths = np.random.default_rng(2).integers(0, 30, 300)
    flat, each = samples(dtype, lengths)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    found = by_size(flat, ends, count_different, np.zeros((), np.int64))
    assert found.tolist() == [len(np.unique(sample)) for sample in each]
    assert by_size(flat[:0], ends[:1], count_different, np.zeros((), np.int64)).tolist() == []


def test_different_numbers_and_arrays_of_groups() -> None:
    """Numbers that differ in their last digits, with nulls between them; long arrays; dictionaries."""
    ds = lakebed.empty("mem://different", overwrite=True)
    ds.create_tensor("n", dtype="float64")
    ds.create_tensor("v", dtype="int64")
    ds.create_tensor("j", htype="json")
    numbers = [0.1234567891, 0.1234567892, None, 0.0, -0.0, float("nan"), float("nan"), 0.1234567891]
    long = [np.arange(2000), np.arange(2000)]
    long[1][1000] = -1
    ds.extend(
        {"n": numbers, "v": [*(long * 4)[:7], None], "j": [{"a": 1, "b": 2}, {"b": 2, "a": 1}, 1, "1"] * 2}
    )
    found = ds.query(
        "SELECT count(distinct n) AS n, count(distinct v) AS v, count(distinct j) AS j GROUP BY true"
    )
    assert found[0].to_dict() == {"n": 4, "v": 2, "j": 3}


def test_groups_are_reduced_together() -> None:
    """Groups of one row and of thousands, of numbers and of texts, some of them missing."""
    rng = np.random.default_rng(3)
    keys = np.concatenate([np.zeros(3000, np.int64), rng.integers(1, 400, 1500)])
    rng.shuffle(keys)
    numbers, halves = rng.integers(0, 50, 4500), rng.normal(size=4500).astype(np.float32)
    words = [None if n == 7 else f"word{n}" for n in numbers.tolist()]
    ds = lakebed.empty("mem://by-size", overwrite=True)
    for name, dtype in (("k", "int64"), ("n", "int64"), ("h", "float32")):
        ds.create_tensor(name, dtype=dtype)
    ds.create_tensor("t", htype="text")
    ds.create_tensor("j", htype="json")
    ds.extend({"k": keys, "n": numbers, "h": halves, "t": words, "j": [{"a": n} for n in numbers.tolist()]})
    found = ds.query(
        "SELECT k[0] AS k, std(h) AS s, var(n) AS v, median(h) AS m, count(distinct n) AS d, "
        "count(distinct t) AS w, count(distinct j) AS j, count(distinct h) AS f GROUP BY k"
    )
    told = {name: found.column(name).numpy().ravel() for name in "ksvmdwjf"}
    assert len(told["k"]) == len(np.unique(keys))
    for i, key in enumerate(told["k"].tolist()):
        (rows,) = np.nonzero(keys == key)
        assert told["s"][i] == np.std(halves[rows])
        assert told["v"][i] == pytest.approx(np.var(numbers[rows]))
        assert told["m"][i] == np.median(halves[rows])
        assert told["d"][i] == told["j"][i] == len(np.unique(numbers[rows]))
        assert told["w"][i] == len({words[row] for row in rows} - {None})
        assert told["f"][i] == len(np.unique(halves[rows]))


def test_all_nan_of_a_sample_are_one_different_value() -> None:
    nan = np.nan
    matrix = np.array([[nan, 1, nan, nan], [nan, nan, nan, nan], [1, 2, 1, nan], [0.0, -0.0, 3, 3]])
    assert count_different(matrix).tolist() == [2, 1, 3, 2]
    assert count_different(matrix).tolist() == [len(np.unique(row)) for row in matrix]
