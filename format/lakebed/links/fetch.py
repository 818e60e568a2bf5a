"""Fetch the bytes behind an address: one fetcher per scheme."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from lakebed import config
from lakebed.errors import UnsafePathError, UnsupportedUrlError
from lakebed.links.address import scheme_of, shown
from lakebed.links.local import LocalFiles, check_root, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping


class Fetcher(Protocol):
    """What reads the files of one kind of address."""

    def fetch(self, url: str, *, timeout: float | None, creds: Mapping[str, Any] | None) -> bytes:
        """Return the content of a file.

        Raises
        ------
        OSError
            If it is not there or cannot be read; web addresses raise UnableToReadFromUrlError.
        LimitError
            If it is larger than ``limits.MAX_FETCH_BYTES``.
        """
        ...


class Web:
    """Fetcher of web addresses; what speaks HTTP is loaded when the first is read."""

    def fetch(self, url: str, *, timeout: float | None, creds: Mapping[str, Any] | None) -> bytes:
        """Read the file behind the address."""
        from lakebed.links.http import HTTP

        return HTTP.fetch(url, timeout=timeout, creds=creds)


FETCHERS: dict[str, Fetcher] = {"file": LocalFiles(), "http": Web(), "https": Web()}
"""Fetchers by scheme; a path without scheme is a file."""


def fetch(
    url: str,
    *,
    root: str | None = None,
    timeout: float | None = None,
    creds: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the content of the file behind a path or address.

    Parameters
    ----------
    root
        Folder from which relative paths count; None for the working directory.
    timeout
        Seconds for a web address altogether.
    creds
        Credentials, in the form that the scheme's fetcher takes.

    Raises
    ------
    UnsupportedUrlError
        If nothing here reads such addresses.
    OSError, LimitError
        As the fetcher of the scheme.
    """
    scheme = scheme_of(url)
    fetcher = FETCHERS.get(scheme)
    if fetcher is None:
        raise UnsupportedUrlError(
            f"nothing reads {scheme}:// addresses here; files, {', '.join(sorted(FETCHERS))} can be read"
        )
    if root is not None and scheme == "file":
        url = os.path.join(root, path_of(url))  # noqa: PTH118
    return fetcher.fetch(url, timeout=timeout, creds=creds)


def follow(url: str, *, timeout: float | None = None, creds: Mapping[str, Any] | None = None) -> bytes:
    """Fetch what a link of a dataset leads to, if the policy allows it.

    Whoever wrote the dataset chose the address, not the user who reads it: ``config.LINK_SCHEMES`` and
    ``config.LINK_ROOTS`` say where links may lead.

    Raises
    ------
    UnsafePathError
        If the policy forbids it.
    UnsupportedUrlError, OSError, LimitError
        As :func:`fetch`.
    """
    scheme = scheme_of(url)
    if scheme not in config.LINK_SCHEMES:
        raise UnsafePathError(
            f"the link to {shown(url)} is not followed: {scheme!r} is not in lakebed.config.LINK_SCHEMES"
        )
    if scheme == "file":
        check_root(path_of(url))
    return fetch(url, timeout=timeout, creds=creds)
