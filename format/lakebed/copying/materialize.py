"""Replacement of links by the data of their files; a run that was killed continues.

Progress is published along the way. A note beside the dataset records the source and the target; while it exists, the
same call continues where the last one stopped. It holds the state of each source tensor, to notice changes of the
source, and the broken links that were left out.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.copying.copy import refuse_same_place
from lakebed.copying.resolve_links import BrokenLink, LinkResolver
from lakebed.documents import json_style
from lakebed.errors import DatasetExistsError, GetDataFromLinkError, KeyNotFound, SampleAppendError
from lakebed.reading.subscripts import Index
from lakebed.session.changes.copy_samples import Source, columns, empty, stretches
from lakebed.session.handle import Handle
from lakebed.session.places import Path, make
from lakebed.session.schema import add_planned, blank, delete_tensor, rename_tensor
from lakebed.session.session import Session
from lakebed.session.table import Table
from lakebed.storage.base import Storage
from lakebed.storage.url import open_storage, parse
from lakebed.versions.opening import TREE_KEY
from lakebed.versions.state import TensorState
from lakebed.writing.encode.encoded import Column, Encoded
from lakebed.writing.names import companion_key

if TYPE_CHECKING:
    from tqdm import tqdm

KEY = ".lakebed/materializing.json"
"""Storage key of the note."""

# Progress is published after this many bytes or seconds.
_PUBLISH_BYTES = 256 << 20
_PUBLISH_SECONDS = 30.0
_SUFFIX = "_unlinked"


@dataclass(slots=True)
class Job:
    """The content of the note: the task, and its progress.

    Parameters
    ----------
    source
        Address of the dataset with the links.
    tensors
        New name -> name in the source, and a digest of its state.
    rows
        Digest of the selected rows.
    broken
        Broken links so far.
    """

    source: str
    tensors: dict[str, tuple[str, str]]
    rows: str
    broken: list[BrokenLink] = field(default_factory=list)

    def is_same(self, other: Job) -> bool:
        """Tell whether another task equals this one, apart from its progress."""
        return (self.source, self.tensors, self.rows) == (other.source, other.tensors, other.rows)

    def to_bytes(self) -> bytes:
        """Return the note as JSON."""
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def of(cls, table: Table) -> Job:
        """Return the task for a table."""
        states = {new: (table.names[new], _digest(state)) for new, state in table.states().items()}
        index = table.index
        rows = "" if index.is_trivial else hashlib.sha256(_rows(index, table.longest).tobytes()).hexdigest()
        return cls(table.session.storage.url, states, rows)

    @classmethod
    def at(cls, storage: Storage) -> Job | None:
        """Read the note of a dataset; return None if it has none."""
        try:
            found = json_style.load_object(storage.get(KEY), KEY)
        except KeyNotFound:
            return None
        tensors = {str(new): (str(old), str(state)) for new, (old, state) in found["tensors"].items()}
        return cls(
            found["source"], tensors, found["rows"], [BrokenLink(**entry) for entry in found["broken"]]
        )


def _digest(state: TensorState) -> str:
    """Return a digest of a tensor's state: of the ids of its chunks, because ids are unique and chunks never change."""
    found = hashlib.sha256(state.table.ids.to_bytes())
    for extra in (state.sequence, state.creds):
        found.update(b"-" if extra is None else extra.to_bytes())
    return found.hexdigest()


