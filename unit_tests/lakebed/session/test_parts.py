"""Parts: rows that others encode and write, and that one writer adopts in order and publishes once."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import (
    InvalidOperationError,
    MemoryDatasetCanNotBePickledError,
    ReadOnlyModeError,
    SampleExtendError,
    TensorDoesNotExistError,
)
from lakebed.maintenance.verify import verify
from lakebed.session import parts
from lakebed.session.parts import Part, PartTarget, PartWriter, adopt, writing_parts
from lakebed.storage.base import Storage
from lakebed.versions.gc import sweep
from unit_tests.lakebed.datasets import create_on, new_memory, open_on, visible

Columns = dict[str, Any]
Make = Callable[[lakebed.Dataset], None]


def part_of(target: PartTarget, *batches: Columns) -> Part:
    with PartWriter(target) as writer:
        for columns in batches:
            writer.extend(columns)
        return writer.finish()


def by_parts(storage: Storage, batches: Sequence[Columns]) -> lakebed.Dataset:
    """Add batches to the dataset in a storage as a part each, pickled on its way back."""
    ds = open_on(storage)
    with writing_parts(ds._table()) as target:
        parts = [part_of(target, columns) for columns in batches]
        adopt(ds._session, [pickle.loads(pickle.dumps(part)) for part in parts])
    return open_on(storage, read_only=True)


def by_extend(storage: Storage, batches: Sequence[Columns]) -> lakebed.Dataset:
    ds = open_on(storage)
    for columns in batches:
        ds.extend(columns)
    ds.flush()
    return open_on(storage, read_only=True)


def plain(value: Any) -> Any:
    """Return a value with arrays as their dtypes, shapes and elements, which compare as a whole."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items() if key != "commit_id"}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def shown(ds: lakebed.Dataset) -> Any:
    """Everything a reader sees, nulls as a record of any length says it."""
    found = plain(visible(ds))
    for name, held in found["tensors"].items():
        while name.endswith("_null") and held[1][-1:] == [[False]]:
            held[1].pop()
    return found


def check_same(make: Make, batches: Sequence[Columns], first: Sequence[Columns] = ()) -> lakebed.Dataset:
    """Make a dataset twice and add the same rows, as parts and by `extend`: both hold the same, and are sound."""
    made = []
    for add in (by_parts, by_extend):
        storage = new_memory()
        ds = create_on(storage)
        make(ds)
        for columns in first:
            ds.extend(columns)
        ds.commit("first")
        ds.close()
        made.append(add(storage, batches))
    parts, other = made
    assert shown(parts) == shown(other)
    for name in other._session.schema().names(hidden=True):
        if name.endswith("_null"):
            continue  # marks at the end may be left out
        mine, its = (ds._session.schema().tensor(name) for ds in made)
        assert mine.meta.to_bytes() == its.meta.to_bytes(), name
        assert mine.encoders() == its.encoders()
    assert plain(parts.diff(as_dict=True)) == plain(other.diff(as_dict=True))
    findings = verify(parts.storage, deep=True)
    assert findings.is_sound, findings.damage
    return parts


def numbers(ds: lakebed.Dataset) -> None:
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("y", htype="text")


# -- the same as plain extend ------------------------------------------------------------------------------------


def test_numbers_and_texts() -> None:
    batches = [{"x": np.arange(i, i + 50), "y": [f"{j}" for j in range(50)]} for i in range(0, 200, 50)]

    ds = check_same(numbers, batches, first=[{"x": [7], "y": ["seven"]}])

    assert ds.x.numpy().ravel().tolist() == [7, *range(200)]


@pytest.mark.parametrize("rows", [1, 100, 5_000], ids=["one", "small chunks", "chunks that stay"])
def test_chunks_of_every_size(rows: int) -> None:
    check_same(numbers, [{"x": np.arange(rows), "y": ["a longer text"] * rows}] * 2)


