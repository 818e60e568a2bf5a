"""What may have been meant by words that other languages have, and this one has not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakebed.query.language.words import Words

_CHANGES = ("delete", "update", "insert", "drop", "create", "alter", "truncate", "merge", "replace")
_CLAUSES = ("where", "order", "group", "limit", "from", "sample")
_TYPES = ("varchar", "char", "decimal", "numeric", "text", "string", "float")

_WORDS = {
    "notnull": "say IS NOT NULL",
    "none": "say NULL",
    "fetch": "say LIMIT",
    "exclude": "name the columns that are wanted",
    "regexp": "say MATCHES(text, 'pattern')",
    "rlike": "say MATCHES(text, 'pattern')",
    "similar": "say MATCHES(text, 'pattern')",
    "glob": "say LIKE, which takes * and ?",
    "qualify": "say HAVING, or ask SQL of DuckDB: ds.to_duckdb()",
    "window": "windows are asked of DuckDB: ds.to_duckdb()",
    "tablesample": "say SAMPLE BY",
}
"""Word that stands where none of it is expected -> what this language says."""

_OPERATORS = {
    ("*", "*"): "a power is x ^ 2",
    ("/", "/"): "a whole quotient is FLOOR(x / 2)",
    (":", ":"): "a conversion is CAST(x AS text)",
    ("-", ">"): "a part of a JSON value is x['key']",
    ("/", "*"): "a comment goes from -- to the end of its line",
}
"""Operators that follow each other elsewhere -> what this language says."""


def advice(words: Words, wanted: str) -> str:
    """Return the end of a sentence about a word that is not what was wanted; the empty text if nothing is known.

    Parameters
    ----------
    wanted
        As the error says it.
    """
    found = _advice(words, wanted)
    return f"; {found}" if found else ""


def _advice(words: Words, wanted: str) -> str:
    word, after = words.word, words.ahead(1)
    before = words.words[words.next - 1] if words.next else None
    text = word.text.lower()
    is_name = word.kind == "name"
    if before is None:
        return _beginning(text) if is_name else ""
    previous = before.text.lower()
    if word.kind == "operator":
        for pair in ((before.text, word.text), (word.text, after.text)):
            if pair in _OPERATORS:
                return _OPERATORS[pair]
        if text == "," and words.next > 1 and words.words[words.next - 2].text.lower() == "limit":
            return f"say LIMIT {after.text or 'count'} OFFSET {before.text}"
        if text == "(" and previous == "over":
            return "windows are asked of DuckDB: ds.to_duckdb()"
        if text == "(" and previous in _TYPES:
            return "types have no length here: CAST(x AS text)"
    if previous == "in" and wanted == "'('":
        return (
            "a list stands in round brackets: x IN (1, 2); CONTAINS(x, 1) asks whether an array holds a value"
        )
    if not is_name:
        return ""
    if text == "null" and previous == "not":
        return "say IS NOT NULL"
    if text in ("true", "false") and wanted == "NULL":
        return f"say x = {text}"
    if wanted == "an expression" and text in _RESERVED_NAMES:
        return f'a column of that name stands in double quotes: "{word.text}"'
    return _WORDS.get(text, "")


_RESERVED_NAMES = (
    "order group limit offset sample from where end left right using with by desc asc on join cross full like between"
    " as in is"
).split()


def _beginning(text: str) -> str:
    if text in _CHANGES:
        return "a query only reads: ds.append, ds.pop and ds.tensor[row] = value change a dataset"
    if text in _CLAUSES:
        return "begin with SELECT *"
    if text in ("show", "describe", "desc", "pragma"):
        return "ds.summary() shows what a dataset has"
    return ""
