"""Translation of filters that are Python expressions, as in 3.x, to the query language; no filter is run as Python.

Python                                   query language
3 < age < 7                              3 < age AND age < 7
label in ['cat', 'dog']                  label IN ('cat', 'dog')
age is None, age == None                 age IS NULL
a & b, a | b, ~a, of conditions          a AND b, a OR b, NOT a
age // 2, age ** 2                       FLOOR(age / 2), age ^ 2
images.shape == (4, 5, 3)                images.shape == [4, 5, 3]
name.startswith('x'), (vec > 5).any()    STARTS_WITH(name, 'x'), ANY(vec > 5)
images.sample_info['x'], doc["k"]        SAMPLE_INFO(images)['x'], doc['k']
a if ok else b, label == "cat"           CASE WHEN ok THEN a ELSE b END, label == 'cat'
"""

from __future__ import annotations

import ast
import warnings
from math import isfinite

from lakebed.query.language.errors import syntax_error

_LONGEST = 20_000
"""Maximum length of a text that is translated."""

_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%", ast.Pow: "^", ast.USub: "-", ast.UAdd: "",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "IN",
    ast.NotIn: "NOT IN", ast.And: "AND", ast.BitAnd: "AND", ast.Or: "OR", ast.BitOr: "OR", ast.Not: "NOT ",
    ast.Invert: "NOT ",
}  # fmt: skip
_FUNCTIONS = {name: f"{name.upper()}({{}})" for name in "len abs round min max sum any all".split()}
_FUNCTIONS |= {"int": "TRUNC({})", "float": "CAST({} AS float)", "str": "CAST({} AS text)"}
_PARTS = {name: f"{name.upper()}({{}})" for name in "shape min max mean sum std any all lower upper".split()}
_PARTS |= {"size": "PROD(SHAPE({}))", "sample_info": "SAMPLE_INFO({})", "numpy": "{}"}
_CALLS = {"contains": "CONTAINS", "startswith": "STARTS_WITH", "endswith": "ENDS_WITH"}


class _Foreign(Exception):
    """A construct of Python, at a node, that filters do not support."""


def translated(text: str) -> str | None:
    """Translate a Python expression; return None if the text is not a Python expression.

    Raises
    ------
    QuerySyntaxError
        If the expression contains Python syntax that filters do not support.
    """
    if len(text) > _LONGEST:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            return _written(ast.parse(text.strip(), mode="eval").body)
    except _Foreign as error:
        message = "an expression is not run as Python and cannot have this part: pass a function instead, "
        message += "ds.filter(lambda row: row['age'] > 3)"
        at = len(text) - len(text.lstrip()) + getattr(error.args[0], "col_offset", 0)
        raise syntax_error(text, at, message) from None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _written(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return f'"{name}"'
        case ast.Constant(value=value) if value is None or isinstance(value, bool):
            return {True: "TRUE", False: "FALSE", None: "NULL"}[value]
        case ast.Constant(value=int() | float() as value) if isfinite(value):
            return repr(value)
        case ast.Constant(value=str() as value):
            return "'" + value.replace("'", "''") + "'"
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return f"[{', '.join(map(_written, items))}]"
        case ast.BoolOp(op=op, values=values):
            return "(" + f" {_SIGNS[type(op)]} ".join(map(_written, values)) + ")"
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return f"FLOOR({_written(left)} / {_written(right)})"
        case ast.BinOp(left=left, op=op, right=right) if _is_plain(op, left, right):
            return f"({_written(left)} {_SIGNS[type(op)]} {_written(right)})"
        case ast.UnaryOp(op=op, operand=operand) if _is_plain(op, operand):
            return f"({_SIGNS[type(op)]}{_written(operand)})"
        case ast.Compare(left=left, ops=ops, comparators=others):
            pairs = zip([left, *others], ops, others, strict=False)
            return "(" + " AND ".join(_compared(node, *pair) for pair in pairs) + ")"
        case ast.IfExp(test=test, body=body, orelse=other):
            return f"(CASE WHEN {_written(test)} THEN {_written(body)} ELSE {_written(other)} END)"
    return _part(node)


def _part(node: ast.expr) -> str:
    """Translate a subscript, an attribute or a call."""
    match node:
        case ast.Subscript(value=value, slice=ast.Slice(lower=low, upper=high, step=None)):
            return f"{_written(value)}[{_written(low) if low else ''}:{_written(high) if high else ''}]"
        case ast.Subscript(value=value, slice=ast.Constant() | ast.UnaryOp() as item):
            return f"{_written(value)}[{_written(item)}]"
        case ast.Attribute(value=value, attr=name) if name in _PARTS:
            return _PARTS[name].format(_written(value))
        case ast.Attribute(value=ast.Name() | ast.Attribute() as value, attr=name):
            return f'{_written(value)}."{name}"'
        case ast.Call(func=ast.Attribute(attr=name) as part, args=[], keywords=[]) if name in _PARTS:
            return _part(part)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[item], keywords=[]) if name in _CALLS:
            return f"{_CALLS[name]}({_written(value)}, {_written(item)})"
        case ast.Call(func=ast.Name(id=name), args=[value], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name].format(_written(value))
    raise _Foreign(node)


def _compared(node: ast.Compare, left: ast.expr, op: ast.cmpop, right: ast.expr) -> str:
    match op, right:
        case (ast.Is() | ast.Eq(), ast.Constant(value=None)):
            return f"{_written(left)} IS NULL"
        case (ast.IsNot() | ast.NotEq(), ast.Constant(value=None)):
            return f"{_written(left)} IS NOT NULL"
        case (ast.In() | ast.NotIn(), ast.List(elts=items) | ast.Tuple(elts=items)) if items:
            return f"{_written(left)} {_SIGNS[type(op)]} ({', '.join(map(_written, items))})"
    are_constants = all(isinstance(each, ast.Constant) for each in (node.left, *node.comparators))
    # Refuse a comparison of constants: the query language would read a text in double quotes as a name.
    if type(op) not in _SIGNS or are_constants:
        raise _Foreign(node)
    return f"{_written(left)} {_SIGNS[type(op)]} {_written(right)}"


def _is_plain(op: ast.AST, *operands: ast.expr) -> bool:
    """Return whether the query language has an operator for such operands: &, | and ~ for conditions, not for bits."""
    if not isinstance(op, ast.BitAnd | ast.BitOr | ast.Invert):
        return type(op) in _SIGNS
    joining = (ast.BitAnd, ast.BitOr, ast.Invert, ast.Not)
    return all(
        isinstance(each, ast.Compare | ast.BoolOp) or isinstance(getattr(each, "op", None), joining)
        for each in operands
    )
