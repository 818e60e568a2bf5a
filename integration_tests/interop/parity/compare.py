"""Where two records of the same cases differ."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Json = Any
CLOSE = 4
"""Decoders of lossy images differ by this much in a pixel."""


NO_ROWS = {"array": "float64", "shape": [0], "data": ""}
"""What 3.9.52 gives where there are no rows; ours keeps dtype and rank of the tensor."""


@dataclass(frozen=True)
class Difference:
    """One statement whose result differs."""

    case: str
    line: str
    where: str
    """Keys and positions that lead to the differing part of a value."""
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.case}: {self.line}\n    at {self.where}\n    3.9.52:  {self.theirs}\n    lakebed: {self.ours}"


def differences(case: str, theirs: list[Json], ours: list[Json]) -> Iterator[Difference]:
    """Compare the statements of one case."""
    for left, right in zip(theirs, ours, strict=True):
        for where, wanted, found in _statement(left, right):
            yield Difference(case, left["line"], where, wanted, found)


def _statement(theirs: Json, ours: Json) -> Iterator[tuple[str, str, str]]:
    if "error" in theirs and "error" in ours:
        yield from _errors("error", theirs["error"], ours["error"])
    elif "error" in theirs or "error" in ours:
        yield "result", shown(theirs), shown(ours)
    else:
        yield from _values("value", theirs.get("value"), ours.get("value"))
    if theirs.get("out") != ours.get("out"):
        yield "printed", theirs.get("out", "nothing"), ours.get("out", "nothing")


def shown(found: Json) -> str:
    """A result of a statement, for people."""
    if "error" in found:
        return "raises " + _chain(found["error"])
    return _brief(found.get("value"))


def _chain(errors: Json) -> str:
    return " from ".join(f"{error['classes'][0]}({error['text'][:150]!r})" for error in errors)


def _errors(where: str, theirs: Json, ours: Json) -> Iterator[tuple[str, str, str]]:
    """An error of ours may be more special than theirs, and may say more about what caused it."""
    for wanted, found in zip(theirs, ours, strict=False):
        if wanted["classes"][0] not in found["classes"]:
            yield where, _chain(theirs), _chain(ours)
            return
    if len(ours) < min(len(theirs), 2):
        yield where + " cause", _chain(theirs), _chain(ours)


def _brief(value: Json) -> str:
    if isinstance(value, dict) and "data" in value:
        array = _array(value)
        content = f" {array.tolist()}" if array.size <= 24 else ""
        return f"{value['array']} {tuple(value['shape'])}{content}"
    if isinstance(value, dict) and "exception" in value:
        return _chain(value["exception"])
    return repr(value)[:400]


def _array(value: Json) -> Any:
    return np.frombuffer(base64.b64decode(value["data"]), value["array"]).reshape(value["shape"])


def _values(where: str, theirs: Json, ours: Json) -> Iterator[tuple[str, str, str]]:
    if theirs == ours:
        return
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        if "data" in theirs and _close(theirs, ours):
            return
        if theirs == NO_ROWS and 0 in ours["shape"]:
            return
        if "exception" in theirs:
            yield from _errors(where, theirs["exception"], ours["exception"])
            return
        if "mapping" in theirs:
            yield from _mappings(where, theirs["mapping"], ours["mapping"])
            return
        if "tuple" in theirs:
            yield from _values(where, theirs["tuple"], ours["tuple"])
            return
        if "values" in theirs and theirs["shape"] == ours["shape"] and theirs["array"] == ours["array"]:
            yield from _values(where, theirs["values"], ours["values"])
            return
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (left, right) in enumerate(zip(theirs, ours, strict=True)):
            yield from _values(f"{where}[{number}]", left, right)
        return
    yield where, _brief(theirs), _brief(ours)


def _mappings(where: str, theirs: Json, ours: Json) -> Iterator[tuple[str, str, str]]:
    left = {repr(key): value for key, value in theirs}
    right = {repr(key): value for key, value in ours}
    for key in left.keys() | right.keys():
        if key in left and key in right:
            yield from _values(f"{where}[{key}]", left[key], right[key])
        else:
            yield f"{where}[{key}]", _brief(left.get(key, "nothing")), _brief(right.get(key, "nothing"))


def _close(theirs: Json, ours: Json) -> bool:
    if (theirs["array"], theirs["shape"]) != (ours["array"], ours["shape"]):
        return False
    left, right = _array(theirs), _array(ours)
    if left.dtype == np.uint8:
        return left.size > 50 and int(np.abs(left.astype(int) - right).max()) <= CLOSE
    if left.dtype == bool:
        return bool(np.array_equal(left, right))  # a PNG of booleans comes back as bytes 0 and 255
    if left.dtype.kind == "f":
        return bool(np.allclose(left, right, rtol=1e-5, atol=1e-6, equal_nan=True))
    return False
