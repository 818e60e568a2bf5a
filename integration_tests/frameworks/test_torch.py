"""``ds.pytorch`` hands out what Deep Lake 3.9.52 does; ``ds.torch_dataset`` works in the DataLoaders of others."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.frameworks import lake
from integration_tests.frameworks.lake import ROWS
from lakebed.errors import EmptyTensorError, InvalidInputError, InvalidOperationError, TensorDoesNotExistError
from lakebed.loaders import ops
from lakebed.loaders.collate import uneven

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, RandomSampler  # noqa: E402 - after the line that may skip all this

from lakebed.loaders.frameworks.torch import nested  # noqa: E402

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more workers than cores
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),  # a prototype, it says
]


def rows_of(loader: Iterable[Any]) -> list[int]:
    return [int(row) for batch in loader for row in batch["index"].flatten()]


# -- what comes out (each fact seen on 3.9.52) -------------------------------------------------------------------------


def test_batches_are_tensors_that_unpack(ds: lakebed.Dataset) -> None:
    loader = ds.pytorch(tensors=["images", "labels", "texts"], batch_size=4)
    assert isinstance(loader, DataLoader)
    assert (len(loader), loader.batch_size, loader.num_workers, loader.drop_last) == (25, 4, 0, False)
    batch = next(iter(loader))
    images, labels, texts, index = batch
    assert list(batch.keys()) == ["images", "labels", "texts", "index"]
    assert (tuple(images.shape), images.dtype) == ((4, 8, 8, 3), torch.uint8)
    assert np.array_equal(images.numpy(), ds.images[:4].numpy())
    assert (labels.tolist(), labels.dtype) == ([[0], [1], [0], [1]], torch.int64)
    assert texts == ["row 0", "row 1", "row 2", "row 3"]
    assert (index.tolist(), index.dtype) == ([[0], [1], [2], [3]], torch.int64)


def test_numbers_of_every_dtype(tmp_path: Path) -> None:
    """PyTorch gets the next signed type for unsigned integers of two bytes and more."""
    ds = lakebed.empty(str(tmp_path / "ds"))
    expected = {
        "bool": torch.bool, "int8": torch.int8, "uint8": torch.uint8, "int16": torch.int16, "uint16": torch.int32,
        "int32": torch.int32, "uint32": torch.int64, "uint64": torch.int64, "int64": torch.int64,
        "float16": torch.float16, "float32": torch.float32, "float64": torch.float64, "complex64": torch.complex64,
    }  # fmt: skip
    for dtype in expected:
        ds.create_tensor(dtype, dtype=dtype)
        ds[dtype].extend(np.array([[0, 1], [1, 1], [2, 1]]).astype(dtype))
    (batch,) = ds.pytorch(batch_size=3, return_index=False)
    assert {name: values.dtype for name, values in batch.items()} == expected
    assert all(values.tolist() == ds[name].numpy().tolist() for name, values in batch.items())
    (single, *_) = ds.pytorch(batch_size=None, tensors=["uint16"])
    assert (single["uint16"].tolist(), single["uint16"].dtype, single["index"].tolist()) == (
        [0, 1],
        torch.int32,
        [0],
    )


def test_a_loader_is_made_once(ds: lakebed.Dataset) -> None:
    loader = ds.dataloader().batch(2).pytorch(tensors=["labels"])
    with pytest.raises(ValueError, match=r"^already called \.pytorch\(\)$"):
        loader.pytorch()
    with pytest.raises(ValueError, match=r"^Can't call \.numpy\(\) after \.pytorch\(\)$"):
        loader.numpy()


def test_settings_may_follow(ds: lakebed.Dataset) -> None:
    """As in 3.x: each method returns a loader of its own. Those of ``ds.pytorch`` take arguments."""
    loader = ds.dataloader().pytorch(tensors=["labels"], return_index=False).batch(8).shuffle()
    assert isinstance(loader, torch.utils.data.DataLoader)
    labels = torch.cat([batch["labels"] for batch in loader]).ravel().tolist()
    assert (labels != sorted(labels), sorted(labels)) == (True, sorted(ds.labels.numpy().ravel().tolist()))
    with pytest.raises(InvalidOperationError, match=r"ds\.pytorch\(\.\.\.\) takes all settings as arguments"):
        ds.pytorch().batch(2)


def test_samples_of_other_kinds(ds: lakebed.Dataset) -> None:
    batch = next(iter(ds.pytorch(tensors=["facts", "boxes"], batch_size=1)))
    assert batch["facts"] == [{"row": 0}]
    assert tuple(batch["boxes"].shape) == (1, 0, 4)
    with pytest.raises(InvalidOperationError, match=r"'boxes' .* different shapes"):
        next(iter(ds.pytorch(tensors=["boxes"], batch_size=3)))


def boxes_of(row: int) -> list[list[float]]:
    return [[float(row)] * 4] * (row % 3)


def test_ragged_batches_are_nested_tensors(ds: lakebed.Dataset) -> None:
    """A tensor whose rows differ is nested in every batch, also where its samples agree."""
    for size in (8, 1):
        given: list[dict[str, Any]] = [
            {"ragged": "nested"},
            {"transform": lake.same, "ragged": {"boxes": "nested"}},
        ]
        for more in given:
            loader = ds.pytorch(tensors=["boxes", "labels"], batch_size=size, **more)
            rows = 0
            for batch in loader:
                boxes, index = batch["boxes"], batch["index"].flatten().tolist()
                assert boxes.is_nested
                assert (boxes.layout, boxes.dtype) == (torch.jagged, torch.float32)
                assert [part.tolist() for part in boxes.unbind()] == [boxes_of(row) for row in index]
                assert not batch["labels"].is_nested
                assert float(boxes.values().sum()) == sum(4 * row * (row % 3) for row in index)
                rows += len(index)
            assert rows == ROWS


def test_ragged_batches_of_other_kinds(ds: lakebed.Dataset) -> None:
    def first(**more: Any) -> Any:
        return next(iter(ds.pytorch(tensors=["boxes"], batch_size=4, **more)))["boxes"]

    wanted = [boxes_of(row) for row in range(4)]
    for transform in (None, lake.same):
        assert [part.tolist() for part in first(ragged="list", transform=transform)] == wanted
        padded = first(ragged={"boxes": "pad"}, transform=transform)
        assert [part[: row % 3].tolist() for row, part in enumerate(padded)] == wanted
        assert (tuple(padded.shape), float(padded.sum())) == ((4, 2, 4), 4 * (1 + 2 * 2))
    (chained, *_) = ds.dataloader().batch(4).pytorch(tensors=["boxes"], ragged="nested")
    assert chained["boxes"].is_nested
    with pytest.raises(InvalidInputError, match="'nested', not 'flat'"):
        first(ragged="flat")
    with pytest.raises(InvalidInputError, match=r"ds\.pytorch\(ragged='nested'\)"):
        lakebed.Loader(ds, ragged="nested")  # type: ignore[arg-type]


def test_nested_tensors_share_the_memory_of_the_loader() -> None:
    flat = uneven([np.ones((2, 3), np.float32), np.zeros((1, 3), np.float32)], "flat")
    found = nested(flat)
    flat.values[0] = 7
    assert found.unbind()[0][0, 0] == 7
    images = uneven([np.ones((2, 3), np.uint16), np.zeros((4, 1), np.uint16)], "flat")
    assert [(tuple(part.shape), part.dtype) for part in nested(images).unbind()] == [
        ((2, 3), torch.int32),
        ((4, 1), torch.int32),
    ]


def test_transforms_and_collate_functions(ds: lakebed.Dataset) -> None:
    def first(**kwargs: Any) -> Any:
        return next(iter(ds.pytorch(batch_size=2, **kwargs)))

    listed = first(tensors=["labels", "texts", "facts"], collate_fn=list)
    assert [sample["texts"].tolist() for sample in listed] == [["row 0"], ["row 1"]]
    assert [sample["facts"].tolist() for sample in listed] == [[{"row": 0}], [{"row": 1}]]
    assert [(sample["labels"].tolist(), sample["labels"].dtype.name) for sample in listed] == [
        ([0], "int64"),
        ([1], "int64"),
    ]
    changed = first(transform={"labels": lambda label: label + 10, "texts": None})
    assert (list(changed.keys()), changed["labels"].tolist()) == (["labels", "texts"], [[10], [11]])
    assert list(first(transform={"labels": None, "index": None}).keys()) == ["labels", "index"]
    pairs = first(transform=lambda sample: (sample["images"], sample["labels"]))
    assert [tuple(part.shape) for part in pairs] == [(2, 8, 8, 3), (2, 1)]
    assert first(transform=lambda sample, k: sample["labels"] * k, transform_kwargs={"k": 5}).tolist() == [
        [0],
        [5],
    ]
    with pytest.raises(ZeroDivisionError) as caught:
        first(transform=lambda sample: 1 // int(sample["index"][0]))
    assert "row 0" in caught.value.__notes__[0]


def test_ways_to_decode(ds: lakebed.Dataset) -> None:
    def first(methods: dict[str, str]) -> Any:
        return next(iter(ds.pytorch(tensors=list(methods), decode_method=methods, collate_fn=list)))[0]

    stored = first({"images": "tobytes", "labels": "tobytes"})
    assert stored["images"].startswith(b"\x89PNG")
    assert stored["labels"] == b"\0\0\0\0"
    assert np.array_equal(np.asarray(first({"images": "pil"})["images"]), ds.images[0].numpy())
    data = first({"labels": "data", "texts": "data", "facts": "data"})
    assert (data["labels"]["value"].tolist(), data["labels"]["text"]) == ([0], ["dark"])
    assert (data["texts"], data["facts"]) == ({"value": "row 0"}, {"value": {"row": 0}})
    for wrong in ({"labels": "pil"}, {"labels": "jpeg"}, {"facts": "tobytes"}, {"nothing": "numpy"}):
        with pytest.raises((InvalidInputError, TensorDoesNotExistError)):
            first(wrong)


def test_tensors_of_different_lengths(tmp_path: Path) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("long", dtype="int64").extend([1, 2, 3])
    ds.create_tensor("short", dtype="int64").append(5)
    ds.create_tensor("words", htype="text").extend(["a", "b"])
    assert len(list(ds.pytorch())) == 1
    padded = [batch[0] for batch in ds.pytorch(pad_tensors=True, collate_fn=list)]
    assert [sample["short"].tolist() for sample in padded] == [[5], [], []]
    assert [sample["words"].tolist() for sample in padded] == [["a"], ["b"], [""]]
    assert [sample["long"].tolist() for sample in padded] == [[1], [2], [3]]
    ds.create_tensor("empty")
    with pytest.raises(EmptyTensorError, match="'empty'"):
        ds.pytorch()


def test_order_views_and_epochs(ds: lakebed.Dataset) -> None:
    assert rows_of(ds[[7, 2, 5]].pytorch(tensors=["labels"])) == [7, 2, 5]
    assert rows_of(ds[2:8:3].pytorch(tensors=["labels"])) == [2, 5]
    assert len(list(ds.pytorch(tensors=["labels"], batch_size=10, drop_last=True))) == 9
    loader = ds.pytorch(tensors=["labels"], batch_size=8, shuffle=True)
    first, second = rows_of(loader), rows_of(loader)
    assert sorted(first) == sorted(second) == list(range(ROWS)) != first != second
    loader.set_epoch(0)
    assert rows_of(loader) == first
    lakebed.random.seed(7)
    try:
        assert rows_of(ds.pytorch(tensors=["labels"], shuffle=True)) != first
    finally:
        lakebed.random.seed(None)


@pytest.mark.parametrize("transform", [None, lake.ready])
def test_a_loader_resumes_in_the_middle_of_an_epoch(ds: lakebed.Dataset, transform: Any) -> None:
    def make() -> Any:
        return ds.pytorch(transform, tensors=["images", "labels"], batch_size=8, shuffle=True)

    loader = make()
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    rest = [batch["labels"].tolist() for batch in batches]
    again = make()
    again.load_state_dict(state)
    assert [batch["labels"].tolist() for batch in again] == rest
    assert len(rest) == 13 - 5


def test_batches_do_not_share_memory(ds: lakebed.Dataset) -> None:
    batches = [batch["images"] for batch in ds.pytorch(tensors=["images"], batch_size=8)]
    whole = torch.cat(batches).numpy()
    assert np.array_equal(whole, ds.images.numpy())


# -- datasets for the DataLoaders of others ----------------------------------------------------------------------------


def plain(ds: lakebed.Dataset, **kwargs: Any) -> Any:
    return ds.torch_dataset(tensors=["images", "labels", "texts"], return_index=True, **kwargs)


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_share_the_rows(ds: lakebed.Dataset, context: str, workers: int) -> None:
    loader = DataLoader(
        plain(ds, shuffle=True), batch_size=8, num_workers=workers, multiprocessing_context=context
    )
    first, second = rows_of(loader), rows_of(loader)
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second, "another epoch, though the workers are new ones"
    for batch in loader:
        rows = batch["index"].flatten().tolist()
        assert batch["texts"] == [f"row {row}" for row in rows]
        assert batch["labels"].flatten().tolist() == [row % 2 for row in rows]
    assert not multiprocessing.active_children()


def test_without_workers_the_order_is_that_of_the_loader(ds: lakebed.Dataset) -> None:
    dataset = plain(ds, shuffle=True, seed=3)
    assert len(dataset) == ROWS
    rows = rows_of(DataLoader(dataset, batch_size=8))
    assert rows == [int(row) for batch in lakebed.Loader(ds, 8, shuffle=True, seed=3) for row in batch.rows]
    dataset.set_epoch(0)
    assert rows_of(DataLoader(dataset, batch_size=16)) == rows


def test_workers_that_stay_go_on_with_the_next_epoch(ds: lakebed.Dataset) -> None:
    dataset = plain(ds, shuffle=True)
    loader = DataLoader(dataset, batch_size=8, num_workers=2, persistent_workers=True)
    first, second = rows_of(loader), rows_of(loader)
    assert sorted(second) == list(range(ROWS))
    assert first != second
    dataset.set_epoch(0)
    assert rows_of(loader) == first
    del loader


def test_a_dataset_resumes(ds: lakebed.Dataset) -> None:
    dataset = plain(ds, shuffle=True)
    samples = iter(dataset)
    seen = [int(next(samples)["index"][0]) for _ in range(30)]
    state = dataset.state_dict()
    rest = [int(sample["index"][0]) for sample in samples]
    other = plain(ds, shuffle=True)
    other.load_state_dict(state)
    assert [int(sample["index"][0]) for sample in other] == rest
    assert sorted(seen + rest) == list(range(ROWS))


@pytest.mark.parametrize("context", [None, "fork", "spawn"])
def test_rows_by_number(ds: lakebed.Dataset, context: str | None) -> None:
    dataset = plain(ds[10:], map_style=True)
    assert len(dataset) == ROWS - 10
    assert (dataset[0]["texts"], dataset[-1]["texts"], dataset[3]["index"].tolist()) == (
        "row 10",
        "row 96",
        [13],
    )
    assert [sample["texts"] for sample in dataset.__getitems__([5, 1, 5])] == ["row 15", "row 11", "row 15"]
    with pytest.raises(IndexError):
        dataset[87]
    loader = DataLoader(
        dataset,
        8,
        sampler=RandomSampler(dataset),
        num_workers=2 if context else 0,
        multiprocessing_context=context,
    )
    rows = rows_of(loader)
    assert sorted(rows) == list(range(10, ROWS)) != rows


def test_an_error_in_a_worker_is_raised(ds: lakebed.Dataset) -> None:
    loader = DataLoader(plain(ds, transform=lake.broken), batch_size=8, num_workers=2)
    with pytest.raises(RuntimeError, match="row 40 is broken") as caught:
        list(loader)
    del loader, caught
    gc.collect()
    assert not multiprocessing.active_children()


def test_a_loop_that_ends_early_leaves_nothing(ds: lakebed.Dataset) -> None:
    before = threading.active_count()
    for workers in (0, 2):
        loader = DataLoader(plain(ds, shuffle=True), batch_size=8, num_workers=workers)
        for _ in loader:
            break
        del loader, _
    with ds.pytorch(batch_size=4, tensors=["images"]).loader as loader:
        next(iter(loader))
    assert not multiprocessing.active_children()
    assert threading.active_count() <= before


# -- processes that train together -------------------------------------------------------------------------------------


def lakebed_loader(ds: lakebed.Dataset) -> Any:
    """Return a loader without a framework, which knows of the process group all the same."""
    return lakebed.Loader(ds, 8, tensors=["labels"], shuffle=True, return_index=True)


def train(rank: int, world: int, path: str, store: str) -> dict[str, Any]:
    """Return the rows of one process by the face of the loader that it asks, and the length of one."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    ds = lakebed.load(path, read_only=True)
    loader = ds.dataloader().batch(8).shuffle().pytorch(tensors=["labels"], distributed=True)
    dataset = ds.torch_dataset(tensors=["labels"], shuffle=True, distributed=True, return_index=True)
    placed = ds.torch_dataset(tensors=["labels"], rank=rank, world=world, return_index=True)
    settings = ds.dataloader().batch(8).shuffle()
    faces = {
        "chained": loader,
        "dataset": DataLoader(dataset, batch_size=8),
        "workers": DataLoader(dataset, batch_size=8, num_workers=2),
        "placed": DataLoader(placed, batch_size=8),
        "plain": ds.pytorch(tensors=["labels"], batch_size=8, shuffle=True),  # as a script of 3.x has it
        "loader": lakebed_loader(ds),
    }
    found: dict[str, Any] = {name: rows_of(face) for name, face in faces.items()}
    for name, batches in (("settings", settings), ("numpy", settings.numpy(tensors=["texts"]))):
        found[name] = [int(text.removeprefix("row ")) for batch in batches for text in batch["texts"]]
    found |= {"whole": rows_of(ds.pytorch(tensors=["labels"], batch_size=8, distributed=False))}
    found |= {
        "all": rows_of(DataLoader(ds.torch_dataset(tensors=["labels"], return_index=True), batch_size=8))
    }
    found |= {"length": len(loader), "settings length": len(settings)}
    found |= {"split": [int(row) for row in ds.random_split([0.8, 0.2])[0].sample_indices]}
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    return found


