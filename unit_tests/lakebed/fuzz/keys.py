"""Fuzz targets: hashes, tables and filters of keys; numbers as texts; from buffers and counts that do not fit together.

What is accepted must be what plain Python makes of the same bytes. They run in the suite, and under AddressSanitizer
and UndefinedBehaviorSanitizer (ext/fuzz/run.py). Every buffer ends where its memory ends, many at an odd address.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lakebed.native import keys
from lakebed.native.keys import BloomFilter, KeyTable, Values
from unit_tests.lakebed.upserts.cells import ranks, same

T = TypeVar("T")
REFUSALS = (ValueError, OverflowError)
"""What a compiled function raises when its arguments do not fit together."""


class Refused(Exception):
    """A compiled function did not accept its arguments."""


def _ask(function: Callable[..., T], *given: Any) -> T:
    """Call a compiled function; whatever else fails is no refusal."""
    try:
        return function(*given)
    except REFUSALS as error:
        raise Refused from error


MODULUS = 2**61 - 1
FORMATS = {keys.LAYOUT_INT64: "<q", keys.LAYOUT_UINT64: "<Q", keys.LAYOUT_FLOAT64: "<d"}
OFFSETS = {keys.LAYOUT_BYTES: "<i", keys.LAYOUT_WIDE_BYTES: "<q"}
LAYOUTS = (*FORMATS, keys.LAYOUT_BOOL, *OFFSETS)
EDGES = (0, 1, 2, 7, -1, -2, 2**31 - 1, 2**31, 2**32, 2**50, 2**50 + 1, 2**62, -(2**63), 2**63 - 1)
WORDS = (
    0,
    1,
    2**32,
    2**63,
    2**64 - 1,
    0x3FF8 << 48,
    0x7FF0 << 48,
    0x7FF8 << 48,
    0xFFF8 << 48,
    0x7FF4 << 48 | 7,
)
"""As floats: both zeros, both signs of NaN and one that signals, among others."""
TEXTS = (
    b"",
    b"a",
    b"b",
    b"\0",
    b"\0" * 7,
    b"\0" * 8,
    b"sevenby",
    b"eight by",
    b"\xff" * 15,
    b"thirteen bytes",
)


def _memory(rng: random.Random, data: bytes) -> NDArray[np.uint8]:
    """Return bytes that end where their memory ends."""
    before = rng.choice((0, 0, 1, 3))
    whole = np.empty(before + len(data), np.uint8)
    whole[before:] = np.frombuffer(data, np.uint8)
    return whole[before:]


def _cut(rng: random.Random, data: bytes) -> NDArray[np.uint8] | None:
    """Return the bytes, now and then without the last ones, or nothing in their place."""
    turn = rng.randrange(60)
    return (
        None if turn == 0 else _memory(rng, data[: len(data) - rng.choice((1, 4, 8))] if turn == 1 else data)
    )


@dataclass
class Raw:
    """A column as buffers, and what plain Python reads in them."""

    layout: int
    rows: int
    offset: int
    validity: NDArray[np.uint8] | None
    offsets: NDArray[np.uint8] | None
    data: NDArray[np.uint8] | None

    def values(self) -> Values:
        return _ask(Values, self.layout, self.rows, self.offset, self.validity, self.offsets, self.data)

    def cells(self) -> list[Any]:
        """Return the cells; what lies outside of a buffer fails."""
        return [self._cell(self.offset + row) for row in range(self.rows)]

    def _cell(self, at: int) -> Any:
        if self.validity is not None and not self.validity[at // 8] >> at % 8 & 1:
            return None
        if self.layout in OFFSETS:
            assert self.offsets is not None
            code = OFFSETS[self.layout]
            start, end = (
                struct.unpack_from(code, self.offsets, place * struct.calcsize(code))[0]
                for place in (at, at + 1)
            )
            size = 0 if self.data is None else len(self.data)
            assert 0 <= start <= end <= size
            return b"" if self.data is None else self.data[start:end].tobytes()
        assert self.data is not None
        if self.layout == keys.LAYOUT_BOOL:
            return bool(self.data[at // 8] >> at % 8 & 1)
        return struct.unpack_from(FORMATS[self.layout], self.data, 8 * at)[0]

    def words(self) -> Iterator[list[int]]:
        """Yield the words of each cell, as the table in cells.pxd has them."""
        for cell in self.cells():
            if cell is None:
                yield [0]
            elif isinstance(cell, bool):
                yield [2 + cell]
            elif isinstance(cell, bytes):
                yield _words_of(cell)
            else:
                one = float("nan") if same(cell) == "NaN" else same(cell)
                bits = int.from_bytes(struct.pack(FORMATS[self.layout], one), "little")
                yield [2**32 + bits % 2**32, bits >> 32]


def _words_of(text: bytes) -> list[int]:
    sevens = (text[at : at + 7] for at in range(0, len(text), 7))
    return [2**32 + len(text), *(int.from_bytes(seven, "little") for seven in sevens)]


def _raw(
    rng: random.Random,
    rows: int,
    layout: int | None = None,
    text: Callable[[random.Random], bytes] = lambda rng: rng.choice(TEXTS),
) -> Raw:
    """Return a column that is sound, or nearly."""
    layout = rng.choice(LAYOUTS) if layout is None else layout
    offset = rng.choice((0, 0, 1, 3, 9))
    need = rows + offset
    validity = None if rng.random() < 0.4 else _cut(rng, rng.randbytes((need + 7) // 8))
    offsets = None
    if layout in OFFSETS:
        texts = [text(rng) for _ in range(need)]
        ends = np.cumsum([rng.choice((0, 0, 5)), *map(len, texts)]).tolist()
        data = b"x" * ends[0] + b"".join(texts)
        if rng.random() < 0.06:
            ends[rng.randrange(len(ends))] = rng.choice(EDGES)
        bits = 8 * struct.calcsize(OFFSETS[layout])
        offsets = _cut(rng, b"".join((end % 2**bits).to_bytes(bits // 8, "little") for end in ends))
    elif layout == keys.LAYOUT_BOOL:
        data = rng.randbytes((need + 7) // 8)
    else:
        data = b"".join(rng.choice((*WORDS, rng.getrandbits(64))).to_bytes(8, "little") for _ in range(need))
    if rng.random() < 0.03:
        rows, offset = rng.choice(((rng.choice(EDGES), offset), (rows, rng.choice(EDGES)), (2**50, 2**50)))
    return Raw(
        layout if rng.random() < 0.98 else rng.choice((-1, 6, 99)),
        rows,
        offset,
        validity,
        offsets,
        _cut(rng, data),
    )


def _raws(rng: random.Random, rows: int, layouts: Sequence[int] | None = None) -> list[Raw]:
    """Return columns of one length, or nearly."""
    layouts = rng.choices(LAYOUTS, k=rng.choice((0, 1, 1, 2, 3))) if layouts is None else layouts
    return [_raw(rng, rows + (rng.random() < 0.02), layout) for layout in layouts]


def _rows(columns: Sequence[Raw]) -> list[tuple[Any, ...]]:
    return list(zip(*(column.cells() for column in columns), strict=True))


def _count(rng: random.Random) -> int:
    return rng.choice((0, 1, 2, 8, 9, 40, rng.randrange(100)))


def _scattered(h: int) -> int:
    for _ in range(2):
        h = (h ^ h >> 32) * 0xD6E8FEB86659FD93 % 2**64
    return h ^ h >> 32


def _keyed(column: Raw, numbers: Raw | None) -> Iterator[list[int]]:
    """Yield the words of each cell, or of the number in its place."""
    texts = [None] * column.rows if numbers is None else numbers.cells()
    for words, text in zip(column.words(), texts, strict=True):
        yield words if text is None else [1, *_words_of(text)]


def _hash_rows(rng: random.Random) -> None:
    rows = _count(rng)
    columns = _raws(rng, rows)
    points = tuple(rng.choice((2, MODULUS - 1, rng.randrange(2, MODULUS))) for _ in range(2))
    if rng.random() < 0.1:
        points = rng.choice(((0, 2), (2, 1), (MODULUS, 2), (2, 2**64 - 1), (-1, 2), (2**64, 2), (2,)))
    layout = rng.choice(tuple(OFFSETS)) if rng.random() < 0.98 else None
    numbers = [_raw(rng, rows, layout) if rng.random() < 0.1 else None for _ in columns]
    exact = [None if number is None else number.values() for number in numbers]
    found = _ask(keys.hash_rows, [column.values() for column in columns], points, exact)
    expected = []
    pairs = zip(columns, numbers, strict=True)
    for row in zip(*(_keyed(column, number) for column, number in pairs), strict=True):
        for point in points:
            h = 1
            for word in (word for words in row for word in words):
                h = (h * point + word) % MODULUS
            expected.append(_scattered(h))
    assert found.dtype == np.uint64
    assert found.ravel().tolist() == expected


NUMBER = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?")
DIGITS = ("", "0", "000", "5", "10", "00120", "9" * 19, "1" + "0" * 41, "1234567890" * 5)
POWERS = (0, 1, 5, 7, 40, 41, 99, 10**16, 10**17 - 1, 10**17, 10**18, 2**63 - 1, 2**63, 2**64, 10**90)
COMPLEMENTS = str.maketrans("0123456789", "9876543210")


def _number(rng: random.Random) -> bytes:
    """Return a number, or what nearly is one."""
    text = rng.choice(("", "", "-", "+")) + rng.choice(DIGITS)
    text += rng.choice(("", ".", ".")) + rng.choice(DIGITS)
    if rng.random() < 0.5:
        text += rng.choice("eE") + rng.choice(("", "-", "+", "00")) + str(rng.choice(POWERS))
    if rng.random() < 0.1:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(('"', " ", "e", ".", "-", "\0", "\xff")) + text[at + 1 :]
    if rng.random() < 0.2:
        text = f'"{rng.choice(("", " ", "  "))}{text}{rng.choice(("", " "))}"'
    return text.encode("latin-1")


def _bare(text: str) -> str:
    return text[1:-1].strip(" ") if len(text) > 1 and text[0] == '"' else text


def _numeral(text: str, *, order: bool) -> str | None:
    """Return the one spelling of a number, or the text that sorts like it, as numerals.pxd has them."""
    found = NUMBER.fullmatch(text)
    if found is None:
        return None if order else text
    sign, whole, fraction, power = found.groups()
    sign, power = "-" if sign == "-" else "", int(power or 0)
    digits = (whole + fraction).lstrip("0")
    point = len(digits) - len(fraction) + power
    digits = digits.rstrip("0")
    if not digits:
        return "4" if order else "0"
    if order:
        size = f"{point + 5 * 10**18:019d}"
        if abs(power) >= 10**17:
            size = f"{len(str(abs(point))):019d}{abs(point)}"
            size = f"0{size.translate(COMPLEMENTS)}" if power < 0 else f"9{size}"
        return f"3{(size + digits).translate(COMPLEMENTS)}:" if sign else f"5{size}{digits}"
    if 0 < point <= 40:
        filled = digits.ljust(point, "0")
        return f"{sign}{filled[:point]}.{filled[point:]}".rstrip(".")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}.{digits[1:]}".rstrip(".") + f"e{point - 1}"


def _numerals(rng: random.Random) -> None:
    layout = rng.choice(tuple(OFFSETS)) if rng.random() < 0.97 else None
    column = _raw(rng, _count(rng), layout, _number)
    order, quoted = rng.random() < 0.5, rng.random() < 0.5
    nulls, validity, offsets, data = _ask(keys.numerals, column.values(), order, quoted)
    texts = [None if cell is None else cell.decode("latin-1") for cell in column.cells()]
    expected = [
        None if text is None else _numeral(_bare(text) if quoted else text, order=order) for text in texts
    ]
    found = Raw(
        keys.LAYOUT_BYTES, column.rows, 0, validity, offsets.view(np.uint8), np.frombuffer(data, np.uint8)
    )
    assert [None if cell is None else cell.decode("latin-1") for cell in found.cells()] == expected
    assert (nulls, len(data)) == (expected.count(None), offsets[-1])


def _newest(rng: random.Random) -> None:
    rows, count = _count(rng), rng.choice((1, 3, 10))
    columns = _raws(rng, rows)
    slots = np.array([rng.randrange(-1, count) for _ in range(rows)], np.int32)
    if rng.random() < 0.1:
        slots = np.append(slots, np.int32(rng.choice((0, count, -(2**31), 2**31 - 1))))[
            rng.randrange(2) :
        ].copy()
    if rng.random() < 0.05:
        count = rng.choice((-1, 2**62, 2**63))
    found = _ask(keys.newest, slots, count, [column.values() for column in columns])
    model = [-1] * count
    order = _rows(columns)
    for row, slot in enumerate(slots.tolist()):
        if slot >= 0 and (model[slot] < 0 or ranks(order[row]) >= ranks(order[model[slot]])):
            model[slot] = row
    assert found.tolist() == model


def _not_older(rng: random.Random) -> None:
    sizes = _count(rng), _count(rng)
    layouts = rng.choices(LAYOUTS, k=rng.choice((1, 1, 2)))
    left = _raws(rng, sizes[0], layouts)
    right = _raws(rng, sizes[1], layouts if rng.random() < 0.95 else None)
    pairs = [[rng.randrange(max(size, 1)) for _ in range(rng.randrange(20))] for size in sizes]
    length = min(map(len, pairs)) if all(sizes) else 0
    rows = [np.array(side[:length], np.int64) for side in pairs]
    side = rng.randrange(2)
    if rng.random() < 0.1 and length:
        rows[side][rng.randrange(length)] = rng.choice((-1, sizes[side], *EDGES))
    elif rng.random() < 0.05:
        rows[side] = np.append(rows[side], 0)
    ours, theirs = ([column.values() for column in columns] for columns in (left, right))
    found = _ask(keys.not_older, ours, rows[0], theirs, rows[1])
    here, there = _rows(left), _rows(right)
    assert found.dtype == np.bool_
    assert found.tolist() == [
        ranks(here[i]) >= ranks(there[j]) for i, j in zip(rows[0].tolist(), rows[1].tolist(), strict=True)
    ]


def _hashes(rng: random.Random, pool: Sequence[tuple[int, int]]) -> NDArray[np.uint64]:
    """Return some hashes of a pool, or what is none."""
    turn = rng.randrange(60)
    if turn == 0:
        return np.zeros((rng.randrange(4), rng.choice((0, 1, 3))), np.uint64)
    if turn == 1:
        return np.zeros((4, 4), np.uint64)[:, ::2]
    if turn == 2:
        return np.zeros((4, 2), rng.choice((np.int64, np.uint32, np.float64))).view()
    return np.array(rng.choices(pool, k=_count(rng)), np.uint64).reshape(-1, 2)


def _pool(rng: random.Random) -> list[tuple[int, int]]:
    """Return hashes that share places, tags or words."""
    size = rng.choice((3, 40, 300))
    low, high = rng.choice((1, 64, 2**32)), rng.choice((1, 2, 2**32))
    return [
        (rng.randrange(low) | rng.randrange(high) << 32, rng.choice((rng.randrange(4), rng.getrandbits(64))))
        for _ in range(size)
    ]


def _table(rng: random.Random) -> None:
    pool, model = _pool(rng), dict[tuple[int, int], int]()
    table = _ask(KeyTable, rng.choice((0, 0, 1, 33, 1000, -1, -(2**63))))
    for _ in range(rng.randrange(6)):
        hashes = _hashes(rng, pool)
        if rng.random() < 0.5:
            found = _ask(table.insert, hashes)
            assert found.tolist() == [model.setdefault((a, b), len(model)) for a, b in hashes.tolist()]
        else:
            assert _ask(table.find, hashes).tolist() == [model.get((a, b), -1) for a, b in hashes.tolist()]
        assert len(table) == len(model)
        assert table.nbytes >= 32 * len(model)


def _filter(rng: random.Random) -> None:
    pool, model = _pool(rng), set[tuple[int, int]]()
    capacity, bits = rng.choice((0, 0, 1, 100, 1000)), rng.choice((1, 8, 16, 64))
    if rng.random() < 0.1:
        capacity, bits = rng.choice(
            ((-1, bits), (2**50 + 1, bits), (2**63 - 1, bits), (100, 0), (100, 65), (2**63, 1))
        )
    known = _ask(BloomFilter, capacity, bits)
    blocks = capacity * bits // 512 + 1
    assert known.nbytes == 64 * blocks

    def places(a: int, b: int) -> set[tuple[int, int]]:
        """Words of the filter and a bit in each."""
        first = (a * blocks >> 64) * 8
        return {(first + i, b >> 6 * i & 63) for i in range(8)}

    for _ in range(rng.randrange(6)):
        hashes = _hashes(rng, pool)
        if rng.random() < 0.5:
            _ask(known.add, hashes)
            model.update(*(places(a, b) for a, b in hashes.tolist()))
        else:
            assert _ask(known.may_hold, hashes).tolist() == [
                places(a, b) <= model for a, b in hashes.tolist()
            ]


CALLS: dict[str, Callable[[random.Random], None]] = {
    "hash_rows": _hash_rows,
    "numerals": _numerals,
    "newest": _newest,
    "not_older": _not_older,
    "KeyTable": _table,
    "BloomFilter": _filter,
}


def call(name: str, number: int) -> bool:
    """Make call `number` of a target, always the same one; return whether it was accepted."""
    try:
        CALLS[name](random.Random(f"{name} {number}"))
    except Refused:
        return False
    return True
