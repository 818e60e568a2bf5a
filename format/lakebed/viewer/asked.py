"""Parameters of requests: each has one name, one meaning and one check at all addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from lakebed.errors import InvalidInputError

LARGEST = 16_383  # largest side that all browsers can display
_MOST_ROWS = 512
_LONGEST_NAME = 200

Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Asked:
    """The parameters of a request.

    Attributes
    ----------
    number, tensor, row
        From the path: a dataset of the list, a tensor or column, and a row.
    at, q
        Version; and the id of an answered query, if the request is about rows and columns of its answer.
    start, count, tensors
        Rows, and the tensors whose values are returned; None for all.
    w
        Largest width of a picture in pixels; 0 for no limit.
    frame
        Item of a sequence, frame of a video, or slice of a scan.
    low, high
        Values shown as black and white; None chooses them.
    box
        Left, top, width and height of the part to show; None for all.
    a, b
        Versions to compare.
    text, name, rows
        Text of a query; name and rows of a view to save.
    range
        The ``Range`` header, for a part of a file.
    """

    number: int = 0
    tensor: str = ""
    row: int = 0
    at: str = ""
    q: str = ""
    start: int = 0
    count: int = 64
    tensors: list[str] | None = None
    w: int = 0
    frame: int = 0
    low: float | None = None
    high: float | None = None
    box: Box | None = None
    a: str = ""
    b: str = ""
    text: str | None = None
    name: str | None = None
    rows: list[int] | None = None
    range: str | None = None

    @classmethod
    def of(cls, path: Mapping[str, Any], given: Mapping[str, Any]) -> Self:
        """Read parameters.

        Parameters
        ----------
        path
            Parameters of the path, parsed.
        given
            Parameters of the query string, or of the JSON object in the body.

        Raises
        ------
        InvalidInputError
            If a parameter has a wrong type or value.
        """
        found = dict(path)
        for name, (read, what) in _PARAMETERS.items():
            value = given.get(name)
            if value is None:
                continue
            try:
                found[name] = read(_of_type(value, list if name == "rows" else str))
            except ValueError as error:
                raise InvalidInputError(f"{name} must be {what}") from error
        return cls(**found)


def _of_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(value)
    return value


def _number(text: str, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 20 or int(text) > most:
        raise ValueError(text)
    return int(text)


def _up_to(most: int) -> tuple[Callable[[str], int], str]:
    return lambda text: _number(text, most), f"a number from 0 to {most}"


def _finite(text: str) -> float:
    found = float(text)
    if not abs(found) < 1e300:
        raise ValueError(text)
    return found


def _box(text: str) -> Box:
    left, top, width, height = (_number(part, 10**9) for part in text.split(","))
    return left, top, width, height


def _names(text: str) -> list[str]:
    """Return the names of a list, each once: a comma in a name is written with a backslash before it."""
    parts = re.findall(r"((?:[^,\\]|\\.)+)(?:,|$)", text, re.DOTALL)
    return list(dict.fromkeys(re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in parts))


def _name(text: str) -> str:
    if not 0 < len(text) <= _LONGEST_NAME:
        raise ValueError(text)
    return text


def _rows(values: list[Any]) -> list[int]:
    if not all(type(row) is int and row >= 0 for row in values):
        raise ValueError(values)
    return values


_PARAMETERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    **dict.fromkeys(("at", "q", "a", "b", "text", "range"), (str, "a text")),
    "start": _up_to(1 << 53),
    "count": _up_to(_MOST_ROWS),
    "tensors": (_names, "a list of names"),
    "w": _up_to(LARGEST),
    "frame": _up_to(1 << 31),
    "low": (_finite, "a number"),
    "high": (_finite, "a number"),
    "box": (_box, "left,top,width,height in pixels"),
    "name": (_name, f"a text of 1 to {_LONGEST_NAME} characters"),
    "rows": (_rows, "a list of row numbers"),
}
