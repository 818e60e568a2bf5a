"""Positions of the samples of large chunks in a manifest: a sample can be read without the chunk's header.

    words       content, all u32
    1           form: number of axes a; plus 2^31 if one row stands for all samples, 2^30 if there are checksums
    1 + a each  rows [bytes, dim0 .. dim(a-1)], one row per sample or one row for all samples
    1 each      checksum of each sample: the lower half of the xxh3-64 of its bytes

Samples end where the chunk file ends and follow one another without gaps (format.md 5.5), so sizes determine positions.
Samples whose files contain their shape have no axes. If a chunk has no words, its header must be read. Samples without
checksums are verified with the checksums of the file's blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed.errors import FormatError

Words = NDArray[np.uint32]

_ALL_ALIKE = 1 << 31
_SUMS = 1 << 30
# Largest number of words of one tensor; limited because opening a dataset reads the whole manifest.
MOST_WORDS = 4_000_000
# If a tensor has fewer bytes of data per word than this, its words are not stored.
_WORTH = 4_000
NO_WORDS: Words = np.empty(0, dtype=np.uint32)


def layout_words(
    sizes: int | Words,
    shapes: tuple[int, ...] | Words | None,
    count: int,
    samples: Callable[[], Iterable[bytes | memoryview | int]] | None = None,
) -> Words:
    """Return the words for the samples of a chunk; empty if their number is too large for the bytes of the chunk.

    Parameters
    ----------
    sizes
        Bytes of each sample, or one number for all.
    shapes
        Shape of each sample, or one shape for all samples; None if the files of the samples contain their shapes.
    samples
        Yields the bytes of each sample, or their xxh3-64 if known.
    """
    axes = 0 if shapes is None else len(shapes) if isinstance(shapes, tuple) else shapes.shape[1]
    if isinstance(sizes, int) and (shapes is None or isinstance(shapes, tuple)):
        total, rows = sizes * count, np.array([[sizes, *(shapes or ())]], dtype=np.uint32)
        form, width = axes | _ALL_ALIKE, 0
    else:
        total = sizes * count if isinstance(sizes, int) else int(sizes.sum(dtype=np.uint64))
        rows = np.empty((count, 1 + axes), dtype=np.uint32)
        rows[:, 0] = sizes
        if shapes is not None:
            rows[:, 1:] = shapes
        form, width = axes, 1 + axes
        if total < _WORTH * width * count:
            return NO_WORDS
    sums = NO_WORDS
    if samples is not None and total >= _WORTH * (width + 1) * count:
        form |= _SUMS
        digest = xxhash.xxh3_64_intdigest
        found = [sample if isinstance(sample, int) else digest(sample) for sample in samples()]
        sums = np.array(found, dtype=np.uint64).astype(np.uint32)
    return np.concatenate([np.array([form], dtype=np.uint32), rows.reshape(-1), sums])


def sample_sum(data: bytes | memoryview) -> int:
    """Return the checksum of a sample."""
    return xxhash.xxh3_64_intdigest(data) & 0xFFFFFFFF


class Layout:
    """The samples of one chunk.

    Parameters
    ----------
    words
        As in the table of this module's docstring.
    count, size
        Samples in the chunk, bytes of its file.

    Attributes
    ----------
    starts
        Start of each sample in the file, and the end of the last.
    sums
        Checksum of each sample; None if the chunk has no checksums.

    Raises
    ------
    FormatError
        If the words do not describe such a chunk.
    """

    __slots__ = ("_rows", "starts", "sums")

    def __init__(self, words: Words, count: int, size: int) -> None:
        form = int(words[0]) if len(words) else _ALL_ALIKE
        axes, rows = form & ~(_ALL_ALIKE | _SUMS), 1 if form & _ALL_ALIKE else count
        end, has_sums = 1 + rows * (1 + axes), bool(form & _SUMS)
        if len(words) != end + count * has_sums:
            raise FormatError(f"the manifest is damaged: {len(words)} words do not describe {count} samples")
        self.sums = words[end:] if has_sums else None
        self._rows = words[1:end].reshape(rows, 1 + axes)
        total = int(self._rows[:, 0].sum(dtype=np.uint64)) * (count if rows == 1 else 1)
        if total > size:
            raise FormatError(
                f"the manifest is damaged: a chunk of {size} bytes cannot hold samples of {total} bytes"
            )
        self.starts = _starts(self._rows[:, 0], count, size - total)

    def span(self, first: int, stop: int) -> tuple[int, int]:
        """Return start and end of neighbouring samples in the file."""
        return self.starts[first], self.starts[stop]

    def shape(self, sample: int) -> tuple[int, ...] | None:
        """Return the shape of a sample; None if its file contains the shape."""
        if self._rows.shape[1] == 1:
            return None
        return tuple(self._rows[sample if len(self._rows) > 1 else 0, 1:].tolist())


def _starts(sizes: Words, count: int, begin: int) -> Sequence[int]:
    """Return the start of each sample, the first at ``begin``, and the end of the last."""
    if len(sizes) == 1 and count != 1 and int(sizes[0]):
        step = int(sizes[0])
        return range(begin, begin + count * step + 1, step)
    starts = np.full(count + 1, begin, dtype=np.int64)
    starts[1:] += np.cumsum(np.broadcast_to(sizes, (count,)), dtype=np.int64)
    found: list[int] = starts.tolist()
    return found


@dataclass(frozen=True)
class Layouts:
    """The words of a tensor's chunks, in the order of its chunk index.

    Parameters
    ----------
    counts
        Number of words of each chunk, 0 if it has none: uint32, shape (rows,).
    words
        Words of all chunks: uint32.
    """

    counts: Words
    words: Words

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        ends = np.zeros(len(self.counts) + 1, dtype=np.int64)
        np.cumsum(self.counts, out=ends[1:])
        return ends

    def of(self, row: int) -> Words:
        """Return the words of one chunk."""
        return self.words[self._ends[row] : self._ends[row + 1]]

    def cut(self, first: int, stop: int) -> Layouts:
        """Return the layouts of neighbouring chunks."""
        return Layouts(self.counts[first:stop], self.words[self._ends[first] : self._ends[stop]])

    def without(self, rows: NDArray[np.bool_]) -> Layouts:
        """Return the layouts without the layouts of some chunks."""
        kept = self.words[np.repeat(~rows, self.counts)]
        return Layouts(np.where(rows, np.uint32(0), self.counts).astype(np.uint32), kept)

    def check(self, rows: int) -> None:
        """Refuse words that belong to no chunk.

        Raises
        ------
        FormatError
            If the number of words differs from the sum of the counts.
        """
        if len(self.counts) != rows or int(self.counts.sum(dtype=np.uint64)) != len(self.words):
            raise FormatError("the manifest is damaged: its layouts of chunks contradict each other")


def no_layouts(rows: int) -> Layouts:
    """Return layouts of chunks that have no words, so that their headers must be read."""
    return Layouts(np.zeros(rows, dtype=np.uint32), NO_WORDS)


def layouts_of(chunks: Sequence[Words]) -> Layouts:
    """Return the layouts of chunks from the words of each."""
    counts = np.array([len(words) for words in chunks], dtype=np.uint32)
    return Layouts(counts, np.concatenate([NO_WORDS, *chunks]))


def joined(parts: Sequence[Layouts]) -> Layouts:
    """Return the joined layouts of several parts; the last chunks get no words if the limit would be exceeded."""
    counts = np.concatenate([np.empty(0, np.uint32), *[part.counts for part in parts]])
    words = np.concatenate([NO_WORDS, *[part.words for part in parts]])
    if len(words) <= MOST_WORDS:
        return Layouts(counts, words)
    return Layouts(counts, words).without(np.cumsum(counts, dtype=np.int64) > MOST_WORDS)
