"""Loaders of the facade without any framework, and splits (facts seen on 3.9.52 where it has them)."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import InvalidInputError, InvalidOperationError, ModuleNotInstalledException
from lakebed.loaders import ops
from unit_tests.lakebed.datasets import create_on, new_memory

ROWS = 25


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    ds = create_on(new_memory())
    ds.create_tensor("x", dtype="uint16").extend(np.arange(ROWS, dtype=np.uint16) * 10)
    ds.create_tensor("words", htype="text").extend([f"word {n}" for n in range(ROWS)])
    ds.create_tensor("facts", htype="json").extend([{"n": n} for n in range(ROWS)])
    ds.create_tensor("boxes", htype="bbox").extend([np.full((n % 3, 4), n, np.float32) for n in range(ROWS)])
    return ds


@pytest.fixture(autouse=True)
def unseeded() -> Iterator[None]:
    yield
    lakebed.random.seed(None)


def xs(batches: Any) -> list[int]:
    return [int(x[0]) // 10 for batch in batches for x in batch["x"]]


# -- chained settings --------------------------------------------------------------------------------------------


def test_batches_are_dictionaries_of_arrays_that_unpack(ds: lakebed.Dataset) -> None:
    loader = ds.dataloader().batch(10)
    assert (len(loader), loader.batch_size, loader.drop_last, loader.num_workers) == (3, 10, False, 0)
    x, words, facts = next(iter(loader.numpy(tensors=["x", "words", "facts"])))
    assert (x.dtype, x.shape, x[:3].ravel().tolist()) == (np.uint16, (10, 1), [0, 10, 20])
    assert (words[1], facts[2]) == ("word 1", {"n": 2})
    assert xs(loader) == xs(ds.dataloader()) == list(range(ROWS))
    assert len(ds.dataloader()) == ROWS
    assert [batch["boxes"][2].tolist() for batch in loader] == [[[2.0] * 4] * 2, [], [[22.0] * 4]]


def test_settings_are_chained_and_leave_the_loader_before_as_it_was(ds: lakebed.Dataset) -> None:
    base = ds.dataloader().batch(10, drop_last=True)
    assert (len(base), xs(base)) == (2, list(range(20)))
    lakebed.random.seed(5)
    shuffled = base.shuffle()
    first = xs(shuffled)
    assert sorted(first) != first == xs(base.shuffle(True, 100)) == xs(shuffled)
    assert xs(base) == list(range(20))
    assert xs(base.offset(5)) == list(range(5, 25))
    assert xs(base.transform({"x": lambda x: x * 2})) == list(range(0, 40, 2))
    assert set(next(iter(base.transform({"x": None, "index": None}))).keys()) == {"x", "index"}
    added = base.transform(lambda sample, n: sample["x"] + n, n=7)
    assert [batch.ravel()[0] for batch in added] == [7, 107]
    for name, again in (("batch size", base.batch), ("transform", base.transform(print).transform)):
        with pytest.raises(InvalidInputError, match=f"{name} is already set"):
            again(3)
    with pytest.raises(InvalidInputError, match="batch_size must be at least 1"):
        ds.dataloader().batch(0)


def test_data_of_a_sample_comes_without_its_number(ds: lakebed.Dataset) -> None:
    batch = next(iter(ds.dataloader().batch(2).numpy(tensors=["words"], decode_method={"words": "data"})))
    assert dict(batch) == {"words": {"value": ["word 0", "word 1"]}}


def test_a_pass_is_an_epoch_and_can_be_gone_on_with(ds: lakebed.Dataset) -> None:
    loader = ds.dataloader().batch(4).shuffle().numpy()
    epochs = [xs(loader) for _ in range(2)]
    assert epochs[0] != epochs[1]
    loader.set_epoch(1)
    batches = iter(loader)
    seen = xs([next(batches), next(batches)])
    other = ds.dataloader().batch(4).shuffle().numpy()
    other.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    assert seen + xs(other) == epochs[1]
    assert loader.stats()["batches"] >= 16


def test_rows_are_drawn_by_weight(ds: lakebed.Dataset) -> None:
    weights = np.zeros(ROWS)
    weights[[3, 4]] = 1, 3
    loader = ds.dataloader().batch(10).sample_by(weights, size=200)
    drawn = xs(loader)
    assert (len(loader), len(drawn), set(drawn)) == (20, 200, {3, 4})
    assert 0.6 < drawn.count(4) / 200 < 0.9
    assert xs(ds.dataloader().sample_by(np.ones(ROWS), replace=False, size=5).numpy()) != []


def test_bad_samples_are_left_out_if_one_wants(ds: lakebed.Dataset) -> None:
    def picky(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["x"][0] == 50:
            raise ValueError("five")
        return sample

    with pytest.raises(ValueError, match="five"):
        xs(ds.dataloader().batch(4).transform(picky))
    assert xs(ds.dataloader(ignore_errors=True).batch(4).transform(picky)) == [
        n for n in range(ROWS) if n != 5
    ]


def test_a_loader_of_one_framework_becomes_none_of_another(ds: lakebed.Dataset) -> None:
    """Errors and messages are those of 3.9.52."""
    loader = ds.dataloader().batch(2).numpy()
    with pytest.raises(ValueError, match=r"^already called \.numpy\(\)$"):
        loader.numpy()
    with pytest.raises(ValueError, match=r"^Can't call \.pytorch\(\) after \.numpy\(\)$"):
        loader.pytorch(num_workers=2)
    with pytest.raises(InvalidInputError, match=r"tensorflow\(\) after \.numpy"):
        loader.tensorflow()


def test_settings_may_follow_the_framework(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in 3.x, where each method returns a loader; the one that it was called on stays as it is."""
    monkeypatch.setattr(lakebed.random, "_seed", 5)
    plain = ds.dataloader().numpy(tensors=["x"])
    assert len(plain) == ROWS
    made = (
        plain.batch(4, drop_last=True).offset(8).transform(lambda sample, by: {"x": sample["x"] * by}, by=10)
    )
    assert [batch["x"].ravel().tolist() for batch in made] == [
        [100 * n for n in range(start, start + 4)] for start in range(8, ROWS - ROWS % 4, 4)
    ]
    assert len(plain) == ROWS
    wanted = xs(ds.dataloader().batch(4).shuffle())
    assert wanted != sorted(wanted) == list(range(ROWS))
    assert xs(plain.batch(4).shuffle()) == wanted
    weights = np.zeros(ROWS)
    weights[3] = 1
    assert xs(plain.sample_by(weights, size=3).batch(2)) == [3, 3, 3]
    with pytest.raises(InvalidInputError, match="batch size is already set"):
        plain.batch(4).batch(4)
    with pytest.raises(InvalidInputError, match=r"already called \.numpy"):
        plain.batch(4).numpy()
    chosen = plain.query("select * where x > 30 order by x desc").batch(4)
    assert xs(chosen) == list(range(ROWS - 1, 3, -1))


