"""Batches of a dataset: which, in which order, from where on, and what becomes of what goes wrong."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.codecs.lz4_block import Lz4
from lakebed.documents.manifest import BLOCK
from lakebed.errors import InvalidInputError, LimitError, MemoryDatasetCanNotBePickledError
from lakebed.loaders import columns
from lakebed.reading.chunk_files import ChunkFiles
from unit_tests.effort import PATIENCE

ROWS = 211


def pixels(row: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(row)
    return rng.integers(0, 255, (40 + row % 3, 48, 3), dtype=np.uint8)


def fill(ds: lakebed.Dataset, rows: int = ROWS) -> None:
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.create_tensor("label", htype="class_label")
    ds.create_tensor("vector", dtype="float32")
    ds.create_tensor("text", htype="text")
    with ds:
        for row in range(rows):
            ds.append(
                {
                    "image": pixels(row),
                    "label": row % 7,
                    "vector": np.full(5, row, np.float32),
                    "text": f"row {row}",
                }
            )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("loader") / "ds")
    fill(lakebed.empty(path))
    return path


@pytest.fixture
def ds(path: str) -> lakebed.Dataset:
    return lakebed.load(path, read_only=True)


@pytest.fixture
def small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many spans and blocks in a small dataset, whose small tensors are not in memory either."""
    monkeypatch.setattr("lakebed.loaders.spans.SPAN_BYTES", 20_000)
    monkeypatch.setattr("lakebed.loaders.columns.RESIDENT_BYTES", 0)
    monkeypatch.setattr("lakebed.loaders.columns.RESIDENT_SMALL", (0, 0))


def rows_of(loader: lakebed.Loader) -> list[list[int]]:
    return [batch.rows.tolist() for batch in loader]


def flat(rows: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(rows))


def check(batch: Any) -> None:
    """Samples are those of their rows."""
    for i, row in enumerate(batch.rows.tolist()):
        assert np.array_equal(batch["image"][i], pixels(row))
        assert (batch["label"][i], batch["text"][i]) == (row % 7, f"row {row}")
        assert batch["vector"][i].tolist() == [row] * 5


# -- batches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("batch_size", [1, 2, 16, 64, ROWS, ROWS + 1])
def test_batches_hold_all_rows_in_sequence(ds: lakebed.Dataset, batch_size: int, threads: int) -> None:
    loader = lakebed.Loader(ds, batch_size, threads=threads)
    found = list(loader)
    assert len(found) == len(loader) == -(-ROWS // batch_size)
    assert [row for batch in found for row in batch.rows] == list(range(ROWS))
    for batch in found:
        check(batch)


@pytest.mark.usefixtures("small_spans")
@pytest.mark.parametrize("shuffle", [True, "window", "exact", "chunk"])
def test_shuffled_rows_come_once_with_their_values(ds: lakebed.Dataset, shuffle: Any) -> None:
    loader = lakebed.Loader(ds, 16, shuffle=shuffle, window=200_000, threads=2)
    first, second = rows_of(loader), rows_of(loader)
    assert sorted(flat(first)) == sorted(flat(second)) == list(range(ROWS))
    assert shuffle == "chunk" or first != second != [list(range(16))]
    for batch in loader:
        check(batch)


@pytest.mark.usefixtures("small_spans")
def test_order_does_not_depend_on_threads_nor_tensors(ds: lakebed.Dataset) -> None:
    orders = [
        rows_of(lakebed.Loader(ds, 16, shuffle=True, seed=5, threads=threads, tensors=tensors))
        for threads in (0, 1, 4)
        for tensors in (None, ["image", "text"])
    ]
    assert orders[0] == orders[2] == orders[4]
    assert orders[1] == orders[3] == orders[5]
    assert orders[0] != rows_of(lakebed.Loader(ds, 16, shuffle=True, seed=6))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [50, None])
def test_an_epoch_ends_with_its_last_batch(
    ds: lakebed.Dataset, batch_size: int | None, drop_last: bool
) -> None:
    """Trainers count batches, and never ask for one more."""
    loader = lakebed.Loader(ds, batch_size, tensors=["label"], shuffle=True, drop_last=drop_last)
    assert batch_size is None or len(loader) == (4 if drop_last else 5)
    counted = [[batch["label"].tolist() for batch in islice(loader, len(loader))] for _ in range(3)]
    loader.set_epoch(0)
    assert counted == [[batch["label"].tolist() for batch in loader] for _ in range(3)]


