"""Random numbers as a function: draws and weighted samples that depend on a key alone.

The functions have no state, so any part of an epoch can be computed again: by another thread, after a resume, or with
another number of processes. The functions are defined here and never change: every later release must reproduce a
recorded order. NumPy's own generators do not promise that.

    mix(z)        z += 0x9E3779B97F4A7C15
                  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9
                  z = (z ^ z >> 27) * 0x94D049BB133111EB
                  z ^ z >> 31                       modulo 2**64: one step of SplitMix64 (Steele, Lea, Flood 2014)
    key(w...)     k = 0; for each word w: k = mix(k ^ w)
"""

from __future__ import annotations

import itertools
import math
import secrets
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lakebed.errors import InvalidInputError
from lakebed.native import order as native

# Purposes of random numbers; each purpose is one word of the key, so that their numbers are independent.
DRAWS, WEIGHTED, SPANS, BLOCK, SPLIT = 1, 2, 3, 4, 5

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB

Words = NDArray[np.uint64]


def mix(words: Words) -> Words:
    """Scramble 64-bit words; different words stay different."""
    z = words + np.uint64(_GOLDEN)
    z ^= z >> np.uint64(30)
    z *= np.uint64(_FIRST)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_SECOND)
    z ^= z >> np.uint64(31)
    return z


def key(*words: int) -> int:
    """Hash the low 64 bits of each of several integers to one 64-bit key."""
    made = 0
    for word in words:
        z = ((made ^ (word & _WORD)) + _GOLDEN) & _WORD
        z = ((z ^ z >> 30) * _FIRST) & _WORD
        z = ((z ^ z >> 27) * _SECOND) & _WORD
        made = z ^ z >> 31
    return made


def fresh_seed() -> int:
    """Return a random seed below 2**48; if PyTorch is imported, the seed depends on ``torch.manual_seed``."""
    torch: Any = sys.modules.get("torch")
    # While another thread imports PyTorch, the module is incomplete, and nobody can have seeded it.
    if hasattr(torch, "randint") and hasattr(torch, "Generator"):
        return int(torch.randint(1 << 48, ()))
    return secrets.randbits(48)


def draws(seed: int, epoch: int, samples: ArrayLike, n: int = 1) -> NDArray[np.float64]:
    """Return random numbers for the augmentation of samples, independent of where and when they are computed.

    Parameters
    ----------
    seed, epoch
        Words that determine the numbers, together with the sample.
    samples
        Numbers of rows, int64, shape (samples,).
    n
        Numbers per sample.

    Returns
    -------
    Evenly distributed in [0, 1): float64, shape (samples, n).

    Examples
    --------
    >>> draws(7, 0, [3, 4, 3], 2).round(3).tolist()
    [[0.354, 0.871], [0.917, 0.614], [0.354, 0.871]]
    """
    start = mix(np.asarray(samples, dtype=np.int64).astype(np.uint64) ^ np.uint64(key(seed, epoch, DRAWS)))
    steps = np.arange(n, dtype=np.uint64) * np.uint64(_GOLDEN)
    return _unit(mix(start[:, None] + steps))


def _unit(words: Words) -> NDArray[np.float64]:
    """Convert 64-bit words to float64 in [0, 1), by their upper 53 bits."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def weighted(
    weights: ArrayLike, replace: bool = True, size: int | None = None, seed: int = 0, epoch: int = 0
) -> NDArray[np.int64]:
    """Draw rows with probabilities in proportion to weights.

    Parameters
    ----------
    weights
        One per row, not negative; shape (rows,).
    replace
        Whether a row can be drawn more than once.
    size
        Number of rows to draw; by default as many as weights.
    seed, epoch
        Words that determine the choice.

    Returns
    -------
    Numbers of rows in ascending order, repeated as often as drawn, so that each is read once: int64, shape (size,).

    Raises
    ------
    InvalidInputError
        If a weight is negative or not finite, if all weights are zero, or if rows must be drawn once each and fewer
        than ``size`` rows have a positive weight.
    """
    weight: NDArray[np.float64] = np.asarray(weights, dtype=np.float64)
    if weight.ndim != 1 or not np.isfinite(weight).all() or (weight < 0).any():
        raise InvalidInputError("weights must be one finite number per row, none of them negative")
    size = len(weight) if size is None else size
    if size < 0:
        raise InvalidInputError(f"{size} rows cannot be drawn")
    if size == 0:
        return np.zeros(0, dtype=np.int64)
    (possible,) = np.nonzero(weight)
    if not len(possible) or (not replace and len(possible) < size):
        raise InvalidInputError(
            f"{size} rows cannot be drawn{'' if replace else ' once each'}: "
            f"{len(possible)} have a weight above zero"
        )
    count = size if replace else len(possible)
    counters = np.arange(count, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(key(seed, epoch, WEIGHTED))
    u = _unit(mix(counters))
    if replace:
        ends = np.cumsum(weight[possible] / weight.max())
        chosen = np.searchsorted(ends, np.sort(u) * ends[-1], side="right")
        drawn: NDArray[np.int64] = possible[np.minimum(chosen, len(possible) - 1)]
        return drawn
    # Efraimidis and Spirakis 2006: draw an arrival time for each row, with its weight as the rate; take the earliest
    # rows.
    arrivals = -np.log1p(-u) / weight[possible]
    first = np.argpartition(arrivals, size - 1)[:size]
    return np.sort(possible[first])


def split(lengths: Sequence[float], rows: int, seed: int) -> list[list[int]]:
    """Divide rows at random.

    Parameters
    ----------
    lengths
        Number of rows of each part; or fractions that add up to 1. Rows that remain after rounding go to the first
        parts.
    rows
        Number of rows.
    seed
        Determines the choice.

    Returns
    -------
    The numbers of the rows of each part, in random order.

    Raises
    ------
    InvalidInputError
        If the lengths do not add up, or one is negative.
    """
    wanted = list(lengths)
    if any(length < 0 for length in wanted):
        raise InvalidInputError(f"lengths of a split cannot be negative: {wanted}")
    if wanted and all(length <= 1 for length in wanted) and math.isclose(sum(wanted), 1):
        parts = [math.floor(rows * length) for length in wanted]
        left = rows - sum(parts)
        wanted = [part + (i < left) for i, part in enumerate(parts)]
    if sum(wanted) != rows:
        raise InvalidInputError(
            f"Sum of input lengths does not equal the length of the input dataset! {lengths} is for {rows:,} rows; "
            "give numbers of rows that add up to it, or fractions that add up to 1"
        )
    order = native.permuted(rows, key(seed, SPLIT))
    ends = np.cumsum([0, *wanted]).astype(int).tolist()
    return [order[start:stop].tolist() for start, stop in itertools.pairwise(ends)]
