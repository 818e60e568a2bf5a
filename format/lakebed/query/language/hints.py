"""Hints for words and operators of other languages that the query language does not have."""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.query.language.lexer import Token

_CHANGES = ("delete", "update", "insert", "drop", "create", "alter", "truncate", "merge", "replace")
_CLAUSES = ("where", "order", "group", "limit", "from", "sample")
_COMPARING = ("=", "==", "!=", "<>", "<", "<=", ">", ">=", "in", "is", "like", "between", "not")
_TYPES = ("varchar", "char", "decimal", "numeric", "text", "string", "float")
_RESERVED_NAMES = (
    "order group limit offset sample from where end left right using with by desc asc on join cross full like between"
    " as in is"
).split()

_WORDS = {
    "notnull": "say IS NOT NULL",
    "none": "say NULL",
    "fetch": "say LIMIT",
    "exclude": "name the columns that are wanted",
    "regexp": "say MATCHES(text, 'pattern')",
    "rlike": "say MATCHES(text, 'pattern')",
    "similar": "say MATCHES(text, 'pattern')",
    "glob": "say LIKE, which takes * and ?",
    "qualify": "say HAVING, or use SQL of DuckDB: ds.to_duckdb()",
    "window": "DuckDB has windows: ds.to_duckdb()",
    "tablesample": "say SAMPLE BY",
}
"""Word of another language -> hint."""

_OPERATORS = {
    ("*", "*"): "a power is x ^ 2",
    ("/", "/"): "a whole quotient is FLOOR(x / 2)",
    (":", ":"): "a conversion is CAST(x AS text)",
    ("-", ">"): "a part of a JSON value is x['key']",
    ("/", "*"): "a comment goes from -- to the end of its line",
}
"""Operators of other languages -> hint."""


def advice(tokens: Sequence[Token], at: int, wanted: str) -> str:
    """Return a hint about an unexpected token; an empty text if there is none.

    Parameters
    ----------
    at
        Index of the unexpected token.
    wanted
        Description of the expected token in the error.
    """
    token, after = tokens[at], tokens[min(at + 1, len(tokens) - 1)]
    text = token.text.lower()
    is_name = token.kind == "name"
    if at == 0:
        is_condition = after.text.lower() in _COMPARING
        return (_beginning(text) if is_name else "") or (
            "a condition goes to ds.filter" if is_condition else ""
        )
    before = tokens[at - 1]
    previous = before.text.lower()
    if token.kind == "operator":
        for pair in ((before.text, token.text), (token.text, after.text)):
            if pair in _OPERATORS:
                return _OPERATORS[pair]
        if text == "," and at > 1 and tokens[at - 2].text.lower() == "limit":
            return f"say LIMIT {after.text or 'count'} OFFSET {before.text}"
        if text == "(" and previous == "over":
            return _WORDS["window"]
        if text == "(" and previous in _TYPES:
            return "types have no length here: CAST(x AS text)"
    if previous == "in" and wanted == "'('":
        return "a list has round brackets: x IN (1, 2); CONTAINS(x, 1) asks whether an array holds a value"
    if not is_name:
        return ""
    if text == "null" and previous == "not":
        return "say IS NOT NULL"
    if text in ("true", "false") and wanted == "NULL":
        return f"say x = {text}"
    if wanted == "an expression" and text in _RESERVED_NAMES:
        return f'a column of that name needs double quotes: "{token.text}"'
    return _WORDS.get(text, "")


def _beginning(text: str) -> str:
    if text in _CHANGES:
        return "a query only reads: ds.append, ds.pop and ds.tensor[row] = value change a dataset"
    if text in _CLAUSES:
        return "begin with SELECT *"
    if text in ("show", "describe", "desc", "pragma"):
        return "ds.summary() shows the contents of a dataset"
    return ""
