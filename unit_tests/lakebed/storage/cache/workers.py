"""A reader of a remote storage through a small cache; it may be killed at any moment."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.storage.cache.caching import CachedStorage
from lakebed.storage.cache.files import CacheFiles
from lakebed.storage.memory import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OBJECTS = 60


def _content(number: int) -> bytes:
    chance = np.random.default_rng(number)
    return chance.bytes(int(10 ** chance.uniform(0, 6.1)))


CONTENT = [_content(number) for number in range(OBJECTS)]
"""What the objects hold: 1 byte to 1.2 MB; made once, before workers are forked."""


class _Origin(MemoryStorage):
    def get(self, key: str) -> bytes:
        return CONTENT[int(key.rpartition("/")[2], 16)]


def read(arguments: Sequence[Any], say: Callable[[str], None]) -> None:
    """Read objects and parts of them at random, for as long as it is let, and say what was wrong."""
    folder, bound, seconds, seed = arguments
    chance = random.Random(seed)
    origin = _Origin("origin")
    storage = CachedStorage(origin, CacheFiles(folder, bound), "origin").trusted
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        number = chance.randrange(OBJECTS)
        key, size = f"t/chunks/{number:x}", len(CONTENT[number])
        if chance.random() < 0.5:
            start = chance.randrange(size)
            length = chance.randint(1, size - start)
            is_right = storage.get_range(key, start, length) == CONTENT[number][start : start + length]
        else:
            is_right = storage.get(key) == CONTENT[number]
        say("read" if is_right else f"wrong {number}")