def test_single_samples(ds: lakebed.Dataset) -> None:
    loader = lakebed.Loader(ds, None)
    found = list(loader)
    assert len(found) == len(loader) == ROWS
    assert np.array_equal(found[100]["image"], pixels(100))
    assert found[100]["text"] == "row 100"


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("is_small", [True, False])
def test_samples_by_number(
    ds: lakebed.Dataset, request: pytest.FixtureRequest, threads: int, is_small: bool
) -> None:
    if is_small:
        request.getfixturevalue("small_spans")
    loader = lakebed.Loader(ds[3:200:2], threads=threads, return_index=True)
    for numbers in ([0], [98, 0, 5, 5], list(range(40, 20, -1)), np.arange(99)):
        batch = loader.take(numbers)
        assert batch.rows.tolist() == batch["index"].tolist() == [3 + 2 * n for n in numbers]
        check(batch)
    picked = lakebed.Loader(ds[[9, 4, 7]], threads=threads)
    assert picked.take([2, 0]).rows.tolist() == [7, 9]
    assert rows_of(picked) == [[9], [4], [7]], "a pass is what it was"
    for wrong in ([-1], [99]):
        with pytest.raises(IndexError, match="0 to 98"):
            loader.take(wrong)


def test_samples_of_one_shape_are_one_array(ds: lakebed.Dataset) -> None:
    (batch,) = lakebed.Loader(ds[0:9:3], 3, return_index=True)
    assert batch["image"].shape == (3, 40, 48, 3)
    assert batch["index"].tolist() == [0, 3, 6]
    assert (batch["label"].shape, batch["vector"].shape) == ((3, 1), (3, 5))


def test_samples_of_different_shapes(ds: lakebed.Dataset) -> None:
    (listed,) = lakebed.Loader(ds[:3], 3)
    (padded,) = lakebed.Loader(ds[:3], 3, ragged="pad")
    (flat,) = lakebed.Loader(ds[:3], 3, ragged="flat")
    assert [image.shape for image in listed["image"]] == [(40, 48, 3), (41, 48, 3), (42, 48, 3)]
    assert padded["image"].shape == (3, 42, 48, 3)
    assert np.array_equal(padded["image"][1, :41], pixels(1))
    assert not padded["image"][1, 41:].any()
    assert all(np.array_equal(flat["image"][row], pixels(row)) for row in range(3))
    assert len(flat["image"]) == 3
    assert flat["image"].offsets.tolist() == np.cumsum([0] + [s * 48 * 3 for s in (40, 41, 42)]).tolist()


def test_a_batch_may_be_kept_and_changed(ds: lakebed.Dataset) -> None:
    kept = []
    for batch in lakebed.Loader(ds, 8, threads=2):
        batch["label"][:] += 1
        batch["vector"][:] += 1
        for image in batch["image"]:
            image[:] = image + 1
        kept.append(batch)
    for batch in kept:
        for i, row in enumerate(batch.rows.tolist()):
            assert np.array_equal(batch["image"][i], pixels(row) + 1)
            assert batch["label"][i] == row % 7 + 1
    for batch in lakebed.Loader(ds, 8):
        assert (batch["label"].ravel() == batch.rows % 7).all()


def test_views_and_groups(tmp_path: Path) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("a/x", dtype="int64")
    ds.create_tensor("y", dtype="int64")
    ds["a/x"].extend(np.arange(20))
    ds.y.extend(np.arange(20).reshape(20, 1) * np.ones((20, 4), np.int64))
    (batch,) = lakebed.Loader(ds[[7, 3, 3, 11]], 9)
    assert batch["a/x"].ravel().tolist() == [7, 3, 3, 11]
    (batch,) = lakebed.Loader(ds["a"], 20)
    assert list(batch) == ["x"]
    (batch,) = lakebed.Loader(ds[:6, 1:3], 20, tensors=["y"])
    assert batch["y"].shape == (6, 2)
    shuffled = rows_of(lakebed.Loader(ds[[7, 3, 3, 11]], 9, shuffle=True))
    assert sorted(shuffled[0]) == [3, 3, 7, 11]


def test_an_old_commit_and_a_dataset_that_grows(tmp_path: Path) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("x", dtype="int64")
    ds.x.extend(np.arange(10))
    commit = ds.commit()
    ds.x.extend(np.arange(10, 30))
    loader = lakebed.Loader(ds, 4)
    seen = []
    for batch in loader:
        ds.x.append(99)
        seen.extend(batch["x"].ravel().tolist())
    assert seen == list(range(30))
    old = lakebed.load(str(tmp_path / "ds"), read_only=True)
    old.checkout(commit)
    assert flat(rows_of(lakebed.Loader(old, 4))) == list(range(10))


def test_a_dataset_that_is_being_written_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_spans: None
) -> None:
    """Each pass has the version that was opened, though a writer changes every row and collects what it replaced."""
    monkeypatch.setattr("lakebed.config.GRACE_SECONDS", 0)
    monkeypatch.setattr("lakebed.config.KEEP_HEADS", 1)
    monkeypatch.setattr("lakebed.versions.gc.collect._EVERY", 2)
    fill(lakebed.empty(str(tmp_path / "ds")), 60)
    read, writer = lakebed.load(str(tmp_path / "ds"), read_only=True), lakebed.load(str(tmp_path / "ds"))
    stop, written = threading.Event(), []

    def write() -> None:
        while not stop.is_set():
            number = len(written)
            for row in range(number % 6, 60, 6):
                writer.vector[row] = np.full(5, -1 - number, np.float32)
                writer.image[row] = pixels(row + 1)
            writer.append({"image": pixels(0), "label": 1, "vector": np.zeros(5, np.float32), "text": "new"})
            writer.flush()
            written.append(number)

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            loader = lakebed.Loader(read, 8, shuffle=True, threads=2)
            while len(written) < 8 and not writing.done():
                batches = list(loader)
                assert sorted(flat(batch.rows.tolist() for batch in batches)) == list(range(60))
                for batch in batches:
                    rows = batch.rows.tolist()
                    assert batch["vector"][:, 0].tolist() == rows
                    assert all(map(np.array_equal, batch["image"], map(pixels, rows)))
                    assert batch["text"] == [f"row {row}" for row in rows]
        finally:
            stop.set()
        writing.result(PATIENCE)
    assert len(lakebed.load(str(tmp_path / "ds"), read_only=True)) == 60 + len(written)


