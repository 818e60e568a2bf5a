"""Credentials in the environment: ``LAKEBED_CREDS_<NAME>`` holds them as a JSON dictionary.

A name of letters, digits and ``_`` is first tried unchanged; then every name is tried in capitals, with ``_`` for all
other characters: ``lab-1`` is ``LAKEBED_CREDS_LAB_1``.
"""

from __future__ import annotations

import os
import re

from lakebed.credentials.base import parsed
from lakebed.errors import InvalidInputError
from lakebed.storage.credentials import Given

PREFIX = "LAKEBED_CREDS_"
FILE = "LAKEBED_CREDS_FILE"
"""Variable that names a file with credentials, and is not an entry itself."""

_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_OTHER = re.compile(r"[^A-Z0-9]")


class Environment:
    """Provider of entries in the environment of this process, which workers inherit."""

    name = "environment"

    def find(self, key: str) -> Given | None:
        """Return the entry of a name; None if the variable is not set.

        Raises
        ------
        InvalidInputError
            If the variable does not hold a JSON dictionary.
        """
        variable = next((name for name in _variables(key) if os.environ.get(name)), None)
        if variable is None:
            return None
        found = parsed(os.environ[variable])
        if found is None:
            raise InvalidInputError(
                f'{variable} holds no JSON dictionary of credentials, such as {{"aws_access_key_id": ..., '
                '"aws_secret_access_key": ...}'
            )
        return found

    def names(self) -> list[str]:
        """Return the names of variables without the prefix."""
        return sorted(
            name.removeprefix(PREFIX) for name in os.environ if name.startswith(PREFIX) and name != FILE
        )

    def place(self, key: str) -> str:
        """Return the name of the variable."""
        return _variables(key)[-1] if _variables(key) else f"{PREFIX}... (not for this name)"


def _variables(key: str) -> list[str]:
    capital = PREFIX + _OTHER.sub("_", key.upper())
    exact = [PREFIX + key] if _PLAIN.fullmatch(key) else []
    return [name for name in dict.fromkeys((*exact, capital)) if name != FILE]
