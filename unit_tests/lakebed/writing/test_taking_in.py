"""What extend and append promise: all or nothing, values as they were, seen by the writer before anybody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed import config
from lakebed.errors import StorageError
from lakebed.testing.faulty import FaultyStorage
from lakebed.writing.draft import tensors as draft_module
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.datasets import create_on, kill, new_memory, open_on


@pytest.fixture
def ds() -> lakebed.Dataset:
    """A dataset with two tensors and one published row."""
    ds = create_on(new_memory())
    ds.create_tensor("n", dtype="uint8")
    ds.create_tensor("t", htype="text")
    ds.append({"n": 1, "t": "one"})
    ds.flush()
    return ds


BAD: list[dict[str, Any]] = [
    {"n": [2, 300], "t": ["a", "b"]},
    {"n": [2, 3], "t": ["a", b"b"]},
    {"n": [2, "x"], "t": ["a", "b"]},
    {"n": [2, [3, 4], [[5]]], "t": ["a", "b", "c"]},
    {"t": ["a", "b"], "n": pa.array([2, 1000])},
    {"t": ["a", "b"], "n": pa.chunked_array([[2], [1000]])},
    {"n": [1, 2], "t": pa.array([b"x", b"y"])},
    {"n": "ab", "t": ["a", "b"]},
]


@pytest.mark.parametrize("rows", BAD, ids=[*map(str, range(len(BAD)))])
def test_a_bad_value_leaves_everything_as_it_was(ds: lakebed.Dataset, rows: dict[str, Any]) -> None:
    """If one value of one tensor does not fit, no tensor gets a row; earlier unpublished rows stay."""
    ds.append({"n": 2, "t": "two"})
    with pytest.raises(lakebed.errors.InvalidInputError):
        ds.extend(rows)
    assert [len(ds[name]) for name in ("n", "t", "_n_id", "_n_shape", "_t_id")] == [2] * 5
    ds.append({"n": 3, "t": "three"})
    ds.flush()
    assert ds.n.numpy().ravel().tolist() == [1, 2, 3]
    assert ds.t.text() == ["one", "two", "three"]


def test_a_bad_row_leaves_everything_as_it_was(ds: lakebed.Dataset) -> None:
    """The same holds for append, of a dataset and of a tensor."""
    for wrong in ({"n": 2, "t": b"x"}, {"n": -1, "t": "x"}):
        with pytest.raises(lakebed.SampleAppendError):
            ds.append(wrong)
    with pytest.raises(lakebed.SampleAppendError, match="'n'"):
        ds.n.append(256)
    with pytest.raises(lakebed.SampleAppendError):
        ds.n.extend([2, 256])
    assert [len(t) for t in ds.tensors.values()] == [1, 1]
    assert not ds._session.has_unpublished


def test_storage_that_fails_while_writing_out_takes_none_of_the_rows_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If rows cannot be written out, all tensors are as they were before; the dataset stays usable."""
    monkeypatch.setattr(draft_module, "SPILL_BYTES", 10_000)
    storage = FaultyStorage(new_memory(), error=lambda: StorageError("no space left"))
    ds = create_on(storage)
    for name in "ab":
        ds.create_tensor(name)
    ds.flush()
    ds.extend({"a": [1], "b": [2]})
    storage.fail_after = storage.changes + 1
    for extend in (ds.extend, lambda rows: ds.a.extend(rows["a"])):
        with pytest.raises(StorageError, match="no space"):
            extend({"a": np.arange(5000), "b": np.arange(5000)})
        assert [len(ds[name]) for name in ("a", "b", "_a_id", "_b_shape")] == [1] * 4
    storage.fail_after = None
    ds.extend({"a": [3], "b": [4]})
    ds.flush()
    assert open_on(storage, read_only=True).b.numpy().tolist() == [[2], [4]]


