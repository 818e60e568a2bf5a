"""Segments of words: the words of the texts of some chunks, and their frequencies.

array      dtype      content
prints     uint64     print of each chunk (see `chunks`)
counts     uint32     number of texts in each chunk
lengths    uint32     number of words of each text
letters    uint8      all different words, sorted and concatenated, UTF-8
ends       int64      end of each word in `letters`
posts      int64      for each word, the end of its list in `texts`
texts      uint32     numbers of the texts with a word, ascending; the lists of all words, concatenated
often      uint*      for each number in `texts`, the frequency of the word in that text

Words are runs of letters, marks, numbers and underscores, as Unicode defines them, in lower case.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakebed.errors import FormatError
from lakebed.query.indexes.segments import Segment

Counts = NDArray[np.int64]

_BETWEEN = r"[^\p{L}\p{M}\p{N}_]+"


def words_of(texts: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the words of all texts, and for each word the number of its text: int64, shape (words,)."""
    lists = pc.split_pattern_regex(pc.utf8_lower(texts), _BETWEEN)
    flat = pc.list_flatten(lists)
    kept = pc.not_equal(flat, "")
    words, numbers = _whole(flat.filter(kept)), _whole(pc.list_parent_indices(lists).filter(kept))
    return words, numbers.to_numpy(zero_copy_only=False).astype(np.int64)


def words_in(text: str) -> list[str]:
    """Return the words of one text, in order."""
    found: list[str] = words_of(pa.array([text], pa.string()))[0].to_pylist()
    return found


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


@dataclass(frozen=True, slots=True)
class Words:
    """The words of some texts; see the module."""

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
        """Return the words of a segment; raise an error if its arrays are inconsistent."""
        made = cls(*(segment.arrays[name] for name in cls.__slots__))
        is_sound = (
            len(made.prints) == len(made.counts)
            and len(made.ends) == len(made.posts)
            and len(made.texts) == len(made.often)
            and int(made.counts.sum(dtype=np.int64)) == len(made.lengths)
            and _is_sound(made.ends, len(made.letters))
            and _is_sound(made.posts, len(made.texts))
            and int(made.texts.max(initial=0)) < max(1, len(made.lengths))
        )
        if not is_sound:
            raise FormatError("a segment of words is inconsistent")
        return made

    def to_segment(self) -> Segment:
        """Return the words as a segment."""
        return Segment({"kind": "bm25"}, {name: getattr(self, name) for name in self.__slots__})

    def found(self, word: str) -> tuple[NDArray[np.uint32], NDArray[np.unsignedinteger]]:
        """Return the texts with a word, and its frequency in each."""
        wanted = word.encode()
        low = bisect_left(range(len(self.ends)), wanted, key=self._word)
        if low == len(self.ends) or self._word(low) != wanted:
            return self.texts[:0], self.often[:0]
        cut = slice(int(self.posts[low - 1]) if low else 0, int(self.posts[low]))
        return self.texts[cut], self.often[cut]

    def _word(self, i: int) -> bytes:
        return self.letters[int(self.ends[i - 1]) if i else 0 : int(self.ends[i])].tobytes()


def _is_sound(ends: NDArray[np.int64], stop: int) -> bool:
    """Return whether `ends` ascends and its last number is `stop`."""
    return (int(ends[-1]) if len(ends) else 0) == stop and bool((np.diff(ends, prepend=0) >= 0).all())


def counted(texts: pa.Array, wanted: Sequence[str]) -> tuple[Counts, Counts]:
    """Return the length of each text, shape (texts,), and the frequency of some words, shape (words, texts)."""
    words, numbers = words_of(texts)
    lengths = np.bincount(numbers, minlength=len(texts)).astype(np.int64)
    often = np.zeros((len(wanted), len(texts)), np.int64)
    if wanted and len(words):
        places = pc.index_in(words, value_set=pa.array(wanted, pa.string())).fill_null(-1)
        codes = places.to_numpy(zero_copy_only=False).astype(np.int64)
        hits = codes >= 0
        flat = np.bincount(codes[hits] * len(texts) + numbers[hits], minlength=often.size)
        often = flat.reshape(often.shape).astype(np.int64)
    return lengths, often
