"""Access to a bucket with credentials from any source."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from lakebed.errors import MissingCredsError, UnsupportedUrlError
from lakebed.storage.auth import aws, azure, google, web
from lakebed.storage.auth.client import Access
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.credentials import NAMED, CredentialSource, Creds, Given, Grant, kept, named

log = logging.getLogger(__name__)


class _Kind(Protocol):
    """Functions of the module for one kind of store."""

    def settings(self, values: Mapping[str, Any]) -> dict[str, Any]: ...

    def source(self, chosen: Mapping[str, Any], provider: str) -> CredentialSource | None: ...

    def access(self, chosen: Mapping[str, Any], bucket: str, renewal: Renewal | None) -> Access: ...


_KINDS: dict[str, _Kind] = {"s3": aws, "gs": google, "az": azure, "http": web, "https": web}


def resolve(scheme: str, bucket: str, creds: Creds | None) -> Access:
    """Return the access to a bucket.

    Parameters
    ----------
    scheme
        ``s3``, ``gs``, ``az``, ``http`` or ``https``.
    bucket
        Name of the bucket or container; host and port for web servers.
    creds
        Credentials that the caller gave; None looks in the usual places.

    Raises
    ------
    InvalidInputError
        If a key of the dictionary is unknown, excludes another given key, or needs a key that is not given.
    MissingCredsError
        If no place has credentials; the message lists the places.
    CredentialsRejectedError
        If a service that grants credentials refuses.
    StorageUnavailableError
        If that service does not answer.
    UnsupportedUrlError
        If the scheme is not that of an object store.
    """
    kind = _KINDS.get(scheme)
    if kind is None:
        raise UnsupportedUrlError(f"no credentials are known for {scheme}:// addresses")
    wrapped = kept(creds)
    given = Given({}) if wrapped is None else wrapped
    rest = {key: value for key, value in given.items() if key != NAMED}
    try:
        source = _source(given)
        if source is None:
            chosen = kind.settings(rest)
            renewal = _made(given, scheme, lambda: _renewal(kind.source(chosen, "creds")))
        else:
            through = _Through(kind, source, rest)
            chosen = through.chosen()
            renewal = None
            if kind.source(chosen, through.name) is not None:
                renewal = _made(given, (scheme, NAMED), lambda: Renewal(through))
        access = kind.access(chosen, bucket, renewal)
        if access.renewal is not None:
            access.renewal.grant()
    except MissingCredsError as error:
        if given.left_behind:
            raise MissingCredsError(f"{error}. {_explain(given)}") from error
        raise
    log.debug("credentials for %s://%s: %s", scheme, bucket, access.name)
    if given.left_behind:
        log.warning("%s Used for %s://%s instead: %s", _explain(given), scheme, bucket, access.name)
    return access


def _explain(given: Given) -> str:
    return (
        f"The dataset was opened in another process with {', '.join(given.left_behind)} in creds: secrets are not "
        "passed to other processes. Name them, by creds={'creds_key': name}, or set them in this process's environment."
    )


def _source(given: Given) -> Renewal | None:
    """Return the source that was given, as an object or by its name; None if neither was given."""
    name = given.get(NAMED)
    if name is None and given.source is None:
        return None
    renewal: Renewal = _made(given, NAMED, lambda: _renewal(given.source or named(str(name))))
    return renewal


def _renewal(source: CredentialSource | None) -> Renewal | None:
    return source if source is None or isinstance(source, Renewal) else Renewal(source)


def _made(given: Given, key: Any, make: Callable[[], Any]) -> Any:
    """Return an object that all holders of these credentials share."""
    if key not in given.made:
        given.made.setdefault(key, make())
    return given.made[key]


class _Through:
    """Credentials from a source whose grants may name another source, such as a profile or a role.

    Parameters
    ----------
    kind
        The kind of store.
    source
        The first source.
    rest
        Other keys that the caller gave, which override the keys of the grants.
    """

    def __init__(self, kind: _Kind, source: Renewal, rest: Mapping[str, Any]) -> None:
        self._kind, self._source, self._rest = kind, source, rest

    @property
    def name(self) -> str:
        return self._source.name

    def chosen(self) -> dict[str, Any]:
        """Return the settings, checked."""
        return self._kind.settings({**self._source.grant().values, **self._rest})

    def grant(self) -> Grant:
        first = self._source.grant()
        inner = self._kind.source(self.chosen(), self.name)
        if inner is None:
            raise MissingCredsError(f"{self.name} no longer gives credentials that can be renewed")
        second = inner.grant()
        ends = [grant.expires for grant in (first, second) if grant.expires is not None]
        return Grant(second.values, min(ends, default=None))

    def refresh(self) -> None:
        """Make the source forget its grant, because the store rejected it."""
        self._source.refresh()
