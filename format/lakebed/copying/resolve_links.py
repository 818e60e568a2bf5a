"""Columns of the data behind links: files are fetched ahead, and kept byte for byte if possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.registry import normalize
from lakebed.codecs.sample import Sample
from lakebed.errors import GetDataFromLinkError, LakebedError, SampleAppendError
from lakebed.htypes.base import Storing
from lakebed.links.ahead import in_order, threads_for
from lakebed.reading.samples import SampleReader
from lakebed.runtime.printable import printable
from lakebed.storage.address import shown
from lakebed.versions.state import TensorState
from lakebed.writing.encode.column import encode_column
from lakebed.writing.encode.encoded import Column

# Limits of a batch of links: number of rows, and bytes of files per column.
_ROWS = 1024
_BATCH_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class BrokenLink:
    """A link whose file is not available.

    Parameters
    ----------
    tensor, row
        Place of the link.
    url
        Address of the link, without secrets.
    reason
        The error.
    """

    tensor: str
    row: int
    url: str
    reason: str

    def __str__(self) -> str:
        return printable(f"tensor {self.tensor!r}, row {self.row}: {self.reason}")


Item = tuple[int, "Sample | NDArray[Any] | BrokenLink | Any"]
"""A flat row, and the value of its link."""


@dataclass(frozen=True, slots=True)
class LinkResolver:
    """Reader of the linked data of one tensor.

    Parameters
    ----------
    reader
        Reads the tensor of links.
    broken
        List to which broken links are added; they become empty samples. If None, the error of a broken link is raised.
    """

    reader: SampleReader
    broken: list[BrokenLink] | None = None

    def columns(
        self, rows: NDArray[np.int64], state: Callable[[], TensorState]
    ) -> Iterator[tuple[Column, int]]:
        """Yield the data of rows as columns of bounded size, each with the number of fetched bytes.

        Parameters
        ----------
        state
            Returns the present state of the tensor that receives the data.

        Raises
        ------
        GetDataFromLinkError
            If a file is not available; the error names the row.
        SampleAppendError
            If the tensor cannot hold a value; the error names the row.
        """
        sequence = self.reader.state.sequence
        spans = [(int(row), int(row) + 1) if sequence is None else sequence.span(int(row)) for row in rows]
        flat = np.concatenate([np.zeros(0, np.int64), *[np.arange(a, b) for a, b in spans]])
        items = self._items(flat, normalize(state().meta.sample_compression))
        waiting: list[Item] = []
        counts: list[int] = []
        held = 0
        for place, (first, stop) in enumerate(spans):
            for _ in range(first, stop):
                waiting.append(next(items))
                held += _size(waiting[-1])
            counts.append(stop - first)
            if held >= _BATCH_BYTES or len(counts) == _ROWS or place == len(spans) - 1:
                yield self._column(waiting, counts, state()), held
                waiting, counts, held = [], [], 0

    def _items(self, flat: NDArray[np.int64], kind: str | None) -> Iterator[Item]:
        def work(item: tuple[int, str | None]) -> Item:
            return item[0], self._value(*item, kind)

        for first in range(0, len(flat), _ROWS):
            rows = flat[first : first + _ROWS]
            urls = self.reader.links.urls(rows)
            wanted = zip(map(int, rows), urls, strict=True)
            yield from in_order(wanted, work, min(len(rows), threads_for(urls)), _size)

    def _value(self, row: int, url: str | None, kind: str | None) -> Any:
        """Fetch a file, and decode it unless it is kept unchanged; decoding runs in parallel here."""
        links = self.reader.links
        try:
            if url is None:
                return links.value_of(row, None, threads=1)
            if not url:
                return None
            data = links.fetch(row, url)
            if self.reader.storing is not Storing.ARRAY:
                return links.decode(row, url, data)
            return self._sample(row, url, data, kind)
        except GetDataFromLinkError as error:
            if self.broken is None:
                raise
            return BrokenLink(self.reader.name, row, shown(url or ""), str(error))

    def _sample(self, row: int, url: str, data: bytes, kind: str | None) -> Sample:
        sample = Sample(buffer=data, path=url)
        try:
            if sample.compression != kind:
                _ = sample.array
        except (LakebedError, ValueError) as error:
            raise self.reader.links.failed(row, url, error) from error
        return sample

    def _column(self, items: list[Item], counts: list[int], state: TensorState) -> Column:
        try:
            column = self._encoded(items, state)
        except SampleAppendError:
            # One of the items does not fit: encode each one separately to find it.
            for at, item in enumerate(items):
                try:
                    self._encoded([item], state)
                except SampleAppendError as error:
                    self._lost(items, at, error)
            column = self._encoded(items, state)
        if self.broken is not None:
            self.broken.extend(value for _, value in items if isinstance(value, BrokenLink))
        return column if state.sequence is None else replace(column, items=np.array(counts, dtype=np.int64))

    def _lost(self, items: list[Item], at: int, error: SampleAppendError) -> None:
        row, value = items[at]
        text = f"row {row} of tensor {self.reader.name!r}: {error}"
        if self.broken is None:
            raise SampleAppendError(text) from error
        url = str(value.path) if isinstance(value, Sample) else ""
        items[at] = (row, BrokenLink(self.reader.name, row, shown(url), str(error)))

    def _encoded(self, items: Sequence[Item], state: TensorState) -> Column:
        """Encode values as flat samples; broken links become empty samples."""
        values = [None if isinstance(value, BrokenLink) else value for _, value in items]
        meta = state.meta.with_(is_sequence=False)
        column = encode_column(values, meta, state.info, meta.name or state.key) if values else Column([])
        sequence = state.meta.is_sequence
        parts = [replace(part, meta=part.meta.with_(is_sequence=sequence)) for part in column.parts]
        return Column(parts)


def _size(item: Item) -> int:
    value = item[1]
    if isinstance(value, Sample):
        return len(value.buffer) + (0 if value.is_lazy else value.array.nbytes)
    return value.nbytes if isinstance(value, np.ndarray) else 64