@pytest.mark.parametrize("rows", [3, 1_500_000], ids=["waiting", "written out in part"])
@pytest.mark.parametrize("how", ["dataset", "tensor", "append", "list"])
def test_the_callers_array_may_change_afterwards(rows: int, how: str) -> None:
    """What was handed over is stored as it was then, whatever happens to the caller's memory."""
    ds = create_on(new_memory())
    ds.create_tensor("n")
    array = np.arange(rows)
    if how == "dataset":
        ds.extend({"n": array})
    elif how == "tensor":
        ds.n.extend(array)
    elif how == "append":
        ds.append({"n": array})
    else:
        ds.extend({"n": [array, array[:1]]})
    array[:] = -1
    expected = np.arange(rows)
    for _ in range(2):
        found = ds.n.numpy().ravel() if how in ("dataset", "tensor") else ds.n[0].numpy()
        assert np.array_equal(found, expected)
        ds.flush()


def test_reading_own_rows_publishes_nothing(tmp_path: Path) -> None:
    """Appends and reads may alternate: the writer sees its rows, a reader in another process does not."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("n")
    ds.create_tensor("t", htype="text")
    ds.flush()
    for i in range(20):
        ds.append({"n": i, "t": f"text {i}"})
        assert ds.n[-1].numpy().tolist() == [i]
        assert ds.t[i // 2].text() == f"text {i // 2}"
        assert len(ds) == i + 1
    assert ds.n.numpy().ravel().tolist() == list(range(20))
    elsewhere = "import lakebed, sys; print(len(lakebed.load(sys.argv[1])))"
    assert python(elsewhere, tmp_path / "ds").stdout.strip() == "0"
    ds.flush()
    assert python(elsewhere, tmp_path / "ds").stdout.strip() == "20"


def test_another_dataset_of_the_process_sees_what_was_appended(tmp_path: Path) -> None:
    """Opening in the same process publishes what other datasets of it hold, so that nobody misses own rows."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("n")
    ds.append({"n": 1})
    assert len(lakebed.load(tmp_path / "ds").n) == 1


