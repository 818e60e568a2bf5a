"""Credentials in the keyring of the operating system, one JSON dictionary each (the extra ``keyring``)."""

from __future__ import annotations

import importlib.util
import json
import logging

from lakebed.credentials.base import parsed, plain
from lakebed.errors import InvalidInputError, ModuleNotInstalledException, StorageUnavailableError
from lakebed.storage.credentials import Given

_log = logging.getLogger(__name__)

SERVICE = "lakebed"
_INDEX = "lakebed names"  # name of the entry that lists all names, because keyrings cannot be listed


class SystemKeyring:
    """Provider of entries in the keyring, if the package and a keyring exist."""

    name = "keyring"

    def find(self, key: str) -> Given | None:
        """Return the entry of a name; None if the entry or the keyring does not exist.

        Raises
        ------
        InvalidInputError
            If the keyring holds another kind of content under the name.
        """
        present, found = _got(SERVICE, key)
        if present and found is None:
            raise InvalidInputError(f"the keyring holds no JSON dictionary of credentials under {key!r}")
        return found

    def names(self) -> list[str]:
        """Return the names of entries from :meth:`store`."""
        if not _is_installed():
            return []
        return sorted(_listed())

    def place(self, key: str) -> str:  # noqa: ARG002 - one of many
        """Return the name of the keyring."""
        if not _is_installed():
            return "keyring (not installed: pip install keyring)"
        import keyring

        return f"keyring {type(keyring.get_keyring()).__module__}"

    def store(self, key: str, values: Given | None) -> None:
        """Put an entry into the keyring, replacing an existing one; None removes it.

        Raises
        ------
        ModuleNotInstalledException
            If the package is not installed.
        StorageUnavailableError
            If no keyring accepts the entry.
        """
        if not _is_installed():
            raise ModuleNotInstalledException("keyrings need the package keyring: pip install keyring")
        problem = _put(key, values)
        if problem is not None:
            raise StorageUnavailableError(f"the keyring cannot store the credentials: {problem}")


def _is_installed() -> bool:
    return importlib.util.find_spec("keyring") is not None


def _got(service: str, key: str) -> tuple[bool, Given | None]:
    """Return whether the keyring has any text under a name, and the entry in this text, or None."""
    if not _is_installed():
        return False, None
    import keyring
    from keyring.errors import KeyringError

    try:
        text = keyring.get_password(service, key)
    except (KeyringError, OSError, RuntimeError) as error:
        _log.debug("no keyring can be read: %s", type(error).__name__)
        return False, None
    return text is not None, parsed(text)


def _put(key: str, values: Given | None) -> str | None:
    """Write an entry and the list of names; return the problem, which never shows the entry."""
    import keyring
    from keyring.errors import KeyringError

    try:
        if values is not None:
            keyring.set_password(SERVICE, key, json.dumps(plain(values)))
        elif keyring.get_password(SERVICE, key) is not None:
            keyring.delete_password(SERVICE, key)
        names = _listed() - {key} | ({key} if values is not None else set())
        keyring.set_password(_INDEX, "names", json.dumps(sorted(names)))
    except (KeyringError, OSError, RuntimeError) as error:
        return type(error).__name__
    return None


def _listed() -> set[str]:
    import keyring
    from keyring.errors import KeyringError

    try:
        names = json.loads(keyring.get_password(_INDEX, "names") or "[]")
    except (KeyringError, OSError, RuntimeError, ValueError):
        return set()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
