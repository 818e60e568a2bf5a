"""The parser reads every query of the corpus, says where it cannot go on, and stays inside its bounds."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from lakebed.errors import QueryError, QuerySyntaxError
from lakebed.query.language import syntax
from lakebed.query.language.lexer import Token, tokens
from lakebed.query.language.parser import parse, parse_expression
from unit_tests.lakebed.query.cases import cases, query_of

REFUSED = {"compare-047", "logic-011", "logic-013", "misc-007"}


def test_queries_of_the_corpus_are_read_or_refused() -> None:
    refused = {}
    for case in cases():
        try:
            assert isinstance(parse(query_of(case)), syntax.Query), case["id"]
        except QuerySyntaxError as error:
            refused[case["id"]] = error
    assert refused.keys() == REFUSED, refused


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a > b == c", "(a > b) == c"),
        ("NOT a > 3 AND b", "(NOT (a > 3)) AND b"),
        ("a OR b AND c", "a OR (b AND c)"),
        ("-a ^ 2", "(-a) ^ 2"),
        ("2 ^ 3 || 'x'", "2 ^ (3 || 'x')"),
        ("-x[0]", "-(x[0])"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        ("a <> 1", "a != 1"),
        ("a = 010", "a == 8"),
        ("'cat' IN a.b AND c", "CONTAINS(a.b, 'cat') AND c"),  # a filter of 3.x
        ("3 NOT IN a", "NOT CONTAINS(a, 3)"),
        ("[1, .5, 1e3]", "ARRAY[1, 0.5, 1000.0]"),
        ('"a/b".c', '"a/b"."c"'),
        ("a IN ARRAY[1, 2]", "a IN (1, 2)"),  # as the manual of 3.x writes it
        ("a NOT IN array['x'] AND b", "a NOT IN ('x') AND b"),
    ],
)
def test_operators_bind_as_the_table_says(text: str, like: str) -> None:
    assert _bare(parse_expression(text)) == _bare(parse_expression(like))


def test_numbers_of_rows_may_have_a_comma_between() -> None:
    assert _bare(parse("SELECT * WHERE a EXPAND BY 2, 1")) == _bare(parse("SELECT * WHERE a EXPAND BY 2 1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * WHERE a IN ARRAY(1, 2)", r"'\['"),
        ("SELECT * WHERE a IN ARRAY[1, 2)", r"'\]'"),
        ("SELECT * WHERE a EXPAND BY 2, LIMIT 3", "a number of rows"),
    ],
)
def test_halves_of_these_spellings_are_refused(text: str, expected: str) -> None:
    with pytest.raises(QuerySyntaxError, match=expected):
        parse(text)


def _bare(node: object) -> object:
    """Return a tree without places."""
    if isinstance(node, tuple):
        return tuple(_bare(part) for part in node)
    names = [name for name in getattr(node, "__slots__", ()) if name != "at"]
    return (type(node), *(_bare(getattr(node, name)) for name in names)) if names else node


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("SELECT *\nFORM x", 2, 1, "did you mean FROM"),
        ("SELECT * WHERE a < b < c", 1, 22, "do not follow each other"),
        ("SELECT * WHERE a ! b", 1, 18, "unequal is !="),
        ("SELECT * WHERE a == 'b", 1, 21, "closing '"),
        ('SELECT * WHERE "a == 1', 1, 16, 'closing "'),
        ("SELECT * WHERE _x", 1, 16, "double quotes"),
        ("SELECT * GROUP BY a WHERE b", 1, 21, "HAVING"),
        ("SELECT a b c", 1, 12, "end of the query"),
        ("SELECT * WHERE a[", 1, 18, "ends where"),
        ("SELECT * LIMIT 99999999999999999999", 1, 16, "64 bits"),
        ("SELECT * WHERE a == 09", 1, 21, "octal"),
        ("SELECT * FROM x #", 1, 17, "no word"),
    ],
)
def test_errors_point_at_the_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(QuerySyntaxError, match=message) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column, error.kind) == (line, column, "syntax")
    below = str(error).split("\n")[2]
    assert below.index("^") == column + 3


def test_carriage_returns_are_white_space_and_comments_are_left_out() -> None:
    query = parse("SELECT * -- all ' of it\r\n WHERE a > 1 -- and this\r\n;")
    assert isinstance(query.body, syntax.Select)
    assert query.body.where is not None


def test_words_of_clauses_are_names_where_nothing_else_can_stand() -> None:
    query = parse('SELECT date, index, "order", time AS key FROM a.b AS view WHERE format > 1')
    assert isinstance(query.body, syntax.Select)
    assert [item.alias for item in query.body.items] == [None, None, None, "key"]


def test_union_goes_from_the_left_and_intersect_binds_first() -> None:
    body = parse("SELECT a EXCEPT SELECT b UNION ALL SELECT c INTERSECT SELECT d LIMIT 3").body
    assert isinstance(body, syntax.Combined)
    assert (body.operator, body.keeps_all) == ("union", True)
    assert isinstance(body.left, syntax.Combined)
    assert body.left.operator == "except"
    assert isinstance(body.right, syntax.Combined)
    assert body.right.operator == "intersect"


@pytest.mark.parametrize(
    "text",
    [
        "(" * 500 + "1" + ")" * 500,
        "- " * 500 + "x",
        "NOT " * 500 + "x",
        "+".join("a" * 500),
        "a" + "[0]" * 10_000,
        "CASE WHEN a THEN " * 500 + "1" + " END" * 500,
    ],
)
def test_deep_expressions_are_refused_before_the_stack_ends(text: str) -> None:
    with pytest.raises(QuerySyntaxError, match="nested deeper than"):
        parse_expression(text)


def test_long_conditions_are_not_deep() -> None:
    found = parse_expression(" OR ".join(f"a == {n}" for n in range(2000)))
    assert isinstance(found, syntax.Logical)
    assert len(found.operands) == 2000


def test_mutated_queries_raise_errors_of_queries_only() -> None:
    """Fuzz: words are dropped, doubled, swapped and cut; whatever comes of it is a query or a QueryError."""
    chance = random.Random(38)
    texts = [query_of(case) for case in cases()]
    words = [token.text for text in texts for token in tokens_of(text)]
    accepted = 0
    for _ in range(2000):
        text = chance.choice(texts)
        starts = [token.at for token in tokens_of(text)]
        parts = [text[a:b] for a, b in pairwise([*starts, len(text)])]
        for _ in range(chance.randint(1, 4)):
            parts = parts or ["x"]
            at = chance.randrange(len(parts))
            kind = chance.randrange(4)
            if kind == 0:
                del parts[at]
            elif kind == 1:
                parts.insert(at, chance.choice(words))
            elif kind == 2:
                parts[at] = chance.choice(words)
            else:
                parts[at] = "".join(chance.choices("'\"[](),.:?@!#\\\0é_-0x", k=3))
            parts = parts or ["x"]
        accepted += _is_read(" ".join(parts))
    assert accepted > 50


def _is_read(text: str) -> bool:
    try:
        parse(text)
    except QueryError as error:
        return not str(error)
    return True


def tokens_of(text: str) -> list[Token]:
    try:
        return list(tokens(text))[:-1]
    except QueryError:
        return []
