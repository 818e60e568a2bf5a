"""Entries of named credentials, and their keys for providers.

An entry holds the keys of ``creds=``, which are those of Deep Lake 3.x, and these:

==================================================  ==================================================================
``provider``                                        maker of the credentials; without it, the entry itself holds them
``urls``                                            addresses, or beginnings of addresses, for the credentials
``ttl``                                             seconds after which the provider is called again
``secret_id``, ``parameter``, ``manager_...``       options of the providers ``aws-secretsmanager`` and ``aws-ssm``
==================================================  ==================================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from lakebed.errors import InvalidInputError
from lakebed.storage.credentials import Given, kept
from lakebed.storage.secret import Secret

OPTIONS = frozenset(
    "provider urls ttl secret_id parameter manager_region manager_profile manager_endpoint previous".split()
)
"""Keys of an entry that are not passed to a store."""

_SIMPLE = (str, int, float, bool, Secret)


class Provider(Protocol):
    """Source of entries by name."""

    @property
    def name(self) -> str:
        """Name for people; never a secret."""
        ...

    def find(self, key: str) -> Given | None:
        """Return the entry of a name; None if this provider does not know it.

        Raises
        ------
        InvalidInputError
            If the entry cannot be used, for example because others can read its file.
        """
        ...

    def names(self) -> list[str]:
        """Return the names that this provider knows, if it can list them."""
        ...

    def place(self, key: str) -> str:
        """Return the place of an entry with this name, which need not exist."""
        ...


def entry(value: Any) -> Given | None:
    """Wrap the secrets of an entry in `Secret`; None if the entry is not a dictionary of text, numbers and lists."""
    if not isinstance(value, Mapping) or not value or not all(isinstance(key, str) for key in value):
        return None
    if not all(_is_usable(item) for item in value.values()):
        return None
    covered = kept(dict(value))
    return covered if isinstance(covered, Given) else None


def parsed(text: str | None) -> Given | None:
    """Return the entry in a JSON text, None if it holds none; the text may be secret, so nothing is raised."""
    try:
        return entry(json.loads(text or ""))
    except (ValueError, RecursionError):
        return None


def option(found: Mapping[str, Any], name: str) -> str | None:
    """Return an option of an entry, which must be text.

    Raises
    ------
    InvalidInputError
        If the option is not text.
    """
    value = found.get(name)
    if isinstance(value, Secret):
        return value.reveal()
    if value is not None and not isinstance(value, str):
        raise InvalidInputError(f"{name} of credentials must be text, not {type(value).__name__}")
    return value


def without_options(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of an entry that are passed to a store."""
    return {key: value for key, value in found.items() if key not in OPTIONS}


def plain(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with its secrets as plain text, for a caller that stores it at once."""
    return {key: value.reveal() if isinstance(value, Secret) else value for key, value in found.items()}


def _is_usable(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_usable(item) for key, item in value.items())
    return value is None or isinstance(value, _SIMPLE)
