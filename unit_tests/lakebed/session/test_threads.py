"""Several threads on one open dataset: what each sees is one state of it, never a mixture."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed import config
from lakebed.dataset.dataset import Dataset
from lakebed.session.process import publisher
from unit_tests.lakebed.datasets import create_on, new_memory, open_on

ROWS = 200


@pytest.fixture
def ds() -> Dataset:
    ds = create_on(new_memory())
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.append(row(0))
    return ds


def row(i: int) -> dict[str, object]:
    return {"n": i, "text": f"row {i}", "image": np.full((2, 2, 3), i % 250, np.uint8)}


def check_row(ds: Dataset, i: int) -> None:
    assert ds.n[i].numpy().tolist() == [i]
    assert ds.text[i].text() == f"row {i}"
    assert ds.image[i].numpy()[0, 0, 0] == i % 250


def last_row(ds: Dataset) -> None:
    ds.n[-1].numpy()
    ds.text[-1].text()
    check_row(ds, len(ds) - 1)


def columns(ds: Dataset) -> None:
    for batch in ds.batches(100, ["n", "text"]):
        assert list(batch["text"]) == [f"row {i}" for i in batch["n"].ravel().tolist()]


def arrow(ds: Dataset) -> None:
    table = pa.table(ds[["n", "text"]])
    assert table["text"].to_pylist() == [f"row {i}" for i in range(len(table))]


def whole(ds: Dataset) -> None:
    found = ds.n.numpy().ravel()
    assert found.tolist() == list(range(len(found)))


def old_values(ds: Dataset) -> None:
    reader = ds.image
    for i in range(0, len(ds), 7):
        assert reader[i].numpy()[0, 0, 0] == i % 250


@pytest.mark.parametrize("look", [last_row, columns, arrow, whole, old_values, lambda ds: ds.flush()])
def test_one_thread_appends_and_another_looks(ds: Dataset, look: Callable[[Dataset], None]) -> None:
    """Every row that was taken is there at the end, its values side by side, and every look saw whole rows."""
    failed: list[Exception] = []
    ended = threading.Event()

    def watch() -> None:
        try:
            while not ended.is_set():
                look(ds)
        except Exception as error:  # noqa: BLE001 - told at the end
            failed.append(error)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for i in range(1, ROWS):
            ds.append(row(i))
    finally:
        ended.set()
        watcher.join()
    assert failed == []
    assert ds.n.numpy().ravel().tolist() == list(range(ROWS))
    ds.flush()
    again = open_on(ds._session.storage)
    assert again.text.text() == [f"row {i}" for i in range(ROWS)]
    assert [image[0, 0, 0] for image in again.image.numpy(aslist=True)] == [i % 250 for i in range(ROWS)]


def test_threads_that_append_at_the_same_time_mix_no_rows(ds: Dataset) -> None:
    """Four threads append, and a fifth publishes whenever it can: each row is there once, whole."""

    def append(first: int) -> None:
        for i in range(first, first + 200):
            ds.append(row(i))

    threads = [threading.Thread(target=append, args=(1000 * (k + 1),)) for k in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        ds.flush()
    ds.flush()
    again = open_on(ds._session.storage)
    numbers = again.n.numpy().ravel().tolist()
    assert sorted(numbers) == [0, *(1000 * (k + 1) + i for k in range(4) for i in range(200))]
    assert again.text.text() == [f"row {i}" for i in numbers]


def test_updates_and_appends_from_two_threads_are_all_made(ds: Dataset) -> None:
    """Neither thread undoes what the other has done, whole chunks packed anew included."""
    for i in range(1, 200):
        ds.append(row(i))

    def update() -> None:
        for i in range(200):
            ds.n[i] = -i

    updater = threading.Thread(target=update)
    updater.start()
    for i in range(200, 500):
        ds.append(row(i))
        if i % 50 == 0:
            ds.commit(f"at {i}", allow_empty=True)
    updater.join()
    assert ds.n.numpy().ravel().tolist() == [-i for i in range(200)] + list(range(200, 500))


def test_rows_are_published_while_the_program_does_nothing(
    ds: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while what was appended is visible to other processes, without another call; the object goes on."""
    monkeypatch.setattr(config, "MAX_UNPUBLISHED_SECONDS", 0.1)
    ds.flush()
    for _ in range(3):
        ds.append(row(len(ds)))
        count = len(ds)
        wait_for(lambda: len(open_on(ds._session.storage, read_only=True)) == count)  # noqa: B023
    assert not ds._session.has_unpublished


def test_a_name_in_memory_is_free_once_its_dataset_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the thread that publishes what waits has just looked at it."""
    monkeypatch.setattr(config, "MAX_UNPUBLISHED_SECONDS", 0.0005)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for number in range(300):
            made = lakebed.empty("mem://dropped-and-made-again")
            made.create_tensor("t")
            made.t.append(number)
            if number % 3 == 0:
                time.sleep(0.0005 * (0.5 + number % 7 / 7))
            del made
    finally:
        sys.setswitchinterval(before)


def test_a_name_in_memory_is_free_once_the_collector_has_found_its_dataset() -> None:
    made = lakebed.empty("mem://found-and-made-again")
    made.create_tensor("t").append(1)
    ring: list[object] = [made]
    ring.append(ring)
    del made, ring
    gc.collect()
    assert not lakebed.exists("mem://found-and-made-again")


def test_a_caller_that_holds_what_the_publishing_thread_wants_is_not_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "MAX_UNPUBLISHED_SECONDS", 0.01)
    monkeypatch.setattr(publisher, "_INSTANT", 0.5)
    made = lakebed.empty("mem://wanted-by-two")
    made.create_tensor("t")
    with made._session.mutex:
        made.t.append(1)
        wait_for(lambda: publisher._watch._at == made.path)
        assert lakebed.exists("mem://wanted-by-two")
    assert made.t[0].numpy().tolist() == [1]


def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until something holds, for as long as a busy machine may take."""
    wait = threading.Event()
    for _ in range(3000):
        if holds():
            return
        wait.wait(0.01)
    raise AssertionError("it never held")
