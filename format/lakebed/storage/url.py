"""Addresses: a path, `file://...`, `mem://name`, a bucket's or a web server's, each with an optional `@branch`."""

# Paths are strings throughout this package.
# ruff: noqa: PTH111
from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakebed.errors import InvalidInputError, KeyNotFound, UnsupportedUrlError
from lakebed.storage.credentials import kept
from lakebed.storage.local import LocalStorage

if TYPE_CHECKING:
    from lakebed.storage.base import Storage
    from lakebed.storage.credentials import Creds
    from lakebed.storage.packed import PackedStorage

SCHEMES = {"s3": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az", "http": "http", "https": "https"}
"""Schemes of object stores -> their canonical form."""

PACKED_SUFFIX = ".lake"
"""Suffix of the names of packed datasets."""

# The file that marks a folder as a dataset.
_MARK = "version_control_info.json"
_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*)://"


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed address with the settings for access.

    Parameters
    ----------
    scheme
        ``file``, ``mem`` or the scheme of an object store.
    path
        Path, name, or bucket and prefix. If empty, ``mem://`` is a new place each time it is opened.
    ref
        The branch, commit or tag after ``@``.
    creds
        Credentials of an object store; None takes those of the environment.
    local_cache_bytes
        Bound of the cache on the local disk, for object stores; 0 for no cache.
    query
        Part after the ``?`` of the address of a web server; it may be a signature, and is never shown.
    """

    scheme: str
    path: str
    ref: str | None = None
    creds: Creds | None = field(default=None, repr=False, compare=False)
    local_cache_bytes: int = field(default=0, compare=False)
    query: str = field(default="", repr=False)

    @property
    def shown(self) -> str:
        """Address as the user wrote it, without branch or commit."""
        return self.path if self.scheme == "file" else f"{self.scheme}://{self.path}"


def parse(
    url: str | os.PathLike[str] | Location,
    *,
    existing: bool = False,
    creds: Creds | None = None,
    local_cache_bytes: int = 0,
) -> Location:
    """Split an address; return a `Location` unchanged.

    `@` begins a branch, commit or tag only if no `/` follows it and no local file or folder has the whole name.

    Parameters
    ----------
    existing
        The address is that of an existing dataset: the part after a local path may hold `/` and `@`, like names of
        branches.
    creds, local_cache_bytes
        See :class:`Location`.

    Raises
    ------
    UnsupportedUrlError
        If no storage handles the scheme.
    InvalidInputError
        If the address is empty or not text, or the size of the cache is negative.
    """
    if local_cache_bytes < 0:
        raise InvalidInputError(
            f"local_cache_size must be a number of MB, 0 for none, not {local_cache_bytes / 1e6:g}"
        )
    if isinstance(url, Location):
        return url
    text = os.fspath(url)
    if not isinstance(text, str):
        raise InvalidInputError(f"an address must be text or a path, not {type(text).__name__}")
    if "\0" in text:
        raise InvalidInputError("an address cannot hold a NUL character")
    found = re.match(_SCHEME, text) if "://" in text else None
    scheme = found[1].lower() if found else "file"
    rest = text[found.end() :] if found else text
    query = ""
    if scheme == "file":
        path, ref = _local(rest if found is None else _unquoted(rest), existing=existing)
    elif scheme in ("http", "https"):
        path, ref, query = _web(rest)
    else:
        _check_scheme(scheme)
        if scheme != "mem":
            _check_no_password(scheme, rest)
        path, ref = _split_ref(rest)
    if not path and scheme != "mem":
        raise InvalidInputError(f"the address {_shown(scheme, rest)!r} names no dataset")
    return Location(scheme, path, ref, kept(creds), local_cache_bytes, query)


def _unquoted(rest: str) -> str:
    """Return the path of a ``file://`` address."""
    return unquote(rest.removeprefix("localhost") if rest.startswith("localhost/") else rest)


def _local(text: str, *, existing: bool) -> tuple[str, str | None]:
    path = os.path.expanduser(text)
    if "@" not in text or os.path.lexists(path):
        return path, None
    for position in (i for i in range(len(text) - 2, 0, -1) if existing and text[i] == "@"):
        place = os.path.expanduser(text[:position])
        if os.path.lexists(f"{place}/{_MARK}") or _is_packed(place):
            return place, text[position + 1 :]
    path, ref = _split_ref(text)
    return os.path.expanduser(path), ref