def test_appends_wait_for_a_limited_time_only(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare append is published after a while, also while nothing is done; inside `with` only the end publishes."""
    monkeypatch.setattr(config, "MAX_UNPUBLISHED_SECONDS", 0.05)
    storage = ds._session.storage
    ds.append({"n": 2, "t": "x"})
    ds.append({"n": 3, "t": "y"})
    until = time.monotonic() + PATIENCE
    while len(open_on(storage, read_only=True)) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(open_on(storage, read_only=True)) == 3
    with ds:
        for _ in range(3):
            time.sleep(0.03)
            ds.append({"n": 4, "t": "z"})
        assert len(open_on(storage, read_only=True)) == 3
    assert len(open_on(storage, read_only=True)) == 6


def python(code: str, *arguments: Any, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a program of its own."""
    command = [
        sys.executable,
        "-W",
        "ignore:This process:DeprecationWarning",
        "-c",
        textwrap.dedent(code),
        *map(str, arguments),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


MAKE = """
import lakebed, os, sys
ds = lakebed.empty(sys.argv[1])
ds.create_tensor("n")
ds.extend({"n": [1, 2, 3]})
"""


@pytest.mark.parametrize(
    ("end", "rows"),
    [
        ("", 3),
        ("sys.exit(3)", 3),
        ("raise ValueError('on purpose')", 3),
        ("other = ds.n[1:]; del ds; raise SystemExit", 3),
        ("ds.flush(); ds.append({'n': 4}); os._exit(0)", 3),
        ("ds.flush(); ds.append({'n': 4}); os.kill(os.getpid(), 9)", 3),
    ],
    ids=["end", "exit", "exception", "view", "os._exit", "kill"],
)
def test_the_end_of_the_interpreter_publishes(tmp_path: Path, end: str, rows: int) -> None:
    """Leaving in an orderly way publishes what was appended; a kill costs only what was not published."""
    python(MAKE + end, tmp_path / "ds", check=False)
    assert lakebed.load(tmp_path / "ds").n.numpy().ravel().tolist() == [1, 2, 3, 4][:rows]


def test_letting_go_of_a_dataset_publishes(tmp_path: Path) -> None:
    """`del ds` is an orderly end as well, once no view or tensor of it is left."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("n")
    ds.append({"n": 1})
    tensor = ds.n
    storage = ds._session.storage
    del ds
    assert open_on(storage, read_only=True).tensors == {}
    tensor.append(2)
    del tensor
    assert open_on(storage, read_only=True).n.numpy().ravel().tolist() == [1, 2]


FORK = """
import lakebed, os, sys
ds = lakebed.empty(sys.argv[1])
ds.create_tensor("n")
ds.flush()
ds.append({"n": 1})
child = os.fork()
if child == 0:
    try:
        if sys.argv[2] == "write":
            try:
                ds.append({"n": 99})
                ds.flush()
            except lakebed.LockedException as error:
                print("locked" if str(os.getppid()) in str(error) else error, flush=True)
        elif sys.argv[2] == "flush":
            ds.flush()
        del ds
        sys.exit(0)  # runs the finalizers that it has inherited
    except lakebed.LakebedError as error:
        print(type(error), error, flush=True)
os.waitpid(child, 0)
print(len(lakebed.load(sys.argv[1], read_only=True).n) if sys.argv[2] == "look" else "-", flush=True)
ds.append({"n": 2})
"""


@pytest.mark.parametrize("what", ["nothing", "flush", "write"])
def test_a_forked_child_does_not_publish_its_parents_rows(tmp_path: Path, what: str) -> None:
    """A child has a copy of the draft that is not its own: its end publishes nothing, its writes need the lock."""
    done = python(FORK, tmp_path / "ds", what)
    assert lakebed.load(tmp_path / "ds").n.numpy().ravel().tolist() == [1, 2]
    assert done.stdout.split() == (["locked", "-"] if what == "write" else ["-"])
    assert done.stderr == ""


def test_a_child_may_write_when_its_parent_is_done(tmp_path: Path) -> None:
    """A dataset that was open at the fork works in the child like one of its own."""
    code = """
    import lakebed, os, sys
    ds = lakebed.empty(sys.argv[1])
    ds.create_tensor("n")
    ds.append({"n": 1})
    ds.flush()
    if os.fork() == 0:
        ds.append({"n": 2})
        sys.exit(0)
    os.wait()
    """
    python(code, tmp_path / "ds")
    assert lakebed.load(tmp_path / "ds").n.numpy().ravel().tolist() == [1, 2]


def test_an_interrupt_leaves_a_dataset_that_can_go_on(ds: lakebed.Dataset) -> None:
    """Ctrl-C in the middle of extending takes none of its rows, and keeps those that waited before."""

    class Interrupted(list):  # type: ignore[type-arg]
        """A column whose second value is a Ctrl-C."""

        def __iter__(self) -> Any:
            yield 2
            os.kill(os.getpid(), signal.SIGINT)
            yield 3

    # A run that a shell started in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            ds.extend({"n": Interrupted([2, 3]), "t": ["a", "b"]})
    finally:
        signal.signal(signal.SIGINT, before)
    assert [len(t) for t in ds.tensors.values()] == [1, 1]
    ds.append({"n": 4, "t": "four"})
    ds.flush()
    assert ds.n.numpy().ravel().tolist() == [1, 4]


def test_killed_writers_of_one_process_are_simulated_faithfully(ds: lakebed.Dataset) -> None:
    """The tests' own way to end a writer publishes nothing and frees the lock."""
    ds.append({"n": 9, "t": "nine"})
    kill(ds._session.storage)
    other = open_on(ds._session.storage)
    other.append({"n": 5, "t": "five"})
    other.flush()
    assert other.n.numpy().ravel().tolist() == [1, 5]
