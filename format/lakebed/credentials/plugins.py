"""Providers of other packages: entry points of the group ``lakebed.credentials``.

Each is a function ``find(name, options)``. It returns a dictionary as ``creds=`` takes it, or an object with
``grant()``, or None if it knows nothing of the name. It is asked for entries whose ``provider`` is the name of the
entry point, with the entry as ``options``, and, with none, for names that no other provider knows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import EntryPoint

from lakebed.credentials.base import entry, plain
from lakebed.errors import LakebedError, StorageUnavailableError
from lakebed.runtime.installed import entry_points
from lakebed.storage.credentials import CredentialSource, Given, Grant, kept

_log = logging.getLogger(__name__)

GROUP = "lakebed.credentials"


def installed() -> dict[str, EntryPoint]:
    """Return the entry points by name."""
    return {point.name: point for point in entry_points(GROUP)}


def ask(point: EntryPoint, key: str, options: Given | None = None) -> Given | CredentialSource | None:
    """Ask one of them.

    Raises
    ------
    StorageUnavailableError
        If it fails. Its own error is not shown: it may hold secrets.
    """
    problem, found = _asked(point, key, options)
    if problem is not None:
        raise StorageUnavailableError(
            f"the provider {point.name!r} ({point.value}) failed to look for the credentials {key!r}: {problem}"
        )
    return found


def _asked(
    point: EntryPoint, key: str, options: Given | None
) -> tuple[str | None, Given | CredentialSource | None]:
    """Return what went wrong, by the name of its class, and what was found."""
    try:
        found = point.load()(key, {} if options is None else plain(options))
        if isinstance(found, CredentialSource) or found is None:
            return None, found
        covered = entry(found) if isinstance(found, Mapping) else None
    except Exception as error:  # noqa: BLE001 - the code of others: whatever it raises may show a secret
        return type(error).__name__, None
    return (
        (f"it returned {type(found).__name__}, and no credentials", None)
        if covered is None
        else (None, covered)
    )


def first(key: str) -> tuple[str, Given | CredentialSource] | None:
    """Return what the first that knows a name says, and which one it is."""
    for name, point in installed().items():
        found = ask(point, key)
        if found is not None:
            _log.debug("the credentials %r come from the provider %r", key, name)
            return name, found
    return None


def granted(source: CredentialSource, key: str) -> Grant:
    """Return what the source that one of them gave grants now, its secrets covered.

    Raises
    ------
    LakebedError
        What the source raises of this kind, which shows nothing.
    StorageUnavailableError
        If it fails in another way.
    """
    problem, grant = _granted(source)
    if grant is None:
        raise problem or StorageUnavailableError(f"the source of the credentials {key!r} granted nothing")
    return grant


def _granted(source: CredentialSource) -> tuple[LakebedError | None, Grant | None]:
    try:
        grant = source.grant()
        values = kept(dict(grant.values))
    except LakebedError as error:
        return error, None
    except Exception as error:  # noqa: BLE001 - the code of others, as above
        return StorageUnavailableError(
            f"{source.name} failed to grant credentials: {type(error).__name__}"
        ), None
    return None, Grant(Given({}) if values is None else values, grant.expires)
