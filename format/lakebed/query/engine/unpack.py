"""UNGROUP BY: the items of groups and sequences as rows again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.engine.limits import Watch
from lakebed.query.engine.relation import Picked, Projected, Relation, Stored, Unpacked
from lakebed.query.values.columns import concatenated
from lakebed.query.values.reductions import items_of

FRAME = "frame_number"
"""Column that counts the items of each group."""


def ungrouped(relation: Relation, count: int | None, watch: Watch) -> Relation:
    """Take groups apart.

    Parameters
    ----------
    count
        Items of each row that comes out; None is one, without a list around it.

    Raises
    ------
    QueryError
        If there are no groups.
    """
    split = [name for name, info in relation.infos.items() if info.is_group or is_sequence(relation, name)]
    if not split:
        raise QueryError(
            "UNGROUP BY needs groups or sequences: it follows FROM (SELECT ... GROUP BY ...)", kind="type"
        )
    if count is not None and count < 1:
        raise QueryError("UNGROUP BY needs at least one item for each row", kind="type")
    sizes = _sizes(relation, split, watch)
    watch.hold(16 * int(sizes.sum()))
    owners = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    watch.tick()
    items = np.arange(len(owners), dtype=np.int64) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    whole = Unpacked(relation, owners, items, split, None if FRAME in relation.infos else FRAME)
    if count is None:
        return whole
    from lakebed.query.engine.relation import Grouped

    starts = np.flatnonzero(items % count == 0)
    return Grouped(whole, np.arange(len(owners), dtype=np.int64), np.append(starts, len(owners)))


def is_sequence(relation: Relation, name: str) -> bool:
    """Whether a column is a tensor of sequences."""
    while isinstance(relation, Picked):
        relation = relation.base
    if isinstance(relation, Stored):
        return relation.column(name).scan.reader.state.sequence is not None
    if isinstance(relation, Projected):
        from lakebed.query.binding.bound import Input

        node = relation.outputs[name]
        return isinstance(node, Input) and is_sequence(relation.base, node.name)
    return False


def _sizes(relation: Relation, split: list[str], watch: Watch) -> NDArray[np.int64]:
    """Return how many items the groups of each row have.

    Raises
    ------
    QueryError
        If columns differ in that.
    """
    found: Any = None
    for name in split:
        parts = []
        for window in relation.windows([name]):
            watch.tick()
            parts.append(items_of(relation.read(name, window)))
        whole = concatenated(parts).values.astype(np.int64) if parts else np.zeros(0, np.int64)  # type: ignore[union-attr]
        if found is not None and not np.array_equal(found, whole):
            at = int(np.flatnonzero(found != whole)[0])
            raise QueryError(
                f"the groups of row {at} differ in length: {found[at]} and {whole[at]}", kind="shape"
            )
        found = whole
    sizes: NDArray[np.int64] = found
    return sizes
