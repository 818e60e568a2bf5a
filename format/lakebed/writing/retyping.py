"""Convert samples to a wider type: integers to floats, numbers to text, anything to JSON. Pure.

from                     to text                            to JSON
integers, booleans       their digits; true, false          the same
floats                   the shortest text that reads back  the same; NaN, Infinity, -Infinity as Python writes them
dates and times          ISO 8601                           the same text as a string
class labels with names  the name                           the same text as a string
text                                                        a string
arrays                   refused                            nested lists
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.block import Block
from lakebed.errors import InvalidOperationError

if TYPE_CHECKING:
    import pyarrow as pa

# Characters that must be escaped in a JSON string.
_ESCAPED = r'["\\\x00-\x1f]'


def as_text(array: pa.Array) -> pa.Array:
    """Convert numbers, dates, times or texts to texts; nulls stay nulls.

    Raises
    ------
    InvalidOperationError
        If the values are lists.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_nested(kind):
        raise InvalidOperationError("arrays of more than one number cannot become text; json can hold them")
    texts = array.cast(pa.string())
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        texts = pc.replace_substring(texts, " ", "T")
        texts = pc.replace_substring_regex(texts, r"\.0+($|Z|[+-])", r"\1")
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        texts = pc.replace_substring_regex(texts, r"([+-]\d\d)(\d\d)$", r"\1:\2")
    return texts


def as_json(array: pa.Array) -> pa.Array:
    """Convert values to an Arrow column of JSON (or of lists, which are written as JSON); nulls stay nulls."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_nested(kind):
        return array
    texts = as_text(array)
    if pa.types.is_floating(kind):
        for name, written in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
            texts = pc.if_else(pc.equal(texts, name), written, texts)
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        texts = _quoted(texts)
    return pa.ExtensionArray.from_storage(pa.json_(), texts)


def _quoted(texts: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    special = pc.fill_null(pc.match_substring_regex(texts, _ESCAPED), fill_value=False)
    quoted = pc.binary_join_element_wise('"', texts, '"', "")
    if not pc.any(special).as_py():
        return quoted
    escaped = pa.array([json.dumps(text) for text in texts.filter(special).to_pylist()], pa.string())
    return pc.replace_with_mask(quoted, special, escaped)


def named(numbers: pa.Array, names: Sequence[str]) -> pa.Array:
    """Convert class labels to their names, and labels without a name to digits."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = pc.less(numbers, len(names))
    places = pc.if_else(known, numbers, None).cast(pa.int32())
    found = pa.DictionaryArray.from_arrays(places, pa.array(names, pa.string())).dictionary_decode()
    return pc.coalesce(found, numbers.cast(pa.string()))


def widened(block: Block, old: np.dtype[Any], new: np.dtype[Any]) -> Block:
    """Convert the numbers of samples to another dtype.

    Raises
    ------
    InvalidOperationError
        If a float could not hold an integer exactly.
    """
    values: NDArray[Any] = np.frombuffer(block.joined(), old)
    if old.kind in "iu" and new.kind == "f" and len(values):
        most = 2 ** (np.finfo(new).nmant + 1)
        # The absolute value of the smallest integer overflows, so compare both ends separately.
        if int(values.max()) > most or int(values.min()) < -most:
            raise InvalidOperationError(
                f"integers beyond {most:,} would lose digits as {new}; text keeps them"
            )
    sizes: int | NDArray[np.uint32] = (
        block.sizes // old.itemsize * new.itemsize
        if isinstance(block.sizes, int)
        else (block.sizes // np.uint32(old.itemsize) * np.uint32(new.itemsize)).astype(np.uint32)
    )
    data = np.ascontiguousarray(values.astype(new)).view(np.uint8)
    return Block(data.data, block.count, sizes, block.shapes)


def can_widen(old: np.dtype[Any], new: np.dtype[Any]) -> bool:
    """Return whether the new dtype holds every number exactly, or at least every integer up to some size."""
    if old.kind in "iu" and new.kind == "f":
        return new.itemsize >= 4
    return bool(np.can_cast(old, new, "safe"))
