"""Checked access to the members of a JSON document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lakebed import limits
from lakebed.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LARGEST = 2**63 - 1

_PART = r"(?!\.{1,2}(?:/|\Z))[^/\\\0]+"
_KEY = re.compile(f"{_PART}(?:/{_PART})*")
_VERSION = re.compile(r"(?!\.{1,2}\Z)[!-+\-.0-9;-[\]-~ ]+")


def text(doc: Mapping[str, Any], name: str, what: str, default: str) -> str:
    """Return a member that must be text."""
    value = doc.get(name, default)
    if not isinstance(value, str):
        raise FormatError(f"{what}: {name} is {value!r:.60}, not text")
    return value


_KINDS = {str: "text", int: "a whole number", bool: "true or false"}


def optional(doc: Mapping[str, Any], kind: type, names: Iterable[str], what: str) -> dict[str, Any]:
    """Return the members that are present and not null; each must be text, a whole number, or true or false."""
    found = {}
    for name in names:
        value: Any = doc.get(name)
        if value is None:
            continue
        is_kind = type(value) is kind
        if not is_kind or (kind is int and abs(value) > LARGEST):
            raise FormatError(f"{what}: {name} is {value!r:.60}, not {_KINDS[kind]} or null")
        found[name] = value
    return found


def count(doc: Mapping[str, Any], name: str, what: str) -> int:
    """Return a required member that must be a number from 0 to 2^63 - 1."""
    value = doc.get(name)
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise FormatError(f"{what}: {name} is {value!r:.60}, not a count")
    return value


def shape(doc: Mapping[str, Any], name: str, what: str) -> tuple[int, ...]:
    """Return a member that must be a list of lengths; null or missing is the empty list."""
    value = doc.get(name)
    if value is None:
        return ()
    is_list = isinstance(value, list) and set(map(type, value)) <= {int}
    if not is_list or (value and not 0 <= min(value) <= max(value) <= LARGEST):
        raise FormatError(f"{what}: {name} is {value!r:.60}, not a list of lengths")
    limits.check("MAX_AXES", len(value), f"{what}: axes of {name}")
    return tuple(value)


def texts(doc: Mapping[str, Any], name: str, what: str) -> tuple[str, ...]:
    """Return a member that must be a list of text; null or missing is the empty list."""
    value = doc.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not set(map(type, value)) <= {str}:
        raise FormatError(f"{what}: {name} is {value!r:.60}, not a list of text")
    return tuple(value)


def mapping(doc: Mapping[str, Any], name: str, what: str) -> dict[str, Any]:
    """Return a member that must be an object; null or missing is the empty object."""
    value = doc.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FormatError(f"{what}: {name} is {value!r:.60}, not an object")
    return value


def checked_key(key: Any, what: str) -> str:
    """Return a tensor key if it is a path that stays inside the dataset.

    Raises
    ------
    FormatError
        If the path could lead out of the dataset's folder.
    """
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        raise FormatError(f"{what}: {key!r:.60} is not a tensor key")
    return key


def checked_version(id: Any, what: str) -> str:  # noqa: A002
    """Return a version id if it can be a folder name and an item of `chunk_set`.

    Raises
    ------
    FormatError
        If the id cannot be such a name.
    """
    if not isinstance(id, str) or _VERSION.fullmatch(id) is None:
        raise FormatError(f"{what}: {id!r:.60} is not a version id")
    return id
