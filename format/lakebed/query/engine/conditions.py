"""Conditions and what is found out of them: their parts by cost, what they read, what statistics leave of a table.

Of a condition that only compares columns with values that stand in the query, all of this depends on the readers of its
columns, each of which is of one state of one tensor: it is kept with them for the next time that it is asked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from lakebed.query.binding.bound import Bound
from lakebed.query.engine.plan import conjuncts, reads
from lakebed.query.engine.relation import Relation, Stored
from lakebed.query.language import syntax
from lakebed.query.statistics import pruning

if TYPE_CHECKING:
    from lakebed.query.statistics.known import Aligned
    from lakebed.reading.samples import SampleReader

_MOST = 64
"""Conditions that are kept with one reader, and texts of which it is known whether they can be."""

_LONGEST = 256
"""Names, values and signs of a condition that is kept."""


@dataclass(slots=True)
class Condition:
    """A condition on a relation.

    Attributes
    ----------
    parts
        What must all be true, the cheap ones first.
    read
        The columns that are read -> ``data``, or ``shape`` where shapes are enough.
    asked_of
        The columns whose statistics are of use.
    """

    node: Bound
    parts: list[Bound]
    read: dict[str, str]
    asked_of: list[str]
    _left: tuple[list[Aligned], pruning.Kept | None] | None = None

    @classmethod
    def of(cls, node: Bound) -> Condition:
        """Find out what a condition asks."""
        parts = conjuncts(node)
        asked = {name: None for part in parts for name in pruning.asked_columns(part)}
        return cls(node, parts, reads(*parts), list(asked))

    def left(self, relation: Relation) -> pruning.Kept | None:
        """Return the rows of a relation's table of which it may be true; None if that may be any."""
        columns = pruning.told(relation, self.asked_of)
        if not columns:
            return None
        known = [found for _, found in columns.values()]
        if self._left is not None:
            before, left = self._left
            if len(before) == len(known) and all(map(operator.is_, before, known)):
                return left
        left = pruning.kept(columns, self.parts)
        self._left = known, left
        return left


@dataclass(frozen=True, slots=True)
class _Asked:
    """A condition that was asked of some readers; its syntax is held, so that nothing else gets its identity."""

    syntax: syntax.Expression
    readers: tuple[tuple[str, ref[SampleReader], bool], ...]
    condition: Condition


_kept: WeakKeyDictionary[SampleReader, dict[int, _Asked]] = WeakKeyDictionary()
_columns: dict[int, tuple[syntax.Expression, tuple[str, ...]]] = {}


def asked_before(
    relation: Relation, node: syntax.Expression, bind: Callable[[syntax.Expression], Bound]
) -> Condition:
    """Return a condition on a relation, as it was found out before where it is the same.

    Parameters
    ----------
    relation
        What a query asks, alone and under its own names.
    node
        The condition as it was read; the same object where a text is asked again.
    bind
        Binds it.
    """
    names = _plain_columns(node) if isinstance(relation, Stored) else ()
    if not names or not isinstance(relation, Stored) or not all(name in relation.infos for name in names):
        return Condition.of(bind(node))
    scans = [relation.column(name).scan for name in names]
    kept = _kept.setdefault(scans[0].reader, {})
    asked = kept.get(id(node))
    if (
        asked is not None
        and asked.syntax is node
        and all(
            before() is scan.reader and had_nulls == scan.has_nulls
            for (_, before, had_nulls), scan in zip(asked.readers, scans, strict=True)
        )
    ):
        return asked.condition
    made = Condition.of(bind(node))
    if len(kept) >= _MOST:
        kept.clear()
    readers = tuple((n, ref(s.reader), s.has_nulls) for n, s in zip(names, scans, strict=True))
    kept[id(node)] = _Asked(node, readers, made)
    return made


def _plain_columns(node: syntax.Expression) -> tuple[str, ...]:
    """Return the columns of a condition that only compares them with values in the query; nothing of any other.

    Functions may be registered anew, and tell the time; parameters and inner queries are others the next time.
    """
    known = _columns.get(id(node))
    if known is None:
        names = _compared(node)
        if len(_columns) >= _MOST:
            _columns.clear()
        known = _columns[id(node)] = node, names
    return known[1]


def _compared(node: syntax.Expression) -> tuple[str, ...]:
    names: dict[str, None] = {}
    left: list[syntax.Expression] = [node]
    for _ in range(_LONGEST):
        if not left:
            return tuple(names)
        part = left.pop()
        if isinstance(part, syntax.Name) and part.table is None:
            names[part.column] = None
        elif isinstance(part, syntax.Unary | syntax.IsNull):
            left.append(part.operand)
        elif isinstance(part, syntax.Binary):
            left += (part.left, part.right)
        elif isinstance(part, syntax.Logical):
            left += part.operands
        elif isinstance(part, syntax.Between):
            left += (part.operand, part.low, part.high)
        elif isinstance(part, syntax.In) and part.query is None:
            left += (part.operand, *part.items)
        elif not isinstance(part, syntax.Literal):
            return ()
    return ()
