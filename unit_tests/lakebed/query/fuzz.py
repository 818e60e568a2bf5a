"""Texts that may be queries, by the million: only errors of queries may come of them, and soon.

``python -m unit_tests.lakebed.query.fuzz COUNT [SEED]`` tries them in one process and says how many it tried.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import lakebed
from lakebed.errors import QueryError
from lakebed.query.engine.execution import Execution
from lakebed.query.engine.sources import Sources
from lakebed.query.functions import registry
from lakebed.query.language import syntax
from lakebed.query.language.lexer import OPERATORS, tokens
from lakebed.query.language.parser import parse_expression, parse_uncached
from lakebed.query.language.token_stream import KEYWORDS
from lakebed.query.values.limits import Limits, Watch
from unit_tests.lakebed.query.cases import cases, query_of

SLOW = 2.0
"""Seconds of CPU that one text may take; what a busy machine adds is in it."""

_ODD = [
    "\0", "é", "\u202e", "\ud800", "😀", "İ", "ß", "\u00a0", "\u0660", "²", "Ⅷ", "\r", "\x85", "'", "''", '"',
    "\\", "#", "--", ";", "@", "@main", "@~^", "{", "}", "|", "!", "&", "$", "`", "_x", "0x10", "1e", "1e999", "-1e999",
    "08", "077", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616",
    "1" * 30, ".5", "5.",
    "1.5e-400", "0.1e+3", "?", "...", "::", "[]", "()", "ARRAY[]", "[[1], 2]", "[1, 'a']", "null", "true", "x" * 300,
]  # fmt: skip


class Texts:
    """A source of texts, the same for the same seed: the corpus changed, words in any order, and odd things."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.whole = [query_of(case) for case in cases()]
        self.parts = [parts for text in self.whole if (parts := words_of(text))]
        known = Counter(word.strip() for parts in self.parts for word in parts)
        names = sorted({*registry.FUNCTIONS, *registry.SPECIAL})
        self.known = sorted(known)
        self.words = [*self.known, *KEYWORDS, *names, *OPERATORS, *_ODD]

    def text(self) -> str:
        """Return the next one."""
        kind = self.chance.randrange(10)
        if kind < 6:
            return self._changed()
        if kind < 8:
            return self._soup()
        if kind == 8:
            return self._crossed()
        return self._odd()

    def _changed(self) -> str:
        parts = list(self.chance.choice(self.parts))
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            at = self.chance.randrange(len(parts)) if parts else 0
            kind = self.chance.randrange(6)
            if kind == 0 and parts:
                del parts[at]
            elif kind == 1:
                parts.insert(at, f" {self.chance.choice(self.words)} ")
            elif kind == 2 and parts:
                parts[at] = f" {self.chance.choice(self.known)} "
            elif kind == 3 and parts:
                parts[at] = f" {self.chance.choice(self.words)} "
            elif kind == 4 and parts:
                other = self.chance.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            elif parts:
                parts[at] = self._scratched(parts[at])
        return "".join(parts)

    def _scratched(self, word: str) -> str:
        at = self.chance.randrange(len(word) + 1)
        piece = self.chance.choice(_ODD) if self.chance.randrange(2) else chr(self.chance.randrange(1, 0x250))
        return word[:at] + piece + word[at + self.chance.randrange(2) :]

    def _soup(self) -> str:
        count = self.chance.randrange(1, 14)
        head = self.chance.choice(("", "SELECT ", "SELECT * WHERE ", "SELECT rid, i FROM ", "WITH a AS ("))
        return head + " ".join(self.chance.choices(self.words, k=count))

    def _crossed(self) -> str:
        """Begin as one query and end as another."""
        first, second = self.chance.choice(self.parts), self.chance.choice(self.parts)
        return "".join(
            first[: self.chance.randrange(len(first) + 1)] + second[self.chance.randrange(len(second) + 1) :]
        )

    def _odd(self) -> str:
        """Nest deeply, repeat, or put many characters where few are."""
        text = self.chance.choice(self.whole)
        at = self.chance.randrange(len(text) + 1)
        piece = self.chance.choice(
            (
                "(",
                "[",
                "-",
                "NOT ",
                "CASE WHEN ",
                "i + ",
                "i[0]",
                "(SELECT ",
                "a.",
                "'",
                ",",
                " AND i > 1",
                "1",
                "x ",
            )
        )
        return text[:at] + piece * self.chance.choice((2, 3, 20, 150)) + text[at:]


