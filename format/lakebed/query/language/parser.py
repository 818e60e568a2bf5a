"""Statements: from WITH to SAMPLE BY; expressions are read in `expressions`."""

from __future__ import annotations

from functools import lru_cache

from lakebed.query.language import syntax
from lakebed.query.language.expressions import expression, expressions, subscripts
from lakebed.query.language.words import MAX_DEPTH, RESERVED, Words

_KEPT = 4096
"""Longest text whose query is kept, for the next time that it is asked: some are of millions of words."""

_SETS = ("union", "intersect", "except")
_JOINS = ("join", "inner", "left", "right", "full", "outer", "cross", "natural")


def parse(text: str, *, depth: int = MAX_DEPTH) -> syntax.Query:
    """Read a query.

    Parameters
    ----------
    text
        One statement; a semicolon may end it.
    depth
        How deep expressions and queries may lie in each other.

    Raises
    ------
    QuerySyntaxError
        If it is none; the message points at the place.
    """
    return _parse_kept(text, depth) if len(text) <= _KEPT else parse_anew(text, depth)


@lru_cache(maxsize=256)
def _parse_kept(text: str, depth: int) -> syntax.Query:
    return parse_anew(text, depth)


def parse_anew(text: str, depth: int = MAX_DEPTH) -> syntax.Query:
    """Read a query, and keep nothing of it; see :func:`parse`."""
    words = _words(text, depth)
    query = _query(words)
    words.take_operator(";")
    if words.word.kind != "end":
        if words.words[words.next - 1].text == ";":
            raise words.error("one query at a time: something follows the semicolon")
        raise words.unexpected("the end of the query")
    return syntax.Query(
        query.body, query.tables, query.order, query.arrange, query.limit, query.sample, query.at, words.parameters,
        tuple(words.named.items()),
    )  # fmt: skip


def parse_expression(text: str, *, depth: int = MAX_DEPTH) -> syntax.Expression:
    """Read a text that is one expression.

    Raises
    ------
    QuerySyntaxError
        If it is none.
    """
    words = _words(text, depth)
    found = expression(words)
    if words.word.kind != "end":
        raise words.unexpected("the end of the expression")
    return found


def _words(text: str, depth: int) -> Words:
    words = Words(text, depth)
    words.parse_query = lambda: _query(words)
    return words


# -- queries -------------------------------------------------------------------------------------------------------


def _query(words: Words) -> syntax.Query:
    words.deeper()
    depth, at = words.depth, words.word.at
    tables: list[tuple[str, syntax.Query]] = []
    if words.take_keyword("with"):
        tables.append(_common_table(words))
        while words.take_operator(","):
            tables.append(_common_table(words))
    body = _combined(words)
    order = _order(words)
    arrange: tuple[syntax.Expression, ...] = ()
    if words.take_keyword("arrange"):
        words.expect_keyword("by")
        arrange = expressions(words)
    limit = _limit(words)
    sample = _sample(words)
    words.depth = depth - 1
    return syntax.Query(body, tuple(tables), order, arrange, limit, sample, at)


def _common_table(words: Words) -> tuple[str, syntax.Query]:
    name = words.expect_name("a name for the query")
    words.expect_keyword("as")
    words.expect_operator("(")
    query = _query(words)
    words.expect_operator(")")
    return name.text, query


def _combined(words: Words) -> syntax.Select | syntax.Combined | syntax.Query:
    """Read queries with UNION and EXCEPT between them, from the left; INTERSECT binds more strongly."""
    left = _intersected(words)
    while words.is_keyword("union", "except"):
        words.deeper()
        word = words.take()
        keeps_all = words.take_keyword("all")
        if not keeps_all:
            words.take_keyword("distinct")
        left = syntax.Combined(word.text.lower(), keeps_all, left, _intersected(words), word.at)
    return left


def _intersected(words: Words) -> syntax.Select | syntax.Combined | syntax.Query:
    left: syntax.Select | syntax.Combined | syntax.Query = _term(words)
    while words.is_keyword("intersect"):
        words.deeper()
        word = words.take()
        keeps_all = words.take_keyword("all")
        left = syntax.Combined("intersect", keeps_all, left, _term(words), word.at)
    return left


def _term(words: Words) -> syntax.Select | syntax.Query:
    if words.take_operator("("):
        query = _query(words)
        words.expect_operator(")")
        return query
    return _select(words)