@pytest.mark.parametrize("world", [1, 2, 3])
def test_processes_take_shares(path: str, tmp_path: Path, world: int) -> None:
    parts = lake.together(train, world, path, str(tmp_path / "store"))
    for face in ("chained", "dataset", "placed", "plain", "loader", "numpy", "settings"):
        lake.check_shares([part[face] for part in parts])
    workers = [row for part in parts for row in part["workers"]]
    assert set(workers) == set(range(ROWS))
    assert len(workers) - ROWS < 2 * world
    assert len({part["length"] for part in parts}) == 1
    assert {part["settings length"] for part in parts} == {parts[0]["length"]}
    assert all(part["whole"] == list(range(ROWS)) for part in parts), (
        "distributed=False gives all rows to each"
    )
    assert all(part["all"] == list(range(ROWS)) for part in parts), "for trainers that share samples out"
    assert all(part["split"] == parts[0]["split"] for part in parts), "a split without a seed is one for all"


@pytest.mark.parametrize("workers", [(0, 2), (2, 3), (3, 2)])
def test_passes_of_other_numbers_of_workers_are_of_one_epoch(
    ds: lakebed.Dataset, workers: tuple[int, int]
) -> None:
    """Who looks at a first sample before the training starts loses no row by it."""
    dataset = ds.torch_dataset(tensors=["labels"], shuffle=True, return_index=True)
    for number in workers:
        assert sorted(rows_of(DataLoader(dataset, batch_size=8, num_workers=number))) == list(range(ROWS))


