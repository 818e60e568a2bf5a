"""Rows of levels in which every two levels of two factors meet that can, and rows drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
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
        for factors, holds in self._rules_of[new]:
            levels = tuple(map(row.get, factors))
            if None not in levels and not holds(*levels):
                return False
        return True

    @cached_property
    def _rules_of(self) -> dict[str, list[tuple[tuple[str, ...], Callable[..., bool]]]]:
        known = [(rule.factors, cache(rule.holds)) for rule in self.rules]
        return {name: [rule for rule in known if name in rule[0]] for name in self.factors}

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
        # A bit for each level of each factor, and what it has not met, as such bits.
        levels = [(name, level) for name, levels in self.factors.items() for level in levels]
        bits = {one: 1 << number for number, one in enumerate(levels)}
        partners = dict.fromkeys(levels, 0)
        for one, other in missing:
            partners[one] |= bits[other]
            partners[other] |= bits[one]
        rows: list[Row] = []
        covered: set[Pair] = set()

        def order(part: Row, name: str) -> list[str]:
            there = sum(map(bits.__getitem__, part.items()))

            def gain(level: str) -> tuple[int, float]:
                found = (there & partners[name, level]).bit_count()
                return found, 0 if level in self.dear else rng.random()

            return sorted(self.factors[name], key=gain, reverse=True)

        while missing:
            pair = next(iter(missing))
            part = self.begin(pair)
            row = None if part is None else self.complete(part, order)
            new = {pair}
            if row is not None:
                rows.append(row)
                new = pairs_of(self, row)
                covered |= new
            for one, other in new & missing.keys():
                del missing[one, other]
                partners[one] ^= bits[other]
                partners[other] ^= bits[one]
        return rows, covered

    def cover_levels(self, seed: int) -> list[Row]:
        """Return rows that have each possible level of each factor, far fewer than those that have all pairs."""
        rng = random.Random(seed)
        missing = {(name, level) for name, levels in self.factors.items() for level in levels}
        rows = []

        def order(_: Row, name: str) -> list[str]:
            drawn = rng.sample(self.factors[name], len(self.factors[name]))
            return sorted(drawn, key=lambda level: (name, level) not in missing)

        for name, levels in self.factors.items():
            for level in levels:
                if (name, level) in missing and (row := self.complete({name: level}, order)) is not None:
                    rows.append(row)
                    missing.difference_update(row.items())
        return rows

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