def test_empty_datasets_have_no_batches(tmp_path: Path) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    with pytest.raises(lakebed.errors.InvalidOperationError, match="no tensors"):
        lakebed.Loader(ds)
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("i", htype="image", sample_compression="jpeg")
    for shuffle in (False, True, "exact", "chunk"):
        loader = lakebed.Loader(ds, 4, tensors=["x"], shuffle=shuffle)
        assert list(loader) == []
        assert len(loader) == 0
        assert list(lakebed.Loader(ds[:0], 4, tensors=["x"], shuffle=shuffle)) == []


# -- weights ---------------------------------------------------------------------------------------------------


def test_weights_decide_how_often_rows_come(ds: lakebed.Dataset) -> None:
    weights = np.zeros(ROWS)
    weights[[3, 50, 200]] = [1, 2, 1]
    loader = lakebed.Loader(ds, 32, weights=weights, size=4_000, tensors=["label", "image"])
    counts = Counter(flat(rows_of(loader)))
    assert set(counts) == {3, 50, 200}
    assert counts.total() == 4_000
    assert 1_800 < counts[50] < 2_200
    assert Counter(flat(rows_of(loader))) != counts  # another epoch, other draws
    once = lakebed.Loader(ds, 32, weights=np.ones(ROWS), replace=False, size=20)
    assert len(set(flat(rows_of(once)))) == 20
    with pytest.raises(InvalidInputError, match="one for each"):
        lakebed.Loader(ds, weights=[1.0])


# -- where it goes on ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_spans")
@pytest.mark.parametrize("shuffle", [False, True, "exact", "chunk"])
@pytest.mark.parametrize("stop", [0, 5, 14])
def test_a_loader_goes_on_where_another_was(ds: lakebed.Dataset, shuffle: Any, stop: int) -> None:
    whole = lakebed.Loader(ds, 16, shuffle=shuffle, window=200_000, seed=3)
    whole.set_epoch(4)
    expected = rows_of(whole)
    first = lakebed.Loader(ds, 16, shuffle=shuffle, window=200_000, seed=3, threads=2)
    first.set_epoch(4)
    iterator = iter(first)
    seen = [next(iterator).rows.tolist() for _ in range(stop)]
    state = first.state_dict()
    assert len(pickle.dumps(state)) < 1_000
    second = lakebed.Loader(ds, 16, shuffle=shuffle, window=200_000, seed=3, threads=1)
    second.load_state_dict(state)
    rest = list(second)
    assert seen + [batch.rows.tolist() for batch in rest] == expected
    assert second.epoch == 5
    for batch in rest:
        assert all(np.array_equal(batch["image"][i], pixels(row)) for i, row in enumerate(batch.rows))


def test_state_counts_what_was_handed_out_of_single_samples(ds: lakebed.Dataset) -> None:
    loader = lakebed.Loader(ds, None, shuffle=True)
    iterator = iter(loader)
    seen = [next(iterator)["text"] for _ in range(77)]
    again = lakebed.Loader(ds, None, shuffle=True)
    again.load_state_dict(loader.state_dict())
    seen += [sample["text"] for sample in again]
    assert sorted(seen) == sorted(f"row {row}" for row in range(ROWS))


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"shuffle": "exact"}, {"shuffle": False}, {"tensors": ["image"]}, {"window": 10}]
)
@pytest.mark.usefixtures("small_spans")
def test_a_state_of_another_order_is_refused(ds: lakebed.Dataset, change: dict[str, Any]) -> None:
    state = lakebed.Loader(ds, 16, shuffle=True).state_dict()
    other = lakebed.Loader(ds, 16, **({"shuffle": True} | change))
    with pytest.raises(InvalidInputError, match="another"):
        other.load_state_dict(state)


