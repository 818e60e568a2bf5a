"""Providers of other packages: entry points of the group ``lakebed.credentials``.

Each is a function ``find(name, options)``. It returns a dictionary for ``creds=``, an object with ``grant()``, or None
if it does not know the name. It is called for entries whose ``provider`` is the name of the entry point, with the entry
as ``options``, and without options for names that no other provider knows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from importlib.metadata import EntryPoint

from lakebed.credentials.base import entry, plain
from lakebed.errors import StorageUnavailableError
from lakebed.runtime.installed import entry_points
from lakebed.storage.credentials import CredentialSource, Given, Grant, answer_of, kept

_log = logging.getLogger(__name__)

GROUP = "lakebed.credentials"


def installed() -> dict[str, EntryPoint]:
    """Return the entry points by name."""
    return {point.name: point for point in entry_points(GROUP)}


def ask(point: EntryPoint, key: str, options: Given | None = None) -> Given | CredentialSource | None:
    """Ask a provider.

    Raises
    ------
    StorageUnavailableError
        If the provider fails. Its own error is not shown, since the error may hold secrets.
    """
    found, problem = answer_of(partial(_asked, point, key, options), passing=())
    if isinstance(found, str):
        problem = f"it returned {found} instead of credentials"
    if problem or isinstance(found, str):
        raise StorageUnavailableError(
            f"the provider {point.name!r} ({point.value}) failed to look for the credentials {key!r}: {problem}"
        )
    return found


def _asked(point: EntryPoint, key: str, options: Given | None) -> Given | CredentialSource | str | None:
    """Return the provider's answer, or the name of its type if it is not credentials."""
    found = point.load()(key, {} if options is None else plain(options))
    if isinstance(found, CredentialSource) or found is None:
        return found
    covered = entry(found) if isinstance(found, Mapping) else None
    return type(found).__name__ if covered is None else covered


def first(key: str) -> tuple[str, Given | CredentialSource] | None:
    """Return the first provider that knows the credentials ``key``: its name and its answer; None if none does."""
    for name, point in installed().items():
        found = ask(point, key)
        if found is not None:
            _log.debug("the credentials %r come from the provider %r", key, name)
            return name, found
    return None


def granted(source: CredentialSource) -> Grant:
    """Return the present grant of a provider's source, with its secrets wrapped in `Secret`.

    Raises
    ------
    LakebedError
        The source's own error of this kind, which shows no secret.
    StorageUnavailableError
        If the source fails in another way.
    """
    grant, failure = answer_of(partial(_granted, source))
    if grant is None:
        raise StorageUnavailableError(f"{source.name} failed to grant credentials: {failure}")
    return grant


def _granted(source: CredentialSource) -> Grant:
    grant = source.grant()
    values = kept(dict(grant.values))
    return Grant(Given({}) if values is None else values, grant.expires)