def test_queries_choose_rows_and_give_weights(ds: lakebed.Dataset) -> None:
    assert xs(ds.dataloader().query("select * where x > 30").batch(2)) == list(range(4, ROWS))
    assert set(xs(ds.dataloader().sample_by("max_weight(x > 30: 5)").batch(2))) <= set(range(4, ROWS))
    with pytest.raises(InvalidOperationError, match="call query before sample_by"):
        ds.dataloader().sample_by("x").query("select *")
    with pytest.raises(InvalidOperationError, match="computes columns"):
        ds.dataloader().query("select x + 1 as y")
    ds.dataloader().close()


@pytest.mark.parametrize("name", ["torch", "tensorflow", "jax"])
def test_a_framework_that_is_not_installed_is_named(
    ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"lakebed.loaders.frameworks.{name}", raising=False)
    calls = {
        "torch": (ds.pytorch, ds.torch_dataset, ds.dataloader().pytorch),
        "tensorflow": (ds.tensorflow, ds.dataloader().tensorflow),
        "jax": (ds.dataloader().jax,),
    }
    for call in calls[name]:
        with pytest.raises(ModuleNotInstalledException, match=rf"pip install 'lakebed\[{name}\]'"):
            call()


# -- splits --------------------------------------------------------------------------------------------------------


