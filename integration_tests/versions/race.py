"""Processes that write and read one dataset at the same time: race.py PATH SECONDS ROLE NUMBER [ROLE NUMBER...].

Every row says who wrote it, in which batch, how large that batch is, and what its text must be. A batch is one publish.
Whatever happens is written to a log beside the dataset, one JSON object per line, with monotonic times.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import traceback
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakebed
from lakebed import config
from lakebed.errors import CommitFailed, CommitStateUnknown, LockedException, LockedWarning

BRANCHES = ("main", "b1", "b2", "b3")
COLUMNS = ("writer", "batch", "size", "sum")
LEAST = 3
"""Batches of a writer, and looks of a reader, however little a busy machine gets done in the time."""


def create(path: Path) -> None:
    """Make the dataset and its branches."""
    ds = lakebed.empty(path)
    for name in COLUMNS:
        ds.create_tensor(name, dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.commit("base")
    for name in BRANCHES[1:]:
        ds.checkout("main")
        ds.checkout(name, create=True)
    ds.close()


def text_of(writer: int, batch: int, place: int) -> str:
    """What the text of a row is."""
    return f"{writer}/{batch}/{place} " * (1 + (batch + place) % 5)


def rows(writer: int, batch: int, size: int) -> dict[str, list[Any]]:
    """One batch."""
    texts = [text_of(writer, batch, place) for place in range(size)]
    sums = [zlib.crc32(text.encode()) for text in texts]
    return {
        "writer": [writer] * size, "batch": [batch] * size, "size": [size] * size, "sum": sums, "text": texts,
    }  # fmt: skip


class Log:
    """A file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def add(self, what: str, began: float, **more: Any) -> None:
        """Write one line: what happened between ``began`` and now."""
        self._file.write(json.dumps({"what": what, "began": began, "ended": time.monotonic(), **more}) + "\n")


def write(path: str, number: int, seconds: float, log: Log) -> None:
    """Publish batch after batch on one branch, in competition with another writer there."""
    dice, batch = random.Random(number), 0
    branch = BRANCHES[number % len(BRANCHES)]
    until = time.monotonic() + seconds
    ds = lakebed.load(f"{path}@{branch}")
    while time.monotonic() < until or batch < LEAST:
        if dice.random() < 0.1:
            ds.close()
            ds = lakebed.load(f"{path}@{branch}")
        publishes = dice.choice([1, 1, 1, 4])
        try:
            if publishes == 1:
                batch = publish(ds, number, batch, dice, log)
            else:
                with ds:
                    for _ in range(publishes):
                        batch = publish(ds, number, batch, dice, log)
        except LockedException:
            log.add("locked", time.monotonic())
        time.sleep(dice.uniform(0, 0.06))
    ds.close()


def publish(ds: lakebed.Dataset, number: int, batch: int, dice: random.Random, log: Log) -> int:
    """Publish one batch; return the number of the next one."""
    size, began, commits = dice.randrange(1, 9), time.monotonic(), dice.random() < 0.15
    try:
        ds.extend(rows(number, batch, size))
        if commits:
            ds.commit(f"{number}/{batch}")
        else:
            ds.flush()
    except CommitFailed as error:
        log.add("failed", began, batch=batch, error=repr(error))
        return batch
    except CommitStateUnknown as error:
        log.add("unknown", began, batch=batch, error=repr(error))
        raise
    log.add("published", began, batch=batch, size=size, commit=commits, branch=ds.branch)
    return batch + 1


def read(path: str, number: int, seconds: float, log: Log) -> None:
    """Open branches and read everything; now and then look again at what was opened a while ago."""
    dice, kept, looks = random.Random(number), [], 0
    until = time.monotonic() + seconds
    while time.monotonic() < until or looks < LEAST:
        looks += 1
        branch, began = dice.choice(BRANCHES), time.monotonic()
        ds = lakebed.load(f"{path}@{branch}", read_only=True)
        opened = time.monotonic()
        found = check(ds)
        log.add("read", began, opened=opened, branch=branch, batches=found)
        kept.append((ds, found))
        if len(kept) > 4:
            old, before = kept.pop(dice.randrange(len(kept)))
            began = time.monotonic()
            old.clear_cache()
            if check(old) != before:
                raise AssertionError(f"an open snapshot of {old.branch} has changed")
            log.add("read again", began)
        time.sleep(dice.uniform(0, 0.1))


