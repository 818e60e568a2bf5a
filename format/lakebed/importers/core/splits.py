"""Which rows of an import belong to which split: as the source says, or by shares drawn for each row."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import numpy as np

from lakebed.errors import InvalidInputError
from lakebed.importers.core.plan import Plan

TENSOR = "split"

SPLITS: Mapping[str, str] = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}
"""Words of names that tell a split, and what the split is called."""

_ORDER = {"train": 0, "val": 1, "test": 2}

_TOLERANCE = 1e-6  # by which shares may add up to more than 1


T = TypeVar("T")


def split_of(name: str) -> str:
    """Return the split that the last word of a path names that names one; "" for none."""
    words = re.split(r"[-_./]", name.lower())
    return next((SPLITS[word] for word in reversed(words) if word in SPLITS), "")


def in_order(by_split: Mapping[str, T]) -> list[tuple[str, T]]:
    """Return splits in their order: train, val and test, then others by their names."""
    return sorted(by_split.items(), key=lambda pair: (_ORDER.get(pair[0], len(_ORDER)), pair[0]))


def ranges_of(by_split: Iterable[tuple[str, Sequence[T]]]) -> tuple[list[T], dict[str, range]]:
    """Return the items of all splits, and which of them are whose; none of the latter if there is no split.

    Parameters
    ----------
    by_split
        Name of a split, "" for what belongs to none, and its items, in order.
    """
    items: list[T] = []
    ranges: dict[str, range] = {}
    for split, of in by_split:
        ranges[split or "others"] = range(len(items), len(items) + len(of))
        items += of
    return items, {} if set(ranges) == {"others"} else ranges


@dataclass(frozen=True)
class Splits:
    """What rows belong to which split.

    Parameters
    ----------
    names
        Names of the splits, in order; none if rows belong to none.
    ends
        Number of the first item behind each split, where items belong to splits as a whole.
    shares
        Share of the rows of each split, where they are drawn.
    seed
        What is drawn.
    only
        Rows of other splits are dropped.
    """

    names: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    seed: int = 0
    only: str | None = None
    tensor: str = field(default=TENSOR)

    def of(self, item: int, rows: int) -> list[str]:
        """Return the split of each of the first rows of an item."""
        if self.ends:
            return [self.names[bisect_right(self.ends, item)]] * rows
        draws = np.random.default_rng([self.seed, item]).random(rows)
        found = np.searchsorted(np.cumsum(self.shares), draws, side="right")
        return [self.names[min(index, len(self.names) - 1)] for index in found]


def chosen(text: str | Sequence[str] | Mapping[str, float] | None) -> dict[str, float | None]:
    """Return what ``--split`` says: name -> share, None where the source's own split is meant.

    ``train/val/test``, ``val``, ``train=0.8/val=0.1/test=0.1``; from Python a list of names or {name: share}, too.

    Raises
    ------
    InvalidInputError
        If names are given twice or are no names, or shares do not add up to 1.
    """
    if not text:
        return {}
    if isinstance(text, Mapping):
        pairs = [(str(name), float(share)) for name, share in text.items()]
        found: dict[str, float | None] = dict(pairs)
    else:
        parts = text.split("/") if isinstance(text, str) else list(text)
        found = {}
        for part in parts:
            name, equals, share = part.partition("=")
            if not name or name in found:
                raise InvalidInputError(f"splits are train/val/test or train=0.8/val=0.2, not {text!r}")
            try:
                found[name] = float(share) if equals else None
            except ValueError:
                raise InvalidInputError(f"the share of {name} is a number, not {share!r}") from None
    shares = [share for share in found.values() if share is not None]
    if shares and (len(shares) < len(found) or min(shares) <= 0 or abs(sum(shares) - 1) > _TOLERANCE):
        raise InvalidInputError(
            f"the shares of splits are all given, positive, and add up to 1, not {text!r}"
        )
    return found


def splits_of(plan: Plan, wanted: Mapping[str, float | None], seed: int) -> tuple[Plan, Splits]:
    """Return the plan for the splits that are wanted, and what tells the splits of its rows.

    Raises
    ------
    IngestionError
        If the source has no such split.
    """
    taken = {tensor.name for tensor in plan.tensors}
    tensor = TENSOR if TENSOR not in taken else f"{TENSOR}_of_import"
    if any(share is not None for share in wanted.values()):
        shares = tuple(share or 0.0 for share in wanted.values())
        return plan, Splits(tuple(wanted), shares=shares, seed=seed, tensor=tensor)
    if wanted:
        plan = plan.only(list(wanted))
    ends = tuple(items.stop for items in plan.splits.values())
    if any(first >= last for first, last in pairwise(ends)):
        plan.splits = {name: items for name, items in plan.splits.items() if len(items)}
        ends = tuple(items.stop for items in plan.splits.values())
    return plan, Splits(tuple(plan.splits), ends=ends, tensor=tensor)
