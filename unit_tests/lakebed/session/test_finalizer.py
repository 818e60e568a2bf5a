"""Datasets that nobody closes."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import lakebed
from lakebed.runtime import process_hooks
from lakebed.session.process import finalizer
from lakebed.storage.base import Data
from lakebed.storage.memory import MemoryStorage
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.datasets import create_on, open_on


class OneAtATime(MemoryStorage):
    """Takes batches under a lock that the thread which holds it can not take again."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        if not self.lock.acquire(timeout=5):
            raise TimeoutError("a finalizer waits for its own thread")
        try:
            super().put_many(items, durable=durable)
        finally:
            self.lock.release()


def in_a_cycle(ds: lakebed.Dataset) -> None:
    """Leave a dataset to the garbage collector."""
    ring: list[object] = [ds]
    ring.append(ring)


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_collection_inside_a_lock_does_not_wait_for_it() -> None:
    """The collector comes while this thread holds what publishing needs; the rows are published once it is free."""
    storage = OneAtATime()
    ds = create_on(storage)
    ds.create_tensor("x").extend([1, 2, 3])
    in_a_cycle(ds)
    del ds
    with storage.lock:
        gc.collect()
    assert eventually(lambda: "x" in open_on(storage, read_only=True).tensors)
    assert open_on(storage, read_only=True).x.numpy().ravel().tolist() == [1, 2, 3]


def test_the_last_reference_publishes_at_once() -> None:
    """Without a cycle the rows are there when ``del`` returns."""
    storage = MemoryStorage()
    ds = create_on(storage)
    ds.create_tensor("x").extend([1, 2, 3])
    del ds
    assert len(open_on(storage, read_only=True).x) == 3


def test_only_a_writer_starts_the_closing_thread() -> None:
    """To open and read needs none; a writer has it before there is anything to lose."""
    storage = MemoryStorage()
    create_on(storage).create_tensor("x").extend([1, 2, 3])
    finalizer._closer.finish()
    ds = open_on(storage, read_only=True)
    assert ds.x.numpy().ravel().tolist() == [1, 2, 3]
    in_a_cycle(ds)
    del ds
    gc.collect()
    assert finalizer._closer._thread is None
    ds = open_on(storage)
    ds.x.append(4)
    assert finalizer._closer._thread is not None
    in_a_cycle(ds)
    del ds
    gc.collect()
    finalizer.drain()
    assert len(open_on(storage, read_only=True).x) == 4


def test_a_collection_runs_no_code_that_could_swallow_a_ctrl_c() -> None:
    """What Python raises inside of a collector's callback is printed and dropped, a KeyboardInterrupt as well."""
    process_hooks.start()  # as the first dataset does that is opened: this test may be the first
    ours = [callback for callback in gc.callbacks if callback == finalizer._phases.move_to_end]
    assert len(ours) == 1
    assert not any(
        str(getattr(callback, "__module__", "")).startswith("lakebed") for callback in gc.callbacks
    )


def test_a_collection_of_another_thread_keeps_no_dataset_from_closing() -> None:
    """What the collector tells while it is asked what it does breaks nothing."""
    process_hooks.start()
    over = threading.Event()

    def collect() -> None:
        while not over.is_set():
            gc.collect(0)

    thread = threading.Thread(target=collect)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        assert {finalizer._last_phase() for _ in range(20_000)} <= {"start", "stop"}
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(before)


def test_an_error_of_the_closing_thread_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can catch it, so the log has it."""

    class Fails:
        def close(self) -> None:
            raise RuntimeError("on purpose")

    finalizer.ready()
    monkeypatch.setattr(finalizer, "_phases", {"stop": None, "start": None})  # as in a collection
    finalizer.close_finally(Fails().close)
    assert eventually(lambda: "RuntimeError: on purpose" in caplog.text)


def test_a_forked_child_closes_its_own(tmp_path: Path) -> None:
    """The thread does not survive a fork; what the child opens is closed by one of its own."""
    finalizer.ready()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ds = lakebed.empty(tmp_path / "child")
            ds.create_tensor("x").extend([1, 2])
            in_a_cycle(ds)
            del ds
            gc.collect()
            code = (
                0 if eventually(lambda: len(lakebed.load(tmp_path / "child", read_only=True).x) == 2) else 2
            )
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_what_waits_at_the_exit_is_published(tmp_path: Path) -> None:
    """A dataset in a cycle, found by a collection or not, is published when the interpreter ends."""
    program = f"""
import gc, lakebed
for name in ("found", "kept"):
    ds = lakebed.empty({str(tmp_path)!r} + "/" + name)
    ds.create_tensor("x").extend([1, 2])
    ring = [ds]
    ring.append(ring)
    if name == "found":
        del ds, ring
        gc.collect()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)
    assert [len(lakebed.load(tmp_path / name).x) for name in ("found", "kept")] == [2, 2]


UNSTORED = """
import gc, logging, shutil, sys, lakebed
ds = lakebed.empty(sys.argv[1])
ds.create_tensor("x").extend([1, 2])
ds.flush()
ds.x.extend([3, 4, 5])
ds.create_tensor("y")
shutil.rmtree(sys.argv[1])
if sys.argv[2] == "dropped":
    del ds
elif sys.argv[2] == "collected":
    ring = [ds]
    ring.append(ring)
    del ds, ring
    gc.collect()
"""


@pytest.mark.parametrize("how", ["open", "dropped", "collected"])
def test_a_deleted_dataset_is_one_line_at_the_end(tmp_path: Path, how: str) -> None:
    """What could not be stored, where, and why: no traceback, however the dataset ends."""
    program = [sys.executable, "-c", UNSTORED, str(tmp_path / "ds"), how]
    done = subprocess.run(program, check=True, timeout=PATIENCE, capture_output=True, text=True)
    [line] = done.stderr.splitlines()
    assert line.startswith(f"3 new rows and new tensor 'y' of {tmp_path / 'ds'}, branch 'main'")
    assert "could not be stored: " in line
    assert "was deleted" in line
    assert "Traceback" not in done.stderr


def test_a_deleted_dataset_is_logged_and_nothing_is_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Changes without new rows are named as such."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x").extend([1, 2])
    ds.flush()
    ds.x[0] = 7
    shutil.rmtree(tmp_path / "ds")
    del ds
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith(f"changes of {tmp_path / 'ds'}, branch 'main', could not be stored")


def test_what_was_closed_is_let_go(tmp_path: Path) -> None:
    """The thread that closes what the collector found keeps neither it nor its files until the next one."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x").extend([1, 2, 3])
    in_a_cycle(ds)
    del ds
    gc.collect()

    def held() -> list[str]:
        files = [os.path.realpath(fd) for fd in Path("/proc/self/fd").iterdir()]
        return [file for file in files if file.startswith(str(tmp_path))]

    assert eventually(lambda: held() == [])
