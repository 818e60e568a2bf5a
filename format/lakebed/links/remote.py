"""Linked objects in buckets, of any number of stores, buckets and credentials.

Each process has one client per bucket and credentials, which all readers of links share.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakebed import limits
from lakebed.errors import InvalidInputError, StorageUnavailableError
from lakebed.links.part import Part
from lakebed.storage.address import shown
from lakebed.storage.credentials import CredentialSource, Given
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.url import SCHEMES

if TYPE_CHECKING:
    from lakebed.links.policy import Policy
    from lakebed.storage.credentials import Creds

_ANONYMOUS: Mapping[str, Any] = {"anonymous": True}
# Maximum number of clients; each has its own connections, and all share threads.
_MOST = 256
# Larger objects are read in parts of this size; the first request tells the size of the object.
_PART = 8 << 20

_Key = tuple[str, str, Any]
_stores: OrderedDict[_Key, ObjectStorage] = OrderedDict()


def fetch_object(url: str, creds: Creds | None, policy: Policy | None) -> bytes:
    """Return the content of the object behind an address.

    Raises
    ------
    OSError, LookupError
        If the object does not exist or cannot be read.
    UnsafePathError
        If the policy forbids the address.
    LimitError
        If the object is larger than ``limits.MAX_FETCH_BYTES``.
    """
    first = object_part(url, 0, _PART, creds, policy, None)
    total = len(first.data) if first.total is None else first.total
    limits.check("MAX_FETCH_BYTES", total, f"{shown(url)}, in bytes")
    parts = [first.data]
    for start in range(len(first.data), total, _PART):
        length = min(_PART, total - start)
        part = object_part(url, start, length, creds, policy, first.tag)
        if len(part.data) != length:
            raise StorageUnavailableError(
                f"{shown(url)} ends after {start + len(part.data)} of {total} bytes"
            )
        parts.append(part.data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def object_part(
    url: str, start: int, length: int, creds: Creds | None, policy: Policy | None, tag: str | None
) -> Part:
    """Return up to ``length`` bytes of the object behind an address from ``start`` on, fewer at its end.

    Parameters
    ----------
    tag
        Tag of an earlier part of the object.

    Raises
    ------
    StorageUnavailableError
        If the object was replaced since that part.
    OSError, LookupError, UnsafePathError
        As :func:`fetch_object`.
    """
    scheme, bucket, key = _place(url) if policy is None else policy.cloud(url)
    if policy is not None and creds is None and not policy.is_own(url):
        creds = _ANONYMOUS
    found = store(scheme, bucket, creds).get_part(key, start, length)
    if tag is not None and found.stat.etag != tag:
        raise StorageUnavailableError(f"{shown(url)} was replaced while it was read; read it again")
    return Part(found.data, found.stat.size, found.stat.etag)


def _place(url: str) -> tuple[str, str, str]:
    """Split an address of the user."""
    parts = urlsplit(url)
    scheme = SCHEMES.get(parts.scheme)
    _, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme is None or not bucket or not key:
        raise InvalidInputError(
            f"{shown(url)} names no object in a bucket, such as s3://bucket/folder/file.jpg"
        )
    return scheme, bucket, key


def store(scheme: str, bucket: str, creds: Creds | None) -> ObjectStorage:
    """Return the storage of a bucket with these credentials, the same one for equal credentials."""
    key = (scheme, bucket, _identity(creds))
    found = _stores.get(key)
    if found is None:
        found = _stores.setdefault(key, ObjectStorage(scheme, bucket, "", creds))
        while len(_stores) > _MOST:
            _stores.popitem(last=False)
    return found


def _identity(creds: Any) -> Any:
    """Return a hashable object that is equal for equal credentials; a source equals only itself."""
    source = creds.source if isinstance(creds, Given) else creds
    if isinstance(source, CredentialSource):
        return CredentialSource, id(source)  # the storage keeps the object alive, so its id stays unique
    if isinstance(creds, Mapping):
        return tuple(sorted((str(name), _identity(value)) for name, value in creds.items()))
    if isinstance(creds, list | tuple):
        return tuple(map(_identity, creds))
    return creds