def test_samples_by_number_are_parted_by_samplers(ds: lakebed.Dataset) -> None:
    for place in ({"distributed": True}, {"rank": 0, "world": 2}):
        with pytest.raises(InvalidInputError, match="DistributedSampler"):
            ds.torch_dataset(map_style=True, **place)
    assert len(ds.torch_dataset(map_style=True, distributed=False)) == ROWS


# -- declared operations -----------------------------------------------------------------------------------------------


def test_operations_become_whole_batches_of_tensors(ds: lakebed.Dataset) -> None:
    steps = ops.Compose([ops.RandomResizedCrop(4), ops.ToFloat(), ops.ChannelsFirst()])
    loader = ds.pytorch({"images": steps, "labels": None}, batch_size=8, shuffle=True)
    assert loader.is_whole, "no sample passes through Python"
    images, labels = next(iter(loader))
    assert (tuple(images.shape), images.dtype, labels.dtype) == ((8, 3, 4, 4), torch.float32, torch.int64)
    loader.set_epoch(0)
    first = next(iter(loader))["images"]
    assert torch.equal(first, images)
    loader.set_epoch(1)
    assert not torch.equal(next(iter(loader))["images"], images)

    rows = ds.torch_dataset({"images": steps, "labels": None}, map_style=True)
    torch.manual_seed(0)
    once, twice = rows[3]["images"], rows[3]["images"]
    assert once.shape == (3, 4, 4)
    assert not np.array_equal(once, twice), "another crop each time"
    torch.manual_seed(0)
    assert np.array_equal(rows[3]["images"], once)
