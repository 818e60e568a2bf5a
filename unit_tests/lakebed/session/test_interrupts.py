"""Ctrl-C, or an error, at any line of any operation leaves a dataset as it was before or after, and able to go on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.dataset.dataset import Dataset
from lakebed.errors import CommitFailed, DatasetCorruptError
from lakebed.maintenance.verify import verify
from lakebed.reading.remote.prefetch import Prefetch
from lakebed.storage import reader_locks
from lakebed.storage.local import LocalStorage
from unit_tests.effort import PATIENCE, SOAK, STANDARD, seed
from unit_tests.lakebed.datasets import open_on
from unit_tests.lakebed.interrupts import (
    CASES,
    MERGE,
    Case,
    content,
    filled,
    interrupted,
    lines,
    merging,
    row,
    states,
)

SEED = seed()


def made_by(case: Case) -> Callable[[], Dataset]:
    return merging if case is MERGE else filled


def tried(case: Case, count: int) -> list[int]:
    """Return the lines to interrupt a case at."""
    most = lines(case, made_by(case))
    return (
        list(range(1, most + 1)) if most <= count else random.Random(SEED).sample(range(1, most + 1), count)
    )


@pytest.mark.parametrize("case", [*CASES, MERGE], ids=lambda case: case.name)
def test_an_interrupt_at_any_line_leaves_a_whole_state(case: Case) -> None:
    """Rows, settings and versions are those before or after; what is published is sound, and no lock stays."""
    allowed = states(case, made_by(case))
    for at in tried(case, STANDARD.interrupted_lines):
        interrupted(case, made_by(case), allowed, at)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("case", [*CASES, MERGE], ids=lambda case: case.name)
def test_an_interrupt_at_every_line_leaves_a_whole_state(
    case: Case, error: type[BaseException], record_property: Callable[[str, object], None]
) -> None:
    """The same at every line of small operations and at hundreds of large ones, for Ctrl-C and for lack of memory."""
    allowed = states(case, made_by(case))
    places = tried(case, SOAK.interrupted_lines // (1 if error is KeyboardInterrupt else 5))
    for at in places:
        interrupted(case, made_by(case), allowed, at, error)
    record_property("proof", f"{error.__name__} at {len(places)} lines of {case.name!r}, seed {SEED}")


@pytest.mark.parametrize("kind", [Prefetch, reader_locks.Lease])
def test_an_object_whose_creation_was_cut_off_goes_silently(kind: type) -> None:
    """What an interrupt leaves of it has no attributes; no error is printed when it is collected."""
    with pytest.MonkeyPatch.context() as patched:
        told: list[object] = []
        patched.setattr(sys, "unraisablehook", told.append)
        kind.__new__(kind)
    assert told == []


def test_an_error_of_a_caller_in_the_middle_changes_nothing() -> None:
    """A column whose values fail half-way, whatever the error, leaves what waited before and takes nothing."""

    class Odd(Exception):
        """An error that the library does not know."""

    class Column(list):  # type: ignore[type-arg]
        """Values of which the third fails."""

        def __iter__(self) -> object:
            yield from self[:2]
            raise Odd

    ds = filled()
    before = content(ds)
    with pytest.raises(Odd):
        ds.n.extend(Column([1, 2, 3]))
    assert content(ds) == before


def test_a_second_interrupt_while_the_first_is_handled_loses_nothing_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where even the step back is cut off, the next call takes it."""
    ds = filled()
    before = content(ds)

    def cut_off(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(ds._session), "_end_change", cut_off)
        with pytest.raises(KeyboardInterrupt):
            ds.append({**row(8), "text": None})
    assert content(ds) == before
    ds.append(row(8))
    ds.flush()
    assert open_on(ds._session.storage).n.numpy().ravel().tolist() == list(range(9))


def test_what_contradicts_itself_is_dropped_in_words_and_not_published() -> None:
    """A draft whose tensors and companions are out of step, by whatever defect, reaches no reader."""
    ds = filled()
    with ds._session.mutex, ds._session.writing() as draft:
        state = draft.tensors["n"].state
        draft.tensors["n"] = draft.tensors.new(state.with_(meta=state.meta.with_(length=99)))
    with pytest.raises(DatasetCorruptError, match="nothing was published"):
        ds.flush()
    assert len(ds.n) == 6
    ds.append(row(6))
    ds.flush()
    assert len(open_on(ds._session.storage).n) == 7


def test_rows_that_a_thread_could_not_publish_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another writer took over, the rows are dropped, and the next call of the program says so, once."""
    ds = filled()
    session = ds._session

    def taken_over(*_: object, **__: object) -> None:
        session.discard()
        raise CommitFailed("another writer published first")

    monkeypatch.setattr("lakebed.config.MAX_UNPUBLISHED_SECONDS", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr(session, "publish", taken_over)
        with pytest.raises(CommitFailed):
            session.flush_waiting()
    with pytest.raises(CommitFailed, match="are dropped"):
        ds.append(row(9))
    ds.append(row(9))
    ds.flush()
    assert open_on(session.storage).n.numpy().ravel().tolist() == [*range(6), 9]


SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import lakebed
kind, path = sys.argv[1:]
ds = lakebed.load(path)
first = len(ds)
print("ready", flush=True)
def work():
    i = first
    while True:
        ds.append({"n": i, "text": f"row {i}", "image": np.full((3, 3 + i % 2, 3), i % 250, np.uint8)})
        i += 1
        if kind == "flushed" and i % 50 == 0:
            ds.flush()
        if kind == "looked at" and i % 20 == 0:
            len(ds), ds.text[-1].text()
        if kind == "committed" and i % 300 == 0:
            ds.commit("more")
try:
    if kind == "with":
        with ds:
            work()
    else:
        work()
except KeyboardInterrupt:
    sys.exit(3)
"""


