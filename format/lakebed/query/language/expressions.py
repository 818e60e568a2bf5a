"""Expressions, read by precedence (Pratt): a table says how strongly each operator binds.

strength   operators
1          OR
2          AND
3          NOT (before its operand)
4          = == != <>
5          < <= > >= LIKE ILIKE BETWEEN IN IS ISNULL, none behind another
6          + -
7          * / %
8          ^
9          ||
10         - (before its operand)
11         [...]
"""

from __future__ import annotations

from lakebed.query.language import syntax
from lakebed.query.language.lexer import Token
from lakebed.query.language.syntax import Expression
from lakebed.query.language.words import RESERVED, Words

_OR, _AND, _NOT, _EQUAL, _RELATION, _NEGATIVE = 1, 2, 3, 4, 5, 10

_BINARY = {
    "=": _EQUAL, "==": _EQUAL, "!=": _EQUAL, "<>": _EQUAL, "<": _RELATION, "<=": _RELATION, ">": _RELATION,
    ">=": _RELATION, "+": 6, "-": 6, "*": 7, "/": 7, "%": 7, "^": 8, "||": 9,
}  # fmt: skip

_MEANT = {"==": "=", "<>": "!="}
"""Operators that mean the same -> the one that stands for both."""

_RELATIONS = ("like", "ilike", "between", "in", "is", "isnull", "not")


def expression(words: Words, least: int = 0) -> Expression:
    """Read an expression whose operators bind at least that strongly.

    Raises
    ------
    QuerySyntaxError
        If there is none.
    """
    words.deeper()
    depth = words.depth
    left = _operand(words)
    while True:
        strength = _strength(words)
        if strength == 0 or strength < least:
            break
        # A chain such as a + b + c lies as deep as it is long.
        words.deeper()
        left = _continued(words, left, strength)
        if strength == _RELATION and _strength(words) == _RELATION:
            raise words.error("comparisons do not follow each other: write a < b AND b < c")
    words.depth = depth - 1
    return left


def expressions(words: Words) -> tuple[Expression, ...]:
    """Read expressions between commas."""
    found = [expression(words)]
    while words.take_operator(","):
        found.append(expression(words))
    return tuple(found)


def _strength(words: Words) -> int:
    """Return how strongly the operator binds that is next; 0 if none is."""
    word = words.word
    if word.kind == "operator":
        return _BINARY.get(word.text, 0)
    name = words.keyword()
    if name == "or":
        return _OR
    if name == "and":
        return _AND
    if name in _RELATIONS:
        return _RELATION
    return 0


def _continued(words: Words, left: Expression, strength: int) -> Expression:
    """Read an operator and what is behind it; `left` is what is before it."""
    word = words.take()
    if strength in (_OR, _AND):
        return _logical(words, left, word, strength)
    if word.kind == "name":
        return _relation(words, left, word)
    right = expression(words, strength + 1)
    return syntax.Binary(_MEANT.get(word.text, word.text), left, right, word.at)


def _logical(words: Words, left: Expression, word: Token, strength: int) -> Expression:
    name = "or" if strength == _OR else "and"
    operands = [left, expression(words, strength + 1)]
    while words.take_keyword(name):
        operands.append(expression(words, strength + 1))
    return syntax.Logical(name, tuple(operands), word.at)


def _relation(words: Words, left: Expression, word: Token) -> Expression:
    """Read what is behind LIKE, ILIKE, BETWEEN, IN, IS or ISNULL, or NOT before one of them."""
    name = word.text.lower()
    negated = name == "not"
    if negated:
        if not words.is_keyword("like", "ilike", "between", "in"):
            raise words.unexpected("LIKE, ILIKE, BETWEEN or IN")
        name = words.take().text.lower()
    if name == "like" or name == "ilike":
        pattern = expression(words, _RELATION + 1)
        return syntax.Like(left, pattern, negated, name == "ilike", word.at)
    if name == "between":
        low = expression(words, _RELATION + 1)
        words.expect_keyword("and")
        high = expression(words, _RELATION + 1)
        return syntax.Between(left, low, high, negated, word.at)
    if name == "in":
        return _in(words, left, negated, word.at)
    if name == "is":
        negated = words.take_keyword("not")
        words.expect_keyword("null")
    return syntax.IsNull(left, negated, word.at)


