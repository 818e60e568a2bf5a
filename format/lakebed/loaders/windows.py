"""The order of tensors whose chunk index is in pages: windows of pages, which are laid out when an epoch reaches them.

The pages of the tensor with the most bytes are permuted, and the permuted pages are cut into windows. The samples of a
window are ordered as `lakebed.loaders.order` orders those of a whole dataset: its spans, which come from hundreds of
places of the dataset, are permuted and cut into lanes and blocks. So memory holds a few numbers for each page, and a
few for each span of two windows. A petabyte has half a million pages and two thousand windows.

The number of a span contains that of its page, the number of a block that of its window.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from lakebed.loaders.draws import SPANS, key
from lakebed.loaders.order import Integers, Mode, Order, Spans
from lakebed.loaders.spans import chunked, edges_of, measured
from lakebed.native import order as native
from lakebed.reading.samples import SampleReader
from lakebed.reading.subscripts import Rows
from lakebed.storage.concurrently import together
from lakebed.versions.chunk_table import ChunkTable
from lakebed.versions.paged import PagedTable

# Number of pages of a window: about half a million spans of arrays in chunks of 8 MB.
_PAGES = 128
# Lanes of an epoch of several windows.
_LANES = 64
# Bits of the number of a span in its page, and of the number of a block in its window.
_SPAN_BITS = 24
_BLOCK_BITS = 32
# Number of pages that are read side by side.
_AT_ONCE = 64
# Number of pages whose spans stay in memory: those of two windows.
_KEPT = 2 * _PAGES


@dataclass(frozen=True, slots=True)
class _Cut:
    """The spans of one page: starts, as samples of the selection, followed by the end; and the chunk of each."""

    starts: Integers
    chunk: Integers


class PagedSpans:
    """The spans of a run of rows, of which those of a page are known when they are needed.

    Parameters
    ----------
    reader
        The tensor along whose chunks spans are cut.
    rows
        The selected rows: neighbours, in ascending order.
    per_row
        Stored bytes of a row of all tensors.

    Attributes
    ----------
    reader
        The tensor.
    entries
        The names of its pages.
    per_row
        As given.
    """

    def __init__(self, reader: SampleReader, rows: range, per_row: float) -> None:
        table = reader.state.table
        if not isinstance(table, PagedTable):
            raise TypeError(f"the chunk index of {reader.name!r} is not in pages")
        self.rows = rows
        self.reader = reader
        self.per_row = per_row
        self.entries = table.tree.entries()
        samples = np.append(self.entries["samples"].astype(np.int64), table.tail.count)
        ends = np.cumsum(samples)
        begins = ends - samples
        self._tail = table.tail
        # The numbers of the pages with selected rows.
        self._pages = np.flatnonzero((ends > rows.start) & (begins < rows.stop) & (samples > 0))
        # The first row of each of these pages in the tensor; and its first sample of the selection, then the end.
        self._rows = begins[self._pages]
        self.first = np.append(np.maximum(self._rows, rows.start) - rows.start, len(rows))
        self._cuts: dict[int, _Cut] = {}
        self._mutex = threading.Lock()

    def __len__(self) -> int:
        """Return the number of pages."""
        return len(self._pages)

    @property
    def total(self) -> int:
        """Approximate number of stored bytes."""
        return int(self.per_row * len(self.rows))

    def load(self, pages: list[int]) -> list[_Cut]:
        """Return the spans of some pages, which are read side by side."""
        store = self._table.tree.store
        with self._mutex:
            missing = [page for page in pages if page not in self._cuts]
        at = 0
        while at < len(missing):
            some = missing[at : at + _AT_ONCE]
            found = together(store.storage, [partial(self._page, page) for page in some])
            for page, table in zip(some, found, strict=True):
                cut = self._cut_of(page, table)
                with self._mutex:
                    self._cuts[page] = cut
            at += len(some)
        with self._mutex:
            cuts = [self._cuts[page] for page in pages]
            while len(self._cuts) > max(_KEPT, len(pages)):
                del self._cuts[next(iter(self._cuts))]
        return cuts

    @property
    def _table(self) -> PagedTable:
        table = self.reader.state.table
        assert isinstance(table, PagedTable)  # noqa: S101 - checked when this was made
        return table

    def _page(self, page: int) -> ChunkTable:
        number = int(self._pages[page])
        return (
            self._tail if number == len(self.entries) else self._table.tree.store.page(self.entries[number])
        )

    def _cut_of(self, page: int, table: ChunkTable) -> _Cut:
        edges, chunk = edges_of(chunked(self.reader, table))
        edges = edges + (int(self._rows[page]) - self.rows.start)
        low, high = int(self.first[page]), int(self.first[page + 1])
        begin = int(np.searchsorted(edges, low, side="right")) - 1
        end = int(np.searchsorted(edges, high))
        starts = np.append(np.maximum(edges[begin:end], low), high)
        return _Cut(starts, chunk[begin:end])

    def window(self, pages: Integers) -> tuple[Spans, Integers]:
        """Return the spans of some pages in this order, and their numbers."""
        cuts = self.load(pages.tolist())
        count = np.concatenate([np.diff(cut.starts) for cut in cuts])
        numbers = [
            (page << _SPAN_BITS) + np.arange(len(cut.chunk))
            for page, cut in zip(pages.tolist(), cuts, strict=True)
        ]
        chunk = [(place << _SPAN_BITS) + cut.chunk for place, cut in enumerate(cuts)]
        nbytes = np.maximum(1, count * self.per_row).astype(np.int64)
        return Spans(count, nbytes, np.concatenate(chunk)), np.concatenate(numbers)

    def find(self, positions: Integers) -> tuple[Integers, Integers]:
        """Return the numbers of the spans of samples of the selection, and the samples' places in them."""
        pages = np.searchsorted(self.first, positions, side="right") - 1
        spans, insides = np.empty(len(positions), np.int64), np.empty(len(positions), np.int64)
        different, which = _groups(pages)
        for page, cut, at in zip(different, self.load(different), which, strict=True):
            local = np.searchsorted(cut.starts, positions[at], side="right") - 1
            spans[at] = (page << _SPAN_BITS) + local
            insides[at] = positions[at] - cut.starts[local]
        return spans, insides

    def of(self, samples: ArrayLike) -> Integers:
        """Return the numbers of the spans that hold some samples."""
        return self.find(np.asarray(samples, np.int64))[0]

    def rows_at(self, positions: Integers) -> Integers:
        """Return the row numbers of samples of the selection."""
        return positions + self.rows.start

    def rows_of(self, span: int) -> range:
        """Return the rows of a span."""
        page, local = divmod(span, 1 << _SPAN_BITS)
        starts = self.load([page])[0].starts
        return self.rows[int(starts[local]) : int(starts[local + 1])]

    def nbytes_of(self, span: int) -> int:
        """Return the approximate number of stored bytes of a span."""
        return max(1, int(len(self.rows_of(span)) * self.per_row))