def _select(words: Words) -> syntax.Select:
    at = words.expect_keyword("select").at
    top = _top(words)
    distinct = words.take_keyword("distinct")
    distinct_on: tuple[syntax.Expression, ...] = ()
    if distinct and words.take_keyword("on"):
        words.expect_operator("(")
        distinct_on = expressions(words)
        words.expect_operator(")")
    elif not distinct and words.is_keyword("all") and words.ahead(1).text != "(":  # ALL(...) is the function
        words.take()
    if top is None:
        top = _top(words)
    items = [_item(words)]
    while words.take_operator(","):
        items.append(_item(words))
    source = _sources(words) if words.take_keyword("from") else None
    where = expression(words) if words.take_keyword("where") else None
    expand = _expand(words)
    group: tuple[syntax.Expression, ...] = ()
    having = None
    if words.take_keyword("group"):
        words.expect_keyword("by")
        group = expressions(words)
        if words.take_keyword("having"):
            having = expression(words)
        if words.take_keyword("across"):
            if not words.is_keyword("time", "space"):
                raise words.unexpected("TIME or SPACE")
            words.take()
    elif words.is_keyword("having"):
        raise words.error("HAVING follows GROUP BY; without it, say WHERE")
    if words.is_keyword("where"):
        raise words.error("WHERE comes before GROUP BY; to choose among groups, say HAVING")
    return syntax.Select(
        tuple(items), source, where, expand, group, having, _ungroup(words), distinct, distinct_on, top, at
    )  # fmt: skip


def _top(words: Words) -> int | None:
    if not words.is_keyword("top") or words.ahead(1).kind != "integer":
        return None
    words.take()
    return int(words.take().value or 0)


def _item(words: Words) -> syntax.Item:
    word = words.word
    if words.take_operator("*"):
        items: tuple[syntax.Expression | syntax.Slice | syntax.Dots, ...] = ()
        if words.take_operator("["):
            items = subscripts(words)
        return syntax.Item(None, None, None, items, word.at)
    is_all = words.ahead(1).text == "." and words.ahead(2).text == "*" and words.ahead(2).kind == "operator"
    if word.kind in ("name", "quoted") and is_all:
        words.next += 3
        return syntax.Item(None, None, word.text, (), word.at)
    found = expression(words)
    return syntax.Item(found, _alias(words), None, (), word.at)


def _alias(words: Words) -> str | None:
    """Read the name that something is given, with or without AS."""
    if words.take_keyword("as"):
        return words.expect_name("a name").text
    word = words.word
    if word.kind == "quoted" or (word.kind == "name" and word.text.lower() not in RESERVED):
        return words.take().text
    return None


def _expand(words: Words) -> syntax.Expand | None:
    if not words.is_keyword("expand"):
        return None
    at = words.take().at
    words.expect_keyword("by")
    before = _whole(words)
    after = _whole(words) if words.take_operator(",") or words.word.kind == "integer" else before
    keeps = False
    if words.take_keyword("overlap"):
        keeps = not words.take_keyword("false")
        if keeps:
            words.take_keyword("true")
    alias = words.expect_name("a name").text if words.take_keyword("as") else None
    return syntax.Expand(before, after, keeps, alias, at)


def _whole(words: Words) -> int:
    if words.word.kind != "integer":
        raise words.unexpected("a number of rows")
    return int(words.take().value or 0)


def _ungroup(words: Words) -> syntax.Ungroup | None:
    if not words.is_keyword("ungroup"):
        return None
    at = words.take().at
    words.expect_keyword("by")
    if words.take_keyword("split"):
        return syntax.Ungroup(None, at)
    return syntax.Ungroup(expression(words), at)


# -- what follows a query --------------------------------------------------------------------------------------------


def _order(words: Words) -> tuple[syntax.Order, ...]:
    if not words.take_keyword("order"):
        return ()
    words.expect_keyword("by")
    found = [_key(words)]
    while words.take_operator(","):
        found.append(_key(words))
    return tuple(found)


def _key(words: Words) -> syntax.Order:
    found = expression(words)
    descending = words.take_keyword("desc")
    if not descending:
        words.take_keyword("asc")
    nulls = ""
    if words.take_keyword("nulls"):
        if not words.is_keyword("first", "last"):
            raise words.unexpected("FIRST or LAST")
        nulls = words.take().text.lower()
    return syntax.Order(found, descending, nulls)