def _in(words: Words, left: Expression, negated: bool, at: int) -> Expression:
    if isinstance(left, syntax.Literal) and not words.is_operator(
        "(", "["
    ):  # 'cat' in labels, as in filters of 3.x
        found: Expression = syntax.Call(
            "CONTAINS", (expression(words, _RELATION + 1), left), False, False, at
        )
        return syntax.Unary("not", found, at) if negated else found
    # As manuals of 3.x write a list: x IN ARRAY[1, 2].
    opening, closing = ("[", "]") if words.take_keyword("array") else ("(", ")")
    words.expect_operator(opening)
    if opening == "(" and words.is_keyword("select", "with"):
        query = _query(words)
        words.expect_operator(")")
        return syntax.In(left, (), query, negated, at)
    items = () if words.is_operator(closing) else expressions(words)
    words.expect_operator(closing)
    return syntax.In(left, items, None, negated, at)


def _query(words: Words) -> syntax.Query:
    if words.parse_query is None:
        raise words.error("a query cannot stand here")
    return words.parse_query()


# -- operands ------------------------------------------------------------------------------------------------------


def _operand(words: Words) -> Expression:
    """Read what stands before the first operator, with its subscripts."""
    word = words.word
    if words.is_operator("-"):
        words.take()
        operand = expression(words, _NEGATIVE)
        if isinstance(operand, syntax.Literal) and type(operand.value) in (int, float):
            return syntax.Literal(_negative(operand.value), word.at)
        return syntax.Unary("-", operand, word.at)
    if words.is_operator("+"):
        words.take()
        return expression(words, _NEGATIVE)
    if words.is_keyword("not"):
        words.take()
        return syntax.Unary("not", expression(words, _NOT), word.at)
    found = _primary(words)
    while words.is_operator("["):
        words.deeper()
        at = words.take().at
        found = syntax.Subscript(found, subscripts(words), at)
    return found


def _negative(value: float | str | bool | None) -> int | float:
    return -value if isinstance(value, int | float) else 0


def _primary(words: Words) -> Expression:
    word = words.word
    if word.kind in ("integer", "float"):
        words.take()
        return syntax.Literal(word.value, word.at)
    if word.kind == "string":
        words.take()
        return syntax.Literal(word.text, word.at)
    if words.is_operator("?") or word.kind == "parameter":
        return _parameter(words)
    if words.is_operator("["):
        return _array(words)
    if words.take_operator("("):
        return _bracket(words, word.at)
    if word.kind == "quoted":
        words.take()
        return _named(words, word)
    if word.kind == "name":
        return _word(words)
    raise words.unexpected("an expression")


def _parameter(words: Words) -> Expression:
    word = words.word
    name = word.text if word.kind == "parameter" else ""
    if words.parameters and bool(name) != bool(words.named):
        raise words.error("a query takes its values by ? or by $name, not by both")
    words.take()
    if name in words.named:
        return syntax.Parameter(list(words.named).index(name), word.at, name)
    if name:
        words.named[name] = word.at
    words.parameters += 1
    return syntax.Parameter(words.parameters - 1, word.at, name)


def _bracket(words: Words, at: int) -> Expression:
    if words.is_keyword("select", "with"):
        query = _query(words)
        words.expect_operator(")")
        return syntax.Nested(query, False, at)
    found = expression(words)
    words.expect_operator(")")
    return found


def _word(words: Words) -> Expression:
    """Read what begins with a name without quotes."""
    word = words.take()
    name = word.text.lower()
    if name == "true" or name == "false":
        return syntax.Literal(name == "true", word.at)
    if name == "null":
        return syntax.Literal(None, word.at)
    if name == "array" and words.is_operator("["):
        return _array(words)
    if name == "case":
        return _case(words, word.at)
    if name == "cast" and words.is_operator("("):
        return _cast(words, word.at)
    if name == "extract" and words.is_operator("("):
        return _extract(words, word.at)
    if name == "exists" and words.take_operator("("):
        query = _query(words)
        words.expect_operator(")")
        return syntax.Nested(query, True, word.at)
    if name in ("date", "timestamp") and words.word.kind == "string":
        text = words.take()
        return syntax.Cast(syntax.Literal(text.text, text.at), name, word.at)
    if name in RESERVED and not (name in ("left", "right") and words.is_operator("(")):
        words.next -= 1
        raise words.unexpected("an expression")
    return _named(words, word)


