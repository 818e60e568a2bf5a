"""A disk that is full, fails or refuses: a clear error, old data intact, and the same dataset goes on afterwards."""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.power.disk import Disk
from integration_tests.power.events import Mark, read_log
from integration_tests.power.recorder import CHANGES, Fault, calls, fail, mark, recorded, why_not
from integration_tests.power.verdict import Seen, goes_on, seen
from lakebed.errors import (
    CommitStateUnknown,
    EmptyCommitError,
    LakebedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
)
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from lakebed.writing.draft import tensors as draft_tensors

SEED = 20_261_121
NUMBERS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EMFILE, errno.EROFS)
KINDS = {errno.ENOSPC: StorageFullError, errno.EDQUOT: StorageFullError, errno.EROFS: StorageReadOnlyError}
ADVICE = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EIO: "check",
    errno.EMFILE: "ulimit",
    errno.EROFS: "writable",
}
_number = itertools.count()


@dataclass(frozen=True)
class Place:
    """A folder on a disk that fails when told to, and the same folder on the disk below, which does not."""

    mount: Path
    source: Path

    def new(self) -> tuple[str, str]:
        """An address for a new dataset, and the same place below."""
        name = f"ds-{next(_number)}"
        return str(self.mount / name), str(self.source / name)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A disk that fails when told to."""
    problem = why_not()
    if problem is not None:
        pytest.skip(problem)
    place = tmp_path_factory.mktemp("faults")
    source, mount = place / "source", place / "mount"
    source.mkdir()
    mount.mkdir()
    with recorded(source, mount, place / "log"):
        yield Place(mount, source)


@pytest.fixture(autouse=True)
def _spill_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few rows be as many as a gigabyte else is."""
    monkeypatch.setattr(draft_tensors, "SPILL_BYTES", 1_000)


Action = Callable[[Any], object]


@dataclass(frozen=True)
class Work:
    """Changes, which wait in memory or not, and what publishes them."""

    changes: tuple[Action, ...]
    publish: Action

    def change(self, ds: lakebed.Dataset) -> None:
        """Make all changes."""
        for change in self.changes:
            change(ds)


def rows(count: int) -> Action:
    """Add rows of two tensors."""

    def extend(ds: lakebed.Dataset) -> None:
        start = len(ds.n)
        arrays = [np.full((row % 4 + 30, 2), row, np.float32) for row in range(start, start + count)]
        ds.extend({"n": [row % 2 for row in range(start, start + count)], "x": arrays})

    return extend


def _update(ds: lakebed.Dataset) -> None:
    ds.x[1] = np.ones((2, 2), np.float32)


WORK = {
    "append": Work((rows(1),), lambda ds: ds.flush()),
    "spill": Work((rows(8), lambda ds: ds.x.numpy(aslist=True)) * 4, lambda ds: ds.flush()),
    "update": Work((_update,), lambda ds: ds.flush()),
    "pop": Work((lambda ds: ds.pop(0),), lambda ds: ds.flush()),
    "commit": Work((rows(2),), lambda ds: ds.commit("now")),
    "branch": Work((rows(2),), lambda ds: ds.checkout("other", create=True)),
    "tensor": Work((lambda ds: ds.create_tensor("late", dtype="int16"),), lambda ds: ds.flush()),
}


def prepared(disk: Place) -> tuple[lakebed.Dataset, str]:
    """A dataset with a commit and rows after it, open for writing."""
    url, below = disk.new()
    ds = lakebed.empty(url)
    with ds:
        ds.create_tensor("n", htype="class_label", class_names=["a", "b"])
        ds.create_tensor("x", dtype="float32")
        rows(3)(ds)
    ds.commit("first")
    rows(2)(ds)
    ds.flush()
    return ds, below


def results(disk: Place) -> dict[str, tuple[dict[str, int], Seen | None]]:
    """How often each work calls each operation, and what readers see after it."""
    found = {}
    for name, work in WORK.items():
        ds, below = prepared(disk)
        fail(disk.mount, None)
        work.change(ds)
        work.publish(ds)
        found[name] = calls(disk.mount), seen(below)
        ds.close()
    return found


def attempt(ds: lakebed.Dataset, action: Action, fault: Fault) -> LakebedError | None:
    """Do something; return the error if the disk failed, which must be a clear one."""
    try:
        action(ds)
    except (StorageError, CommitStateUnknown) as caught:
        error = caught
    else:
        return None
    if isinstance(error, CommitStateUnknown):
        assert fault.operation == "fsyncdir"
    else:
        assert isinstance(error, KINDS.get(fault.error, StorageError)), repr(error)
        assert error.errno == fault.error
        assert ADVICE[fault.error] in str(error)
    assert ds.path in str(error)
    return error


def endure(disk: Place, name: str, fault: Fault, expected: Seen | None) -> bool:
    """Let a disk fail during some work; return whether anybody noticed."""
    ds, below = prepared(disk)
    before, work = seen(below), WORK[name]
    failed = False
    fail(disk.mount, fault)
    for change in work.changes:
        if attempt(ds, change, fault) is not None:
            # Nothing of this change waits, but all of those before it: it alone is made again.
            failed = True
            fail(disk.mount, None)
            assert seen(below) == before
            change(ds)
    error = attempt(ds, work.publish, fault)
    fail(disk.mount, None)
    if error is not None:
        failed = True
        assert seen(below) in (before, expected) or isinstance(error, CommitStateUnknown) or name == "branch"
        try:
            work.publish(ds)
        except EmptyCommitError:
            assert isinstance(error, CommitStateUnknown)
    assert seen(below) == expected
    ds.close()
    litter = list(Path(below).rglob(".lb-*"))
    assert not litter or fault.operation in ("unlink", "")
    goes_on(below, expected)
    return failed