def branch(path: str, number: int, seconds: float, log: Log) -> None:
    """Start branches beside the others' work, write there, merge the others' work in, tag, and delete them again."""
    dice, batch = random.Random(number), 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        name, began = f"tmp{number}-{batch}", time.monotonic()
        ds = lakebed.load(f"{path}@{dice.choice(BRANCHES)}")
        ds.checkout(ds.commits[0]["commit"])
        ds.checkout(name, create=True)
        ds.extend(rows(1000 + batch, 0, 3))
        ds.commit("mine")
        try:
            ds.merge(dice.choice(BRANCHES), "theirs")
        except (LockedException, CommitFailed) as error:
            # Its head is to be committed first, and somebody is writing it.
            log.add("not merged", began, error=repr(error))
        if check(ds).get(str(1000 + batch)) != 1:
            raise AssertionError(f"{name} has lost its rows")
        ds.create_tag(f"v{name}")
        ds.delete_tag(f"v{name}")
        ds.checkout("main")
        try:
            ds.delete_branch(name)
        except CommitFailed as error:
            log.add("not deleted", began, error=repr(error))
        ds.close()
        log.add("branched", began)
        batch += 1
        time.sleep(dice.uniform(0.1, 0.4))


def check(ds: lakebed.Dataset) -> dict[str, int]:
    """Check every row; return the number of batches by writer."""
    lengths = {name: len(ds[name]) for name in (*COLUMNS, "text")}
    if len(set(lengths.values())) != 1:
        raise AssertionError(f"torn rows: {lengths}")
    batches: dict[str, int] = {}
    for writer, batch, _ in batches_of(ds):
        if batch != batches.get(str(writer), 0):
            raise AssertionError(
                f"writer {writer}: batch {batch} follows {batches.get(str(writer), 0)} others"
            )
        batches[str(writer)] = batch + 1
    return batches


def batches_of(ds: lakebed.Dataset) -> Iterator[tuple[int, int, int]]:
    """Iterate over the batches in the order of the rows: writer, number, size; each must be whole."""
    if not len(ds.writer):
        return
    writers, batches, sizes, sums = (ds[name].numpy().ravel().tolist() for name in COLUMNS)
    texts = ds.text.text()
    at = 0
    while at < len(writers):
        writer, batch, size = writers[at], batches[at], sizes[at]
        for place in range(size):
            row = at + place
            text = text_of(writer, batch, place)
            found = (
                [column[row] for column in (writers, batches, sizes, sums, texts)]
                if row < len(texts)
                else None
            )
            if found != [writer, batch, size, zlib.crc32(text.encode()), text]:
                raise AssertionError(
                    f"row {row} is {found}, place {place} of batch {batch} of writer {writer}"
                )
        yield writer, batch, size
        at += size


def collect(path: str, number: int, seconds: float, log: Log) -> None:
    """Collect garbage all the time."""
    from lakebed.storage.local import LocalStorage
    from lakebed.versions.gc.collect import collect as sweep

    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        sweep(LocalStorage(path), grace=1.0)
        log.add("collected", began)
        time.sleep(0.5)


def play(path: Path, seconds: float, role: str, number: str) -> None:
    """Play one role until the time is over; any error is the last line of the log."""
    log = Log(path.parent / f"{role}{number}")
    try:
        {"write": write, "read": read, "branch": branch, "collect": collect}[role](
            str(path), int(number), seconds, log
        )
    except BaseException as error:
        log.add("error", time.monotonic(), error=repr(error), trace=traceback.format_exc())
        raise
    log.add("done", time.monotonic())


def main() -> None:
    """Play all roles but the first in forks of this process, which has imported what they need."""
    path, seconds, *roles = sys.argv[1:]
    config.LEASE_SECONDS = float(os.environ.get("LAKEBED_TEST_LEASE", config.LEASE_SECONDS))
    warnings.simplefilter("ignore", LockedWarning)
    role, forks = roles[:2], list[int]()
    for at in range(2, len(roles), 2):
        fork = os.fork()
        if not fork:
            role, forks = roles[at : at + 2], []
            break
        forks.append(fork)
    try:
        play(Path(path), float(seconds), *role)
    finally:
        for fork in forks:
            os.waitpid(fork, 0)


if __name__ == "__main__":
    main()
