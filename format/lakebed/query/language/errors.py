"""Errors of queries: where in the text, what is wrong there, and what may have been meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from lakebed.errors import QueryError, QuerySyntaxError

_SHOWN = 100
_LISTED = 12
_LONGEST = 1000
_COMPARED = 200
"""Names that are longer are not compared with others: that takes the product of the lengths."""


def syntax_error(text: str, at: int, message: str) -> QuerySyntaxError:
    """Return the error of a sentence that is none, with the line and a caret below the place."""
    line, column, excerpt = place(text, at)
    message = _cut(message)
    return QuerySyntaxError(
        f"{message} (line {line}, column {column})\n{excerpt}", kind="syntax", line=line, column=column
    )


def query_error(text: str, at: int, kind: str, message: str) -> QueryError:
    """Return the error of a sentence that does not fit the data."""
    line, column, excerpt = place(text, at)
    message = _cut(message)
    return QueryError(
        f"{message} (line {line}, column {column})\n{excerpt}", kind=kind, line=line, column=column
    )


def _cut(message: str) -> str:
    """Return a message without the middle of what is very long, such as a name that it quotes."""
    if len(message) <= _LONGEST:
        return message
    return f"{message[: _LONGEST * 3 // 4]}...{message[-_LONGEST // 4 :]}"


def place(text: str, at: int) -> tuple[int, int, str]:
    """Return line and column of a place, counted from 1, and the line with a caret below the place."""
    at = min(at, len(text))
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    if end < 0:
        end = len(text)
    line = text.count("\n", 0, at) + 1
    column = at - start + 1
    first = max(start, min(at - _SHOWN // 2, end - _SHOWN))
    shown = text[first : min(end, first + _SHOWN)].replace("\t", " ").replace("\r", " ")
    shown = shown.encode("utf-8", "replace").decode()
    return line, column, f"    {shown}\n    {' ' * (at - first)}^"


def near(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about a name that is none of these: which it may have meant, or which there are."""
    names = list(known)
    folded: dict[str, str] = {}
    for other in names:
        folded.setdefault(other.lower(), other)
    found = get_close_matches(name.lower(), list(folded), n=1) if len(name) <= _COMPARED else []
    if found:
        return f"; did you mean {folded[found[0]]!r}?"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"; there are {', '.join(names[:_LISTED])}{more}" if names else ""
