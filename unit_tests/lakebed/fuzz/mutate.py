"""Deterministic damage: the same seed makes the same mutation of the same bytes, on every machine and every run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

NUMBERS = [
    *(0, 1, 2, 3, 4, 7, 8, 13, 16, 32, 63, 64, 127, 128, 254, 255, 256, 257, 1000, 4096, 65535, 65536, 2**24),
    *(
        2**31 - 2,
        2**31 - 1,
        2**31,
        2**32 - 2,
        2**32 - 1,
        2**32,
        2**48,
        2**60,
        2**62,
        2**63 - 1,
        2**63,
        2**64 - 1,
    ),
]
"""Counts, lengths and offsets at which decoders that forget a check fall over."""

VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2**31,
        2**63 - 1,
        2**63,
        2**64,
        10**30,
        -(2**63) - 1,
        0.5,
        1e308,
        float("nan"),
    ),
    *(
        "",
        "x",
        "..",
        "../../etc/passwd",
        "/",
        "a\0b",
        "\ud800",
        "null",
        "3.9.52",
        "999999999.1",
        "abc",
        "é" * 40,
    ),
    *([], [None], [[]], {}, {"": None}, [0] * 70, [2**62, 2**62], [-1], ["a", 1], "A" * 5000, [[[[[[]]]]]]),
    *({"_hub_custom_type": "ndarray"}, {"_hub_custom_type": "bytes", "data": "!"}, {"_hub_custom_type": []}),
    {"_hub_custom_type": "ndarray", "data": "", "shape": [0, 2**60], "dtype": "<f4"},
    {"_hub_custom_type": "ndarray", "data": "AAAA", "shape": [1], "dtype": "O"},
]
"""Values that a JSON document of the wrong kind may hold."""

Step = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def _place(rng: random.Random, data: bytearray, width: int = 1) -> int:
    """Return an offset, more often among the first hundred bytes, where headers are."""
    last = max(len(data) - width, 0)
    return rng.randrange(min(last, 100) + 1) if rng.random() < 0.5 else rng.randrange(last + 1)


def _flip(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[_place(rng, data)] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[_place(rng, data)] = rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, 0x22, 0x2C, rng.randrange(256)))


def _number(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Write a number that is interesting, or close to the one that is there, over a field."""
    width = rng.choice((1, 2, 4, 4, 4, 8, 8))
    order = rng.choice(("little", "little", "big"))
    at = _place(rng, data, width)
    old = int.from_bytes(data[at : at + width], order)  # type: ignore[arg-type]
    number = rng.choice(NUMBERS) if rng.random() < 0.6 else old + rng.choice((-2, -1, 1, 2, 12, 100))
    data[at : at + width] = (number % 256**width).to_bytes(width, order)  # type: ignore[arg-type]


def _cut(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[_place(rng, data) :]


def _extend(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    data += rng.choice((b"\0", b"\xff", rng.randbytes(1))) * rng.choice((1, 3, 4, 8, 12, 100))


def _remove(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(rng, data)
    del data[at : at + rng.choice((1, 2, 4, 8, 12, 40))]


def _repeat(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(rng, data)
    data[at:at] = data[at : at + rng.choice((1, 4, 8, 12, 40))] * rng.choice((1, 1, 2, 20))


def _splice(rng: random.Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Go on with the end of another file of the same kind, or take a piece of it."""
    other = rng.choice(others)
    if not other:
        return
    start = rng.randrange(len(other))
    if rng.random() < 0.5:
        data[_place(rng, data) :] = other[start:]
    else:
        at = _place(rng, data)
        piece = other[start : start + rng.choice((1, 4, 8, 12, 64))]
        data[at : at + len(piece)] = piece


def _fill(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(rng, data)
    end = min(len(data), at + rng.choice((2, 4, 8, 16, 64)))
    data[at:end] = bytes([rng.choice((0, 0xFF, 0x80))]) * (end - at)


STEPS: tuple[Step, ...] = (
    *(_flip, _flip, _set, _set, _number, _number, _number),
    *(_cut, _extend, _remove, _repeat, _splice, _splice, _fill),
)


def mutate_bytes(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage bytes in one to four steps; ``others`` are files of the same kind to take pieces from."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        rng.choice(STEPS)(rng, damaged, others)
    return bytes(damaged[: 2 * len(data) + 1000])


def mutate_json(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage the structure of a JSON document, which stays JSON; what is no JSON is damaged as bytes."""
    try:
        value = json.loads(data)
        donor = json.loads(rng.choice(others))
    except ValueError:
        return mutate_bytes(rng, data, others)
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = _edited(rng, value, donor)
    return json.dumps(value).encode()


def _edited(rng: random.Random, value: Any, donor: Any) -> Any:
    """Replace, drop, add or move one member somewhere in a value."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.05:
        return rng.choice(VALUES)
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    kind = rng.random()
    changed: Any = value.copy()
    if kind < 0.5 and isinstance(value[key], dict | list) and value[key]:
        changed[key] = _edited(rng, value[key], donor)
    elif kind < 0.75:
        changed[key] = rng.choice(VALUES)
    elif kind < 0.85:
        del changed[key]
    elif kind < 0.93 and isinstance(changed, dict):
        changed[rng.choice(("", "x", "..", "a:b", "lakebed", str(key) + "x"))] = value[key]
    elif isinstance(donor, type(value)) and donor:
        other = rng.choice(list(donor) if isinstance(donor, dict) else list(range(len(donor))))
        changed[key] = donor[other]
    else:
        changed[key] = value[rng.choice(keys)]
    return changed
