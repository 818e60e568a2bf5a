"""Texts to words: runs of letters, marks, numbers and underscores, as Unicode names them, in lower case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_BETWEEN = r"[^\p{L}\p{M}\p{N}_]+"


def words_of(texts: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    """Return the words of all texts, and the number of the text that each is of: int64, shape (words,)."""
    lists = pc.split_pattern_regex(pc.utf8_lower(texts), _BETWEEN)
    flat = pc.list_flatten(lists)
    of = pc.list_parent_indices(lists)
    kept = pc.not_equal(flat, "")
    words, numbers = flat.filter(kept), of.filter(kept)
    return _whole(words), _whole(numbers).to_numpy(zero_copy_only=False).astype(np.int64)


def words_in(text: str) -> list[str]:
    """Return the words of one text, in order."""
    found: list[str] = words_of(pa.array([text], pa.string()))[0].to_pylist()
    return found


def _whole(array: Any) -> Any:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
