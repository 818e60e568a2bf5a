"""Parser of statements, from WITH to SAMPLE BY; `expressions` reads their expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from lakebed.query.language import syntax
from lakebed.query.language.expressions import expression, expressions, subscripts
from lakebed.query.language.token_stream import RESERVED, TokenStream

_KEPT = 4096
"""Maximum length of texts whose syntax is kept for later queries; some longer texts have millions of tokens."""

_JOINS = {
    "join": "inner", "inner": "inner", "left": "left", "right": "right", "full": "full", "outer": "full",
    "cross": "cross", "natural": "natural",
}  # fmt: skip
"""First word of a join -> its kind."""


def parse(text: str) -> syntax.Query:
    """Parse a query.

    Parameters
    ----------
    text
        One statement; a semicolon may end it.

    Raises
    ------
    QuerySyntaxError
        If the text is not a query; the message shows the position of the problem.
    """
    return _parse_kept(text) if len(text) <= _KEPT else parse_uncached(text)


def parse_uncached(text: str) -> syntax.Query:
    """Parse a query without keeping its syntax; see :func:`parse`."""
    tokens = _words(text)
    query = _query(tokens)
    tokens.take_operator(";")
    if tokens.token.kind != "end":
        if tokens.tokens[tokens.next - 1].text == ";":
            raise tokens.error("a call runs one query, but text follows the semicolon")
        raise tokens.unexpected("the end of the query")
    return replace(query, parameters=tokens.parameters, named=tuple(tokens.named.items()))


_parse_kept = lru_cache(maxsize=256)(parse_uncached)


def parse_expression(text: str) -> syntax.Expression:
    """Parse an expression.

    Raises
    ------
    QuerySyntaxError
        If the text is not an expression.
    """
    tokens = _words(text)
    found = expression(tokens)
    if tokens.token.kind != "end":
        raise tokens.unexpected("the end of the expression")
    return found


def _words(text: str) -> TokenStream:
    tokens = TokenStream(text)
    tokens.parse_query = lambda: _query(tokens)
    return tokens


# -- queries -------------------------------------------------------------------------------------------------------


def _query(tokens: TokenStream) -> syntax.Query:
    tokens.deeper()
    depth, at = tokens.depth, tokens.token.at
    tables = tokens.separated(_common_table) if tokens.take_keyword("with") else ()
    body = _combined(tokens)
    order = tokens.separated(_key) if _takes(tokens, "order") else ()
    arrange = expressions(tokens) if _takes(tokens, "arrange") else ()
    limit = _limit(tokens)
    sample = _sample(tokens)
    tokens.depth = depth - 1
    return syntax.Query(body, tables, order, arrange, limit, sample, at)


def _takes(tokens: TokenStream, keyword: str) -> bool:
    """Move past a keyword and BY if they are next, and return whether they are."""
    if not tokens.take_keyword(keyword):
        return False
    tokens.expect_keyword("by")
    return True


def _common_table(tokens: TokenStream) -> tuple[str, syntax.Query]:
    name = tokens.expect_name("a name for the query")
    tokens.expect_keyword("as")
    return name.text, tokens.bracketed(_query)


_Body = syntax.Select | syntax.Combined | syntax.Query


def _combined(tokens: TokenStream) -> _Body:
    """Read queries joined by UNION and EXCEPT, from left to right; INTERSECT binds more strongly."""
    return _chain(tokens, ("union", "except"), lambda tokens: _chain(tokens, ("intersect",), _term))


def _chain(tokens: TokenStream, operators: tuple[str, ...], read: Callable[[TokenStream], _Body]) -> _Body:
    left = read(tokens)
    while tokens.is_keyword(*operators):
        tokens.deeper()
        token = tokens.take()
        keeps_all = tokens.take_keyword("all")
        if not keeps_all:
            tokens.take_keyword("distinct")
        left = syntax.Combined(token.text.lower(), keeps_all, left, read(tokens), token.at)
    return left


def _term(tokens: TokenStream) -> _Body:
    return tokens.bracketed(_query) if tokens.is_operator("(") else _select(tokens)


def _select(tokens: TokenStream) -> syntax.Select:
    at = tokens.expect_keyword("select").at
    top = _top(tokens)
    distinct = tokens.take_keyword("distinct")
    distinct_on: tuple[syntax.Expression, ...] = ()
    if distinct and tokens.take_keyword("on"):
        distinct_on = tokens.bracketed(expressions)
    elif not distinct and tokens.ahead(1).text != "(":  # ALL(...) is the function
        tokens.take_keyword("all")
    if top is None:
        top = _top(tokens)
    items = tokens.separated(_item)
    source = _sources(tokens) if tokens.take_keyword("from") else None
    where = expression(tokens) if tokens.take_keyword("where") else None
    expand = _expand(tokens)
    group: tuple[syntax.Expression, ...] = ()
    having = None
    if _takes(tokens, "group"):
        group = expressions(tokens)
        having = expression(tokens) if tokens.take_keyword("having") else None
        if tokens.take_keyword("across"):
            if not tokens.is_keyword("time", "space"):
                raise tokens.unexpected("TIME or SPACE")
            tokens.take()
    elif tokens.is_keyword("having"):
        raise tokens.error("HAVING follows GROUP BY; without it, say WHERE")
    if tokens.is_keyword("where"):
        raise tokens.error("WHERE comes before GROUP BY; to choose among groups, say HAVING")
    ungroup = _ungroup(tokens)
    return syntax.Select(items, source, where, expand, group, having, ungroup, distinct, distinct_on, top, at)


def _top(tokens: TokenStream) -> int | None:
    if not tokens.is_keyword("top") or tokens.ahead(1).kind != "integer":
        return None
    tokens.take()
    return _whole(tokens)


def _item(tokens: TokenStream) -> syntax.Item:
    token = tokens.token
    if tokens.take_operator("*"):
        items = subscripts(tokens) if tokens.take_operator("[") else ()
        return syntax.Item(None, None, None, items, token.at)
    is_all = (
        tokens.ahead(1).text == "." and tokens.ahead(2).text == "*" and tokens.ahead(2).kind == "operator"
    )
    if token.kind in ("name", "quoted") and is_all:
        tokens.next += 3
        return syntax.Item(None, None, token.text, (), token.at)
    found = expression(tokens)
    return syntax.Item(found, _alias(tokens), None, (), token.at)


def _alias(tokens: TokenStream) -> str | None:
    """Read the alias of an item or source, with or without AS."""
    if tokens.take_keyword("as"):
        return tokens.expect_name("a name").text
    token = tokens.token
    if token.kind == "quoted" or (token.kind == "name" and token.text.lower() not in RESERVED):
        return tokens.take().text
    return None


def _expand(tokens: TokenStream) -> syntax.Expand | None:
    at = tokens.token.at
    if not _takes(tokens, "expand"):
        return None
    before = _whole(tokens)
    after = _whole(tokens) if tokens.take_operator(",") or tokens.token.kind == "integer" else before
    keeps = tokens.take_keyword("overlap") and tokens.take_flag()
    alias = tokens.expect_name("a name").text if tokens.take_keyword("as") else None
    return syntax.Expand(before, after, keeps, alias, at)


def _whole(tokens: TokenStream) -> int:
    if tokens.token.kind != "integer":
        raise tokens.unexpected("a number of rows")
    return int(tokens.take().value or 0)


def _ungroup(tokens: TokenStream) -> syntax.Ungroup | None:
    at = tokens.token.at
    if not _takes(tokens, "ungroup"):
        return None
    return syntax.Ungroup(None if tokens.take_keyword("split") else expression(tokens), at)


# -- order, limit and sample -----------------------------------------------------------------------------------------


def _key(tokens: TokenStream) -> syntax.Order:
    found = expression(tokens)
    descending = tokens.take_keyword("desc")
    if not descending:
        tokens.take_keyword("asc")
    nulls = ""
    if tokens.take_keyword("nulls"):
        if not tokens.is_keyword("first", "last"):
            raise tokens.unexpected("FIRST or LAST")
        nulls = tokens.take().text.lower()
    return syntax.Order(found, descending, nulls)


def _limit(tokens: TokenStream) -> syntax.Limit | None:
    """Read LIMIT and OFFSET, in either order."""
    if not tokens.is_keyword("limit", "offset"):
        return None
    at = tokens.token.at
    count = offset = None
    percent = False
    first = tokens.keyword()
    for clause in (first, "offset" if first == "limit" else "limit"):
        if not tokens.take_keyword(clause):
            continue
        if clause == "offset":
            offset = expression(tokens)
        elif not tokens.take_keyword("all"):
            count = expression(tokens)
            percent = tokens.take_keyword("percent")
    return syntax.Limit(count, percent, offset, at)


def _sample(tokens: TokenStream) -> syntax.Sample | None:
    at = tokens.token.at
    if not _takes(tokens, "sample"):
        return None
    weight = expression(tokens)
    repeats, percent = True, False
    seed = count = None
    while True:
        if tokens.take_keyword("replace"):
            repeats = tokens.take_flag()
        elif tokens.take_keyword("seed"):
            seed = expression(tokens)
        elif tokens.take_keyword("limit"):
            count = expression(tokens)
            percent = tokens.take_keyword("percent")
        else:
            return syntax.Sample(weight, repeats, seed, count, percent, at)


# -- sources ---------------------------------------------------------------------------------------------------------


def _sources(tokens: TokenStream) -> syntax.Source:
    left = _joined(tokens)
    while tokens.is_operator(","):
        tokens.deeper()
        at = tokens.take().at
        left = syntax.Join("zip", left, _joined(tokens), None, (), at)
    return left


def _joined(tokens: TokenStream) -> syntax.Source:
    left = _table(tokens)
    while tokens.is_keyword(*_JOINS):
        tokens.deeper()
        token = tokens.take()
        first = token.text.lower()
        kind = _JOINS[first]
        if first in ("left", "right", "full"):
            tokens.take_keyword("outer")
        if first != "join":
            tokens.expect_keyword("join")
        right = _table(tokens)
        condition = None
        using: tuple[str, ...] = ()
        if tokens.take_keyword("on"):
            condition = expression(tokens)
        elif tokens.take_keyword("using"):
            using = tokens.bracketed(_names)
        elif kind != "cross" and kind != "natural":
            raise tokens.unexpected("ON or USING")
        left = syntax.Join(kind, left, right, condition, using, token.at)
    return left


def _names(tokens: TokenStream) -> tuple[str, ...]:
    return tokens.separated(lambda tokens: tokens.expect_name("a column").text)


def _table(tokens: TokenStream) -> syntax.Source:
    token = tokens.token
    if tokens.is_operator("("):
        found = tokens.bracketed(_inside)
        return syntax.Derived(found, _alias(tokens), token.at) if isinstance(found, syntax.Query) else found
    if tokens.is_keyword("diff") and tokens.ahead(1).text == "(":
        return _difference(tokens)
    if token.kind == "name" and token.text.lower() in RESERVED:
        raise tokens.unexpected("a dataset")
    name = tokens.expect_name('a dataset: "path/to/it" in double quotes')
    path = name.text
    while name.kind == "name" and tokens.is_operator(".") and tokens.ahead(1).kind in ("name", "quoted"):
        tokens.take()
        path += "." + tokens.take().text
    version = None
    if tokens.token.kind == "version":
        version = tokens.take().text
    elif tokens.is_keyword("version") and tokens.ahead(1).kind == "string":
        tokens.take()
        version = tokens.take().text
    return syntax.Path(path, version, _alias(tokens), name.kind == "quoted", token.at)


def _inside(tokens: TokenStream) -> syntax.Query | syntax.Source:
    """Read the query or sources in brackets."""
    is_query = tokens.is_keyword("select", "with") or tokens.is_operator("(")
    return _query(tokens) if is_query else _sources(tokens)


def _difference(tokens: TokenStream) -> syntax.Source:
    at = tokens.take().at
    tokens.expect_operator("(")
    path = None
    if tokens.token.kind == "quoted":
        path = tokens.take().text
        tokens.expect_operator(",")
    first = _reference(tokens)
    tokens.expect_operator(",")
    second = _reference(tokens)
    tokens.expect_operator(")")
    return syntax.Difference(path, first, second, _alias(tokens), at)


def _reference(tokens: TokenStream) -> str:
    if tokens.token.kind != "string":
        raise tokens.unexpected("a branch, commit or tag in single quotes")
    return tokens.take().text
