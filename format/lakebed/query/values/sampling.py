"""SAMPLE BY: rows drawn by weight, reproducible by seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.values.columns import Numbers
from lakebed.query.values.limits import stretches
from lakebed.query.values.ordering import Key, ordered

_DRAWN = 1 << 18
"""Rows that are drawn between two checks of the clock."""


def drawn(weights: NDArray[np.float64], count: int, *, replace: bool, seed: int | None) -> NDArray[np.int64]:
    """Draw rows with probabilities in proportion to their weights.

    Parameters
    ----------
    weights
        One per row. Rows whose weight is not positive are never drawn with replacement.
    count
        Number of rows; without replacement at most all rows, rows without weight last.

    Returns
    -------
    Positions in the order of drawing.

    Raises
    ------
    QueryError
        If no weight is positive, or one is not finite.
    """
    if not np.isfinite(weights).all():
        raise QueryError("SAMPLE BY: a weight is not a finite number", kind="runtime")
    positive = np.clip(weights, 0, None)
    total = float(positive.sum())
    if not len(weights) or count <= 0:
        return np.zeros(0, np.int64)
    if total <= 0:
        raise QueryError("SAMPLE BY: no row has a weight above zero", kind="runtime")
    generator = np.random.Generator(np.random.PCG64(seed))
    if replace:
        ends = np.cumsum(positive)
        # By rounding, a drawn position may lie beyond the last row with a weight.
        last = int(np.flatnonzero(positive)[-1])
        chosen = np.empty(count, np.int64)
        for some in stretches(count, _DRAWN):
            found = np.searchsorted(ends, generator.random(len(some)) * ends[-1], side="right")
            chosen[some.start : some.stop] = np.minimum(found, last)
        return chosen
    # Efraimidis and Spirakis 2006: take the rows with the largest u ** (1 / w), which have the smallest -log(u) / w.
    keys = -np.log1p(-generator.random(len(weights)))
    with np.errstate(divide="ignore"):
        keys = np.where(positive > 0, keys / positive, np.inf)
    return ordered([Key(Numbers(keys), is_descending=False, nulls="")], count)
