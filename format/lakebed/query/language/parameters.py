"""Values of the parameters of a query: one for each ``?``, in order, or one for each ``$name``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakebed.errors import QueryError
from lakebed.query.language import syntax
from lakebed.query.language.errors import near, query_error
from lakebed.query.language.lexer import HALF, is_writable

Given = Sequence[Any] | Mapping[str, Any]


def values_of(text: str, query: syntax.Query, given: Given) -> Sequence[Any]:
    """Return the values of a query in the order of its parameters.

    Parameters
    ----------
    given
        A sequence for ``?``, a mapping for ``$name``; names may be written with their ``$``.

    Raises
    ------
    QueryError
        If the number of values is wrong, or UTF-8 cannot encode a text.
    """
    values = _named(text, query, given) if query.named else _counted(query, given)
    for number, value in enumerate(values):
        if isinstance(value, str) and not is_writable(value):
            name = f"${query.named[number][0]}" if query.named else f"parameter {number + 1}"
            raise QueryError(f"{name} {HALF}", kind="type")
    return values


def _counted(query: syntax.Query, given: Given) -> Sequence[Any]:
    count = query.parameters
    if isinstance(given, Mapping):
        if given:
            names = ", no $".join(map(str, given))
            message = f"the query has no ${names}; its {count} parameters (?) take a list of values"
            raise QueryError(message, kind="arity")
        given = ()
    if count != len(given):
        message = f"the query has {count} parameters (?), and {len(given)} values were given"
        raise QueryError(message, kind="arity")
    return given


def _named(text: str, query: syntax.Query, given: Given) -> Sequence[Any]:
    names = dict(query.named)
    if not isinstance(given, Mapping):
        if len(given):
            told = ", ".join(f"{name!r}: ..." for name in names)
            message = f"the query names its values: pass parameters={{{told}}}, not a list"
            raise query_error(text, query.named[0][1], "arity", message)
        given = {}
    values = {str(name).removeprefix("$"): value for name, value in given.items()}
    for name, at in query.named:
        if name not in values:
            hint = near(name, [other for other in values if other not in names])
            message = f"no value was given for ${name}{hint if '?' in hint else ''}"
            raise query_error(text, at, "arity", message)
    for name in values:
        if name not in names:
            hint = near(name, names)
            meant = next((at for other, at in query.named if f"{other!r}?" in hint), query.named[0][1])
            raise query_error(text, meant, "arity", f"the query has no ${name}{hint}")
    return [values[name] for name, _ in query.named]


def shown(node: syntax.Parameter) -> str:
    """Return a parameter as errors show it."""
    return f"${node.name}" if node.name else f"parameter {node.number + 1}"
