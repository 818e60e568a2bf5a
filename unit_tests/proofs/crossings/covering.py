"""Rows of levels in which every two levels of two factors meet that can, and rows drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

Row = dict[str, str]
"""Factor -> level."""
Pair = tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True)
class Rule:
    """What levels of some factors must fulfil together."""

    factors: tuple[str, ...]
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Space:
    """Factors with their levels, and what rules out some of their combinations."""

    factors: Mapping[str, tuple[str, ...]]
    rules: Sequence[Rule]
    dear: frozenset[str] = frozenset()
    """Levels that take long: no more of them than pairs need."""

    def allows(self, row: Row, new: str) -> bool:
        """Whether a part of a row breaks no rule that its newest factor has a part in."""
        for rule in self._rules_of[new]:
            levels = [row.get(name) for name in rule.factors]
            if None not in levels and not rule.holds(*levels):
                return False
        return True

    @cached_property
    def _rules_of(self) -> dict[str, list[Rule]]:
        return {name: [rule for rule in self.rules if name in rule.factors] for name in self.factors}

    def complete(self, part: Row, order: Callable[[Row, str], Sequence[str]]) -> Row | None:
        """Return a whole row with these levels, others in this order of preference; None if there is none."""
        name = next((name for name in self.factors if name not in part), None)
        if name is None:
            return part
        for level in order(part, name):
            longer = {**part, name: level}
            if self.allows(longer, name) and (row := self.complete(longer, order)) is not None:
                return row
        return None

    def begin(self, pair: Pair) -> Row | None:
        """Return the part of a row that a pair is, if it breaks no rule by itself."""
        part = dict(pair)
        return part if all(self.allows(part, name) for name in part) else None

    def pairs(self) -> Iterator[Pair]:
        """Yield all pairs of levels of two factors, possible or not."""
        for one, other in combinations(self.factors, 2):
            for level in self.factors[one]:
                yield from (((one, level), (other, second)) for second in self.factors[other])

    def cover(self, seed: int) -> tuple[list[Row], set[Pair]]:
        """Return rows that have all possible pairs, and these pairs."""
        rng = random.Random(seed)
        missing = dict.fromkeys(rng.sample(found := list(self.pairs()), len(found)))
        rows: list[Row] = []
        covered: set[Pair] = set()

        position = {name: number for number, name in enumerate(self.factors)}

        def order(part: Row, name: str) -> list[str]:
            before = [known for known in part.items() if position[known[0]] < position[name]]
            after = [known for known in part.items() if position[known[0]] > position[name]]

            def gain(level: str) -> tuple[int, float]:
                new = (name, level)
                found = sum((known, new) in missing for known in before)
                found += sum((new, known) in missing for known in after)
                return found, 0 if level in self.dear else rng.random()

            return sorted(self.factors[name], key=gain, reverse=True)

        while missing:
            pair = next(iter(missing))
            part = self.begin(pair)
            row = None if part is None else self.complete(part, order)
            if row is None:
                del missing[pair]
                continue
            rows.append(row)
            new = pairs_of(self, row)
            covered |= new
            for one in new:
                missing.pop(one, None)
        return rows, covered

    def draw(self, seed: int) -> Row:
        """Return a row by chance."""
        rng = random.Random(seed)
        first = rng.choice(list(self.factors))
        for level in rng.sample(self.factors[first], len(self.factors[first])):
            row = self.complete(
                {first: level}, lambda _, name: rng.sample(self.factors[name], len(self.factors[name]))
            )
            if row is not None:
                return {name: row[name] for name in self.factors}
        raise ValueError("the rules allow no row")


def pairs_of(space: Space, row: Row) -> set[Pair]:
    """Return the pairs that meet in a row."""
    return set(combinations([(name, row[name]) for name in space.factors], 2))
