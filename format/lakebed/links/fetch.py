"""Read the file behind an address, whole or in part.

Links of a dataset are followed under a policy; direct calls of the user have none. A part of a file that the address
itself names (``span.py``) is read as if it were the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakebed import limits
from lakebed.errors import FormatError, InvalidInputError, UnsupportedUrlError
from lakebed.links.local import read_file, read_part
from lakebed.links.part import Part
from lakebed.links.policy import WEB
from lakebed.links.span import Span, span_of
from lakebed.storage.address import path_of, scheme_of, shown
from lakebed.storage.credentials import CredentialSource, Given
from lakebed.storage.url import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakebed.links.policy import Policy
    from lakebed.storage.credentials import Creds


def fetch(
    url: str, *, timeout: float | None = None, creds: Creds | None = None, policy: Policy | None = None
) -> bytes:
    """Return the content of the file behind a path or address.

    Parameters
    ----------
    timeout
        Seconds for a web address altogether.
    creds
        Credentials for the address: ``{"headers": {...}}`` for a web server; for a store, as for a dataset there.
    policy
        Rules for links that others chose; None for direct calls of the user.

    Raises
    ------
    UnsupportedUrlError
        If the scheme is not supported.
    OSError, LookupError
        If the file does not exist or cannot be read; web addresses raise UnableToReadFromUrlError.
    UnsafePathError
        If the policy forbids the address.
    LimitError
        If the file is larger than ``limits.MAX_FETCH_BYTES``.
    """
    span = span_of(url)
    if span is not None:
        return _part_of(span, url, 0, span.size, creds, policy, None).data
    scheme = _known_scheme(url)
    if scheme == "file":
        return read_file(path_of(url), _unless_own(url, policy))
    if scheme in WEB:
        from lakebed.links.http import HTTP

        return HTTP.fetch(url, timeout=timeout, creds=_values(creds), policy=policy)
    from lakebed.links.remote import fetch_object

    # Requests to stores have their own timeouts, so `timeout` is not passed.
    return fetch_object(url, creds, policy)


def fetch_part(
    url: str,
    start: int,
    length: int,
    *,
    creds: Creds | None = None,
    policy: Policy | None = None,
    tag: str | None = None,
) -> Part:
    """Return up to ``length`` bytes of the file behind a path or address, fewer at its end; see :func:`fetch`.

    Parameters
    ----------
    tag
        Tag of an earlier part of the file; other content is an error.
    """
    span = span_of(url)
    if span is not None:
        return _part_of(span, url, start, length, creds, policy, tag)
    return _part(url, start, length, creds, policy, tag)


def _part(
    url: str, start: int, length: int, creds: Creds | None, policy: Policy | None, tag: str | None
) -> Part:
    scheme = _known_scheme(url)
    if scheme == "file":
        return read_part(path_of(url), start, length, _unless_own(url, policy), tag)
    if scheme in WEB:
        from lakebed.links.http import HTTP

        return HTTP.fetch_part(url, start, length, creds=_values(creds), policy=policy, tag=tag)
    from lakebed.links.remote import object_part

    return object_part(url, start, length, creds, policy, tag)


def _known_scheme(url: str) -> str:
    scheme = scheme_of(url)
    if scheme != "file" and scheme not in SCHEMES:
        known = ", ".join(sorted({"file", *SCHEMES}))
        raise UnsupportedUrlError(f"{scheme}:// addresses cannot be read; files, {known} can")
    return scheme


def _unless_own(url: str, policy: Policy | None) -> Policy | None:
    """Return the policy for a linked file; None if this process appended the link itself."""
    if policy is None:
        return None
    policy.scheme(url)
    return None if policy.is_own(url) else policy


def _part_of(
    span: Span, url: str, start: int, length: int, creds: Creds | None, policy: Policy | None, tag: str | None
) -> Part:
    """Read a part of a part of a file; see :func:`fetch_part`.

    Raises
    ------
    FormatError
        If the file ends before the part does, or the part is not base64 where it should be.
    """
    first, count = span.where(start, length)
    limits.check("MAX_FETCH_BYTES", count, f"part of {shown(url)}, in bytes")
    inner = policy.of_part(url, span.url) if policy is not None else None
    found = _part(span.url, first, count, creds, inner, tag)
    if len(found.data) != count:
        raise FormatError(f"the file ends before byte {span.first + span.length - 1}, which the link names")
    data = span.content(found.data, start, max(0, min(length, span.size - start)))
    return Part(data, span.size, found.tag, found.has_ranges)


def _values(creds: Creds | None) -> Mapping[str, Any] | None:
    if isinstance(creds, str):
        raise InvalidInputError("credentials for a web server are a dictionary with its headers, not a name")
    source = creds.source if isinstance(creds, Given) and creds.source is not None else creds
    return source.grant().values if isinstance(source, CredentialSource) else source