def _groups(numbers: Integers) -> tuple[list[int], list[Integers]]:
    """Return the distinct numbers, and where each is."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    return ordered[starts].tolist(), np.split(order, starts[1:]) if len(order) else []


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """A part of an epoch, whose samples are numbered from 0 in the order of its pages.

    Parameters
    ----------
    start
        Position of its first sample in the epoch.
    spans
        Numbers of its spans.
    ends, bases
        For each page, the end of its samples in the window, and its first sample in the selection less the first one
        in the window.
    """

    epoch: int
    number: int
    start: int
    order: Order
    spans: Integers
    ends: Integers
    bases: Integers

    def samples(self, positions: Integers) -> Integers:
        """Return the samples of the selection at positions of the epoch."""
        found = self.order.samples(0, positions - self.start)
        return found + self.bases[np.searchsorted(self.ends, found, side="right")]

    def block_of(self, positions: Integers) -> Integers:
        """Return the blocks of positions of the epoch."""
        return self.order.block_of(0, positions - self.start) + (self.number << _BLOCK_BITS)


class PagedOrder(Order):
    """The order of the samples of an epoch; see `lakebed.loaders.order.Order`."""

    def __init__(self, spans: PagedSpans, *, mode: Mode, seed: int, window: int) -> None:
        super().__init__(
            Spans(*(np.zeros(0, np.int64),) * 3), mode=mode, seed=seed, window=window, lanes=_LANES
        )
        self._table = spans
        self._layout: tuple[int, Integers, Integers] | None = None
        # This tuple is replaced but never changed, so threads need no lock.
        self._windows: tuple[_Window, ...] = ()
        if len(spans) <= _PAGES and mode == "window":
            self.lanes = self._window(0, 0).order.lanes

    def __len__(self) -> int:
        return len(self._table.rows)

    def samples(self, epoch: int, positions: Integers) -> Integers:
        """Return the numbers of the samples at some positions of an epoch; IndexError if there is no such position."""
        self._check(positions)
        return positions if self.mode == "none" else self._each(epoch, positions, _Window.samples)

    def block_of(self, epoch: int, positions: ArrayLike) -> Integers:
        """Return for each position of an epoch the number of its block."""
        positions = np.asarray(positions, dtype=np.int64)
        self._check(positions)
        return self._each(epoch, positions, _Window.block_of)

    def span_of(self, epoch: int, block: int) -> tuple[int, int]:
        """Return the span of a block, and the position of the span's first sample; for modes ``none`` and ``chunk``."""
        window, number = self._window_of(epoch, block)
        span, at = window.order.span_of(0, number)
        return int(window.spans[span]), at + window.start

    def positions_of(self, epoch: int, number: int) -> range:
        """Return the positions of a block."""
        window, block = self._window_of(epoch, number)
        found = window.order.positions_of(0, block)
        return range(found.start + window.start, found.stop + window.start, found.step)

    def uses(self, epoch: int, number: int) -> tuple[Integers, Integers]:
        """Return the spans of a block, and the number of samples that it has of each."""
        window, block = self._window_of(epoch, number)
        spans, uses = window.order.uses(0, block)
        return window.spans[spans], uses

    def _spans_of(self, samples: Integers) -> Integers:
        return self._table.of(samples)

    def _each(
        self, epoch: int, positions: Integers, ask: Callable[[_Window, Integers], Integers]
    ) -> Integers:
        found = np.empty(len(positions), np.int64)
        for number, at in zip(*_groups(self._number(epoch, positions)), strict=True):
            found[at] = ask(self._window(epoch, number), positions[at])
        return found

    def _window_of(self, epoch: int, block: int) -> tuple[_Window, int]:
        number, local = divmod(block, 1 << _BLOCK_BITS)
        return self._window(epoch, number), local

    def _number(self, epoch: int, positions: Integers) -> Integers:
        starts = self._pages(epoch)[1]
        return np.searchsorted(starts, positions, side="right") - 1

    def _pages(self, epoch: int) -> tuple[Integers, Integers]:
        """Return the pages of an epoch in their order, and the positions at which windows start."""
        layout = self._layout
        if layout is None or layout[0] != epoch:
            count = len(self._table)
            pages = np.arange(count, dtype=np.int64)
            if self.mode != "none":
                pages = native.permuted(count, key(self.seed, epoch, SPANS))
            ends = np.cumsum(np.diff(self._table.first)[pages])
            starts = np.concatenate([[0], ends[_PAGES - 1 : -1 : _PAGES]]).astype(np.int64)
            layout = self._layout = epoch, pages, starts
        return layout[1:]

    def _window(self, epoch: int, number: int) -> _Window:
        for window in self._windows:
            if (window.epoch, window.number) == (epoch, number):
                return window
        every, starts = self._pages(epoch)
        pages = every[number * _PAGES : (number + 1) * _PAGES]
        spans, numbers = self._table.window(pages)
        first = self._table.first
        ends = np.cumsum(first[pages + 1] - first[pages])
        seed = key(self.seed, epoch, number)
        lanes = None if len(self._table) <= _PAGES else self.lanes
        order = Order(spans, mode=self.mode, seed=seed, window=self.window, lanes=lanes)
        bases = first[pages + 1] - ends
        window = _Window(epoch, number, int(starts[number]), order, numbers, ends, bases)
        self._windows = (window, *self._windows[:1])
        return window


def paged_spans(readers: Iterable[SampleReader], rows: Rows) -> PagedSpans | None:
    """Return the spans of neighbouring rows whose largest tensor is in pages; None for all others."""
    found = [(*measured(reader), reader) for reader in readers]
    if not found or not isinstance(rows, range) or rows.step != 1 or not len(rows):
        return None
    total, _, primary = max(found, key=lambda one: one[0])
    state = primary.state
    if not total or not isinstance(state.table, PagedTable) or primary.is_link or state.sequence is not None:
        return None
    return PagedSpans(primary, rows, sum(total / max(1, samples) for total, samples, _ in found))
