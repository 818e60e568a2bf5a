"""UNION, INTERSECT and EXCEPT: of the rows of one dataset by their numbers, of others one behind the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import QueryError
from lakebed.query.binding.bound import Bound, Input
from lakebed.query.binding.domains import of, shared
from lakebed.query.engine.relation import Chained, Projected, Relation, Stored
from lakebed.query.values.columns import tick


def combined(operator: str, keeps_all: bool, left: Relation, right: Relation) -> Relation:
    """Combine two relations.

    Raises
    ------
    QueryError
        If their columns differ, or INTERSECT and EXCEPT have no rows of one dataset to compare.
    """
    if left.names != right.names and sorted(left.names) != sorted(right.names):
        raise QueryError(
            f"{operator.upper()} needs the same columns on both sides, not {', '.join(left.names)} and "
            f"{', '.join(right.names)}",
            kind="schema_mismatch",
        )
    for name in left.names:
        kinds = {left.infos[name].kind, right.infos[name].kind} - {"any"}
        if len(kinds) > 1:
            raise QueryError(
                f"{operator.upper()}: column {name!r} holds {' on one side and '.join(sorted(kinds))} on the other",
                kind="schema_mismatch",
            )
    first, second = left.base_rows(), right.base_rows()
    is_one = left.origin() is not None and left.origin() == right.origin() and _like(left, right)
    if operator == "union":
        if keeps_all or not is_one or first is None or second is None:
            if is_one and first is not None and second is not None and isinstance(left, Stored):
                return _of_rows(left, np.concatenate([first, second]))
            return Chained(_alike(left, right))
        return _of_rows(left, np.flatnonzero(_marked(first, second) > 0))
    if not is_one or first is None or second is None:
        raise QueryError(
            f"{operator.upper()} compares rows of one dataset, at one version, by their number; of others, choose rows "
            "with x IN (a query), those of two versions with FROM DIFF('a', 'b')",
            kind="independent",
        )
    if operator == "intersect":
        return _of_rows(left, np.flatnonzero(_marked(first, second) == _BOTH))
    return _of_rows(left, np.flatnonzero(_marked(first, second) == _FIRST))


_FIRST, _SECOND, _BOTH = 1, 2, 3


def _marked(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return of each row of a dataset whether it is among the first, the second, or both."""
    found = np.zeros(max(int(rows.max()) if len(rows) else -1 for rows in (first, second)) + 1, np.uint8)
    found[first] = _FIRST
    tick()
    found[second] |= _SECOND
    tick()
    return found


def _alike(left: Relation, right: Relation) -> list[Relation]:
    """Return two sides as relations whose numbers mean the same."""
    domains = {name: shared([left.infos[name], right.infos[name]]) for name in left.names}
    if not any(domains.values()):
        return [left, right]
    found: list[Relation] = []
    for side in (left, right):
        outputs: dict[str, Bound] = {}
        for name, domain in domains.items():
            column = Input(name, side.infos[name])
            outputs[name] = column if domain is None else of(column, domain, 0)
        found.append(Projected(side, outputs))
    return found


def _like(left: Relation, right: Relation) -> bool:
    """Whether both sides show their rows in the same way."""
    if isinstance(left, Stored) and isinstance(right, Stored):
        return True
    if isinstance(left, Projected) and isinstance(right, Projected):
        return left.names == right.names and all(left.outputs[n] == right.outputs[n] for n in left.names)
    return False


def _of_rows(relation: Relation, rows: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Relation:
    """Return rows of the dataset as a relation shows them."""
    if isinstance(relation, Stored):
        return Stored(relation.table, rows)
    if isinstance(relation, Projected) and isinstance(relation.base, Stored):
        return Projected(_of_rows(relation.base, rows), relation.outputs)
    raise QueryError(
        "these rows cannot be combined: put the set operation into a query of its own", kind="unsupported"
    )
