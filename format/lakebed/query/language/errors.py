"""Errors of queries: the place in the text, the problem, and similar names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

from lakebed.errors import QueryError, QuerySyntaxError

_E = TypeVar("_E", bound=QueryError)

_SHOWN = 100
_LISTED = 12
_LONGEST = 1000
_COMPARED = 200
"""Maximum length of names for which similar names are searched: the time grows with the product of both lengths."""


def syntax_error(text: str, at: int, message: str) -> QuerySyntaxError:
    """Return a syntax error with the line of the text, and a caret below position `at`."""
    return _located(QuerySyntaxError, text, at, "syntax", message)


def query_error(text: str, at: int, kind: str, message: str) -> QueryError:
    """Return an error for a query that does not fit the data, with the line of the text and a caret below `at`."""
    return _located(QueryError, text, at, kind, message)


def _located(error: type[_E], text: str, at: int, kind: str, message: str) -> _E:
    line, column, excerpt = place(text, at)
    if len(message) > _LONGEST:  # the message may quote a long name
        message = f"{message[: _LONGEST * 3 // 4]}...{message[-_LONGEST // 4 :]}"
    message = f"{message} (line {line}, column {column})\n{excerpt}"
    return error(message, kind=kind, line=line, column=column)


@contextmanager
def placed(text: str, at: int) -> Iterator[None]:
    """Add a position of the text to query errors that are raised inside a ``with`` without one."""
    try:
        yield
    except QueryError as error:
        if error.line is not None:
            raise
        raise query_error(text, at, error.kind, error.message) from error


def place(text: str, at: int) -> tuple[int, int, str]:
    """Return line and column of position `at`, counted from 1, and the text of the line with a caret below `at`."""
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
    """Return the end of an error about an unknown name: the most similar known name, or all known names."""
    names = list(known)
    folded: dict[str, str] = {}
    for other in names:
        folded.setdefault(other.lower(), other)
    found = get_close_matches(name.lower(), list(folded), n=1) if len(name) <= _COMPARED else []
    if found:
        return f"; did you mean {folded[found[0]]!r}?"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"; there are {', '.join(names[:_LISTED])}{more}" if names else ""
