"""Parser of expressions, by operator precedence (Pratt).

strength   operators
1          OR
2          AND
3          NOT (before its operand)
4          = == != <>
5          < <= > >= LIKE ILIKE BETWEEN IN IS ISNULL, which cannot be chained
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
from lakebed.query.language.token_stream import RESERVED, TokenStream

_OR, _AND, _NOT, _EQUAL, _RELATION, _NEGATIVE = 1, 2, 3, 4, 5, 10

_BINARY = {
    "=": _EQUAL, "==": _EQUAL, "!=": _EQUAL, "<>": _EQUAL, "<": _RELATION, "<=": _RELATION, ">": _RELATION,
    ">=": _RELATION, "+": 6, "-": 6, "*": 7, "/": 7, "%": 7, "^": 8, "||": 9,
}  # fmt: skip

_MEANT = {"==": "=", "<>": "!="}
"""Operator in a query -> the operator that stands for it in the syntax tree."""

_KEYWORDS = {"or": _OR, "and": _AND} | dict.fromkeys("like ilike between in is isnull not".split(), _RELATION)


def expression(tokens: TokenStream, least: int = 0) -> Expression:
    """Read an expression whose operators have at least the strength `least`."""
    tokens.deeper()
    depth = tokens.depth
    left = _operand(tokens)
    while True:
        strength = _strength(tokens)
        if strength == 0 or strength < least:
            break
        # Each operator of a chain such as a + b + c adds a level to the tree.
        tokens.deeper()
        left = _continued(tokens, left, strength)
        if strength == _RELATION and _strength(tokens) == _RELATION:
            raise tokens.error("comparisons do not follow each other: write a < b AND b < c")
    tokens.depth = depth - 1
    return left


def expressions(tokens: TokenStream) -> tuple[Expression, ...]:
    """Read expressions between commas."""
    return tokens.separated(expression)


def _strength(tokens: TokenStream) -> int:
    """Return the strength of the next operator, 0 if there is none."""
    token = tokens.token
    if token.kind == "operator":
        return _BINARY.get(token.text, 0)
    return _KEYWORDS.get(tokens.keyword(), 0)


def _continued(tokens: TokenStream, left: Expression, strength: int) -> Expression:
    """Read an operator and its right operand; return the expression that they form with `left`."""
    token = tokens.take()
    if strength in (_OR, _AND):
        name = token.text.lower()
        operands = [left, expression(tokens, strength + 1)]
        while tokens.take_keyword(name):
            operands.append(expression(tokens, strength + 1))
        return syntax.Logical(name, tuple(operands), token.at)
    if token.kind == "name":
        return _relation(tokens, left, token)
    right = expression(tokens, strength + 1)
    return syntax.Binary(_MEANT.get(token.text, token.text), left, right, token.at)


def _relation(tokens: TokenStream, left: Expression, token: Token) -> Expression:
    """Read the right side of LIKE, ILIKE, BETWEEN, IN, IS or ISNULL, or of NOT and one of them."""
    name = token.text.lower()
    negated = name == "not"
    if negated:
        if not tokens.is_keyword("like", "ilike", "between", "in"):
            raise tokens.unexpected("LIKE, ILIKE, BETWEEN or IN")
        name = tokens.take().text.lower()
    if name == "like" or name == "ilike":
        pattern = expression(tokens, _RELATION + 1)
        return syntax.Like(left, pattern, negated, name == "ilike", token.at)
    if name == "between":
        low = expression(tokens, _RELATION + 1)
        tokens.expect_keyword("and")
        high = expression(tokens, _RELATION + 1)
        return syntax.Between(left, low, high, negated, token.at)
    if name == "in":
        return _in(tokens, left, negated, token.at)
    if name == "is":
        negated = tokens.take_keyword("not")
        tokens.expect_keyword("null")
    return syntax.IsNull(left, negated, token.at)


def _in(tokens: TokenStream, left: Expression, negated: bool, at: int) -> Expression:
    if isinstance(left, syntax.Literal) and not tokens.is_operator("(", "["):
        # a filter of 3.x may be written as 'cat' in labels
        right = expression(tokens, _RELATION + 1)
        found = syntax.Call("CONTAINS", (right, left), False, False, at)
        return syntax.Unary("not", found, at) if negated else found
    # The manual of 3.x writes x IN ARRAY[1, 2].
    opening, closing = ("[", "]") if tokens.take_keyword("array") else ("(", ")")
    tokens.expect_operator(opening)
    items: tuple[Expression, ...] = ()
    query = None
    if opening == "(" and tokens.is_keyword("select", "with"):
        query = tokens.query()
    elif not tokens.is_operator(closing):
        items = expressions(tokens)
    tokens.expect_operator(closing)
    return syntax.In(left, items, query, negated, at)


# -- operands ------------------------------------------------------------------------------------------------------


def _operand(tokens: TokenStream) -> Expression:
    """Read the expression before the first operator, with its signs and subscripts."""
    at = tokens.token.at
    if tokens.take_operator("-"):
        operand = expression(tokens, _NEGATIVE)
        value = operand.value if isinstance(operand, syntax.Literal) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return syntax.Literal(-value, at)
        return syntax.Unary("-", operand, at)
    if tokens.take_operator("+"):
        return expression(tokens, _NEGATIVE)
    if tokens.take_keyword("not"):
        return syntax.Unary("not", expression(tokens, _NOT), at)
    found = _primary(tokens)
    while tokens.is_operator("["):
        tokens.deeper()
        at = tokens.take().at
        found = syntax.Subscript(found, subscripts(tokens), at)
    return found


def _primary(tokens: TokenStream) -> Expression:
    token = tokens.token
    if token.kind in ("integer", "float", "string"):
        tokens.take()
        return syntax.Literal(token.text if token.kind == "string" else token.value, token.at)
    if tokens.is_operator("?") or token.kind == "parameter":
        return _parameter(tokens)
    if tokens.is_operator("["):
        return _array(tokens)
    if tokens.is_operator("("):
        return tokens.bracketed(_inside)
    if token.kind == "quoted":
        return _named(tokens, tokens.take())
    if token.kind == "name":
        return _unquoted(tokens)
    raise tokens.unexpected("an expression")


def _parameter(tokens: TokenStream) -> Expression:
    token = tokens.token
    name = token.text if token.kind == "parameter" else ""
    if tokens.parameters and bool(name) != bool(tokens.named):
        raise tokens.error("a query takes its values by ? or by $name, not by both")
    tokens.take()
    if name in tokens.named:
        return syntax.Parameter(list(tokens.named).index(name), token.at, name)
    if name:
        tokens.named[name] = token.at
    tokens.parameters += 1
    return syntax.Parameter(tokens.parameters - 1, token.at, name)


def _inside(tokens: TokenStream) -> Expression:
    """Read the query or expression in brackets."""
    at = tokens.tokens[tokens.next - 1].at
    if tokens.is_keyword("select", "with"):
        return syntax.Nested(tokens.query(), False, at)
    return expression(tokens)


def _unquoted(tokens: TokenStream) -> Expression:
    """Read an expression that begins with a name without quotes."""
    token = tokens.take()
    name = token.text.lower()
    if name in ("true", "false", "null"):
        return syntax.Literal({"true": True, "false": False}.get(name), token.at)
    if name == "array" and tokens.is_operator("["):
        return _array(tokens)
    if name == "case":
        return _case(tokens, token.at)
    if name == "cast" and tokens.is_operator("("):
        return syntax.Cast(*tokens.bracketed(_cast), token.at)
    if name == "extract" and tokens.is_operator("("):
        return syntax.Extract(*tokens.bracketed(_extract), token.at)
    if name == "exists" and tokens.is_operator("("):
        return syntax.Nested(tokens.bracketed(TokenStream.query), True, token.at)
    if name in ("date", "timestamp") and tokens.token.kind == "string":
        text = tokens.take()
        return syntax.Cast(syntax.Literal(text.text, text.at), name, token.at)
    if name in RESERVED and not (name in ("left", "right") and tokens.is_operator("(")):
        tokens.next -= 1
        raise tokens.unexpected("an expression")
    return _named(tokens, token)


def _named(tokens: TokenStream, token: Token) -> Expression:
    """Read the rest of a function call, or of a column, which may have a table before it."""
    if tokens.is_operator("("):
        return _call(tokens, token)
    if not tokens.is_operator(".") or tokens.ahead(1).kind not in ("name", "quoted"):
        return syntax.Name(None, token.text, token.at)
    tokens.take()
    column = tokens.take()
    if not tokens.is_operator("("):
        return syntax.Name(token.text, column.text, token.at)
    # A filter of 3.x may be written as images.contains(3), which means contains(images, 3).
    call = _call(tokens, column)
    if not isinstance(call, syntax.Call):
        return call
    inner = syntax.Name(None, token.text, token.at)
    return syntax.Call(call.name, (inner, *call.arguments), call.is_distinct, False, call.at)


def _array(tokens: TokenStream) -> Expression:
    at = tokens.expect_operator("[").at
    items = () if tokens.is_operator("]") else expressions(tokens)
    tokens.expect_operator("]")
    return syntax.Array(items, at)


def _call(tokens: TokenStream, name: Token) -> Expression:
    tokens.expect_operator("(")
    if tokens.take_operator("*"):
        tokens.expect_operator(")")
        return syntax.Call(name.text, (), False, True, name.at)
    distinct = tokens.take_keyword("distinct")
    if tokens.take_operator(")"):
        return syntax.Call(name.text, (), distinct, False, name.at)
    arguments = [expression(tokens)]
    weights: list[Expression] = []
    if tokens.is_operator(":"):
        tokens.take()
        weights.append(expression(tokens))
    while tokens.take_operator(","):
        arguments.append(expression(tokens))
        if weights:
            tokens.expect_operator(":")
            weights.append(expression(tokens))
    tokens.expect_operator(")")
    if weights:
        return syntax.Weights(name.text, tuple(zip(arguments, weights, strict=True)), name.at)
    return syntax.Call(name.text, tuple(arguments), distinct, False, name.at)


def _case(tokens: TokenStream, at: int) -> Expression:
    operand = None if tokens.is_keyword("when") else expression(tokens)
    branches: list[tuple[Expression, Expression]] = []
    while tokens.take_keyword("when"):
        condition = expression(tokens)
        tokens.expect_keyword("then")
        branches.append((condition, expression(tokens)))
    if not branches:
        raise tokens.unexpected("WHEN")
    otherwise = expression(tokens) if tokens.take_keyword("else") else None
    tokens.expect_keyword("end")
    return syntax.Case(operand, tuple(branches), otherwise, at)


def _cast(tokens: TokenStream) -> tuple[Expression, str]:
    operand = expression(tokens)
    tokens.expect_keyword("as")
    name = tokens.expect_name("a type").text.lower()
    if name == "double":
        tokens.take_keyword("precision")
    return operand, name


def _extract(tokens: TokenStream) -> tuple[str, Expression]:
    unit = tokens.expect_name("a unit such as YEAR").text.lower()
    tokens.expect_keyword("from")
    return unit, expression(tokens)


# -- subscripts ----------------------------------------------------------------------------------------------------

Item = Expression | syntax.Slice | syntax.Dots


def subscripts(tokens: TokenStream) -> tuple[Item, ...]:
    """Read the items between square brackets, and the closing bracket."""
    found = tokens.separated(_item)
    tokens.expect_operator("]")
    return found


def _item(tokens: TokenStream) -> Item:
    at = tokens.token.at
    if tokens.take_operator("..."):
        return syntax.Dots(at)
    start = None if tokens.is_operator(":") else expression(tokens)
    if not tokens.take_operator(":"):
        if start is None:
            raise tokens.unexpected("an index")
        return start
    stop = None if tokens.is_operator(":", ",", "]") else expression(tokens)
    step = None
    if tokens.take_operator(":"):
        step = None if tokens.is_operator(",", "]") else expression(tokens)
    return syntax.Slice(start, stop, step, at)
