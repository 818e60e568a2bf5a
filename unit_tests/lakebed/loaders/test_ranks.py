"""In a process group rows are parted by themselves, and only where something trains; other arguments are refused."""

from __future__ import annotations

import logging
import sys
import types
from typing import Any

import pytest

import lakebed
from lakebed.errors import InvalidInputError
from lakebed.loaders import ranks
from lakebed.loaders.frameworks.arguments import check_known

ROWS = 25


@pytest.fixture
def ds() -> lakebed.Dataset:
    ds = lakebed.empty("mem://ranks", overwrite=True)
    ds.create_tensor("x", dtype="int64")
    ds.x.extend(list(range(ROWS)))
    return ds


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """What PyTorch says of its process group; real ones are in the tests of frameworks, as none is here."""
    place = types.SimpleNamespace(rank=0, world=3, is_there=True)
    distributed = types.SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: place.is_there,
        get_rank=lambda: place.rank,
        get_world_size=lambda: place.world,
    )
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(distributed=distributed))  # type: ignore[arg-type]
    monkeypatch.setattr(ranks, "_told", [])
    return place


def seen(loader: Any) -> list[int]:
    return [int(row) for batch in loader for row in batch["x"].ravel()]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_group_parts_the_rows_evenly(ds: lakebed.Dataset, group: Any, shuffle: bool) -> None:
    found = []
    for group.rank in range(3):
        loader = lakebed.Loader(ds, 2, shuffle=shuffle)
        assert len(loader) == 5
        found.append(seen(loader))
    assert [len(one) for one in found] == [9, 9, 9]
    assert {row for one in found for row in one} == set(range(ROWS))


def test_a_group_that_begins_later_counts(ds: lakebed.Dataset, group: Any) -> None:
    group.is_there = False
    loader = lakebed.Loader(ds, 2)
    assert len(seen(loader)) == ROWS
    group.is_there = True
    assert len(seen(loader)) == 9


def test_whoever_is_told_gets_all(ds: lakebed.Dataset, group: Any) -> None:
    assert seen(lakebed.Loader(ds, 2, distributed=False)) == list(range(ROWS))
    assert len(seen(lakebed.Loader(ds, 2, rank=0, world=2))) == 13
    assert seen(ds.dataloader().batch(2).numpy(distributed=False)) == list(range(ROWS))
    assert len(seen(ds.dataloader().batch(2).numpy(rank=0, world=2))) == 13
    assert [int(row["x"].numpy()[0]) for row in ds] == list(range(ROWS))
    assert sum(len(batch["x"]) for batch in ds.batches(4)) == ROWS


def test_settings_part_the_rows_too(ds: lakebed.Dataset, group: Any) -> None:
    loader = ds.dataloader().batch(2)
    assert len(loader) == len(loader.numpy()) == 5
    assert len(seen(loader)) == len(seen(loader.numpy())) == 9


def test_processes_draw_one_order_and_one_split(ds: lakebed.Dataset, group: Any) -> None:
    """Also where each gets all rows: trainers that share samples out count on it."""
    first, second = (seen(lakebed.Loader(ds, 2, shuffle=True, distributed=False)) for _ in range(2))
    assert first == second != list(range(ROWS))
    first, second = (ds.random_split([0.8, 0.2])[0].sample_indices for _ in range(2))
    assert list(first) == list(second)


def test_a_group_of_jax(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    place = types.SimpleNamespace(is_there=False)

    def asked(number: int) -> int:
        assert place.is_there, "the question would start the devices"
        return number

    jax = types.SimpleNamespace(
        distributed=types.SimpleNamespace(is_initialized=lambda: place.is_there),
        process_index=lambda: asked(1),
        process_count=lambda: asked(3),
    )
    monkeypatch.setitem(sys.modules, "jax", jax)  # type: ignore[arg-type]
    assert ranks.process_group() == (0, 1)
    place.is_there = True
    assert ranks.process_group() == (1, 3)
    assert len(seen(lakebed.Loader(ds, 2))) == 9


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}', (1, 2)),
        (
            '{"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}, "task": {"type": "worker", "index": 1}}',
            (2, 3),
        ),
        ('{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": 0}}', (0, 2)),
        ('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "evaluator", "index": 0}}', (0, 1)),
        (
            '{"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}, "task": {"type": "chief", "index": 0}}',
            (0, 1),
        ),
        ('{"task": {"type": "worker", "index": 0}}', (0, 1)),
        ("{}", (0, 1)),
    ],
)
def test_workers_of_tensorflow(monkeypatch: pytest.MonkeyPatch, config: str, place: tuple[int, int]) -> None:
    monkeypatch.setenv("TF_CONFIG", config)
    assert ranks.process_group() == (0, 1), "it is for programs of TensorFlow"
    monkeypatch.setitem(sys.modules, "tensorflow", types.SimpleNamespace())  # type: ignore[arg-type]
    assert ranks.process_group() == place


def test_a_cluster_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", types.SimpleNamespace())  # type: ignore[arg-type]
    for config in ("{", "[1]", '{"cluster": 5, "task": {}}'):
        monkeypatch.setenv("TF_CONFIG", config)
        with pytest.raises(InvalidInputError, match="TF_CONFIG"):
            ranks.process_group()


def test_it_is_said_once(ds: lakebed.Dataset, group: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "lakebed.loaders.ranks"):
        for _ in range(2):
            seen(lakebed.Loader(ds, 2))
        seen(lakebed.Loader(ds, 2, distributed=True))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "distributed=False" in caplog.text


def test_half_a_place_is_none(ds: lakebed.Dataset) -> None:
    for place in (
        {"rank": 1},
        {"world": 2},
        {"rank": 2, "world": 2},
        {"rank": 0, "world": 2, "distributed": False},
    ):
        with pytest.raises(InvalidInputError):
            lakebed.Loader(ds, 2, **place)


def test_unknown_arguments_are_refused(ds: lakebed.Dataset) -> None:
    with pytest.raises(TypeError, match="did you mean 'batch_size'"):
        ds.pytorch(batchsize=8)
    with pytest.raises(TypeError, match=r"there are .*batch_size.*prefetch_factor"):
        ds.pytorch(zzz=8)
    with pytest.raises(TypeError, match=r"tensorflow\(\) .* did you mean 'distributed'"):
        ds.tensorflow(distribute=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="did you mean 'distributed'"):
        ds.torch_dataset(distribted=True)  # type: ignore[call-arg]
    for face in (
        ds.dataloader().pytorch,
        ds.dataloader().tensorflow,
        ds.dataloader().jax,
        ds.dataloader().numpy,
    ):
        with pytest.raises(TypeError, match="did you mean 'world'"):
            face(worlds=2)
    with pytest.raises(TypeError, match=r"Loader\(\) .* did you mean 'world'"):
        lakebed.Loader(ds, worlds=2)  # type: ignore[call-arg]
    check_known("pytorch", ["prefetch_factor", "persistent_workers"], [])
