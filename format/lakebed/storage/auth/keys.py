"""Keys of a dictionary of credentials: one spelling for each key, and an error for unknown keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakebed.errors import InvalidInputError
from lakebed.storage.secret import Secret


def known(
    values: Mapping[str, Any], store: str, keys: tuple[str, ...], aliases: Mapping[str, str]
) -> dict[str, Any]:
    """Return the values under one spelling of their keys; None counts as not given.

    Raises
    ------
    InvalidInputError
        If a key is unknown, or given in two spellings. The message never shows values.
    """
    strange = sorted(key for key in values if key not in keys and key not in aliases)
    if strange:
        raise InvalidInputError(
            f"credentials for {store} have unknown keys {', '.join(strange)}; known are {', '.join(keys)}"
        )
    result: dict[str, Any] = {}
    for key, value in values.items():
        name = aliases.get(key, key)
        if value is not None and result.setdefault(name, value) != value:
            raise InvalidInputError(f"credentials for {store} have {name} twice, under two spellings")
    return result


def secret(values: Mapping[str, Any], key: str) -> Secret | None:
    """Return a value as a secret; None if it is missing or empty."""
    text = plain(values, key)
    return None if text is None else Secret(text)


def plain(values: Mapping[str, Any], key: str) -> str | None:
    """Return a value as text; None if it is missing or empty."""
    value = _revealed(values.get(key))
    if value is None or isinstance(value, str):
        return value or None
    raise InvalidInputError(f"{key} in creds must be text, not {type(value).__name__}")


def flag(values: Mapping[str, Any], key: str) -> bool:
    """Return a value that is true or false; False if it is missing."""
    value = _revealed(values.get(key, False))
    if isinstance(value, str) and value.lower() in ("true", "1", "yes", "false", "0", "no", ""):
        return value.lower() in ("true", "1", "yes")
    if isinstance(value, bool):
        return value
    raise InvalidInputError(f"{key} in creds must be True or False, not {type(value).__name__}")


def whole(values: Mapping[str, Any], key: str) -> int | None:
    """Return a value that is a whole number; None if it is missing."""
    value = _revealed(values.get(key))
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise InvalidInputError(f"{key} in creds must be a whole number")


def _revealed(value: Any) -> Any:
    return value.reveal() if isinstance(value, Secret) else value
