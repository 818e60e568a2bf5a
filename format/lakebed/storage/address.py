"""Addresses of files: their scheme, and how they are shown to people."""

from __future__ import annotations

import errno
import os
import re
from urllib.parse import unquote, urlsplit, urlunsplit

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def scheme_of(url: str) -> str:
    """Return the scheme of an address in lower case; ``file`` for a path."""
    found = _SCHEME.match(url)
    return found[1].lower() if found else "file"


def shown(url: str) -> str:
    """Return an address without the parts that may be secret: user, password, query. Paths are returned unchanged."""
    if scheme_of(url) == "file":
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(an address that cannot be parsed)"
    query = "..." if parts.query else ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


def path_of(url: str) -> str:
    """Return the path named by a path or a ``file://`` address.

    Raises
    ------
    OSError
        If the address names another machine.
    """
    if url[:7].lower() == "file://":
        host, slash, rest = url[7:].partition("/")
        if host not in ("", "localhost"):
            raise OSError(errno.EINVAL, f"file:// addresses of another machine ({host}) cannot be read", url)
        return unquote(slash + rest)
    return os.path.expanduser(url) if url[:1] == "~" else url  # noqa: PTH111
