"""Transforms in other processes: what goes there and back, what becomes of errors, and that nothing is left."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import InvalidInputError, WorkerDied
from lakebed.loaders.processes import Processes, SharedPool

ROWS = 60


def image_of(row: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(row).integers(0, 255, (50 + row % 2, 40, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    ds = lakebed.empty(str(tmp_path_factory.mktemp("processes") / "ds"))
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("number", dtype="float64")
    with ds:
        for row in range(ROWS):
            ds.append({"image": image_of(row), "text": f"row {row}", "number": float(row)})
    return ds


# Functions that other processes can import.


def half(sample: dict[str, Any]) -> dict[str, Any]:
    assert not isinstance(sample["image"], list)
    return {
        "image": sample["image"][::2].astype(np.float32) / 255,
        "same": sample["image"],
        "pid": os.getpid(),
        "text": sample["text"],
        "square": sample["number"] ** 2,
    }


def in_place(sample: dict[str, Any]) -> dict[str, Any]:
    sample["image"][...] = 7
    return sample


def refuse(sample: dict[str, Any]) -> Any:
    if sample["text"] == "row 33":
        raise KeyError("mine")
    return sample["number"]


class Strange(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def strange(sample: dict[str, Any]) -> Any:
    raise Strange(1, 2)


def unpicklable(sample: dict[str, Any]) -> Any:
    return lambda: sample


def die(sample: dict[str, Any]) -> Any:
    if sample["text"] == "row 33":
        os.kill(os.getpid(), signal.SIGKILL)
    return sample["number"]


def leave(sample: dict[str, Any]) -> Any:
    os._exit(3)


def sleep(sample: dict[str, Any]) -> Any:
    time.sleep(0.05)
    return sample["number"]


def children() -> list[str]:
    """Return the processes that a loader started and that live."""
    found = subprocess.run(
        ["ps", "-ww", "-eo", "pid,ppid,stat,args"], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 3) for line in found.stdout.splitlines()[1:]]
    servers = {row[0] for row in rows if row[1] == str(os.getpid()) and "forkserver" in row[3]}
    return [row[0] for row in rows if row[1] in servers and not row[2].startswith("Z")]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("processes", [1, 2])
def test_samples_go_there_and_back(ds: lakebed.Dataset, processes: int, threads: int) -> None:
    pids = set()
    with lakebed.Loader(ds, 16, shuffle=True, transform=half, processes=processes, threads=threads) as loader:
        for _ in range(2):
            kept = list(loader)
            assert sorted(int(row) for batch in kept for row in batch.rows) == list(range(ROWS))
            for batch in kept:
                pids |= set(batch["pid"].tolist())
                for i, row in enumerate(batch.rows.tolist()):
                    assert np.array_equal(batch["image"][i], image_of(row)[::2].astype(np.float32) / 255)
                    assert np.array_equal(batch["same"][i], image_of(row))
                    assert (batch["text"][i], batch["square"][i].tolist()) == (f"row {row}", [row**2])
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= processes
    assert not children()


def test_a_sample_may_be_changed_in_place(ds: lakebed.Dataset) -> None:
    with lakebed.Loader(ds, 16, transform=in_place, processes=1) as loader:
        for batch in loader:
            assert all((image == 7).all() for image in batch["image"])


def test_an_error_comes_back_as_it_was(ds: lakebed.Dataset) -> None:
    with lakebed.Loader(ds, 16, transform=refuse, processes=2) as loader:
        with pytest.raises(KeyError, match="mine") as caught:
            list(loader)
        assert caught.value.__notes__ == ["in the transform of row 33"]
    with lakebed.Loader(ds, 16, transform=refuse, processes=2, on_error="skip") as loader:
        assert [int(row) for batch in loader for row in batch.rows] == [r for r in range(ROWS) if r != 33]
        assert loader.stats()["errors"] == 1


def test_what_cannot_be_pickled_is_told(ds: lakebed.Dataset) -> None:
    with (
        lakebed.Loader(ds, 16, transform=strange, processes=1) as loader,
        pytest.raises(RuntimeError, match="Strange: 1 and 2"),
    ):
        list(loader)
    with (
        lakebed.Loader(ds, 16, transform=unpicklable, processes=1) as loader,
        pytest.raises(TypeError, match="cannot be sent to the loader"),
    ):
        list(loader)


@pytest.mark.parametrize(("transform", "how"), [(die, "killed by signal 9"), (leave, "exit code 3")])
def test_a_worker_that_dies_is_an_error_and_the_next_pass_has_others(
    ds: lakebed.Dataset, transform: Any, how: str
) -> None:
    loader = lakebed.Loader(ds, 16, transform=transform, processes=2, threads=2)
    for _ in range(2):
        with pytest.raises(WorkerDied, match=how):
            list(loader)
    loader.close()
    assert not children()


def test_nothing_is_left_of_a_loader_that_is_dropped(ds: lakebed.Dataset) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    loader = lakebed.Loader(ds, 4, transform=sleep, processes=2, threads=2)
    iterator = iter(loader)
    next(iterator)
    assert len(children()) == 2
    del iterator, loader
    gc.collect()
    assert not children()
    end = time.monotonic() + 30  # a thread of another test may close its own meanwhile
    while len(os.listdir("/proc/self/fd")) > before + 4 and time.monotonic() < end:  # noqa: PTH208
        time.sleep(0.05)
    assert len(os.listdir("/proc/self/fd")) <= before + 4  # noqa: PTH208 - those of the fork server stay


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_loader(ds: lakebed.Dataset, tmp_path: Path, number: int) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\ndef slow(sample):\n    time.sleep(0.05)\n    return sample\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import signal

        import lakebed
        from slow import slow

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        if __name__ == "__main__":
            loader = lakebed.Loader(lakebed.load({ds.path!r}, read_only=True), 2, transform=slow, processes=2)
            for batch in loader:
                print(*[worker.process.pid for worker in loader._workers._workers], flush=True)
        """)
    )
    running = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with running:
        assert running.stdout is not None
        pids = [int(pid) for pid in running.stdout.readline().split()]
        running.send_signal(number)
        running.communicate(timeout=60)
    assert len(pids) == 2
    end = time.monotonic() + 30
    while any(_lives(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(_lives(pid) for pid in pids)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_script_without_a_guard_is_told_what_it_needs(ds: lakebed.Dataset, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import lakebed\ndef same(sample):\n    return sample\n"
        f"list(lakebed.Loader(lakebed.load({ds.path!r}, read_only=True), 2, transform=same, processes=1))\n"
    )
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode
    assert "__main__" in ended.stderr


def test_lambdas_need_cloudpickle(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(InvalidInputError, match="Define it at the top of a module"):
        list(lakebed.Loader(ds, 4, transform=lambda sample: sample, processes=1))


def test_buffers_are_mapped_again_and_dropped() -> None:
    pool = SharedPool(keep=2)
    processes = Processes(in_place, 1, pool)
    try:
        for size in [1_000, 100_000, 1_000_000, 30, 5_000_000] * 4:
            room = pool.take(size)
            room[:] = 1
            ((found, error),) = processes.transformed([{"image": room}])
            assert error is None
            assert len(found["image"]) == size
            assert (found["image"] == 7).all()
            ((found, error),) = processes.transformed([{"image": np.ones(size, np.int16)}])
            assert (found["image"] == 7).all()
    finally:
        processes.close()
    assert not children()