def _web(rest: str) -> tuple[str, str | None, str]:
    """Split host and path, branch or commit, and query."""
    address, _, query = rest.partition("?")
    _check_no_password("https", address)
    path, ref = _split_ref(address)
    return unquote(path).rstrip("/"), ref, query.partition("#")[0]


def _check_no_password(scheme: str, address: str) -> None:
    host, slash, _ = address.partition("/")
    user, at, name = host.rpartition("@")
    if at and (slash or ":" in user):
        raise UnsupportedUrlError(
            f"the {scheme}:// address holds a user name or password before {name!r}: it would end up in logs; leave it "
            "out and pass it in creds="
        )


_HUB = (
    "hub:// is the service of Deep Lake's vendor, which only its own package reads. Copy the dataset out once, "
    "with its versions: python3.11 -m venv old && old/bin/pip install 'deeplake==3.9.52' 'numpy<2' setuptools && "
    "old/bin/python -c \"import deeplake; deeplake.deepcopy('hub://ORGANISATION/NAME', 'NAME', token='YOUR TOKEN')\"; "
    "then open the copy, lakebed.load('NAME'). A bucket takes it as well as a folder"
)


def _check_scheme(scheme: str) -> None:
    if scheme in ("mem", *SCHEMES):
        return
    if scheme == "hub":
        raise UnsupportedUrlError(_HUB)
    from lakebed.storage.fsspec_store import is_known

    if is_known(scheme):
        return
    # Leave out the rest of the address, because it may contain a password.
    raise UnsupportedUrlError(
        f"no storage for {scheme}:// addresses; use a local path, file://, mem://name, s3://, gs://, az:// or "
        "https://, or pip install fsspec and the package that it needs for the protocol"
    )


def _shown(scheme: str, rest: str) -> str:
    return rest if scheme == "file" else f"{scheme}://{rest.partition('?')[0]}"


def _split_ref(text: str) -> tuple[str, str | None]:
    path, at, ref = text.rpartition("@")
    if not at or "/" in ref:
        return text, None
    if not ref:
        raise InvalidInputError(f"no branch or commit follows the @ in {text!r}")
    return path, ref


def open_storage(url: str | os.PathLike[str] | Location) -> Storage:
    """Return the storage of an address, whose branch or commit does not matter.

    An address that ends in ``.lake`` may be that of a packed dataset: a file.
    """
    location = parse(url)
    if location.scheme == "mem":
        from lakebed.storage.memory import open_memory

        return open_memory(location.path)
    if location.scheme == "file":
        if not _is_packed(location.path):
            return LocalStorage(location.path)
        from lakebed.storage.packed import PackedStorage

        return PackedStorage(location.path)
    storage = _packed(location) or _folder(location, location.path)
    if location.local_cache_bytes == 0 or location.scheme not in SCHEMES:
        return storage
    from lakebed.storage.cache.caching import cached

    return cached(storage, location.local_cache_bytes)


def file_of(location: Location) -> tuple[Storage, str]:
    """Return the storage and the key of the object at an address of a store."""
    folder, slash, name = location.path.rpartition("/")
    if not slash or not name:
        raise InvalidInputError(f"{location.shown} is not the address of an object in a bucket")
    return _folder(location, folder), name


def _folder(location: Location, path: str) -> Storage:
    """Open a folder of a store."""
    if location.scheme in SCHEMES:
        from lakebed.storage.objects import ObjectStorage

        bucket, _, prefix = path.partition("/")
        return ObjectStorage(SCHEMES[location.scheme], bucket, prefix, location.creds, query=location.query)
    from lakebed.storage.fsspec_store import FsspecStorage

    return FsspecStorage(location.scheme, path, location.creds)


def _is_packed(path: str) -> bool:
    return path.endswith(PACKED_SUFFIX) and os.path.isfile(path)  # noqa: PTH113


def _packed(location: Location) -> PackedStorage | None:
    """Open the packed dataset at an address of a store; None if the object does not exist."""
    if not location.path.endswith(PACKED_SUFFIX) or "/" not in location.path:
        return None
    from lakebed.storage.packed import PackedStorage

    try:
        return PackedStorage(file_of(location))
    except KeyNotFound:
        return None
