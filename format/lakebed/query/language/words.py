"""A place in the words of a query, which a parser moves forward."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from lakebed.errors import QuerySyntaxError
from lakebed.query.language import syntax
from lakebed.query.language.errors import syntax_error
from lakebed.query.language.hints import advice
from lakebed.query.language.lexer import Token, tokens

_LONGEST = 20
"""Of a word that may have been meant as one of the language."""

MAX_DEPTH = 100
"""How deep expressions and queries may lie in each other."""


class Words:
    """The words of a query and which is next.

    Parameters
    ----------
    text
        The query.
    depth
        How deep expressions and queries may lie in each other.
    """

    def __init__(self, text: str, depth: int = MAX_DEPTH) -> None:
        self.text = text
        self.words = tokens(text)
        self.next = 0
        self.depth = 0
        self.limit = depth
        self.parameters = 0
        self.named: dict[str, int] = {}
        # Set by the parser of statements: expressions hold queries.
        self.parse_query: Callable[[], syntax.Query] | None = None

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def word(self) -> Token:
        """The next word."""
        return self.words[self.next]

    def ahead(self, count: int) -> Token:
        """Return a word further on; the last one beyond the end."""
        return self.words[min(self.next + count, len(self.words) - 1)]

    def keyword(self) -> str:
        """Return the next word in lower case if it is a name without quotes, else the empty text."""
        return keyword_of(self.word)

    def is_keyword(self, *names: str) -> bool:
        """Whether the next word is one of these."""
        return self.keyword() in names and self.keyword() != ""

    def is_operator(self, *operators: str) -> bool:
        """Whether the next word is one of these operators."""
        return self.word.kind == "operator" and self.word.text in operators

    # -- moving ----------------------------------------------------------------------------------------------------

    def take(self) -> Token:
        """Return the next word and move behind it."""
        word = self.word
        if word.kind != "end":
            self.next += 1
        return word

    def take_keyword(self, name: str) -> bool:
        """Move behind the next word if it is this one; tell whether."""
        if not self.is_keyword(name):
            return False
        self.next += 1
        return True

    def take_operator(self, operator: str) -> bool:
        """Move behind the next word if it is this operator; tell whether."""
        if not self.is_operator(operator):
            return False
        self.next += 1
        return True

    def expect_keyword(self, name: str) -> Token:
        """Move behind this word.

        Raises
        ------
        QuerySyntaxError
            If another one is next.
        """
        if not self.is_keyword(name):
            raise self.unexpected(name.upper())
        return self.take()

    def expect_operator(self, operator: str) -> Token:
        """Move behind this operator.

        Raises
        ------
        QuerySyntaxError
            If another word is next.
        """
        if not self.is_operator(operator):
            raise self.unexpected(f"{operator!r}")
        return self.take()

    def expect_name(self, what: str) -> Token:
        """Move behind a name, with or without quotes."""
        if self.word.kind not in ("name", "quoted"):
            raise self.unexpected(what)
        return self.take()

    # -- errors ----------------------------------------------------------------------------------------------------

    def error(self, message: str, at: int | None = None) -> QuerySyntaxError:
        """Return an error at a place; None is the next word."""
        return syntax_error(self.text, self.word.at if at is None else at, message)

    def unexpected(self, wanted: str) -> QuerySyntaxError:
        """Return the error for a word that is not what was wanted."""
        word = self.word
        if word.kind == "end":
            return self.error(f"the query ends where {wanted} is expected")
        hint = advice(self, wanted)
        if not hint and word.kind == "name" and len(word.text) <= _LONGEST:
            found = get_close_matches(word.text.upper(), KEYWORDS, n=1)
            if found and found[0] != word.text.upper():
                hint = f"; did you mean {found[0]}?"
        return self.error(f"{shown(word)} stands where {wanted} is expected{hint}")

    def deeper(self) -> None:
        """Note that one more expression or query lies inside others.

        Raises
        ------
        QuerySyntaxError
            If there are too many.
        """
        self.depth += 1
        if self.depth > self.limit:
            raise self.error(f"more than {self.limit} expressions lie in each other")


KEYWORDS = (
    "SELECT DISTINCT TOP FROM WHERE EXPAND BY OVERLAP GROUP HAVING ACROSS UNGROUP SPLIT ORDER ASC DESC "
    "NULLS FIRST LAST LIMIT OFFSET PERCENT SAMPLE REPLACE SEED ARRANGE UNION INTERSECT EXCEPT ALL WITH AS "
    "JOIN INNER LEFT RIGHT FULL OUTER CROSS NATURAL ON USING AND OR NOT IN IS NULL ISNULL LIKE ILIKE "
    "BETWEEN CASE WHEN THEN ELSE END CAST EXTRACT EXISTS ARRAY TRUE FALSE VERSION DIFF"
).split()

RESERVED = frozenset(
    "select from where group having ungroup expand order limit offset sample arrange union intersect except on using "
    "join inner left right full outer cross natural and or not in is isnull like ilike between case when then else end "
    "as asc desc nulls across overlap with by".split()
)
"""Words that are no name of a table or column unless they stand in double quotes."""


def keyword_of(word: Token) -> str:
    """Return a word in lower case if it is a name without quotes, else the empty text."""
    return word.text.lower() if word.kind == "name" else ""


def shown(word: Token) -> str:
    """Return a word as an error names it."""
    if word.kind == "quoted":
        return f'"{word.text}"'
    if word.kind == "version":
        return f"@{word.text}"
    if word.kind == "parameter":
        return f"${word.text}"
    return f"'{word.text}'"