@pytest.mark.usefixtures("small_spans")
def test_other_numbers_of_processes_take_the_same_batches(ds: lakebed.Dataset) -> None:
    def ranks(world: int, state: dict[str, Any] | None, steps: int) -> tuple[list[list[int]], dict[str, Any]]:
        loaders = [
            lakebed.Loader(ds, 24 // world, shuffle=True, seed=0, window=200_000, rank=rank, world=world)
            for rank in range(world)
        ]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
        iterators = [iter(loader) for loader in loaders]
        taken = []
        for _ in range(steps):
            batches = [next(iterator) for iterator in iterators]
            taken.append(sorted(int(row) for batch in batches for row in batch.rows[batch.real]))
        states = [loader.state_dict() for loader in loaders]
        assert all(one == states[0] for one in states)
        for iterator in iterators:
            iterator.close()  # type: ignore[attr-defined]
        return taken, states[0]

    expected, _ = ranks(1, None, 9)
    taken, state = ranks(1, None, 2)
    for world, steps in ((2, 3), (4, 2), (3, 2)):
        more, state = ranks(world, state, steps)
        taken += more
    assert taken == expected
    assert sorted(flat(taken)) == list(range(ROWS))


@pytest.mark.parametrize("world", [2, 3, 4, 7])
def test_processes_take_equally_many_steps(ds: lakebed.Dataset, world: int) -> None:
    for tail in ("pad", "drop"):
        found = [
            list(lakebed.Loader(ds, 8, rank=rank, world=world, tail=tail, shuffle=True, tensors=["label"]))
            for rank in range(world)
        ]
        assert len({tuple(len(batch.rows) for batch in batches) for batches in found}) == 1
        real = [int(row) for batches in found for batch in batches for row in batch.rows[batch.real]]
        assert len(real) == len(set(real))
        assert len(real) == (ROWS if tail == "pad" else ROWS - ROWS % (8 * world) % world)


def test_offset_leaves_out_the_start_of_the_first_epoch(ds: lakebed.Dataset) -> None:
    loader = lakebed.Loader(ds, 16, offset=200, tensors=["label"])
    assert rows_of(loader) == [list(range(200, ROWS))]
    assert flat(rows_of(loader)) == list(range(ROWS))


# -- transforms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [0, 2])
def test_a_transform_makes_samples(ds: lakebed.Dataset, threads: int) -> None:
    def change(sample: dict[str, Any]) -> dict[str, Any]:
        return {"mean": sample["image"].mean(), "row": sample["index"][0], "pair": (1, sample["vector"])}

    for batch in lakebed.Loader(ds, 16, transform=change, threads=threads, return_index=True):
        assert batch["row"].tolist() == batch.rows.tolist() == batch["index"].tolist()
        assert batch["mean"].tolist() == [pixels(row).mean() for row in batch.rows]
        assert batch["pair"][1].shape == (len(batch.rows), 5)
    numbers = lakebed.Loader(ds, 16, transform=lambda sample: sample["label"] * 2, threads=threads)
    assert [v for b in numbers for v in b["samples"].ravel()] == [row % 7 * 2 for row in range(ROWS)]


def test_a_transform_for_each_tensor(ds: lakebed.Dataset) -> None:
    loader = lakebed.Loader(ds, 16, transform={"image": lambda image: image.shape, "label": None})
    batch = next(iter(loader))
    assert list(batch) == ["image", "label"]
    assert batch["image"][0].tolist()[:2] == [40, 41]
    with pytest.raises(InvalidInputError, match="nothing"):
        lakebed.Loader(ds, tensors=["image"], transform={"nothing": None})


def test_an_error_of_a_transform_says_where(ds: lakebed.Dataset) -> None:
    def change(sample: dict[str, Any]) -> Any:
        if sample["text"] == "row 77":
            raise KeyError("mine")
        return sample

    with pytest.raises(KeyError, match="mine") as caught:
        list(lakebed.Loader(ds, 16, transform=change, threads=2))
    assert caught.value.__notes__ == ["in the transform of row 77"]
    loader = lakebed.Loader(ds, 16, transform=change, threads=2, on_error="skip")
    assert flat(rows_of(loader)) == [row for row in range(ROWS) if row != 77]
    assert (loader.stats()["errors"], loader.stats()["last_error"]) == (1, "KeyError: 'mine'")
    loader = lakebed.Loader(ds, 16, transform=change, threads=2, on_error="substitute")
    sizes = [len(batch["text"]) for batch in loader]
    assert sizes == [16] * 13 + [3]


class Leave(BaseException):
    pass


def test_whatever_a_transform_raises_arrives(ds: lakebed.Dataset) -> None:
    def change(sample: dict[str, Any]) -> Any:
        raise Leave

    with pytest.raises(Leave):
        list(lakebed.Loader(ds, 16, transform=change, threads=2))


# -- damage ----------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> lakebed.Dataset:
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("image", htype="image", sample_compression="png", verify=False)
    ds.create_tensor("label", htype="class_label")
    (tmp_path / "bad.png").write_bytes(_broken())
    for row in range(40):
        ds.append(
            {"image": lakebed.read(str(tmp_path / "bad.png")) if row == 21 else pixels(0), "label": row}
        )
    ds.flush()
    return ds


def _broken() -> bytes:
    import io

    from PIL import Image

    made = io.BytesIO()
    Image.fromarray(pixels(0)).save(made, "png")
    data = bytearray(made.getvalue())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    return bytes(data)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_damaged_image(damaged: lakebed.Dataset, threads: int) -> None:
    with pytest.raises(lakebed.errors.CorruptError, match=r"tensor 'image', row 21"):
        list(lakebed.Loader(damaged, 8, threads=threads))
    loader = lakebed.Loader(damaged, 8, threads=threads, on_error="skip")
    found = list(loader)
    assert [row for batch in found for row in batch.rows] == [row for row in range(40) if row != 21]
    assert [v for batch in found for v in batch["label"].ravel()] == [row for row in range(40) if row != 21]
    assert loader.stats()["errors"] == 1
    (failure,) = loader.stats()["failures"]
    assert (failure["tensor"], failure["row"]) == ("image", 21)
    assert "CorruptError" in failure["error"] or "Error: tensor 'image', row 21" in failure["error"]
    start, length = failure["range"]
    chunk = (Path(damaged.path) / failure["chunk"]).read_bytes()
    assert chunk[start : start + length] == _broken(), "the bytes of the file as it is stored"
    substituted = list(lakebed.Loader(damaged, 8, threads=threads, on_error="substitute"))
    assert [len(batch.rows) for batch in substituted] == [8] * 5
    assert 21 not in {int(row) for batch in substituted for row in batch.rows}
    for batch in substituted:
        assert all(np.array_equal(image, pixels(0)) for image in batch["image"])
        assert batch["label"].ravel().tolist() == batch.rows.tolist()


# -- memory, threads, processes --------------------------------------------------------------------------------


def test_a_batch_beyond_the_memory_names_its_largest_sample(ds: lakebed.Dataset) -> None:
    with pytest.raises(LimitError, match=r"needs 188,784 bytes.*row 2 of tensor 'image'") as caught:
        list(lakebed.Loader(ds, 32, memory=100_000, threads=2))
    assert (caught.value.tensor, caught.value.row) == ("image", 2)
    small = lakebed.Loader(ds, 8, memory=100_000, threads=2)
    assert flat(rows_of(small)) == list(range(ROWS))
    assert small.stats()["peak_bytes"] <= 100_000


def test_nothing_is_left_of_an_iteration_that_ends_early(ds: lakebed.Dataset) -> None:
    def count() -> int:
        return sum(thread.name.startswith("lakebed-loader") for thread in threading.enumerate())

    loader = lakebed.Loader(ds, 4, threads=3)
    for _ in range(3):
        for batch in loader:
            assert count() == 3
            if batch.step == 2:
                break
        gc.collect()
        assert count() == 0
    iterator = iter(loader)
    next(iterator)
    loader.close()
    assert count() == 0
    with pytest.raises(StopIteration):
        next(iterator)
    with loader:
        next(iter(loader))
    assert count() == 0
    held = iter(lakebed.Loader(ds, 4, threads=3))
    next(held)
    del held
    gc.collect()
    assert count() == 0


def _child(path: str, loader: Any, queue: Any) -> None:
    queue.put(rows_of(loader or lakebed.Loader(lakebed.load(path, read_only=True), 16, shuffle=True)))


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_loaders_go_to_other_processes(path: str, ds: lakebed.Dataset, method: str) -> None:
    loader = lakebed.Loader(ds, 16, shuffle=True, threads=2)
    expected = rows_of(loader)
    loader.set_epoch(0)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=_child, args=(path, loader, queue))
    child.start()
    assert queue.get(timeout=60) == expected
    child.join()