def words_of(text: str) -> list[str]:
    """Return a text in pieces, a word of the language each, with the space behind it."""
    try:
        starts = [token.at for token in tokens(text)]
    except QueryError:
        return []
    return [text[a:b] for a, b in pairwise([0, *starts[1:]])]


def sources(made: dict[str, Any]) -> Sources:
    """Return the data sets of the corpus for queries; one is asked where there is no FROM."""
    tables = {f"mem://tql-{name}": ds._table() for name, ds in made.items()}

    def opened(path: str, version: str | None) -> Any:
        del version
        if path not in tables:
            raise lakebed.errors.DatasetHandlerError(f"there is no dataset {path!r}")
        return tables[path]

    def differing(table: Any, first: str, second: str) -> Any:
        raise lakebed.errors.CheckoutError(f"{table.names} has no versions {first} and {second}")

    return Sources(tables["mem://tql-scalars"], opened, differing)


def bound(text: str, given: Sources) -> bool:
    """Read a text and find its names; tell whether it is a query that fits the data.

    Raises
    ------
    Exception
        What should have been a QueryError.
    """
    try:
        query: syntax.Query = parse_uncached(text)
        watch = Watch(Limits(seconds=60.0, memory=1 << 26))
        Execution(text, given, [1] * query.parameters, watch, is_dry=True).run(query)
    except QueryError as error:
        if not str(error):
            raise AssertionError("an error without a message") from error
        return False
    return True


def answered(text: str, given: Sources) -> bool:
    """Answer a text, and read all that comes of it; tell whether it is a query that fits the data.

    Raises
    ------
    Exception
        What should have been a QueryError.
    """
    try:
        query: syntax.Query = parse_uncached(text)
        watch = Watch(Limits(seconds=60.0, memory=1 << 26))
        found = Execution(text, given, [1] * query.parameters, watch).run(query)
        for name in found.names:
            for window in found.windows([name]):
                found.read(name, window)
    except QueryError as error:
        if not str(error):
            raise AssertionError("an error without a message") from error
        return False
    return True


def read(text: str) -> bool:
    """Read a text as a query, and as an expression; tell whether it is one of them."""
    found = False
    for way in (parse_uncached, parse_expression):
        try:
            way(text)
            found = True
        except QueryError as error:
            if not str(error):
                raise AssertionError("an error without a message") from error
    return found


def tried(
    texts: Texts, count: int, way: Callable[[str], bool], seen: Callable[[int], None] = lambda n: None
) -> tuple[int, float]:
    """Try texts; return how many were accepted, and the CPU seconds of the slowest.

    Raises
    ------
    AssertionError
        If anything but an error of queries comes out, or one takes too long; the text is in it.
    """
    accepted, slowest = 0, 0.0
    for number in range(count):
        text = texts.text()
        began = time.thread_time()
        try:
            accepted += way(text)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}: {text!r}") from error
        took = time.thread_time() - began
        if took > slowest:
            slowest = took
            assert took < SLOW, f"{took:.1f} s: {text!r}"
        seen(number)
    return accepted, slowest


def main(count: int, seed: int) -> None:
    """Try so many texts: of fifty, forty are read, nine are bound to data as well, and one is answered."""
    import resource

    from unit_tests.lakebed.query import adapter

    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    given = sources(adapter.load())
    gc.freeze()
    texts = Texts(seed)
    step = 50_000
    began = time.process_time()
    done = found = 0
    slowest = 0.0
    failures: Counter[str] = Counter()
    while done < count:
        ways: list[tuple[Callable[[str], bool], int]] = [
            (read, step * 40 // 50),
            (lambda text: bound(text, given), step * 9 // 50),
            (lambda text: answered(text, given), step // 50),
        ]
        for way, share in ways:
            left = share
            while left:
                tally = [0]

                def seen(number: int, tally: list[int] = tally) -> None:
                    tally[0] = number + 1

                try:
                    accepted, slow = tried(texts, left, way, seen)
                    found, slowest = found + accepted, max(slowest, slow)
                    left = 0
                except AssertionError as error:
                    left -= tally[0] + 1
                    key = str(error)[:120]
                    if not failures[key]:
                        print(f"FAILED {str(error)[:600]}", flush=True)  # noqa: T201
                    failures[key] += 1
        done += step
        print(  # noqa: T201
            f"{done:,} texts, {found:,} accepted, {sum(failures.values())} failures, slowest {slowest:.3f} s, "
            f"{(time.process_time() - began) / done * 1e6:.0f} us each, "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB",
            flush=True,
        )
    if failures:
        raise SystemExit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