def rows_of(view: lakebed.Dataset) -> list[int]:
    return [int(x[0]) // 10 for x in view.x.numpy()]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([20, 5], [20, 5]),
        ([25], [25]),
        ([0, 25], [0, 25]),
        ([1.0], [25]),
        ([0.7, 0.15, 0.15], [18, 4, 3]),
        ([1 / 3, 1 / 3, 1 / 3], [9, 8, 8]),
    ],
)
def test_a_split_shares_all_rows_out(ds: lakebed.Dataset, lengths: list[float], expected: list[int]) -> None:
    views = ds.random_split(lengths)
    assert [len(view) for view in views] == expected
    assert sorted(row for view in views for row in rows_of(view)) == list(range(ROWS))


def test_a_split_is_left_to_chance_unless_there_is_a_seed(ds: lakebed.Dataset) -> None:
    assert len({tuple(rows_of(ds.random_split([20, 5])[0])) for _ in range(3)}) == 3
    lakebed.random.seed(3)
    seeded = [rows_of(view) for view in ds.random_split([20, 5])]
    assert [rows_of(view) for view in ds.random_split([20, 5])] == seeded
    assert seeded[0] != sorted(seeded[0])
    assert sorted(rows_of(ds[4:14:2].random_split([2, 3])[1]) + rows_of(ds[4:14:2].random_split([2, 3])[0])) == [
        4, 6, 8, 10, 12,
    ]  # fmt: skip


@pytest.mark.parametrize("lengths", [[20, 6], [0.7, 0.4], [0.7, 0.1], [], [26, -1], [0.5, 12]])
def test_lengths_that_do_not_add_up(ds: lakebed.Dataset, lengths: list[float]) -> None:
    with pytest.raises(ValueError, match=r"Sum of input lengths|negative"):
        ds.random_split(lengths)


# -- declared operations -------------------------------------------------------------------------------------------


def test_operations_of_a_transform_by_tensor_are_made_while_images_are_decoded(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lakebed.random, "_seed", 5)
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("photo", htype="image", sample_compression="jpeg")
    ds.create_tensor("number", dtype="int64")
    rng = np.random.default_rng(0)
    for n in range(9):
        ds.append({"photo": rng.integers(0, 255, (40 + n, 50, 3), dtype=np.uint8), "number": n})
    crop = ops.Compose([ops.RandomResizedCrop(16), ops.HorizontalFlip(), ops.ToFloat(), ops.ChannelsFirst()])
    base = ds.dataloader().batch(4).shuffle()
    given: Any = {"photo": crop, "number": None}
    plain = lakebed.Loader(ds, 4, shuffle=True, window=2048 * 10**6, transform=given)
    expected = [(batch["photo"], batch["number"]) for batch in plain]
    for loader in (
        base.transform(given).numpy(),
        base.transform(given).numpy(decode_method={"photo": "pil"}),
    ):
        found = list(loader)
        assert loader.is_whole, "no sample passes through Python"
        assert all(batch["photo"].shape[1:] == (3, 16, 16) for batch in found)
        for batch, (photos, numbers) in zip(found, expected, strict=True):
            assert np.array_equal(batch["photo"], photos)
            assert np.array_equal(batch["number"], numbers)

    def negative(photo: Any) -> Any:
        return -photo

    called = list(base.transform({"photo": [crop, negative], "number": None}))
    assert all(np.array_equal(-b["photo"], photos) for b, (photos, _) in zip(called, expected, strict=True))


def test_the_number_of_the_row_is_asked_for_by_name(ds: lakebed.Dataset) -> None:
    """As in scripts of 3.x."""
    source = ds._source(["x", "index"], None, None, None, return_index=False)
    assert (list(source.rows.names), source.sample.with_index) == (["x"], True)