def _run_into_interrupts(path: Path, kind: str, seed: int) -> None:
    """Start a script that appends in a loop, and end it by SIGINT after a random while."""
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), kind, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(random.Random(seed).uniform(0, 0.3))
        ends = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < ends:
            process.send_signal(signal.SIGINT)
            # Python drops what comes while it runs a callback, as at the end of an import: users press again.
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE / 10)
        # At its very end the interpreter may be past our handler.
        assert process.poll() in (3, 1, -signal.SIGINT)


def _check(path: Path) -> int:
    """Check that a dataset has whole rows only, is sound, and takes more; return how many there are."""
    ds = lakebed.load(path)
    count = len(ds.n)
    assert {len(tensor) for tensor in ds.tensors.values()} == {count}
    assert ds.n.numpy().ravel().tolist() == list(range(count))
    assert ds.text.text() == [f"row {i}" for i in range(count)]
    assert [image[0, 0, 0] for image in ds.image.numpy(aslist=True)] == [i % 250 for i in range(count)]
    ds.append({"n": count, "text": f"row {count}", "image": np.full((3, 3, 3), count % 250, np.uint8)})
    ds.flush()
    assert verify(LocalStorage(str(path)), deep=True).is_sound
    return count + 1


def _started(path: Path) -> Path:
    ds = lakebed.empty(path)
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.flush()
    return path


@pytest.mark.parametrize("kind", ["plain", "with", "flushed", "looked at", "committed"])
def test_ctrl_c_in_an_append_loop_leaves_whole_rows(tmp_path: Path, kind: str) -> None:
    """A script that appends and is ended by SIGINT leaves a dataset whose tensors belong together."""
    path = _started(tmp_path / "ds")
    _run_into_interrupts(path, kind, SEED)
    assert _check(path) > 0


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["plain", "with", "flushed", "looked at", "committed"])
def test_a_hundred_times_ctrl_c_leave_whole_rows(
    tmp_path: Path, kind: str, record_property: Callable[[str, object], None]
) -> None:
    """The same a hundred times for each kind of loop, on datasets that grow."""
    rows = 0
    for i in range(100):
        path = tmp_path / f"ds{i // 10}"
        if i % 10 == 0:
            _started(path)
        _run_into_interrupts(path, kind, 1000 * SEED + i)
        rows += _check(path)
    record_property("proof", f"100 SIGINTs of a loop ({kind}), {rows} rows checked")


KERNEL = """
import random, signal, sys, threading, time, traceback, os
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import lakebed
path, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
ds = lakebed.load(path)
for i in range(9):
    ds.append({'n': i, 'text': f'row {i}', 'image': np.full((3, 3, 3), i, np.uint8)})
cells = [
    "for _ in range(60): i = len(ds); ds.append({'n': i, 'text': f'row {i}',"
    " 'image': np.full((3, 3, 3), i % 250, np.uint8)})",
    "i = len(ds); ds.extend({'n': np.arange(i, i + 500), 'text': [f'row {j}' for j in range(i, i + 500)],"
    " 'image': [np.full((3, 3, 3), j % 250, np.uint8) for j in range(i, i + 500)]})",
    "ds.flush()",
    "ds.commit('more', allow_empty=True)",
    "ds.n[0] = 0; ds.text[1] = 'row 1'; ds[2:4].update({'n': [2, 3]})",
    "if len(ds) > 9: ds.pop()",
    "for i in range(30): ds.n.numpy(), ds.text[-1].text()",
    "for batch in ds.batches(100): pass",
    "ds.info['at'] = len(ds)",
]
def interrupt():
    while True:
        time.sleep(chance.uniform(0.005, 0.08))
        if working.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            working.clear()
working = threading.Event()
threading.Thread(target=interrupt, daemon=True).start()
errors = hits = 0
while hits < count:
    try:
        working.set()
        exec(chance.choice(cells))
        working.clear()
    except KeyboardInterrupt as error:
        hits += 1
        sys.last_value, sys.last_traceback = error, error.__traceback__  # as a notebook keeps them
    except Exception:
        traceback.print_exc()
        errors += 1
        if errors > 5:
            break
    try:
        working.clear()
        lengths = {len(t) for t in ds.tensors.values()}
        if len(lengths) != 1:
            print("torn", lengths, flush=True)
            break
    except KeyboardInterrupt:
        hits += 1
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("hits", hits, "errors", errors, flush=True)
"""


def _interrupt_a_notebook(path: Path, count: int, seed: int) -> None:
    """Let a process go on after each of many interrupts, as the kernel of a notebook does."""
    command = [sys.executable, "-c", textwrap.dedent(KERNEL), str(path), str(count), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout.endswith("errors 0\n"), done.stdout + done.stderr
    _check(path)


def test_a_notebook_goes_on_after_every_interrupt(tmp_path: Path) -> None:
    """The same object goes on after each Ctrl-C, with whole rows, and everything taken is there at the end."""
    _interrupt_a_notebook(_started(tmp_path / "ds"), 15, SEED)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_notebook_goes_on_after_hundreds_of_interrupts(tmp_path: Path) -> None:
    """The same five hundred times."""
    for i in range(25):
        _interrupt_a_notebook(_started(tmp_path / f"ds{i}"), 20, 100 * SEED + i)