def swept(disk: Place, count: int, seed: int) -> int:
    """Let the disk fail at random calls of all works; return how often that was noticed."""
    chance = random.Random(seed)
    expected = results(disk)
    noticed = 0
    for _ in range(count):
        name = chance.choice(list(WORK))
        counts, after = expected[name]
        operation = chance.choice([operation for operation in CHANGES if counts[operation]])
        number = errno.EIO if operation in ("fsync", "fsyncdir") else chance.choice(NUMBERS)
        if operation == "write" and chance.random() < 0.2:
            number = 0
        fault = Fault(operation, chance.randrange(counts[operation]), number)
        try:
            noticed += endure(disk, name, fault, after)
        except Exception as error:
            error.add_note(f"seed {seed}: {name}, {fault}")
            raise
    return noticed


def test_a_failing_call_is_told_and_the_same_dataset_goes_on(disk: Place) -> None:
    """Whichever call fails, the error says what and where, and trying again loses and doubles nothing."""
    assert swept(disk, 10, SEED) > 3


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(4))
def test_whichever_call_fails_the_same_dataset_goes_on(disk: Place, seed: int) -> None:
    """The same for many calls."""
    assert swept(disk, 400, seed) > 150


@pytest.mark.parametrize("name", [pytest.param("append", marks=pytest.mark.soak), "spill"])
def test_what_is_published_after_a_failed_fsync_survives_a_power_cut(name: str, tmp_path: Path) -> None:
    """After an error of the disk nothing is taken for written that was only forced again: it is written again."""
    problem = why_not()
    if problem is not None:
        pytest.skip(problem)
    source, mount = tmp_path / "source", tmp_path / "mount"
    source.mkdir()
    mount.mkdir()
    disk, chance = Place(mount, source), random.Random(SEED)
    acknowledged, failed = {}, 0
    with recorded(source, mount, tmp_path / "log"):
        ds, _ = prepared(disk)
        WORK[name].change(ds)
        fail(mount, None)
        WORK[name].publish(ds)
        counts = calls(mount)
        ds.close()
        # The last ones force spilled chunks and the version tree.
        last = [(kind, counts[kind] - back) for kind in ("fsync", "fsyncdir") for back in (1, 2)]
        for operation, after in [*last, ("fsync", chance.randrange(counts["fsync"] - 3)), ("fsyncdir", 0)]:
            ds, below = prepared(disk)
            work = WORK[name]
            work.change(ds)
            fault = Fault(operation, after, errno.EIO)
            fail(mount, fault)
            failed += attempt(ds, work.publish, fault) is not None
            fail(mount, None)
            ds.flush()
            word = f"{operation}-{after}"
            mark(mount, word)
            acknowledged[word] = Path(below).name, seen(below)
            ds.close()
        del ds  # it holds a file of its version, and with that the disk
    assert failed > 3
    left = Disk()
    for event in read_log(tmp_path / "log"):
        left.tell(event)
        if isinstance(event, Mark):
            name, expected = acknowledged[event.word]
            place = tmp_path / event.word
            place.mkdir()
            left.nothing().write(place)
            assert seen(str(place / name)) == expected, event.word
            assert verify(LocalStorage(place / name)).is_sound


def test_spilled_chunks_that_the_disk_lost_are_not_published(disk: Place) -> None:
    """Where the memory forgets it as well, what could not be written is said to be lost, and not published."""
    ds, below = prepared(disk)
    WORK["spill"].change(ds)
    fail(disk.mount, None)
    ds.flush()
    counts, before, told = calls(disk.mount), seen(below), 0
    # Chunks that were written before are forced after everything else but the version tree.
    for after in range(counts["fsync"] - 4, counts["fsync"]):
        WORK["spill"].change(ds)
        fail(disk.mount, Fault("fsync", after, errno.EIO, drops=True))
        with contextlib.suppress(StorageError):
            ds.flush()
        fail(disk.mount, None)
        try:
            ds.flush()
        except StorageError as error:
            told += "content is lost" in str(error)
            with pytest.raises(StorageError, match="content is lost"):
                ds.flush()
            assert seen(below) == before
            ds._session.discard()
        before = seen(below)
        assert verify(LocalStorage(below), deep=True).is_sound
    assert told > 0
    ds.close()


def test_names_that_the_disk_does_not_tell_apart_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tensors whose folders would be one are not published over each other; without one of them all goes on."""
    problem = why_not()
    if problem is not None:
        pytest.skip(problem)
    caplog.set_level(logging.CRITICAL)  # errors in records would hold files there
    source, mount = tmp_path / "source", tmp_path / "mount"
    source.mkdir()
    mount.mkdir()
    with recorded(source, mount, tmp_path / "log", folds=True):
        ds = lakebed.empty(str(mount / "ds"))
        ds.create_tensor("image", dtype="int32")
        ds.image.append(1)
        ds.flush()
        ds.create_tensor("Image", dtype="int32")
        ds.Image.append(2)
        with pytest.raises(StorageError, match="ignores case or accents") as caught:
            ds.flush()
        assert caught.value.errno == errno.EEXIST
        assert lakebed.load(str(mount / "ds"), read_only=True).image.numpy().tolist() == [[1]]
        ds.delete_tensor("Image")
        ds.image.append(3)
        ds.close()
        del ds, caught
    again = lakebed.load(str(source / "ds"), read_only=True)
    assert again.image.numpy().tolist() == [[1], [3]]
    assert verify(LocalStorage(source / "ds"), deep=True).is_sound
