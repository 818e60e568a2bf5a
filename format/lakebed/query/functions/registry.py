"""All functions by name, and hints for names from other languages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from lakebed.errors import InvalidInputError
from lakebed.query.functions import boxes, dates, numeric, text, vectors
from lakebed.query.functions.function import ADDED, Function, add_function
from lakebed.query.language.errors import near

F = TypeVar("F", bound=Callable[..., Any])

FUNCTIONS: dict[str, Function] = {
    function.name: function
    for module in (numeric, vectors, boxes, text, dates)
    for function in module.FUNCTIONS
}

SPECIAL = tuple(
    "BM25_SIMILARITY RRF DATA ROW_NUMBER RANDOM SHAPE SAMPLE_INFO MAX_WEIGHT SUM_WEIGHT IF IIF NOW TODAY".split()
)
"""Functions that the binder handles itself, because they need more than the values of their arguments."""

_MEANT: dict[str, str] = {
    "STDDEV": "STD, which divides by the number of values, as in NumPy",
    "STDDEV_SAMP": "STD, which divides by the number of values, as in NumPy",
    "VARIANCE": "VAR, which divides by the number of values, as in NumPy",
    "JSON_EXTRACT": "a key in brackets: about['place']['id']",
    "JSON_VALUE": "a key in brackets: about['place']['id']",
    "JSON_ARRAY_LENGTH": "LEN",
    "ARRAY_LENGTH": "LEN, or SHAPE",
    "CARDINALITY": "LEN",
    "GETDATE": "NOW()",
    "CURRENT_TIMESTAMP": "NOW()",
    "CURRENT_DATE": "TODAY()",
    "STRFTIME": "DATE_FORMAT(at, '%Y-%m-%d')",
    "TO_CHAR": "DATE_FORMAT(at, '%Y-%m-%d'), or CAST(x AS text)",
    "DATEDIFF": "DATE_DIFF('day', a, b)",
    "DATEADD": "DATE_ADD('day', 3, at)",
    "REGEXP_LIKE": "MATCHES",
    "NVL": "COALESCE",
    "UCASE": "UPPER",
    "LCASE": "LOWER",
    "GROUP_CONCAT": "the column itself, which holds the values of the group",
    "ARRAY_AGG": "the column itself, which holds the values of the group",
    "EQUALS": "text = 'x'",
    "BM25": "BM25_SIMILARITY",
    "HYBRID": "RRF(BM25_SIMILARITY(...), COSINE_SIMILARITY(...))",
}


def find(name: str) -> Function | None:
    """Return the function of a name, of the language or registered by the program; None if it is unknown."""
    return FUNCTIONS.get(name) or ADDED.get(name)


def hint(name: str) -> str:
    """Return the hint of an error about an unknown function."""
    if name in _MEANT:
        return f"; say {_MEANT[name]}"
    return near(name, sorted({*FUNCTIONS, *SPECIAL, *ADDED}))


@overload
def register(
    name: str, function: None = None, *, vectorised: bool = False, arguments: int | None = None
) -> Callable[[F], F]: ...


@overload
def register(name: str, function: F, *, vectorised: bool = False, arguments: int | None = None) -> F: ...


def register(
    name: str, function: F | None = None, *, vectorised: bool = False, arguments: int | None = None
) -> F | Callable[[F], F]:
    """Add a function of Python to the query language, for this process.

    Parameters
    ----------
    name
        Name in queries; case does not matter.
    function
        Function that is called for each row. Arguments are arrays, texts or JSON values; a missing sample is passed as
        an empty array or text. It returns an array, a text or a JSON value. If no function is given, `register` returns
        a decorator.
    vectorised
        Whether the function is called with many rows at once. Arguments then are arrays of shape (rows, ...) if samples
        have one shape, else lists; constants are passed unchanged. The function returns one value for each row.
    arguments
        Number of arguments; None takes it from the signature of the function.

    Returns
    -------
    The function.

    Raises
    ------
    InvalidInputError
        If the name is invalid, or is the name of a function of the language.

    Examples
    --------
    >>> @register("half")
    ... def half(x):
    ...     return x / 2
    >>> import lakebed
    >>> ds = lakebed.empty("mem://register-example")
    >>> _ = ds.create_tensor("x", dtype="float32")
    >>> ds.extend({"x": [1, 2, 3]})
    >>> [v.item() for v in ds.query("SELECT half(x) AS y").column("y").numpy().ravel()]
    [0.5, 1.0, 1.5]
    """
    if name.upper() in FUNCTIONS or name.upper() in SPECIAL:
        raise InvalidInputError(f"{name} is a function of the language already")
    if function is None:

        def registered(given: F) -> F:
            return register(name, given, vectorised=vectorised, arguments=arguments)

        return registered
    add_function(name, function, is_vectorised=vectorised, arguments=arguments)
    return function
