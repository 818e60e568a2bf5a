"""Merging of newer rows into a small dataset at once, in one publish, without a delta.

A delta is a branch that must be created, published, merged and dropped, which costs time even for few rows.
"""

from collections.abc import Mapping

import pyarrow as pa

from lakebed.dataset.dataset import Dataset
from lakebed.native import keys as native
from lakebed.upserts.keying import Keying
from lakebed.upserts.keys import Hashes, KeyTable, values
from lakebed.upserts.merge import MergeCount, Plan, Winners, matched, planned, published_whole
from lakebed.upserts.tombstones import Buried
from lakebed.upserts.windows import taken


class Allowance:
    """Limits of rewriting a dataset at once, in proportion to the rows that arrive.

    Parameters
    ----------
    most : int
        Maximum size of a small dataset in bytes; also the initial allowance.
    """

    TIMES = 8
    """Maximum number of bytes that are rewritten per received byte."""
    HURRIED = 8
    """Fraction of `most` up to which a merge at once is faster than a delta."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def take(self, base: Dataset, batch: Mapping[str, pa.Array], *, is_hurried: bool) -> bool:
        """Return whether rows may be merged at once; if so, reduce the allowance by the number of rewritten bytes."""
        whole = base.size_approx()
        come = self.TIMES * sum(column.nbytes for column in batch.values())
        self._left = min(self._most, self._left + come)
        if whole >= (self._most // self.HURRIED if is_hurried else self._most) or whole > self._left:
            return False
        self._left -= whole
        return True


def merge_at_once(
    base: Dataset,
    batch: Mapping[str, pa.Array],
    keying: Keying,
    hashes: Hashes,
    buried: Buried | None = None,
) -> MergeCount:
    """Merge rows into the dataset, durably; after an error the dataset is unchanged.

    Parameters
    ----------
    base : Dataset
        The dataset.
    batch : mapping of str to pyarrow.Array
        Tensor -> its values, in the order of arrival. In replaced rows, other tensors keep their values.
    keying : Keying
        Identity and order of the rows.
    hashes : uint64, shape (rows, 2)
        Hashes of the keys of the rows.
    buried : Buried or None
        Deletions of earlier syncs.
    """
    winners = newest_in(batch, keying, hashes)
    plan = planned(base, keying, matched(base, keying, winners), winners, buried)
    with published_whole(base):
        apply(base, batch, plan)
    return plan.count


def newest_in(batch: Mapping[str, pa.Array], keying: Keying, hashes: Hashes) -> Winners:
    """Find the newest row of each key among some rows."""
    table = KeyTable(len(hashes))
    slots = table.insert(hashes)
    order = [values(column) for column in keying.ordered(batch)]
    rows = native.newest(slots, len(table), order)
    blank = keying.is_blank(batch)[rows]
    return Winners(table, rows, order, keying.is_deleted(batch, len(hashes))[rows], blank)


def apply(base: Dataset, batch: Mapping[str, pa.Array], plan: Plan) -> None:
    """Change the dataset without publishing it."""
    if len(plan.updated):
        base.update_rows(plan.updated, taken(batch, plan.sources))
    if len(plan.removed):
        base.pop_rows(plan.removed)
    if len(plan.inserted):
        base.extend(taken(batch, plan.inserted), append_empty=True)
