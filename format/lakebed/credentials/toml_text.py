"""Replace one table of a TOML text and keep all other text, including comments, unchanged.

The standard library reads TOML and does not write it. The result is parsed again before it is returned, so that it is
either correct or None.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from lakebed.storage.secret import Secret

_HEADER = re.compile(r"\s*\[(?!\[)(?P<name>[^\n]*)\]\s*(#.*)?$")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def with_table(text: str, name: str, values: Mapping[str, Any] | None) -> str | None:
    """Return the text with a table replaced or (None) removed; None if the table cannot be separated from others."""
    # `splitlines` would also split at characters that do not end a line in TOML.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    headers = [i for i, line in enumerate(lines) if _HEADER.match(line)]
    own = [i for i in headers if _path(lines[i])[:1] == [name]]
    begin = own[0] if own else len(lines)
    end = next((i for i in headers if i > begin and i not in own), len(lines))
    end = _without_trailing_comments(lines, begin, end)
    before, behind = "".join(lines[:begin]), "".join(lines[end:])
    if values is not None and before and not before.endswith("\n\n"):
        before = before.rstrip("\n") + "\n\n"
    made = before + ("" if values is None else _table(name, values)) + behind
    return made if _is_right(text, made, name, values) else None


def _path(line: str) -> list[str]:
    """Return the names in a header; [] if the line is not a header."""
    try:
        found: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return []
    names = []
    while isinstance(found, dict) and found:
        name, found = next(iter(found.items()))
        names.append(name)
    return names


def _without_trailing_comments(lines: list[str], begin: int, end: int) -> int:
    """Return the end of a table without the comments right above the next table, which belong to the next table."""
    if end == len(lines):
        return end
    while end > begin + 1 and lines[end - 1].strip()[:1] in ("", "#"):
        end -= 1
    return end


def _table(name: str, values: Mapping[str, Any]) -> str:
    lines = [f"[{_key(name)}]", *(f"{_key(key)} = {_value(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    # TOML has the escapes of JSON; only surrogate pairs and DEL differ.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, Secret):
        value = value.reveal()
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return json.dumps(value)


def _is_right(old: str, new: str, name: str, values: Mapping[str, Any] | None) -> bool:
    try:
        wanted, found = tomllib.loads(old), tomllib.loads(new.encode("utf-8").decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeEncodeError):
        return False
    if values is None:
        wanted.pop(name, None)
    else:
        wanted[name] = {key: _bare(value) for key, value in values.items()}
    return found == wanted


def _bare(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {key: _bare(item) for key, item in value.items()}
    return [_bare(item) for item in value] if isinstance(value, (list, tuple)) else value
