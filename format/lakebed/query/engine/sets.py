"""UNION, INTERSECT and EXCEPT of rows of one dataset, compared by row number; UNION of different datasets.

For different datasets, UNION concatenates the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.domains import aligned
from lakebed.query.relations.bound import Bound, Input
from lakebed.query.relations.relation import Chained, Projected, Relation, Stored
from lakebed.query.values.limits import tick


def combined(operator: str, keeps_all: bool, left: Relation, right: Relation) -> Relation:
    """Combine two relations.

    Raises
    ------
    QueryError
        If their columns differ, or if INTERSECT or EXCEPT is applied to relations that are not rows of one dataset.
    """
    if left.names != right.names and sorted(left.names) != sorted(right.names):
        sides = f"{', '.join(left.names)} and {', '.join(right.names)}"
        message = f"{operator.upper()} needs the same columns on both sides, not {sides}"
        raise QueryError(message, kind="schema_mismatch")
    for name in left.names:
        kinds = {left.infos[name].kind, right.infos[name].kind} - {"any"}
        if len(kinds) > 1:
            raise QueryError(
                f"{operator.upper()}: column {name!r} holds {' on one side and '.join(sorted(kinds))} on the other",
                kind="schema_mismatch",
            )
    first, second = left.base_rows(), right.base_rows()
    is_one = left.origin() is not None and left.origin() == right.origin() and _like(left, right)
    if not is_one or first is None or second is None:
        if operator == "union":
            return Chained(_alike(left, right))
        raise QueryError(
            f"{operator.upper()} compares rows of one dataset, at one version, by their number; for two datasets, "
            "choose rows with x IN (a query), for two versions with FROM DIFF('a', 'b')",
            kind="independent",
        )
    if operator == "union" and keeps_all:
        if isinstance(left, Stored):
            return _of_rows(left, np.concatenate([first, second]))
        return Chained(_alike(left, right))
    wanted = {"union": (_FIRST, _SECOND, _BOTH), "intersect": (_BOTH,), "except": (_FIRST,)}[operator]
    return _of_rows(left, np.flatnonzero(np.isin(_marked(first, second), wanted)))


_FIRST, _SECOND, _BOTH = 1, 2, 3


def _marked(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return for each row of a dataset a bit mask: 1 if the row is in the first set, 2 if it is in the second."""
    found = np.zeros(max(int(rows.max()) if len(rows) else -1 for rows in (first, second)) + 1, np.uint8)
    found[first] = _FIRST
    tick()
    found[second] |= _SECOND
    tick()
    return found


def _alike(left: Relation, right: Relation) -> list[Relation]:
    """Convert each column of both sides to the domain that the sides share."""
    outputs: tuple[dict[str, Bound], dict[str, Bound]] = ({}, {})
    for name in left.names:
        both = (Input(name, left.infos[name]), Input(name, right.infos[name]))
        outputs[0][name], outputs[1][name] = aligned(both, 0)
    if all(isinstance(node, Input) for side in outputs for node in side.values()):
        return [left, right]
    return [Projected(left, outputs[0]), Projected(right, outputs[1])]


def _like(left: Relation, right: Relation) -> bool:
    """Return whether both sides have the same columns, so that they differ at most in their rows."""
    if isinstance(left, Projected) and isinstance(right, Projected):
        return left.names == right.names and left.outputs == right.outputs
    return isinstance(left, Stored) and isinstance(right, Stored)


def _of_rows(relation: Relation, rows: NDArray[np.int64]) -> Relation:
    """Return a relation with the same columns and the given rows of the dataset."""
    if isinstance(relation, Stored):
        return Stored(relation.table, rows)
    if isinstance(relation, Projected) and isinstance(relation.base, Stored):
        return Projected(_of_rows(relation.base, rows), relation.outputs)
    raise QueryError(
        "these rows cannot be combined: put the set operation into a query of its own", kind="unsupported"
    )
