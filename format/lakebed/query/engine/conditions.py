"""Analysis of conditions: their parts by cost, the columns that they read, and the rows that statistics rule out.

If a condition only compares columns with values in the query, its analysis depends on nothing but the readers of these
columns. So the analysis is kept with the readers, and the next query with the same text reuses it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from weakref import WeakKeyDictionary, ref

from lakebed.query.language import syntax
from lakebed.query.relations.bound import Bound, Logic, cost, inputs, values_read
from lakebed.query.relations.relation import Relation, Stored
from lakebed.query.statistics import pruning
from lakebed.query.statistics.known import Aligned
from lakebed.reading.samples import SampleReader

_MOST = 64
"""Maximum number of conditions kept with one reader, and of query texts whose columns are kept."""

_LONGEST = 256
"""Maximum number of names, values and operators in a condition that is kept."""


@dataclass(slots=True)
class Condition:
    """A condition on a relation.

    Attributes
    ----------
    parts
        Conditions that must all be true, cheap ones first.
    read
        Columns that the condition reads -> ``data``, or ``shape`` if it needs only the shapes of samples.
    asked_of
        Columns whose statistics can rule out rows.
    """

    node: Bound
    parts: list[Bound]
    read: dict[str, str]
    asked_of: list[str]
    _left: tuple[list[Aligned], pruning.Kept | None] | None = None

    @classmethod
    def of(cls, node: Bound) -> Condition:
        """Analyse a condition."""
        parts = list(_conjuncts(node))
        if len(parts) > 1:
            parts.sort(key=cost)
        data = {name for part in parts for name in values_read(part)}
        read = {name: "data" if name in data else "shape" for part in parts for name in inputs(part)}
        asked = dict.fromkeys(name for part in parts for name in pruning.asked_columns(part))
        return cls(node, parts, read, list(asked))

    def left(self, relation: Relation) -> pruning.Kept | None:
        """Return the rows of a relation's table for which the condition may be true; None for all rows."""
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


def _conjuncts(node: Bound) -> Iterator[Bound]:
    if isinstance(node, Logic) and node.operator == "and":
        for operand in node.operands:
            yield from _conjuncts(operand)
    else:
        yield node


@dataclass(frozen=True, slots=True)
class _Asked:
    """A kept analysis; its reference to the condition's syntax keeps other objects from getting the same ``id``."""

    syntax: syntax.Expression
    readers: tuple[tuple[ref[SampleReader], bool], ...]
    condition: Condition


_kept: WeakKeyDictionary[SampleReader, dict[int, _Asked]] = WeakKeyDictionary()
_columns: dict[int, tuple[syntax.Expression, tuple[str, ...]]] = {}


def asked_before(
    relation: Relation, node: syntax.Expression, bind: Callable[[syntax.Expression], Bound]
) -> Condition:
    """Return the analysis of a condition on a relation; reuse a kept one.

    Parameters
    ----------
    relation
        The only relation that the query reads; the query does not rename its columns.
    node
        Syntax of the condition. Parsing the same text again returns the same object.
    bind
        Function that binds the condition.
    """
    names = _plain_columns(node) if isinstance(relation, Stored) else ()
    if not names or not isinstance(relation, Stored) or not all(name in relation.infos for name in names):
        return Condition.of(bind(node))
    scans = [relation.column(name).scan for name in names]
    kept = _kept.setdefault(scans[0].reader, {})
    asked = kept.get(id(node))
    if asked is not None and asked.syntax is node:
        pairs = zip(asked.readers, scans, strict=True)
        if all(
            reader() is scan.reader and had_nulls == scan.has_nulls for (reader, had_nulls), scan in pairs
        ):
            return asked.condition
    made = Condition.of(bind(node))
    if len(kept) >= _MOST:
        kept.clear()
    kept[id(node)] = _Asked(node, tuple((ref(scan.reader), scan.has_nulls) for scan in scans), made)
    return made


def _plain_columns(node: syntax.Expression) -> tuple[str, ...]:
    """Return the columns of a condition that only compares columns with values in the query; () for other conditions.

    The results of functions, parameters and inner queries may change from query to query, so conditions with them are
    not kept.
    """
    known = _columns.get(id(node))
    if known is None:
        if len(_columns) >= _MOST:
            _columns.clear()
        known = _columns[id(node)] = node, _compared(node)
    return known[1]


def _compared(node: syntax.Expression) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for number, part in enumerate(syntax.parts(node)):
        if isinstance(part, syntax.Name) and part.table is None:
            names[part.column] = None
        elif not isinstance(part, _PLAIN) or number == _LONGEST:
            return ()
    return tuple(names)


_PLAIN = (
    syntax.Literal
    | syntax.Unary
    | syntax.IsNull
    | syntax.Binary
    | syntax.Logical
    | syntax.Between
    | syntax.In
)
"""Syntax of plain comparisons; they contain no queries, as IN (SELECT ...) does."""
