"""Splits of an import: as the source names them, or by shares drawn for each row."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import TypeVar

import numpy as np

from lakebed.errors import InvalidInputError
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import grouped, stem_of

TENSOR = "split"

_WORDS = {"train": "train training", "val": "val valid validation dev", "test": "test testing"}
SPLITS: Mapping[str, str] = {word: split for split, words in _WORDS.items() for word in words.split()}
"""Words in names of files and folders -> the split that they name."""

_ORDER = {split: at for at, split in enumerate(_WORDS)}

_TOLERANCE = 1e-6  # largest difference between 1 and the sum of shares


T = TypeVar("T")


def split_of(name: str) -> str:
    """Return the split of a path, named by the last word in it that is the name of a split; "" if no word is one."""
    words = re.split(r"[-_./]", name.lower())
    return next((SPLITS[word] for word in reversed(words) if word in SPLITS), "")


def split_of_stem(name: str, files: Sequence[str]) -> str:
    """Return the split named by the stem of a file, as in ``train.csv``; "" for other stems, and for a single file."""
    return SPLITS.get(stem_of(name), "") if len(files) > 1 else ""


def in_order(by_split: Mapping[str, T]) -> list[tuple[str, T]]:
    """Return splits in their order: train, val and test, then others by name."""
    return sorted(by_split.items(), key=lambda pair: (_ORDER.get(pair[0], len(_ORDER)), pair[0]))


def by_split(names: Iterable[T], split: Callable[[T], str]) -> dict[str, list[T]]:
    """Group names, such as those of files, by the split that `split` returns, in the order of the splits."""
    return dict(in_order(grouped(names, split)))


def ranges_of(
    by_split: Iterable[tuple[str, Sequence[T]]], rest: str = "others"
) -> tuple[list[T], dict[str, range]]:
    """Return the items of all splits, and the range of each split; no ranges if no split has a name.

    Parameters
    ----------
    by_split
        Name of a split, or "", and its items, in order.
    rest
        Name that replaces "" if other splits exist.
    """
    items: list[T] = []
    ranges: dict[str, range] = {}
    for split, of in by_split:
        ranges[split or rest] = range(len(items), len(items) + len(of))
        items += of
    return items, {} if set(ranges) == {rest} else ranges


@dataclass(frozen=True)
class Splits:
    """Assignment of rows to splits.

    Parameters
    ----------
    names
        Names of the splits, in order; empty for imports without splits.
    ends
        Number of the first item after each split, if whole items belong to splits.
    shares
        Share of each split in the rows, if the split of each row is drawn at random.
    seed
        Seed of the draws.
    only
        The split whose rows are kept; None keeps all.
    tensor
        Name of the tensor that stores the split of a row.
    """

    names: tuple[str, ...] = ()
    ends: tuple[int, ...] = ()
    shares: tuple[float, ...] = ()
    seed: int = 0
    only: str | None = None
    tensor: str = TENSOR

    def of(self, item: int) -> Iterator[str]:
        """Yield the splits of the rows of an item, without end."""
        if self.ends:
            yield from repeat(self.names[bisect_right(self.ends, item)])
        ends = list(accumulate(self.shares[:-1]))
        draw = np.random.default_rng([self.seed, item]).random
        while True:
            yield self.names[bisect_right(ends, draw())]


def chosen(text: str | Sequence[str] | Mapping[str, float] | None) -> dict[str, float | None]:
    """Parse the option ``split``: name -> share, or None for a split of the source.

    ``train/val/test``, ``val``, ``train=0.8/val=0.1/test=0.1``; in Python also a list of names, or {name: share}.

    Raises
    ------
    InvalidInputError
        If a name is empty or given twice, or shares do not add up to 1.
    """
    if not text:
        return {}
    found: dict[str, float | None] = {}
    if isinstance(text, Mapping):
        found.update((str(name), float(share)) for name, share in text.items())
    else:
        for part in text.split("/") if isinstance(text, str) else text:
            name, equals, share = part.partition("=")
            if not name or name in found:
                raise InvalidInputError(
                    f"splits must be given as train/val/test or train=0.8/val=0.2, not {text!r}"
                )
            try:
                found[name] = float(share) if equals else None
            except ValueError:
                raise InvalidInputError(f"the share of {name} must be a number, not {share!r}") from None
    shares = [share for share in found.values() if share is not None]
    if shares and (len(shares) < len(found) or min(shares) <= 0 or abs(sum(shares) - 1) > _TOLERANCE):
        raise InvalidInputError(
            f"the shares of splits must all be given, be positive and add up to 1, unlike {text!r}"
        )
    return found


def splits_of(plan: Plan, wanted: Mapping[str, float | None], seed: int) -> tuple[Plan, Splits]:
    """Return the plan for the wanted splits, and the assignment of its rows.

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
    plan.splits = {name: items for name, items in plan.splits.items() if len(items)}
    ends = tuple(items.stop for items in plan.splits.values())
    return plan, Splits(tuple(plan.splits), ends=ends, tensor=tensor)