def _rows(index: Index, length: int) -> NDArray[np.int64]:
    return np.asarray(index.rows(length), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Copying:
    """Options of copying rows.

    Parameters
    ----------
    unlink
        Fetch linked data; otherwise links are copied as links.
    ignore_errors
        Leave an empty sample in place of a broken link.
    workers
        Threads that copy tensors in parallel; links are always fetched in parallel.
    """

    unlink: bool = True
    ignore_errors: bool = False
    progressbar: bool = False
    workers: int = 0


# -- into another dataset ----------------------------------------------------------------------------------------


def copy_resolved(
    table: Table,
    dest: Path,
    *,
    overwrite: bool = False,
    ignore_errors: bool = False,
    progressbar: bool = False,
) -> tuple[Handle, list[BrokenLink]]:
    """Create a dataset with the linked data of a table, or continue an interrupted attempt.

    Tensors without links are copied unchanged.

    Parameters
    ----------
    ignore_errors
        Leave an empty sample in place of a broken link.

    Returns
    -------
    The new dataset, and the broken links.

    Raises
    ------
    DatasetHandlerError
        If another dataset exists at ``dest``, and ``overwrite`` is false.
    GetDataFromLinkError, SampleAppendError
        If a file is not available or cannot be stored. Fetched data stays at ``dest``: the same call continues.
    """
    source = table.session
    refuse_same_place(source, dest)
    if not source.read_only:
        source.flush()
    how = Copying(ignore_errors=ignore_errors, progressbar=progressbar)
    handle, job = _begun(source, Job.of(table), dest, overwrite=overwrite)
    target = handle.session
    target.hold()
    try:
        fill(table, target, job, how)
        target.storage.delete(KEY)
    finally:
        target.release()
    return handle, list(dict.fromkeys(job.broken))


def fill(table: Table, target: Session, job: Job, how: Copying) -> None:
    """Copy the rows of a table into the tensors of :func:`add_tensors`, after those that were copied earlier.

    Raises
    ------
    GetDataFromLinkError, SampleAppendError
        If a file is not available or cannot be stored. Fetched data is published: the same call continues.
    """
    try:
        with _bar(table, shown=how.progressbar) as bar:
            fillings = [_Filling(table, new, target, job, bar, how) for new in table.names]
            # The note must not name broken links of rows that are not published, so fill tensors of links one after
            # the other.
            alone = [one for one in fillings if how.workers < 2 or one.follows_links]
            together = [one for one in fillings if one not in alone]
            if together:
                with ThreadPoolExecutor(min(how.workers, len(together))) as pool:
                    list(pool.map(_fill, together))
            for one in alone:
                _fill(one)
    except (GetDataFromLinkError, SampleAppendError) as error:
        target.flush()
        error.add_note(f"fetched data stays at {target.storage.url}: the same call continues with it")
        raise


def _begun(source: Session, job: Job, dest: Path, *, overwrite: bool) -> tuple[Handle, Job]:
    storage = open_storage(dest)
    found = None if overwrite or storage.stat(TREE_KEY) is None else Job.at(storage)
    if found is None:
        handle = make(dest, overwrite=overwrite)
        # Write the note before the tensors, so that the copy can be resumed if the process is killed in between.
        handle.session.storage.put(KEY, job.to_bytes())
    elif found.is_same(job):
        handle, job = Handle(Session(storage), parse(dest).shown), found
    else:
        raise DatasetExistsError(
            f"{storage.url} is an unfinished copy of {found.source} in another state, or of other tensors or rows; "
            "begin anew with overwrite=True"
        )
    add_tensors(source, handle.session, job, unlink=True)
    return handle, job


def add_tensors(source: Session, target: Session, job: Job, *, unlink: bool) -> None:
    """Create the tensors of a copy that do not exist yet."""
    schema = target.schema()
    with target.mutex, target.writing() as draft:
        draft.schema.set_info(dict(source.schema().info))
        for new, (old, _) in job.tensors.items():
            if schema.key_of(new) is None:
                add_planned(target, new, blank(source.schema(), old, new, unlink=unlink))


# -- in place ----------------------------------------------------------------------------------------------------


def resolve_in_place(
    session: Session, names: Sequence[str], *, ignore_errors: bool = False, progressbar: bool = False
) -> list[BrokenLink]:
    """Replace links by their data; older versions keep the links.

    The data of each tensor ``x`` is fetched into a tensor ``x_unlinked``, which takes its place at the end.

    Returns
    -------
    The broken links.

    Raises
    ------
    ReadOnlyModeError, LockedException
        If the dataset cannot be changed.
    GetDataFromLinkError, SampleAppendError
        If a file is not available or cannot be stored. Fetched data stays: the same call continues.
    """
    session.hold()
    try:
        session.flush()
        table = Table(session, {f"{name}{_SUFFIX}": name for name in names})
        job, found = Job.of(table), Job.at(session.storage)
        if found is not None and found.is_same(job):
            job = found
        elif found is not None:
            _drop(session, found)
        session.storage.put(KEY, job.to_bytes())
        for new, old in table.names.items():
            if session.schema().key_of(new) is None:
                add_planned(session, new, blank(session.schema(), old, new, unlink=True))
        how = Copying(ignore_errors=ignore_errors, progressbar=progressbar)
        fill(table, session, job, how)
        for new, old in table.names.items():
            delete_tensor(session, old, large_ok=True)
            rename_tensor(session, new, old)
        session.flush()
        session.storage.delete(KEY)
    finally:
        session.release()
    return list(dict.fromkeys(job.broken))


def _drop(session: Session, job: Job) -> None:
    """Remove the tensors of an attempt that began with other links."""
    for new in job.tensors:
        if session.schema().key_of(new) is not None:
            delete_tensor(session, new, large_ok=True)


# -- filling -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Filling:
    """Copy of one column of a table into a tensor."""

    table: Table
    name: str
    target: Session
    job: Job
    bar: tqdm[Any]
    how: Copying

    @property
    def follows_links(self) -> bool:
        """Whether the samples are links to be fetched."""
        return self.how.unlink and self.table.state(self.name).meta.is_link

    def state(self) -> TensorState:
        return self.target.schema().tensor(self.name)

    def columns(self, rows: NDArray[np.int64]) -> Iterator[tuple[Column, int]]:
        """Yield rows as columns, and the bytes of each."""
        # Use a reader of this version only, so that rows added to the dataset meanwhile do not matter.
        reader = self.table.reader(self.name)
        if self.follows_links:
            resolver = LinkResolver(reader, self.job.broken if self.how.ignore_errors else None)
            for some, exist in stretches(rows, reader.state.length):
                if exist:
                    yield from resolver.columns(some, self.state)
                else:
                    yield empty(len(some), self.state(), self.state()), 0
            return
        source = Source(reader, partial(self.table.companion, self.name), self.table.pad)
        for column in columns(source, rows, self.state()):
            yield column, sum(part.block.nbytes for part in column.parts)


def _fill(filling: _Filling) -> None:
    """Append the missing rows, and publish regularly."""
    target, source = filling.target, filling.table.session
    rows = np.asarray(filling.table.rows_of(filling.name), dtype=np.int64)
    done = filling.state().length
    filling.bar.update(done)
    fetched, published = 0, time.monotonic()
    for column, nbytes in filling.columns(rows[done:]):
        with target.mutex, target.writing() as draft:
            state = filling.state()
            before = state.length
            draft.rows.extend({state.key: column})
            if source is target:
                _keep_ids(filling, rows[before : before + column.count])
        filling.bar.update(column.count)
        fetched += nbytes
        if fetched >= _PUBLISH_BYTES or time.monotonic() - published >= _PUBLISH_SECONDS:
            _publish(filling)
            fetched, published = 0, time.monotonic()
    _publish(filling)


def _publish(filling: _Filling) -> None:
    """Publish the added rows; before that, write their broken links, and no others, into the note."""
    storage = filling.target.storage
    storage.put(KEY, filling.job.to_bytes())
    filling.target.flush()


def _keep_ids(filling: _Filling, rows: NDArray[np.int64]) -> None:
    """Give the fetched samples the ids of their links, because merging matches samples by id."""
    with filling.target.mutex, filling.target.writing() as draft:
        key = filling.state().key
        hidden = companion_key(draft.schema.meta, filling.name, "id")
        ids = draft.companions.row_ids(filling.table.state(filling.name).key, rows.tolist())
        if hidden is None or ids is None or not len(rows):
            return
        stop = draft.tensors[key].state.length
        block = Block(memoryview(ids.tobytes()), len(ids), 8, (1,))
        tensor = draft.tensors[hidden]
        tensor.splice(stop - len(ids), stop, [Encoded(block, tensor.meta)])


def _bar(table: Table, *, shown: bool) -> tqdm[Any]:
    from tqdm import tqdm

    total = sum(len(table.rows_of(name)) for name in table.names)
    return tqdm(total=total, desc="Fetching", unit=" rows", disable=not shown)
