"""Transfer of many objects from one storage to another: in parallel, within a memory limit, verified.

Within one bucket the store copies objects, and no byte passes through this process. Otherwise objects with known
checksums are compared with these: damaged objects are reported, and not copied.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from lakebed import config
from lakebed.documents.manifest import ChunkPlaces, block_sums
from lakebed.errors import KeyNotFound, StoragePermissionError
from lakebed.runtime.progress import Advance, bytes_bar
from lakebed.session.copy_journal import Journal
from lakebed.storage.base import Stat, Storage, is_bucket, traits_of
from lakebed.storage.concurrently import concurrently

Sums = tuple[int, Sequence[int]]
"""Size of an object, and the xxh3-64 of each of its blocks."""

# Largest batch of objects between local disks: a task per object would cost more than copying it.
_TOGETHER = 64
_TOGETHER_BYTES = 4 << 20
# Number of threads for local disks; more are not faster.
_LOCAL_WORKERS = 4
# Size in bytes of the largest object that a store can copy internally by one request.
_LARGEST_COPY = 5 << 30

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Item:
    """An object to copy.

    Parameters
    ----------
    key
        Key of the object in the source.
    stat
        Entry of the object in the listing.
    sums
        Recorded checksums of the object, if any.
    to
        Key of the object in the target, if it differs.
    """

    key: str
    stat: Stat
    sums: Sums | None = None
    to: str = ""

    @property
    def goal(self) -> str:
        """Key of the object in the target."""
        return self.to or self.key


@dataclass
class Outcome:
    """Objects that a transfer did not copy, and checksums that it computed.

    Attributes
    ----------
    damaged
        Keys of objects that are damaged, and why; they were not copied.
    missing
        Keys of objects that disappeared after the source was listed.
    sums
        Checksums of chunks without recorded ones.
    """

    damaged: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    sums: dict[str, Sums] = field(default_factory=dict)


class Transfer:
    """A copier of objects between two storages.

    Parameters
    ----------
    done
        Called with arrived objects, by any thread.
    advance
        Called with the number of bytes that arrived.
    """

    def __init__(
        self, source: Storage, target: Storage, done: Callable[[Sequence[Item]], None], advance: Advance
    ) -> None:
        self._source, self._target = source, target
        self._done, self._advance = done, advance
        self._inside = inside(source, target)
        self._room = _ByteBudget(config.UPLOAD_BYTES)
        self._is_disk = traits_of(target).local
        self._batch = threading.Lock()
        self.outcome = Outcome()

    def run(self, items: Sequence[Item]) -> Outcome:
        """Copy all objects; after an error of a storage no further copy is started."""
        near = traits_of(self._source).local and traits_of(self._target).local
        workers = _LOCAL_WORKERS if near else config.REQUESTS
        batches = _batches(items, near=near)
        concurrently((partial(self._transfer_batch, batch) for batch in batches), workers=workers)
        return self.outcome

    def _transfer_batch(self, items: Sequence[Item]) -> None:
        way = self._inside
        if way is not None and items[0].stat.size < _LARGEST_COPY and self._server_side_copy(items[0], *way):
            return
        size = sum(item.stat.size for item in items)
        with self._room.of(size):
            found = {item.goal: data for item in items if (data := self._read(item)) is not None}
            if found:
                self._write(found)
        self._record([item for item in items if item.goal in found])

    def _write(self, found: Mapping[str, bytes]) -> None:
        # On a disk, write one batch at a time: a batch creates its folders and assumes that no other batch does.
        with self._batch if self._is_disk else nullcontext():
            self._target.put_many(found.items(), durable=False)

    def _server_side_copy(self, item: Item, storage: Storage, here: str, there: str) -> bool:
        """Let the store copy an object; return False if the store refuses."""
        if item.sums is not None and item.sums[0] != item.stat.size:
            self.outcome.damaged[item.key] = f"it has {item.stat.size} bytes instead of {item.sums[0]}"
            return True
        try:
            storage.copy(here + item.key, there + item.goal)
        except KeyNotFound:
            self.outcome.missing.append(item.key)
            return True
        except StoragePermissionError:
            _log.info("%s does not copy by itself: everything passes through this process", storage.url)
            self._inside = None
            return False
        self._record([item])
        return True

    def _read(self, item: Item) -> bytes | None:
        try:
            data = self._source.get(item.key)
        except KeyNotFound:
            self.outcome.missing.append(item.key)
            return None
        if item.sums is not None:
            why = difference(data, item.sums)
            if why is not None:
                self.outcome.damaged[item.key] = why
                return None
        elif "/chunks/" in item.key:
            self.outcome.sums[item.key] = (len(data), block_sums((data,)))
        return data

    def _record(self, items: Sequence[Item]) -> None:
        self._done(items)
        self._advance(sum(item.stat.size for item in items))


def transfer_rest(
    label: str,
    items: Sequence[Item],
    here: Mapping[str, int],
    journal: Journal,
    transfer: Callable[[Callable[[Sequence[Item]], None], Advance], Transfer],
    *,
    progressbar: bool,
) -> Outcome:
    """Copy the objects that earlier attempts did not copy, with a journal and a progress bar.

    Parameters
    ----------
    here
        Sizes of the objects in the target, by key.
    transfer
        Makes the copier, with its arguments ``done`` and ``advance``.
    """
    left = [
        item
        for item in items
        if here.get(item.goal) != item.stat.size or journal.done.get(item.goal) != item.stat.etag
    ]
    total, rest = (sum(item.stat.size for item in some) for some in (items, left))

    def note(arrived: Sequence[Item]) -> None:
        journal.add([(item.goal, item.stat.etag) for item in arrived])

    try:
        with bytes_bar(label, total, done=total - rest, shown=progressbar) as advance:
            return transfer(note, advance).run(left)
    finally:
        journal.flush()


def difference(data: bytes, sums: Sums) -> str | None:
    """Return the difference between content and recorded checksums; None if they agree."""
    size, wanted = sums
    if len(data) != size:
        return f"it has {len(data)} bytes instead of {size}"
    found = block_sums((data,))
    wrong = next((at for at, (a, b) in enumerate(zip(found, wanted, strict=True)) if a != b), None)
    return None if wrong is None else f"its checksum is wrong in block {wrong}"


def recorded_sums(places: ChunkPlaces) -> Callable[[int], Sums]:
    """Return a function from the row of a chunk to its recorded size and checksums; size 0 if it was not recorded."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(places.sum_counts())]).tolist()
    return lambda row: (int(places.sizes[row]), places.sums[ends[row] : ends[row + 1]].tolist())


def inside(source: Storage, target: Storage) -> tuple[Storage, str, str] | None:
    """Return a storage that contains two others, and the prefixes of their keys in it; None if no storage has both."""
    if is_bucket(source) and is_bucket(target):
        return target.around(source)
    return None


def _batches(items: Sequence[Item], *, near: bool) -> Iterator[list[Item]]:
    """Yield batches of objects, over a network one object each; large ones first, to avoid a long wait at the end."""
    batch: list[Item] = []
    size = 0
    for item in sorted(items, key=lambda item: -item.stat.size):
        if batch and (not near or len(batch) >= _TOGETHER or size + item.stat.size > _TOGETHER_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item.stat.size
    if batch:
        yield batch


class _ByteBudget:
    """A limit of bytes in flight; a larger object is transferred alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._change = threading.Condition()

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        """Reserve bytes for the duration of a block; wait until they are free."""
        with self._change:
            self._change.wait_for(lambda: not self._taken or self._taken + size <= self._most)
            self._taken += size
        try:
            yield
        finally:
            with self._change:
                self._taken -= size
                self._change.notify_all()
