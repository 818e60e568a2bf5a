"""Segments of words: which words the texts of some chunks have, and how often.

array      dtype      what
prints     uint64     of each chunk (see `chunks`)
counts     uint32     texts in each chunk
lengths    uint32     words of each text
letters    uint8      all different words, in order, one behind the other, UTF-8
ends       int64      where each word ends in `letters`
posts      int64      where the texts of each word end in `texts`
texts      uint32     texts that have a word, ascending, word after word
often      uint*      how often each of them has it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakebed.errors import FormatError
from lakebed.query.indexes.segments import Segment
from lakebed.query.indexes.words import words_of

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Words:
    """The words of some texts."""

    prints: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    lengths: NDArray[np.uint32]
    letters: NDArray[np.uint8]
    ends: NDArray[np.int64]
    posts: NDArray[np.int64]
    texts: NDArray[np.uint32]
    often: NDArray[np.unsignedinteger]

    @classmethod
    def of(cls, texts: pa.Array, prints: NDArray[np.uint64], counts: NDArray[np.int64]) -> Words:
        """Return the words of the texts of some chunks."""
        words, numbers = words_of(texts)
        lengths = np.bincount(numbers, minlength=len(texts))
        encoded = words.dictionary_encode()
        spelt = [word.encode() for word in encoded.dictionary.to_pylist()]
        order = sorted(range(len(spelt)), key=spelt.__getitem__)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        codes = rank[encoded.indices.to_numpy(zero_copy_only=False)] if len(words) else np.zeros(0, np.int64)
        pairs, often = np.unique(codes * max(1, len(texts)) + numbers, return_counts=True)
        of, found = np.divmod(pairs, max(1, len(texts)))
        largest = int(often.max(initial=0))
        narrow = (
            np.dtype("u1") if largest < 1 << 8 else np.dtype("<u2") if largest < 1 << 16 else np.dtype("<u4")
        )
        return cls(
            prints,
            counts.astype(np.uint32),
            lengths.astype(np.uint32),
            np.frombuffer(b"".join(spelt[i] for i in order), np.uint8),
            np.cumsum(np.array([len(spelt[i]) for i in order], np.int64)),
            np.cumsum(np.bincount(of, minlength=len(order))).astype(np.int64),
            found.astype(np.uint32),
            often.astype(narrow),
        )

    @classmethod
    def from_segment(cls, segment: Segment) -> Words:
        """Parse.

        Raises
        ------
        FormatError
            If the arrays contradict each other.
        """
        made = cls(*(segment.arrays[name] for name in cls.__slots__))
        made.check()
        return made

    def to_segment(self) -> Segment:
        """Return the segment."""
        return Segment({"kind": "bm25"}, {name: getattr(self, name) for name in self.__slots__})

    def check(self) -> None:
        """Refuse arrays that contradict each other."""
        is_sound = len(self.prints) == len(self.counts) and len(self.ends) == len(self.posts)
        is_sound = is_sound and len(self.texts) == len(self.often)
        is_sound = is_sound and int(self.counts.sum(dtype=np.int64)) == len(self.lengths)
        for ends, stop in ((self.ends, len(self.letters)), (self.posts, len(self.texts))):
            is_sound = is_sound and (int(ends[-1]) if len(ends) else 0) == stop
            is_sound = is_sound and bool((np.diff(ends, prepend=0) >= 0).all())
        if not is_sound or int(self.texts.max(initial=0)) >= max(1, len(self.lengths)):
            raise FormatError("a segment of words contradicts itself")

    def found(self, word: str) -> tuple[NDArray[np.uint32], NDArray[np.unsignedinteger]]:
        """Return the texts that have a word, and how often each does."""
        wanted = word.encode()
        low, high = 0, len(self.ends)
        while low < high:
            middle = (low + high) // 2
            if self._word(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        if low == len(self.ends) or self._word(low) != wanted:
            return self.texts[:0], self.often[:0]
        cut = slice(int(self.posts[low - 1]) if low else 0, int(self.posts[low]))
        return self.texts[cut], self.often[cut]

    def _word(self, i: int) -> bytes:
        return self.letters[int(self.ends[i - 1]) if i else 0 : int(self.ends[i])].tobytes()


def counted(texts: pa.Array, wanted: Sequence[str]) -> tuple[Counts, Counts]:
    """Return how many words texts have, shape (texts,), and how often each of some words, shape (words, texts)."""
    words, numbers = words_of(texts)
    lengths = np.bincount(numbers, minlength=len(texts)).astype(np.int64)
    often = np.zeros((len(wanted), len(texts)), np.int64)
    if wanted and len(words):
        import pyarrow.compute as pc

        places = pc.index_in(words, value_set=pa.array(wanted, pa.string())).fill_null(-1)
        codes = places.to_numpy(zero_copy_only=False).astype(np.int64)
        hits = codes >= 0
        flat = np.bincount(codes[hits] * len(texts) + numbers[hits], minlength=often.size)
        often = flat.reshape(often.shape).astype(np.int64)
    return lengths, often
