"""Stream of the tokens of a query, with the current position of the parser."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TypeVar

from lakebed.errors import QuerySyntaxError
from lakebed.query.language import syntax
from lakebed.query.language.errors import syntax_error
from lakebed.query.language.hints import advice
from lakebed.query.language.lexer import Token, tokens

_T = TypeVar("_T")

_LONGEST = 20
"""Maximum length of words that can be keywords."""

MAX_DEPTH = 100
"""Maximum nesting depth of expressions and queries."""


class TokenStream:
    """The tokens of a query and the index of the next token.

    Parameters
    ----------
    text
        The query.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.next = 0
        self.depth = 0
        self.parameters = 0
        self.named: dict[str, int] = {}
        # The parser of statements sets this function; the parser of expressions calls it for subqueries.
        self.parse_query: Callable[[], syntax.Query] | None = None

    # -- looking ---------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.next]

    def ahead(self, count: int) -> Token:
        """Return the token `count` places after the next one; the last token if there are fewer."""
        return self.tokens[min(self.next + count, len(self.tokens) - 1)]

    def keyword(self) -> str:
        """Return the next token in lower case if it is a name without quotes, else an empty text."""
        token = self.tokens[self.next]
        return token.text.lower() if token.kind == "name" else ""

    def is_keyword(self, *names: str) -> bool:
        """Return whether the next token is one of these keywords."""
        token = self.tokens[self.next]
        return token.kind == "name" and token.text.lower() in names

    def is_operator(self, *operators: str) -> bool:
        """Return whether the next token is one of these operators."""
        token = self.tokens[self.next]
        return token.kind == "operator" and token.text in operators

    # -- moving ----------------------------------------------------------------------------------------------------

    def take(self) -> Token:
        """Return the next token and move past it."""
        token = self.token
        if token.kind != "end":
            self.next += 1
        return token

    def take_keyword(self, name: str) -> bool:
        """Move past a keyword if it is next, and return whether it is."""
        found = self.is_keyword(name)
        self.next += found
        return found

    def take_operator(self, operator: str) -> bool:
        """Move past an operator if it is next, and return whether it is."""
        found = self.is_operator(operator)
        self.next += found
        return found

    def expect_keyword(self, name: str) -> Token:
        """Move past a keyword, which must be next."""
        if not self.is_keyword(name):
            raise self.unexpected(name.upper())
        return self.take()

    def expect_operator(self, operator: str) -> Token:
        """Move past an operator, which must be next."""
        if not self.is_operator(operator):
            raise self.unexpected(f"{operator!r}")
        return self.take()

    def expect_name(self, wanted: str) -> Token:
        """Move past a name, with or without quotes, which must be next."""
        if self.token.kind not in ("name", "quoted"):
            raise self.unexpected(wanted)
        return self.take()

    def separated(self, read: Callable[[TokenStream], _T]) -> tuple[_T, ...]:
        """Read one or more items with commas between them."""
        found = [read(self)]
        while self.take_operator(","):
            found.append(read(self))
        return tuple(found)

    def bracketed(self, read: Callable[[TokenStream], _T]) -> _T:
        """Read an item in round brackets."""
        self.expect_operator("(")
        found = read(self)
        self.expect_operator(")")
        return found

    def query(self) -> syntax.Query:
        """Read a subquery in an expression."""
        if self.parse_query is None:
            raise self.error("a query is not allowed here")
        return self.parse_query()

    def take_flag(self) -> bool:
        """Read TRUE or FALSE if one of them is next; return False only if FALSE was read."""
        if self.take_keyword("false"):
            return False
        self.take_keyword("true")
        return True

    # -- errors ----------------------------------------------------------------------------------------------------

    def error(self, message: str, at: int | None = None) -> QuerySyntaxError:
        """Return an error at a position of the text, by default at the next token."""
        return syntax_error(self.text, self.token.at if at is None else at, message)

    def unexpected(self, wanted: str) -> QuerySyntaxError:
        """Return the error for an unexpected token."""
        token = self.token
        if token.kind == "end":
            return self.error(f"the query ends where {wanted} is expected")
        hint = advice(self.tokens, self.next, wanted)
        if not hint and token.kind == "name" and len(token.text) <= _LONGEST:
            found = get_close_matches(token.text.upper(), KEYWORDS, n=1)
            hint = f"did you mean {found[0]}?" if found and found[0] != token.text.upper() else ""
        return self.error(f"{shown(token)} stands where {wanted} is expected{'; ' * bool(hint)}{hint}")

    def deeper(self) -> None:
        """Count one more level of nesting; raise an error if the maximum depth is exceeded."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"expressions are nested deeper than {MAX_DEPTH} levels")


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
"""Words that need double quotes as names of tables and columns."""


def shown(token: Token) -> str:
    """Return a token as errors show it."""
    marks = {"quoted": ('"', '"'), "version": ("@", ""), "parameter": ("$", "")}
    before, after = marks.get(token.kind, ("'", "'"))
    return f"{before}{token.text}{after}"
