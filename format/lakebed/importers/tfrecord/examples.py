"""``tf.train.Example`` and ``SequenceExample``, the messages that TFRecord files usually hold, read without protobuf.

    Example          1: Features
    SequenceExample  1: Features (of the whole), 2: FeatureLists
    Features         1: {1: name, 2: Feature}, any number of times
    FeatureLists     1: {1: name, 2: FeatureList}; FeatureList  1: Feature, any number of times
    Feature          1: BytesList, 2: FloatList or 3: Int64List; each of them  1: values

Every length is checked before it is used. The values are copied, nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakebed.importers.tfrecord.varints import BYTES, FIXED32, VARINT, fields, varint

_FEW = 16
_KINDS = {1: "bytes", 2: "float", 3: "int"}


class Feature(NamedTuple):
    """What a record has under a name.

    Parameters
    ----------
    kind
        ``bytes``, ``float`` or ``int``; empty where nothing is said.
    values
        List of bytes, or array of float32 or int64.
    """

    kind: str
    values: Any


class Example(NamedTuple):
    """A record: its features, and lists of features by name."""

    features: dict[str, Feature]
    lists: dict[str, list[Feature]]


def parse(data: bytes) -> Example:
    """Return what a record says.

    Raises
    ------
    ValueError
        If it is no message of these.
    """
    found = Example({}, {})
    for number, wire, start, stop in fields(data, 0, len(data)):
        if wire != BYTES:
            continue
        if number == 1:
            for name, first, last in _entries(data, start, stop):
                found.features[name] = _feature(data, first, last)
        elif number == 2:
            for name, first, last in _entries(data, start, stop):
                found.lists[name] = [
                    _feature(data, *inner)
                    for number, wire, *inner in fields(data, first, last)
                    if number == 1 and wire == BYTES
                ]
    return found


def _entries(data: bytes, start: int, stop: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and end of what a map holds."""
    for number, wire, first, last in fields(data, start, stop):
        if number != 1 or wire != BYTES:
            continue
        name, value = "", (last, last)
        for key, inner, begin, end in fields(data, first, last):
            if inner == BYTES and key == 1:
                name = data[begin:end].decode()
            elif inner == BYTES and key == 2:
                value = (begin, end)
        yield name, *value


def _feature(data: bytes, start: int, stop: int) -> Feature:
    kind, parts = "", list[Any]()
    for number, wire, first, last in fields(data, start, stop):
        if wire != BYTES or number not in _KINDS:
            continue
        if _KINDS[number] != kind:  # the last kind counts
            kind, parts = _KINDS[number], []
        parts += _values(data, first, last, kind)
    if kind == "bytes" or not kind:
        return Feature(kind, parts)
    dtype = np.float32 if kind == "float" else np.int64
    if len(parts) == 1:
        return Feature(kind, parts[0])
    return Feature(kind, np.concatenate(parts) if parts else np.zeros(0, dtype))


def _values(data: bytes, start: int, stop: int, kind: str) -> Iterator[Any]:
    """Yield the values of a list: of numbers in arrays, packed or not."""
    single: list[int] = []
    for number, wire, first, last in fields(data, start, stop):
        if number != 1:
            continue
        if kind == "bytes":
            if wire == BYTES:
                yield data[first:last]
        elif kind == "float":
            if wire == FIXED32 or (wire == BYTES and not (last - first) % 4):
                found: NDArray[Any] = np.frombuffer(data, "<f4", (last - first) // 4, first)
                yield found.astype(np.float32)
            elif wire == BYTES:
                raise ValueError(f"{last - first:,} bytes are no numbers of four")
        elif wire == VARINT:
            single.append(first)
        elif wire == BYTES:
            yield _varints(data, first, last)
    if single:
        yield np.array(single, np.uint64).view(np.int64)


def _varints(data: bytes, start: int, stop: int) -> NDArray[np.int64]:
    """Return packed numbers."""
    if stop - start <= _FEW:
        few, at = [], start
        while at < stop:
            value, at = varint(data, at, stop)
            few.append(value)
        return np.array(few, np.uint64).view(np.int64)
    raw: NDArray[np.uint8] = np.frombuffer(data, np.uint8, stop - start, start)
    ends = np.flatnonzero(raw < 0x80)
    if not len(ends) or ends[-1] != len(raw) - 1:
        raise ValueError("numbers are cut short")
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    most = int(lengths.max())
    if most > 10:
        raise ValueError("a number has more than 64 bits")
    found = np.zeros(len(ends), np.uint64)
    for at in range(most):
        there = lengths > at
        found[there] |= (raw[starts[there] + at] & 0x7F).astype(np.uint64) << np.uint64(7 * at)
    return found.view(np.int64)
