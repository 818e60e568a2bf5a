"""The loader: batches of a dataset for training, shuffled, resumable, equal on any number of processes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lakebed import random
from lakebed.errors import InvalidInputError, InvalidOperationError
from lakebed.errors.root import strict
from lakebed.loaders.collate import RAGGED, Batch, Ragged
from lakebed.loaders.columns import Column, Decode, Resident, column_of
from lakebed.loaders.decoding import OnError, Settings
from lakebed.loaders.draws import fresh_seed, weighted
from lakebed.loaders.order import Mode, Order, Shares, Tail
from lakebed.loaders.plan import Plan
from lakebed.loaders.processes import Processes, SharedPool
from lakebed.loaders.ranks import Ranks
from lakebed.loaders.recognition import PerTensor, Transform, split
from lakebed.loaders.run import Run
from lakebed.loaders.spans import SpanTable, single_rows, span_table
from lakebed.loaders.stats import Stats
from lakebed.loaders.windows import PagedOrder, PagedSpans, paged_spans
from lakebed.reading.buffers import BufferPool
from lakebed.reading.parallel import cores
from lakebed.reading.subscripts import Rows
from lakebed.session.table import HasTable, Table
from lakebed.versions.paged import PagedTable

if TYPE_CHECKING:
    from lakebed.reading.samples import SampleReader

Shuffle = Literal["window", "exact", "chunk"] | bool

WINDOW = 512 << 20
_MOST_MEMORY = 4 << 30
# Kind of the orders of tensors in pages, in states of loaders.
_PAGES = "pages"
_SINGLE = 32  # batch size in which single samples are made


class Loader:
    """Batches of a dataset: an iterable of dictionaries.

    Each pass over a loader is one epoch. The next pass is the next epoch, even if the last pass ended early. The order
    of an epoch depends only on `seed` and the number of the epoch, not on the number of threads or processes.

    Parameters
    ----------
    source
        A dataset, a view, or a table.
    batch_size
        Number of samples in a batch of this process; None for single samples.
    shuffle
        False: rows in their order. True or ``window``: samples of about `window` bytes, from all parts of the dataset,
        are mixed with each other. ``exact``: all samples are mixed, and each is read alone. ``chunk``: chunks are in
        random order, the samples of a chunk in their order.
    seed
        Seed of order and augmentation; None takes that of ``lakebed.random.seed``. If none was set there, a process
        that trains alone draws a seed, by the generator of PyTorch if PyTorch is imported, and all processes of a
        process group use 0. `state_dict` contains the seed.
    tensors
        Names of the tensors; None is all.
    operations
        By tensor of images of 8 bits: declared crops, resizes and flips (`lakebed.loaders.ops`, or those of
        torchvision), alone or composed. Only their output is decoded. Functions that follow them in a composition are
        called with each image.
    transform
        Called with each sample, a dictionary of name to value, on the loader's threads; batches are made of its
        results. A mapping of name to function, or to operations, changes single tensors, and leaves out those that it
        does not name.
    threads
        Number of threads that decode; None is one for each core but one. 0 decodes in the thread that iterates.
    processes
        Number of processes that call the transform, for transforms that hold Python's lock for long. The transform must
        be picklable, or cloudpickle installed; arguments and results go through shared memory. 0 calls it on the
        threads.
    memory
        Limit in bytes of unfinished batches and of data read ahead; None is a quarter of this machine's memory, at most
        4 GiB.
    window
        Number of stored bytes of the samples that are mixed with each other; at most half of `memory`.
    drop_last
        Leave out the last batch if it is smaller than the other batches.
    ragged
        Form of arrays of different shapes in one batch: a ``list``, one array padded with zeros (``pad``), or one flat
        array with offsets (``flat``).
    on_error
        Treatment of samples that cannot be read, decoded or transformed: ``raise``, ``skip`` them, or ``substitute``
        other samples of the batch. They are counted.
    decode
        By tensor: ``numpy`` for its values, ``bytes`` for stored bytes, ``pil`` for an image of Pillow.
    return_index
        Add the numbers of the rows as ``index``.
    weights
        Draw rows with probabilities in proportion to these, one for each row of `source`.
    replace, size
        With weights: whether rows may be drawn repeatedly, and the number of rows to draw; None is the number of
        weights.
    rank, world
        Number of this process and number of all processes: together they take every batch of ``batch_size * world``
        samples. By default, these numbers are those of the process group that exists when a pass begins: the group of
        ``torch.distributed`` or ``jax.distributed``, or the workers of ``TF_CONFIG`` if TensorFlow is imported.
    distributed
        False gives all rows to each process of such a group; None divides them, and logs it once.
    tail
        End of an epoch with several processes: ``pad`` repeats samples, for which `Batch.real` is False; ``drop``
        leaves some samples out; ``keep`` gives some processes fewer samples and steps than others.
    offset
        Number of samples to leave out at the start of the first epoch.
    progress
        Show a bar.

    Raises
    ------
    InvalidInputError
        If an argument has an invalid value.
    TensorDoesNotExistError
        If the dataset has no tensor of a name in `tensors`.

    Examples
    --------
    >>> import lakebed
    >>> ds = lakebed.empty("mem://loader-example")
    >>> _ = ds.create_tensor("x", dtype="int64")
    >>> ds.extend({"x": [1, 2, 3, 4, 5]})
    >>> [batch["x"].ravel().tolist() for batch in lakebed.Loader(ds, batch_size=2)]
    [[1, 2], [3, 4], [5]]
    """

    @strict
    def __init__(
        self,
        source: Table | HasTable,
        batch_size: int | None = 1,
        *,
        shuffle: Shuffle = False,
        seed: int | None = None,
        tensors: Sequence[str] | None = None,
        operations: Mapping[str, Any] | None = None,
        transform: Transform | None = None,
        threads: int | None = None,
        processes: int = 0,
        memory: int | None = None,
        window: int | None = None,
        drop_last: bool = False,
        ragged: Ragged = "list",
        on_error: OnError = "raise",
        decode: Mapping[str, Decode] | None = None,
        return_index: bool = False,
        weights: ArrayLike | None = None,
        replace: bool = True,
        size: int | None = None,
        rank: int | None = None,
        world: int | None = None,
        distributed: bool | None = None,
        tail: Tail = "pad",
        offset: int = 0,
        progress: bool = False,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise InvalidInputError(f"batch_size must be at least 1, not {batch_size}")
        if str(ragged) == "nested":
            raise InvalidInputError(
                "ragged='nested' makes nested tensors of PyTorch: ds.pytorch(ragged='nested'); use 'flat' here"
            )
        _one_of("ragged", ragged, RAGGED)
        _one_of("on_error", on_error, ("raise", "skip", "substitute"))
        _one_of("shuffle", shuffle, (True, False, "window", "exact", "chunk"))
        for name, count in (("threads", threads), ("processes", processes)):
            if count is not None and count < 0:
                raise InvalidInputError(f"{name} must be a number of {name}, or 0 for none, not {count}")
        self.table = _table(source, tensors, transform)
        self.batch_size = batch_size
        self.mode: Mode = "none" if shuffle is False else "window" if shuffle is True else shuffle
        self.operations, self.transform = split(operations, transform)
        self.threads = threads
        self.processes = processes
        self.memory = _default_memory() if memory is None else memory
        self.window = min(WINDOW if window is None else window, max(1, self.memory // 2))
        self.drop_last = drop_last
        self.ragged: Ragged = ragged
        self.on_error: OnError = on_error
        self.decode = dict(decode or {})
        self.return_index = return_index
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        self.replace = replace
        self.size = size
        self.ranks = Ranks(rank, world, distributed)
        self.tail: Tail = tail
        self.progress = progress
        self._check()
        given = random.get_seed() if seed is None else seed
        self._is_drawn = given is None and (self.mode != "none" or weights is not None or bool(operations))
        self._seed = fresh_seed() if self._is_drawn else given or 0
        self._by_pages = True
        self._epoch = 0
        self._position = offset
        self._is_resumed = offset > 0
        self._begin()

    def take_memory_from(self, kind: type[BufferPool]) -> None:
        """Allocate batches from a pool of another kind, such as pinned memory."""
        self._end()
        self._memory_kind = kind
        self._forget()

    def _begin(self) -> None:
        self._memory_kind = BufferPool
        self._print: str | None = None
        self._stats = Stats()
        self._run: Run | None = None
        self._forget()

    def _forget(self) -> None:
        """Drop the memory of batches, and the columns that are kept in memory."""
        self._pid = os.getpid()
        self._ordered: tuple[Rows, int, list[Column], SpanTable | PagedSpans, Order] | None = None
        self._cut: tuple[Rows, list[Column], SpanTable | PagedSpans] | None = None
        self._workers: Processes | None = None
        self._pool = (SharedPool if self._wants_processes else self._memory_kind)(64, 1 << 30)
        self._columns: tuple[list[SampleReader], list[Column]] | None = None

    @property
    def _wants_processes(self) -> bool:
        return self.processes > 0 and self.transform is not None

    def _check(self) -> None:
        for argument, names in (("operations", self.operations), ("decode", self.decode)):
            for name in names:
                if name not in self.table.names:
                    raise InvalidInputError(
                        f"{argument} names the tensor {name!r}, which the loader does not read"
                    )
        if isinstance(self.transform, Mapping):
            unknown = [name for name in self.transform if name not in self.table.names and name != "index"]
            if unknown:
                raise InvalidInputError(
                    f"the transform names the tensors {unknown}, which the loader does not read"
                )
        if self.weights is not None and self.weights.shape != (len(self.table),):
            raise InvalidInputError(
                f"{self.weights.size:,} weights were given for {len(self.table):,} rows; one for each row is needed"
            )

    # -- sizes -------------------------------------------------------------------------------------------------

    @property
    def samples(self) -> int:
        """Number of samples in an epoch, of all processes together."""
        if self.weights is None:
            return len(self.table)
        return len(self.weights) if self.size is None else self.size

    def __len__(self) -> int:
        """Return the number of batches in a whole epoch; with ``batch_size=None`` the number of samples."""
        shares = self._shares(self.samples)
        return shares.own if self.batch_size is None else len(shares)

    def _shares(self, samples: int) -> Shares:
        size = _SINGLE if self.batch_size is None else self.batch_size
        rank, world = self.ranks.now()
        return Shares(samples, size * world, rank, world, self.tail, self.drop_last)

    # -- the position ------------------------------------------------------------------------------------------

    @property
    def seed(self) -> int:
        """Seed of order and augmentation; processes that train together must use the same seed."""
        return 0 if self._is_drawn and self.ranks.has_others() else self._seed

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next pass begins or continues."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Start the next pass at the beginning of an epoch."""
        self._epoch, self._position, self._is_resumed = int(epoch), 0, False

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the consumer, not the position of reading ahead; the state takes less than 1 kB.

        Another loader of the same rows can continue at this position, even with another number of processes or threads.
        With several processes, all processes at the same step have the same state.
        """
        fingerprint = self._fingerprint()
        return {
            "version": 1,
            "seed": self.seed,
            "epoch": self._epoch,
            "position": self._position,
            "order": fingerprint,
            "commit": self.table.version,
            **({"kind": _PAGES} if fingerprint.startswith(_PAGES) else {}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position in the state of another loader.

        Raises
        ------
        InvalidInputError
            If that loader had other rows, or another order of them, or another version of the dataset; or if the state
            is damaged.
        """
        epoch, position = _checked_state(state)
        by_pages = self._by_pages
        self._go_by_pages(state.get("kind") == _PAGES)
        if state["order"] != self._fingerprint() or (state["seed"] != self.seed and not self._is_drawn):
            self._go_by_pages(by_pages)
            raise InvalidInputError(
                f"the state is of version {state.get('commit')!r} of the dataset, this loader reads "
                f"{self.table.version!r}: its rows have changed since, or the loader was made with another "
                "seed, shuffle or window. Make the loader with the same commit, view and arguments as then, or begin "
                "the epoch again"
            )
        self._seed, self._is_drawn = state["seed"], False
        self._epoch, self._position = epoch, position
        # Even if no sample of this epoch remains, the next pass belongs to it and is empty, so that loops count
        # epochs correctly.
        self._is_resumed = True

    def _go_by_pages(self, by_pages: bool) -> None:
        """Order tensors in pages by windows of pages, or as earlier releases, which had all chunks in memory."""
        if by_pages != self._by_pages:
            self._by_pages = by_pages
            self._print = self._cut = self._ordered = None

    def _fingerprint(self) -> str:
        """Return a fingerprint of all that determines the order except seed and epoch; computed once per pass.

        It covers the chunks of the tensors that are read, which change with their rows.
        """
        if self._print is None:
            rows = self.table.rows()
            spans = self._spans(rows if isinstance(rows, range) or self.mode == "none" else np.sort(rows))
            digest = hashlib.blake2b(digest_size=12)
            digest.update(f"eased {self.mode} {self.window} {self.replace} {self.samples}".encode())
            if self.weights is not None:
                digest.update(np.ascontiguousarray(self.weights).data)
            digest.update(repr(rows).encode() if isinstance(rows, range) else np.ascontiguousarray(rows).data)
            kind = ""
            if isinstance(spans, PagedSpans):
                kind = _PAGES
                # Other arguments may have other tensors read by spans, which changes the sizes of blocks.
                digest.update(f"{spans.reader.name} {spans.per_row!r}".encode())
            else:
                for sizes in (spans.sizes.count, spans.sizes.nbytes):
                    digest.update(np.ascontiguousarray(sizes).data)
            for column in self._made_columns():
                for part in _chunks_of(column.reader, spans):
                    digest.update(np.ascontiguousarray(part).view(np.uint8).data)
            self._print = kind + digest.hexdigest()
        return self._print

    # -- iteration ---------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        """Begin the next epoch, or continue the epoch of a loaded state; an earlier iterator ends."""
        self._end()
        # Compute the fingerprint again, because the dataset may have changed.
        known, self._print = self._print, None
        if self._fingerprint() != known and known is not None and self._is_resumed:
            # Keep the old fingerprint, so that the error is raised until set_epoch or another state.
            self._print = known
            raise InvalidInputError(
                "the dataset has changed since a state was loaded into this loader: open the version of the state "
                f"(this one is {self.table.version!r}), or begin the epoch again with set_epoch({self._epoch})"
            )
        # The last pass has ended, early or with its last batch: begin the next epoch.
        if self._position and not self._is_resumed:
            self._epoch, self._position = self._epoch + 1, 0
        self._is_resumed = False
        epoch, position = self._epoch, self._position
        columns = self._made_columns()
        table, order = self._order(epoch)
        position = min(position, len(order))
        shares = self._shares(len(order) - position)
        self._run = run = self._run_of(Plan(table, order, shares, epoch, position), columns)
        return self._delivered(run, shares, epoch, position)

    def take(self, positions: ArrayLike, epoch: int = 0) -> Batch:
        """Return some samples as one batch, independent of the order of epochs.

        Parameters
        ----------
        positions
            Numbers of rows of the source, which may repeat; int, shape (samples,).
        epoch
            Determines random operations, together with the seed and the row.

        Raises
        ------
        IndexError
            If a number is not below the number of rows.
        """
        wanted = np.asarray(positions, dtype=np.int64)
        rows = self.table.rows()
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(rows):
            raise IndexError(
                f"samples {wanted.min()} to {wanted.max()} were requested; the loader has samples 0 to {len(rows) - 1}"
            )
        if isinstance(rows, range):
            chosen = rows.start + wanted * rows.step
        else:
            chosen = np.asarray(rows, dtype=np.int64)[wanted]
        columns = self._made_columns()
        readers = {column.name: column.reader for column in columns if not isinstance(column, Resident)}
        table = single_rows(readers, chosen)
        order = Order(table.sizes, mode="none", seed=self.seed)
        run = self._run_of(Plan(table, order, Shares(len(chosen), max(1, len(chosen))), epoch), columns)
        try:
            return next(iter(run), Batch())
        finally:
            run.close()

    def _run_of(self, plan: Plan, columns: list[Column]) -> Run:
        table = plan.table
        is_remote = any(column.is_spanned and column.reader.source.remote is not None for column in columns)
        is_copied = any(column.reader.chunk_codec() is not None for column in columns if column.is_spanned)
        reads = min(self.window, table.total) if is_remote or is_copied else 0
        threads = max(1, cores() - 1) if self.threads is None else self.threads
        if self._workers is not None and not self._workers.is_usable:
            self._workers.close()
            self._workers = None
        transform = PerTensor(self.transform) if isinstance(self.transform, Mapping) else self.transform
        if transform is not None and isinstance(self._pool, SharedPool) and self._workers is None:
            self._workers = Processes(transform, self.processes, self._pool)
        settings = Settings(
            # Use more threads than cores, because threads that wait for a process use no core.
            threads=threads + self.processes if self._workers is not None else threads,
            processes=self._workers,
            batch_memory=max(1, self.memory - reads),
            read_memory=reads,
            ragged=self.ragged,
            on_error=self.on_error,
            transform=transform,
            with_index=self.return_index,
        )
        self._stats.threads = threads
        return Run(plan, columns, settings, self._stats, is_remote=is_remote)

    def _delivered(self, run: Run, shares: Shares, epoch: int, start: int) -> Iterator[Any]:
        bar = None
        if self.progress:
            from tqdm import tqdm

            bar = tqdm(total=len(shares), desc=f"Epoch {epoch}", unit="batch")
        try:
            for batch in run:
                end = min(shares.samples, (batch.step + 1) * shares.batch)
                if bar is not None:
                    bar.update()
                if self.batch_size is None:
                    first = start + batch.step * shares.batch
                    for i in range(len(batch.rows)):
                        self._position = min(start + end, first + (i + 1) * shares.world)
                        yield {name: values[i] for name, values in batch.items()}
                else:
                    self._position = start + end
                    yield batch
            self._epoch, self._position = epoch + 1, 0
        finally:
            run.close()
            if bar is not None:
                bar.close()

    def close(self) -> None:
        """End a running iteration and the processes that transform samples; a later iteration starts again."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()
        self._end()
        self._forget()

    def _end(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stats(self) -> Mapping[str, Any]:
        """Return statistics since the loader was made: rates, bytes, seconds, and the bottleneck in one word."""
        return self._stats.report()

    # -- parts of a run ----------------------------------------------------------------------------------------

    def _made_columns(self) -> list[Column]:
        """Return the column of each tensor; tensors in memory are kept from epoch to epoch."""
        if self._pid != os.getpid():  # in a forked child, locks of the parent's threads may stay held
            self._forget()
        table = self.table
        with table.session.mutex:
            readers = [table.reader(name) for name in table.names]
            companions = {name: _companions(table, name) for name in table.names}
        if self._columns is None or self._columns[0] != readers:
            made = [
                self._column(name, reader, companions[name])
                for name, reader in zip(table.names, readers, strict=True)
            ]
            self._columns = readers, made
        return self._columns[1]

    def _column(
        self, name: str, reader: SampleReader, companion: Callable[[str], SampleReader | None]
    ) -> Column:
        found = self.operations.get(name)
        if found is None:
            decode = self.decode.get(name, "numpy")
            return column_of(
                name, reader, self._pool, self.table.index, companion, wanted=len(self.table), decode=decode
            )
        if self.table.index.inside or name in self.decode:
            raise InvalidInputError(
                f"operations on tensor {name!r} need its whole images; they cannot be combined with a selection inside "
                "samples, or with decode="
            )
        from lakebed.loaders.shaped import Shaped

        return Shaped(name, reader, self._pool, found.operations, seed=self.seed)

    def _order(self, epoch: int) -> tuple[SpanTable | PagedSpans, Order]:
        """Return the spans and the order of an epoch; weighted rows are drawn anew in each epoch."""
        rows = wanted = self.table.rows()
        number = epoch if self.weights is not None else 0
        columns = self._made_columns()
        if self._ordered is not None:
            known, of_epoch, made_of, *_ = self._ordered
            if of_epoch == number and made_of is columns and _is_same(known, wanted):
                return self._ordered[3:]
        mode: Mode = self.mode
        if self.weights is not None:
            chosen = weighted(self.weights, self.replace, self.size, self.seed, epoch)
            rows = np.sort(np.asarray(rows, dtype=np.int64)[chosen])
            mode = "window" if mode == "none" else mode
        elif mode != "none" and not isinstance(rows, range):
            rows = np.sort(rows)
        spans = self._spans(rows)
        if mode != "none" and all(isinstance(column, Resident) for column in columns):
            mode = "exact"  # the columns are in memory, so an exact shuffle costs nothing
        order: Order
        if isinstance(spans, PagedSpans):
            order = PagedOrder(spans, mode=mode, seed=self.seed, window=self.window)
        else:
            order = Order(spans.sizes, mode=mode, seed=self.seed, window=self.window)
        self._ordered = wanted, number, columns, spans, order
        return spans, order

    def _spans(self, rows: Rows) -> SpanTable | PagedSpans:
        """Return the spans of some rows; a single span if every tensor is in memory. The last result is kept."""
        columns = self._made_columns()
        if self._cut is None or self._cut[1] is not columns or not _is_same(self._cut[0], rows):
            readers = {column.name: column.reader for column in columns if not isinstance(column, Resident)}
            spans: SpanTable | PagedSpans | None = None
            if self._by_pages and self.mode != "exact":
                spans = paged_spans(list(readers.values()), rows)
            if spans is None:
                spans = span_table(readers, rows, single=self.mode == "exact" and bool(readers))
            self._cut = rows, columns, spans
        return self._cut[2]

    # -- pickling ----------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in (
            "_stats",
            "_pool",
            "_columns",
            "_ordered",
            "_cut",
            "_run",
            "_workers",
            "_memory_kind",
            "_print",
        ):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()


def _table(source: Any, tensors: Sequence[str] | None, transform: Transform | None) -> Table:
    names = list(transform) if tensors is None and isinstance(transform, Mapping) else tensors
    if names is not None:
        names = [name for name in names if name != "index"]
    table: Table
    if isinstance(source, HasTable):
        table = source._table(names)  # noqa: SLF001 - the facade's seam to what reads it
    elif not isinstance(source, Table):
        kind = type(source).__name__
        raise InvalidInputError(
            f"a loader reads a dataset or a view, not {kind}: open it with lakebed.load(path)"
        )
    elif names is None:
        table = source
    else:
        table = source.only(names)
    if not table.names:
        raise InvalidOperationError("there are no tensors to load; create one, or name some in tensors=")
    if not table.length:
        table.shared_rows()  # raises an error that names the empty tensor, if other tensors have rows
    return table


def _checked_state(state: Any) -> tuple[int, int]:
    """Return epoch and position of a state; refuse anything else."""
    if not isinstance(state, Mapping) or state.get("version") != 1:
        found = state.get("version") if isinstance(state, Mapping) else state
        raise InvalidInputError(f"the state has version {found!r}; this release knows version 1")
    for name in ("seed", "epoch", "position", "order"):
        value = state.get(name)
        is_right = isinstance(value, str) if name == "order" else type(value) is int and value >= 0
        if not is_right and not (name == "seed" and type(value) is int):
            raise InvalidInputError(
                f"the state is damaged: {name!r} is {value!r}; load one that state_dict() returned, or begin again"
            )
    return state["epoch"], state["position"]


def _chunks_of(reader: SampleReader, spans: SpanTable | PagedSpans) -> list[NDArray[Any]]:
    """Return what changes with the chunks of a tensor: their ids, or names of pages, and ids of those in none."""
    table = reader.state.table
    if isinstance(spans, PagedSpans) and isinstance(table, PagedTable):
        return [spans.entries if reader is spans.reader else table.tree.entries(), table.tail.ids.ids]
    return [table.ids.ids]


def _is_same(one: Rows, other: Rows) -> bool:
    if isinstance(one, range) or isinstance(other, range):
        return isinstance(one, range) and isinstance(other, range) and one == other
    return one is other or np.array_equal(one, other)


def _companions(table: Table, name: str) -> Callable[[str], SampleReader | None]:
    found = {kind: table.companion(name, kind) for kind in ("shape", "null", "info")}
    return lambda kind: found[kind]


def _one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        raise InvalidInputError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def _default_memory() -> int:
    """Return a quarter of the memory available to this process, at most 4 GiB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:  # noqa: PTH123 - a file of the kernel
                text = file.read().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return min(total // 4, _MOST_MEMORY)