def _limit(words: Words) -> syntax.Limit | None:
    at = words.word.at
    count = offset = None
    percent = False
    if words.take_keyword("limit"):
        if not words.take_keyword("all"):
            count = expression(words)
            percent = words.take_keyword("percent")
        if words.take_keyword("offset"):
            offset = expression(words)
    elif words.take_keyword("offset"):
        offset = expression(words)
        if words.take_keyword("limit") and not words.take_keyword("all"):
            count = expression(words)
            percent = words.take_keyword("percent")
    else:
        return None
    return syntax.Limit(count, percent, offset, at)


def _sample(words: Words) -> syntax.Sample | None:
    if not words.is_keyword("sample"):
        return None
    at = words.take().at
    words.expect_keyword("by")
    weight = expression(words)
    replace, percent = True, False
    seed = count = None
    while True:
        if words.take_keyword("replace"):
            replace = not words.take_keyword("false")
            if replace:
                words.take_keyword("true")
        elif words.take_keyword("seed"):
            seed = expression(words)
        elif words.take_keyword("limit"):
            count = expression(words)
            percent = words.take_keyword("percent")
        else:
            return syntax.Sample(weight, replace, seed, count, percent, at)


# -- sources ---------------------------------------------------------------------------------------------------------


def _sources(words: Words) -> syntax.Source:
    left = _joined(words)
    while words.is_operator(","):
        words.deeper()
        at = words.take().at
        left = syntax.Join("zip", left, _joined(words), None, (), at)
    return left


def _joined(words: Words) -> syntax.Source:
    left = _table(words)
    while words.is_keyword(*_JOINS):
        words.deeper()
        at = words.word.at
        kind = _join_kind(words)
        right = _table(words)
        condition = None
        using: tuple[str, ...] = ()
        if words.take_keyword("on"):
            condition = expression(words)
        elif words.take_keyword("using"):
            using = _names(words)
        elif kind != "cross" and kind != "natural":
            raise words.unexpected("ON or USING")
        left = syntax.Join(kind, left, right, condition, using, at)
    return left


def _join_kind(words: Words) -> str:
    kind = "inner"
    word = words.take().text.lower()
    if word in ("left", "right", "full"):
        kind = word
        words.take_keyword("outer")
        words.expect_keyword("join")
    elif word == "outer":
        kind = "full"
        words.expect_keyword("join")
    elif word in ("inner", "cross", "natural"):
        kind = word
        words.expect_keyword("join")
    return kind


def _names(words: Words) -> tuple[str, ...]:
    words.expect_operator("(")
    found = [words.expect_name("a column").text]
    while words.take_operator(","):
        found.append(words.expect_name("a column").text)
    words.expect_operator(")")
    return tuple(found)


def _table(words: Words) -> syntax.Source:
    word = words.word
    if words.take_operator("("):
        if words.is_keyword("select", "with") or words.is_operator("("):
            query = _query(words)
            words.expect_operator(")")
            return syntax.Derived(query, _alias(words), word.at)
        source = _sources(words)
        words.expect_operator(")")
        return source
    if words.is_keyword("diff") and words.ahead(1).text == "(":
        return _difference(words)
    if word.kind == "name" and word.text.lower() in RESERVED:
        raise words.unexpected("a dataset")
    name = words.expect_name('a dataset: "path/to/it" in double quotes')
    path = name.text
    while name.kind == "name" and words.is_operator(".") and words.ahead(1).kind in ("name", "quoted"):
        words.take()
        path += "." + words.take().text
    version = None
    if words.word.kind == "version":
        version = words.take().text
    elif words.is_keyword("version") and words.ahead(1).kind == "string":
        words.take()
        version = words.take().text
    return syntax.Path(path, version, _alias(words), name.kind == "quoted", word.at)


def _difference(words: Words) -> syntax.Source:
    at = words.take().at
    words.expect_operator("(")
    path = None
    if words.word.kind == "quoted":
        path = words.take().text
        words.expect_operator(",")
    first = _reference(words)
    words.expect_operator(",")
    second = _reference(words)
    words.expect_operator(")")
    return syntax.Difference(path, first, second, _alias(words), at)


def _reference(words: Words) -> str:
    if words.word.kind != "string":
        raise words.unexpected("a branch, commit or tag in single quotes")
    return words.take().text