def _named(words: Words, word: Token) -> Expression:
    """Read a function, or a column, of a table if there is a point."""
    if words.is_operator("("):
        return _call(words, word)
    if words.is_operator(".") and words.ahead(1).kind in ("name", "quoted"):
        words.take()
        column = words.take()
        if words.is_operator("("):
            # images.contains(3) is contains(images, 3), as the filters of 3.x have it.
            call = _call(words, column)
            if isinstance(call, syntax.Call):
                inner = syntax.Name(None, word.text, word.at)
                return syntax.Call(call.name, (inner, *call.arguments), call.is_distinct, False, call.at)
            return call
        return syntax.Name(word.text, column.text, word.at)
    return syntax.Name(None, word.text, word.at)


def _array(words: Words) -> Expression:
    at = words.expect_operator("[").at
    items = () if words.is_operator("]") else expressions(words)
    words.expect_operator("]")
    return syntax.Array(items, at)


def _call(words: Words, name: Token) -> Expression:
    words.expect_operator("(")
    if words.take_operator("*"):
        words.expect_operator(")")
        return syntax.Call(name.text, (), False, True, name.at)
    distinct = words.take_keyword("distinct")
    if words.take_operator(")"):
        return syntax.Call(name.text, (), distinct, False, name.at)
    first = expression(words)
    if words.is_operator(":"):
        return _weights(words, name, first)
    arguments = [first]
    while words.take_operator(","):
        arguments.append(expression(words))
    words.expect_operator(")")
    return syntax.Call(name.text, tuple(arguments), distinct, False, name.at)


def _weights(words: Words, name: Token, first: Expression) -> Expression:
    pairs: list[tuple[Expression, Expression]] = []
    condition = first
    while True:
        words.expect_operator(":")
        pairs.append((condition, expression(words)))
        if not words.take_operator(","):
            break
        condition = expression(words)
    words.expect_operator(")")
    return syntax.Weights(name.text, tuple(pairs), name.at)


def _case(words: Words, at: int) -> Expression:
    operand = None if words.is_keyword("when") else expression(words)
    branches: list[tuple[Expression, Expression]] = []
    while words.take_keyword("when"):
        condition = expression(words)
        words.expect_keyword("then")
        branches.append((condition, expression(words)))
    if not branches:
        raise words.unexpected("WHEN")
    otherwise = expression(words) if words.take_keyword("else") else None
    words.expect_keyword("end")
    return syntax.Case(operand, tuple(branches), otherwise, at)


def _cast(words: Words, at: int) -> Expression:
    words.expect_operator("(")
    operand = expression(words)
    words.expect_keyword("as")
    name = words.expect_name("a type").text.lower()
    if name == "double" and words.is_keyword("precision"):
        words.take()
    words.expect_operator(")")
    return syntax.Cast(operand, name, at)


def _extract(words: Words, at: int) -> Expression:
    words.expect_operator("(")
    unit = words.expect_name("a unit such as YEAR").text.lower()
    words.expect_keyword("from")
    operand = expression(words)
    words.expect_operator(")")
    return syntax.Extract(unit, operand, at)


# -- subscripts ----------------------------------------------------------------------------------------------------

Item = Expression | syntax.Slice | syntax.Dots


def subscripts(words: Words) -> tuple[Item, ...]:
    """Read what stands between square brackets, and the closing one."""
    found = [_item(words)]
    while words.take_operator(","):
        found.append(_item(words))
    words.expect_operator("]")
    return tuple(found)


def _item(words: Words) -> Item:
    at = words.word.at
    if words.take_operator("..."):
        return syntax.Dots(at)
    start = None if words.is_operator(":") else expression(words)
    if not words.take_operator(":"):
        if start is None:
            raise words.unexpected("an index")
        return start
    stop = None if words.is_operator(":", ",", "]") else expression(words)
    step = None
    if words.take_operator(":"):
        step = None if words.is_operator(",", "]") else expression(words)
    return syntax.Slice(start, stop, step, at)