def test_batches_of_about_one_size_share_their_memory() -> None:
    """Where each batch is a little larger than the one before, most need no new memory."""
    ds = lakebed.empty("mem://sharing")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.image.extend([np.zeros((400, 410 + row // 16 + row % 2, 3), np.uint8) for row in range(256)])
    with lakebed.Loader(ds, 16, threads=1) as loader:
        largest = max(sum(image.nbytes for image in batch["image"]) for batch in loader)
        # The batch at hand, and three ahead of it.
        assert loader._pool.held <= 5 * largest * 9 // 8
    ds.delete()


def test_a_loader_of_a_dataset_in_memory_cannot_be_pickled() -> None:
    ds = lakebed.empty("mem://loader-pickled", overwrite=True)
    fill(ds, 3)
    with pytest.raises(MemoryDatasetCanNotBePickledError):
        pickle.dumps(lakebed.Loader(ds))


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"ragged": "no"},
        {"on_error": "no"},
        {"shuffle": "no"},
        {"threads": -1},
        {"rank": 2, "world": 2},
        {"decode": {"no": "bytes"}},
        {"decode": {"text": "pil"}},
    ],
)
def test_wrong_arguments_are_told(ds: lakebed.Dataset, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        list(lakebed.Loader(ds, **wrong))


def test_stored_bytes_and_pictures(ds: lakebed.Dataset) -> None:
    (batch,) = lakebed.Loader(ds[:3], 3, decode={"image": "bytes", "text": "bytes"})
    assert batch["image"] == [ds.image[row].tobytes() for row in range(3)]
    assert batch["text"] == [b"row 0", b"row 1", b"row 2"]
    (batch,) = lakebed.Loader(ds[:3], 3, decode={"image": "pil"})
    assert np.array_equal(np.asarray(batch["image"][2]), pixels(2))


def test_stats_name_the_bottleneck(ds: lakebed.Dataset) -> None:
    import time

    loader = lakebed.Loader(ds, 16, threads=2)
    for _ in loader:
        time.sleep(0.03)
    stats = loader.stats()
    assert stats["bottleneck"] == "consumer"
    assert (stats["samples"], stats["batches"]) == (ROWS, 14)
    slow = lakebed.Loader(ds, 16, threads=2, transform=lambda sample: time.sleep(0.002))
    list(slow)
    assert slow.stats()["bottleneck"] == "transform"


@pytest.fixture(scope="module")
def compressed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rows of two tensors in chunks that are compressed as a whole."""
    ds = lakebed.empty(str(tmp_path_factory.mktemp("compressed") / "ds"))
    ds.create_tensor("x", dtype="uint8", chunk_compression="lz4", max_chunk_size=1 << 16)
    ds.create_tensor("y", dtype="float32", chunk_compression="lz4", max_chunk_size=1 << 16)
    for row in range(1_000):
        ds.append({"x": np.full((90, 90), row % 256, np.uint8), "y": np.full(row % 9 * 200, row, np.float32)})
    ds.commit()
    ds.close()
    return ds.path


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("shuffle", [False, True, "chunk", "exact"])
def test_chunks_that_are_compressed_as_a_whole(compressed: str, threads: int, shuffle: Any) -> None:
    ds = lakebed.load(compressed, read_only=True)
    loader = lakebed.Loader(ds, 64, threads=threads, shuffle=shuffle, window=1 << 20)
    seen = []
    for batch in loader:
        seen += batch.rows.tolist()
        assert (batch["x"] == (batch.rows % 256).astype(np.uint8)[:, None, None]).all()
        for row, values in zip(batch.rows.tolist(), batch["y"], strict=True):
            assert len(values) == row % 9 * 200
            assert (values == row).all()
    assert sorted(seen) == list(range(1_000))
    assert loader.stats()["held"] == 0


def test_threads_decompress_chunks_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the first two chunks waits until the other one is being decompressed, too."""
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("x", dtype="uint8", chunk_compression="lz4", max_chunk_size=1 << 16)
    ds.x.extend(np.arange(256, dtype=np.uint8).repeat(8_000).reshape(256, 8_000))
    ds.commit()
    monkeypatch.setattr("lakebed.loaders.columns.RESIDENT_BYTES", 0)
    both, decode, first_two = threading.Barrier(2, timeout=PATIENCE), Lz4.decode, [0, 1]

    def decode_together(codec: Lz4, data: Any, limit: int, allocate: Any = None) -> Any:
        if first_two:
            first_two.pop()
            both.wait()
        return decode(codec, data, limit, allocate)

    monkeypatch.setattr(Lz4, "decode", decode_together)
    found = [row for batch in lakebed.Loader(ds, 64, threads=2, shuffle=True) for row in batch["x"]]
    assert sorted(row[0] for row in found) == list(range(256))
    assert all((row == row[0]).all() for row in found)


def test_all_threads_read_for_the_first_batch_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of its spans are read at the same time, and none of another batch before its samples can be made."""
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("x", dtype="uint8")
    ds.x.extend(np.arange(2_000, dtype=np.uint16).view(np.uint8).reshape(2_000, 2).repeat(4_000, axis=1))
    ds.commit()
    monkeypatch.setattr("lakebed.loaders.columns.RESIDENT_BYTES", 0)
    both, read, opened = threading.Barrier(2, timeout=PATIENCE), columns.read_portion, columns.Gathered.room
    first_two, events = [0, 1], list[Any]()

    def read_together(reader: Any, rows: range, shape: Any) -> Any:
        if first_two:
            first_two.pop()
            both.wait()
        events.append(rows)
        return read(reader, rows, shape)

    def room(column: columns.Gathered, picked: columns.Picked) -> Any:
        events.append(None)
        return opened(column, picked)

    monkeypatch.setattr(columns, "read_portion", read_together)
    monkeypatch.setattr(columns.Gathered, "room", room)
    with lakebed.Loader(ds, 4, threads=2, shuffle="window") as loader:
        batches = iter(loader)
        rows = next(batches).rows
        seen = sum((batch.rows.tolist() for batch in batches), rows.tolist())
    early = events[: events.index(None)]
    assert len(early) >= 2
    assert all(any(row in span for row in rows.tolist()) for span in early)
    assert sorted(seen) == list(range(2_000))


# -- arrays stored one by one ----------------------------------------------------------------------------------


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> lakebed.Dataset:
    """Compressed arrays of one shape, compressed ones of several, and plain ones of several, none kept in memory."""
    monkeypatch.setattr("lakebed.loaders.columns.RESIDENT_BYTES", 0)
    monkeypatch.setattr("lakebed.loaders.columns.RESIDENT_SMALL", (0, 0))
    ds = lakebed.empty("mem://arrays", overwrite=True)
    ds.create_tensor("even", dtype="uint16", sample_compression="lz4")
    ds.create_tensor("packed", dtype="float32", sample_compression="lz4")
    ds.create_tensor("plain", dtype="float32")
    rng = np.random.default_rng(3)
    uneven = [rng.random((row % 5, 7), np.float32) for row in range(60)]
    ds.extend({"even": rng.integers(0, 9, (60, 11, 5), np.uint16), "packed": uneven, "plain": uneven})
    return ds


@pytest.mark.parametrize("threads", [0, 2])
def test_arrays_that_are_stored_one_by_one(arrays: lakebed.Dataset, threads: int) -> None:
    """They are decoded into their places in the batch, and belong to the caller."""
    for batch in lakebed.Loader(arrays, 8, shuffle=True, threads=threads):
        assert isinstance(batch["even"], np.ndarray)
        for name in ("even", "packed", "plain"):
            for row, value in zip(batch.rows.tolist(), batch[name], strict=True):
                wanted = arrays[name][row].numpy()
                assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
                assert np.array_equal(value, wanted)
                value[...] = 0  # it is writable, and nothing else lies there
    assert arrays.packed[4].numpy().any()


@pytest.mark.parametrize("name", ["even", "packed", "plain"])
def test_what_arrays_need_is_known_before_they_are_decoded(arrays: lakebed.Dataset, name: str) -> None:
    with pytest.raises(LimitError, match=rf"largest sample is row \d+ of tensor '{name}' with 11[02] bytes"):
        list(lakebed.Loader(arrays, 20, tensors=[name], memory=500))


def test_of_a_small_part_of_a_tensor_not_all_is_loaded(tmp_path: Path) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("x", dtype="float64", max_chunk_size=1 << 20)
    ds.create_tensor("t", htype="text")
    ds.extend({"x": np.arange(1_200_000).reshape(300_000, 4), "t": [f"row {row}" for row in range(300_000)]})
    ds.commit()
    loader = lakebed.Loader(ds[1000:300_000:3000], 30, shuffle=True)
    found = list(loader)
    assert sorted(row for batch in found for row in batch.rows) == list(range(1000, 300_000, 3000))
    for batch in found:
        assert (batch["x"][:, 1] == batch.rows * 4 + 1).all()
        assert batch["t"] == [f"row {row}" for row in batch.rows]
    assert loader.stats()["requests"] > 0
    whole = lakebed.Loader(ds, 300_000)
    (batch,) = whole
    assert (batch["x"][:, 0] == np.arange(300_000) * 4).all()
    assert whole.stats()["requests"] == 0


@pytest.mark.parametrize("batch_size", [16, None])
def test_a_look_at_the_first_batch_takes_nothing_from_the_next_pass(
    ds: lakebed.Dataset, batch_size: int | None
) -> None:
    loader = lakebed.Loader(ds, batch_size, shuffle=True, tensors=["text"])
    next(iter(loader))
    assert loader.state_dict()["epoch"] == 0
    for epoch in (1, 2):
        found = [
            text for batch in loader for text in ([batch["text"]] if batch_size is None else batch["text"])
        ]
        assert sorted(found) == sorted(f"row {row}" for row in range(ROWS))
        assert loader.epoch == epoch + 1


@pytest.mark.parametrize("threads", [0, 2])
def test_a_loader_that_another_thread_closes_ends_the_loop(ds: lakebed.Dataset, threads: int) -> None:
    is_held, may_go = threading.Event(), threading.Event()

    def hold(sample: dict[str, Any]) -> dict[str, Any]:
        is_held.set()
        may_go.wait(60)
        return sample

    loader = lakebed.Loader(ds, 4, transform=hold, threads=threads)
    seen: list[Any] = []
    consumer = threading.Thread(target=lambda: seen.extend(loader), daemon=True)
    consumer.start()
    assert is_held.wait(60)
    closer = threading.Thread(target=loader.close, daemon=True)
    closer.start()
    if threads:  # the consumer only waits: it is free at once, whatever the transform does
        consumer.join(60)
        assert not consumer.is_alive()
    may_go.set()
    consumer.join(60)
    closer.join(60)
    assert not consumer.is_alive()
    assert not closer.is_alive()
    assert seen == []


def test_of_an_uncommitted_dataset_no_more_is_read_than_the_spans_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start of a chunk as elsewhere: what follows there is not what comes next."""
    ds = lakebed.empty(tmp_path / "uncommitted")
    ds.create_tensor("x", dtype="uint8", max_chunk_size=4 << 20, tiling_threshold=-1)
    ds.x.extend([np.full(500_000 + row, row, np.uint8) for row in range(80)])
    ds.flush()
    read = []
    plain = ChunkFiles.range

    def counted(files: ChunkFiles, key: str, start: int, length: int) -> bytes:
        read.append(length)
        return plain(files, key, start, length)

    monkeypatch.setattr(ChunkFiles, "range", counted)
    for batch in lakebed.Loader(
        lakebed.load(tmp_path / "uncommitted", read_only=True), 8, shuffle=True, seed=0
    ):
        assert all((value == row).all() for value, row in zip(batch["x"], batch.rows, strict=True))
    assert max(read) <= 4 * BLOCK


# -- a dataset that changes between epochs -----------------------------------------------------------------------


def _larger(ds: lakebed.Dataset) -> None:
    with ds:
        for row in range(0, ROWS, 3):
            ds.image[row] = np.random.default_rng(row).integers(0, 255, (90, 80, 3), dtype=np.uint8)


def _rotated(ds: lakebed.Dataset) -> None:
    with ds:
        for _ in range(20):
            ds.pop(0)
        for row in range(20):
            ds.append({"image": pixels(row), "label": 0, "vector": np.zeros(5, np.float32), "text": "new"})


@pytest.mark.parametrize(
    "change", [_larger, lambda ds: ds.rechunk(), _rotated], ids=["update", "rechunk", "pop"]
)
@pytest.mark.usefixtures("small_spans")
def test_a_state_after_a_change_between_epochs_leaves_no_row_out(change: Any) -> None:
    ds = lakebed.empty("mem://changing-epochs", overwrite=True)
    fill(ds)
    settings = {"shuffle": True, "window": 200_000, "seed": 3}
    loader = lakebed.Loader(ds, 16, **settings)
    assert sum(len(batch.rows) for batch in loader) == ROWS
    change(ds)
    ds.commit()
    epoch = iter(loader)
    seen = [row for batch in islice(epoch, 5) for row in batch.rows.tolist()]
    other = lakebed.Loader(ds, 16, **settings)
    other.load_state_dict(loader.state_dict())
    seen += [row for batch in other for row in batch.rows.tolist()]
    assert Counter(seen) == Counter(range(ROWS))


@pytest.mark.usefixtures("small_spans")
def test_a_state_is_of_one_version_of_the_rows() -> None:
    ds = lakebed.empty("mem://versions-of-state", overwrite=True)
    fill(ds, 40)
    state = lakebed.Loader(ds, 8).state_dict()
    ds.commit("the same rows")
    lakebed.Loader(ds, 8).load_state_dict(state)
    loaded = lakebed.Loader(ds, 8)
    loaded.load_state_dict(state | {"position": 8})
    ds.pop(0)
    ds.append({"image": pixels(0), "label": 0, "vector": np.zeros(5, np.float32), "text": "new"})
    ds.commit("as many others")
    with pytest.raises(InvalidInputError, match="rows have changed"):
        lakebed.Loader(ds, 8).load_state_dict(state)
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="has changed since a state was loaded"):
            next(iter(loaded))
    loaded.set_epoch(loaded.epoch)
    assert sum(len(batch.rows) for batch in loaded) == 40


@pytest.mark.parametrize("tensors", [None, ["image"], ["label"]])
@pytest.mark.parametrize("end", ["flush", "commit"])
def test_a_state_over_rows_that_wait_goes_on_once_they_are_published(
    tmp_path: Path, tensors: list[str] | None, end: str
) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    fill(ds, 40)
    for row in range(40, 50):
        ds.append({"image": pixels(row), "label": 1, "vector": np.zeros(5, np.float32), "text": "new"})
    loader = lakebed.Loader(ds, 8, shuffle=True, tensors=tensors)
    batches = iter(loader)
    seen = next(batches).rows.tolist()
    state = loader.state_dict()
    loader.close()
    getattr(ds, end)()
    again = lakebed.Loader(lakebed.load(ds.path, read_only=True), 8, shuffle=True, tensors=tensors)
    again.load_state_dict(state)
    seen += [row for batch in again for row in batch.rows.tolist()]
    assert sorted(seen) == list(range(50))


@pytest.mark.parametrize(
    "damage",
    [
        {"position": -1},
        {"position": 1.5},
        {"position": True},
        {"epoch": "1"},
        {"order": None},
        {"seed": None},
        None,
    ],
    ids=str,
)
def test_a_damaged_state_is_said_to_be_one(ds: lakebed.Dataset, damage: Any) -> None:
    loader = lakebed.Loader(ds, 8)
    state = {"version": 1} if damage is None else loader.state_dict() | damage
    with pytest.raises(InvalidInputError, match="damaged"):
        loader.load_state_dict(state)
    with pytest.raises(InvalidInputError, match="version"):
        loader.load_state_dict([])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{}, {"sample_compression": "lz4"}, {"chunk_compression": "lz4"}], ids=str
)
def test_nulls_among_single_numbers_are_empty_samples(options: dict[str, str]) -> None:
    ds = lakebed.empty("mem://null-numbers", overwrite=True)
    ds.create_tensor("x", dtype="int16", **options).extend([1, None, 3])
    (batch,) = lakebed.Loader(ds, 3)
    assert [(value.dtype, value.tolist()) for value in batch["x"]] == [
        ("int16", [1]),
        ("int16", []),
        ("int16", [3]),
    ]