@pytest.mark.parametrize("step", [1, 100, 700])
def test_a_part_of_many_chunks_is_adopted_in_steps(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps end at chunk ends, which differ from tensor to tensor, and from those of their nulls."""
    monkeypatch.setattr(parts, "_ROWS", step)

    def small(ds: lakebed.Dataset) -> None:
        ds.create_tensor("x", dtype="float64", max_chunk_size=3_000)
        ds.create_tensor("y", htype="text", max_chunk_size=7_000)
        ds.create_tensor("label", htype="class_label", max_chunk_size=1_300)
        ds.create_tensor("s", htype="sequence", dtype="int64", max_chunk_size=1_300)

    draw = np.random.default_rng(step)
    batches = []
    for first in (0, 1_700):
        rows = range(first, first + 1_700)
        batches.append(
            {
                "x": [None if row % 5 == 1 else float(row) for row in rows],
                "y": [None if row % 7 == 1 else f"text {row}" for row in rows],
                "label": draw.choice(["wren", "kite", f"bird of {first}"], len(rows)).tolist(),
                "s": [[row] * (row % 3) for row in rows],
            }
        )
    ds = check_same(small, batches, first=[{name: column[:2] for name, column in batches[1].items()}])
    assert len(ds) == 3_402
    assert ds.x[2:].null_mask().tolist() == [row % 5 == 1 for row in range(3_400)]
    assert ds.y[[2, 1_300, 3_401]].text() == ["text 0", "text 1298", "text 3399"]


def test_images_of_every_shape() -> None:
    rng = np.random.default_rng(0)

    def images(ds: lakebed.Dataset) -> None:
        ds.create_tensor("im", htype="image", sample_compression="png", downsampling=(2, 2))

    batches = [
        {"im": [rng.integers(0, 255, (h, 20 + h, 3), np.uint8) for h in range(4, 12)]} for _ in range(3)
    ]
    ds = check_same(images, batches)
    assert np.array_equal(ds.im[17].numpy(), batches[2]["im"][1])


def test_samples_in_tiles() -> None:
    def tiled(ds: lakebed.Dataset) -> None:
        ds.create_tensor("a", dtype="float32", tiling_threshold=10_000, max_chunk_size=100_000)

    big = np.arange(60_000, dtype=np.float32).reshape(200, 300)
    ds = check_same(tiled, [{"a": [big, big[:5, :5]]}, {"a": [big + 1]}])
    assert np.array_equal(ds.a[2].numpy(), big + 1)


def test_sequences() -> None:
    def sequences(ds: lakebed.Dataset) -> None:
        ds.create_tensor("s", htype="sequence[bbox]")

    rows = [[np.ones((n, 4), np.float32)] * m for n, m in ((1, 2), (3, 0), (2, 5))]
    check_same(sequences, [{"s": rows[:2]}, {"s": rows[2:]}], first=[{"s": rows}])


def test_class_names_that_each_part_learned_by_itself() -> None:
    def labels(ds: lakebed.Dataset) -> None:
        ds.create_tensor("label", htype="class_label", class_names=["cat"])

    batches = [{"label": ["dog", "cat"]}, {"label": ["bird", "dog", "cat"]}, {"label": ["cat", "fish"]}]
    ds = check_same(labels, batches)
    assert ds.label.info.class_names == ["cat", "dog", "bird", "fish"]


def test_documents_and_lists() -> None:
    def documents(ds: lakebed.Dataset) -> None:
        ds.create_tensor("j", htype="json")
        ds.create_tensor("l", htype="list")

    check_same(documents, [{"j": [{"a": i}, None], "l": [[i, "b"], []]} for i in range(3)])


def test_a_dtype_that_the_first_part_decides() -> None:
    check_same(lambda ds: ds.create_tensor("z") and None, [{"z": np.arange(3.0)}, {"z": np.arange(3.0)}])


def test_chunks_compressed_as_a_whole() -> None:
    def compressed(ds: lakebed.Dataset) -> None:
        ds.create_tensor("x", dtype="int32", chunk_compression="lz4")
        ds.create_tensor("im", htype="image", chunk_compression="png")

    rng = np.random.default_rng(1)
    images = [rng.integers(0, 255, (8, 8, 3), np.uint8) for _ in range(4)]
    check_same(compressed, [{"x": np.arange(4, dtype=np.int32), "im": images}] * 2)


def test_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakebed.config, "LINK_ROOTS", (str(tmp_path),))
    for i in range(4):
        (tmp_path / f"{i}.txt").write_bytes(b"text")

    def links(ds: lakebed.Dataset) -> None:
        ds.create_tensor("link", htype="link[text]", verify=False)

    rows = [lakebed.link(str(tmp_path / f"{i}.txt")) for i in range(4)]
    check_same(links, [{"link": rows[:2]}, {"link": rows[2:]}])


# No array without elements: among single numbers it is a null, among arrays an array, and a part's writer goes by what
# the tensor held when it was begun.
absent = st.lists(
    st.sampled_from([None, 1, 2.5, np.zeros(3), np.zeros((2, 2)), np.zeros((2, 0)), np.float64(4)]),
    max_size=5,
)


@settings(deadline=None)
@given(batches=st.lists(absent, max_size=4), first=absent)
def test_absent_values_among_numbers_and_arrays(batches: list[list[Any]], first: list[Any]) -> None:
    """What `extend` takes in one by one, parts bring, too; what it refuses, they refuse, and nothing is added."""

    def arrays(ds: lakebed.Dataset) -> None:
        ds.create_tensor("a", dtype="float64")

    try:
        check_by = [{"a": values} for values in batches]
        storage = new_memory()
        ds = create_on(storage)
        arrays(ds)
        for columns in ({"a": first}, *check_by):
            ds.extend(columns)
    except SampleExtendError:
        return
    check_same(arrays, check_by, first=[{"a": first}])


def test_numbers_that_become_arrays_within_a_part() -> None:
    """Empty ones among numbers are put on record when an array comes: chunks of the same call are read for it."""

    def arrays(ds: lakebed.Dataset) -> None:
        ds.create_tensor("a", dtype="int32")

    one, none, two = (np.zeros(count, np.int32) for count in (1, 0, 2))
    storage = new_memory()
    ds = create_on(storage)
    arrays(ds)
    with writing_parts(ds._table()) as target:
        adopt(ds._session, [part_of(target, {"a": [one, none] * 40}, {"a": [two, none]})])
    assert [len(value) for value in ds.a.numpy(aslist=True)] == [1, 0] * 40 + [2, 0]


def test_the_first_array_after_absent_numbers_of_the_same_part() -> None:
    """Batches of one part: what the part itself had made of the numbers is read back."""
    storage = new_memory()
    create_on(storage).create_tensor("a", dtype="int32", chunk_compression="lz4")
    ds = open_on(storage)
    with writing_parts(ds._table()) as target:
        nothing = np.zeros(0, np.int32)
        part = part_of(target, {"a": [[1], nothing, None, [2]]}, {"a": [np.array([1, 2], np.int32), nothing]})
        adopt(ds._session, [part])
    found = open_on(storage, read_only=True)
    assert [one.tolist() for one in found.a.numpy(aslist=True)] == [[1], [], [], [2], [1, 2], []]
    assert found.a.null_mask().tolist() == [False, True, True, False, False, False]


# -- who writes them ---------------------------------------------------------------------------------------------


def test_threads_write_and_the_order_is_that_of_the_parts() -> None:
    storage = new_memory()
    ds = create_on(storage)
    numbers(ds)
    with writing_parts(ds._table()) as target, ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda i: part_of(target, {"x": np.full(1000, i), "y": [str(i)] * 1000}), range(8))
        adopt(ds._session, reversed(list(found)))
    assert ds.x.numpy().ravel().tolist() == [i for i in reversed(range(8)) for _ in range(1000)]


def write_part(target: PartTarget, number: int) -> Part:
    rng = np.random.default_rng(number)
    images = [rng.integers(0, 255, (64, 64, 3), np.uint8) for _ in range(20)]
    return part_of(
        target, {"im": images, "n": np.full(20, number, np.int32), "label": [f"class {number}"] * 20}
    )


def pictures(path: Path) -> lakebed.Dataset:
    ds = lakebed.empty(path)
    ds.create_tensor("im", htype="image", sample_compression="png")
    ds.create_tensor("n", dtype="int32")
    ds.create_tensor("label", htype="class_label")
    return ds


def test_processes_write_and_one_publishes(tmp_path: Path) -> None:
    ds = pictures(tmp_path / "ds")
    with (
        writing_parts(ds._table()) as target,
        ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool,
    ):
        tree = tmp_path / "ds" / "version_control_info.json"
        before = tree.read_bytes()
        parts = [pool.submit(write_part, target, i) for i in range(4)]
        adopt(ds._session, [part.result() for part in parts])
        assert tree.read_bytes() == before, "all of it is published at the end"

    found = lakebed.load(tmp_path / "ds", read_only=True)
    assert found.n.numpy().ravel().tolist() == [i for i in range(4) for _ in range(20)]
    rng = np.random.default_rng(3)
    assert np.array_equal(found.im[60].numpy(), rng.integers(0, 255, (64, 64, 3), np.uint8))
    assert found.label[45].data()["text"] == ["class 2"]
    assert len(np.unique(found["_n_id"].numpy())) == 80
    assert verify(found.storage, deep=True).is_sound


@pytest.fixture
def eager_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let collections leave alone only what a lock file marks as being worked on, however young the rest is."""
    monkeypatch.setattr(sweep, "_UNDER_WAY", 0.0)


def hang_after_writing(target: PartTarget, ready: Any) -> None:
    part_of(target, {"x": np.arange(50_000), "y": ["lost"] * 50_000})
    ready.set()
    time.sleep(600)


def chunks_at(path: Path) -> int:
    return sum(1 for file in path.rglob("chunks/*") if file.is_file())


def test_a_killed_worker_leaves_garbage_and_no_rows(tmp_path: Path, eager_collector: None) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    numbers(ds)
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    with writing_parts(ds._table()) as target:
        worker = context.Process(target=hang_after_writing, args=(target, ready))
        worker.start()
        assert ready.wait(60)
        os.kill(worker.pid or 0, signal.SIGKILL)
        worker.join()
        lost = chunks_at(tmp_path / "ds")
        assert lost > 0
        lakebed.gc(tmp_path / "ds", grace=0)
        assert chunks_at(tmp_path / "ds") == lost, (
            "while the writer is at work, nothing in its folder is garbage"
        )
        adopt(ds._session, [part_of(target, {"x": np.arange(40_000), "y": ["kept"] * 40_000})])
    ds.close()

    lakebed.gc(tmp_path / "ds", grace=0)

    found = lakebed.load(tmp_path / "ds", read_only=True)
    assert (found.x.numpy().ravel() == np.arange(40_000)).all()
    tables = [state.table for state in found._session.snapshot.tensors.values()]
    live = {table.key(row) for table in tables for row in range(len(table))}
    assert chunks_at(tmp_path / "ds") == len(live)
    assert verify(found.storage, deep=True).is_sound


def test_parts_stay_while_others_are_published(tmp_path: Path, eager_collector: None) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    numbers(ds)
    rows = {"x": np.arange(50_000), "y": ["text"] * 50_000}
    with writing_parts(ds._table()) as target:
        first, second = part_of(target, rows), part_of(target, rows)
        adopt(ds._session, [first])
        ds.commit("first")
        ds.append({"x": -1, "y": "between"})
        ds.flush()
        lakebed.gc(tmp_path / "ds", grace=0)
        adopt(ds._session, [second])
    found = lakebed.load(tmp_path / "ds", read_only=True)
    assert len(found) == 100_001
    assert found.x[50_000].numpy().item() == -1
    assert verify(found.storage, deep=True).is_sound


# -- what goes wrong ---------------------------------------------------------------------------------------------


def test_a_part_that_does_not_fit_adds_nothing() -> None:
    ds = create_on(new_memory())
    ds.create_tensor("z")
    ds.create_tensor("n", dtype="int64")
    with writing_parts(ds._table()) as target:
        ints = part_of(target, {"z": np.arange(3), "n": np.arange(3)})
        floats = part_of(target, {"z": np.arange(3.0), "n": np.arange(3)})
        matrix = part_of(target, {"z": np.arange(4).reshape(1, 2, 2), "n": np.arange(1)})
        for wrong in (floats, matrix):
            with pytest.raises(InvalidOperationError, match="'z'"):
                adopt(ds._session, [ints, wrong])
            assert len(ds.n) == len(ds.z) == 0
        adopt(ds._session, [ints])
    assert ds.z.numpy().ravel().tolist() == [0, 1, 2]


def test_rows_of_a_tensor_that_is_gone_are_refused() -> None:
    ds = create_on(new_memory())
    numbers(ds)
    with writing_parts(ds._table()) as target:
        part = part_of(target, {"x": [1], "y": ["a"]})
        ds.delete_tensor("y")
        with pytest.raises(InvalidOperationError, match="'y'"):
            adopt(ds._session, [part])
        assert len(ds.x) == 0


def test_a_batch_that_does_not_fit_leaves_the_writer_as_it_was() -> None:
    ds = create_on(new_memory())
    numbers(ds)
    with writing_parts(ds._table()) as target:
        writer = PartWriter(target)
        writer.extend({"x": [1], "y": ["a"]})
        with pytest.raises(SampleExtendError):
            writer.extend({"x": [2], "y": [object()]})
        with pytest.raises(ValueError, match="equal lengths"):
            writer.extend({"x": [2], "y": []})
        with pytest.raises(TensorDoesNotExistError):
            writer.extend({"q": [2]})
        writer.extend({"x": [3], "y": ["c"]})
        adopt(ds._session, [writer.finish()])
    assert ds.x.numpy().ravel().tolist() == [1, 3]
    assert ds.y.data()["value"] == ["a", "c"]


def test_a_writer_that_is_given_up_removes_its_chunks(tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("a", dtype="uint8", max_chunk_size=100_000)
    with writing_parts(ds._table()) as target:
        with PartWriter(target) as writer:
            writer.extend({"a": np.ones((20, 40_000), np.uint8)})
            assert chunks_at(tmp_path / "ds") > 0
        assert chunks_at(tmp_path / "ds") == 0


@pytest.mark.parametrize("place", ["adopt_chunks", "append", "record"])
def test_an_interrupt_while_parts_are_adopted_adds_nothing(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakebed.writing.draft.tensor import TensorDraft

    ds = create_on(new_memory())
    numbers(ds)
    with writing_parts(ds._table()) as target:
        parts = [part_of(target, {"x": np.arange(n), "y": ["a"] * n}) for n in (10, 20_000)]
        plain = getattr(TensorDraft, place)
        for count in range(1, 4):
            calls = iter(range(count))

            def interrupted(*args: Any, calls: Any = calls, **kwargs: Any) -> Any:
                if next(calls, None) is None:
                    raise KeyboardInterrupt
                return plain(*args, **kwargs)

            with monkeypatch.context() as patch:
                patch.setattr(TensorDraft, place, interrupted)
                with pytest.raises(KeyboardInterrupt):
                    adopt(ds._session, [*parts, *parts])
            assert len(ds.x) == len(ds.y) == 0
        adopt(ds._session, parts)
    assert ds.x.numpy().ravel().tolist() == [*range(10), *range(20_000)]
    assert verify(ds.storage, deep=True).is_sound


def test_the_lock_is_held_meanwhile_and_needed(tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    numbers(ds)
    ds.flush()
    with writing_parts(ds._table()):
        assert ds._session.is_held
    assert not ds._session.is_held
    with (
        pytest.raises(ReadOnlyModeError),
        writing_parts(lakebed.load(tmp_path / "ds", read_only=True)._table()),
    ):
        pass


def test_memory_is_for_threads_only() -> None:
    ds = create_on(new_memory())
    numbers(ds)
    with writing_parts(ds._table()) as target, pytest.raises(MemoryDatasetCanNotBePickledError):
        pickle.dumps(target)


# -- machines that do not share a disk ---------------------------------------------------------------------------


def test_a_target_opens_only_where_the_writer_s_folder_is(tmp_path: Path) -> None:
    """A copy of the dataset under the same path, as a machine of its own may have it, is refused."""
    ds = lakebed.empty(str(tmp_path / "ds"))
    numbers(ds)
    ds.flush()
    shutil.copytree(tmp_path / "ds", tmp_path / "copy")
    with writing_parts(ds._table()) as target:
        data = pickle.dumps(target)
        part = part_of(pickle.loads(data), {"x": [1], "y": ["one"]})
        (tmp_path / "ds").rename(tmp_path / "away")
        (tmp_path / "copy").rename(tmp_path / "ds")
        with pytest.raises(InvalidOperationError, match="do not share the disk"):
            pickle.loads(data)
        (tmp_path / "ds").rename(tmp_path / "copy")
        (tmp_path / "away").rename(tmp_path / "ds")
        adopt(ds._session, [part])
    with pytest.raises(InvalidOperationError, match="or the writer has ended"):
        pickle.loads(data)
    assert ds.x.numpy().ravel().tolist() == [1]
    assert not list((tmp_path / "ds").rglob("parts"))
