"""Addresses: a path, `file://...` or `mem://name`, each with an optional `@branch` or `@commit`."""

# Paths are strings throughout this package.
# ruff: noqa: PTH111
from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lakebed.errors import InvalidInputError, UnsupportedUrlError
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import open_memory

if TYPE_CHECKING:
    from lakebed.storage.base import Storage

# A folder with this file is a dataset.
_MARK = "version_control_info.json"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed address: scheme `file` or `mem`, path or name, and the branch or commit after `@`."""

    scheme: str
    path: str
    ref: str | None = None

    @property
    def shown(self) -> str:
        """The address as a user would write it, without branch or commit."""
        return self.path if self.scheme == "file" else f"{self.scheme}://{self.path}"


def parse(url: str | os.PathLike[str], *, existing: bool = False) -> Location:
    """Split an address.

    `@` begins a branch, commit or tag only if no `/` follows it and no local file or folder has the whole name.

    Parameters
    ----------
    existing
        The address is that of a dataset to be read: what follows a local one may hold `/` and `@`, as names of branches
        may.

    Raises
    ------
    UnsupportedUrlError
        If no storage handles the scheme.
    InvalidInputError
        If the address is empty or no text.
    """
    text = os.fspath(url)
    if not isinstance(text, str):
        raise InvalidInputError(f"an address is text or a path, not {type(text).__name__}")
    if "\0" in text:
        raise InvalidInputError("an address cannot hold a NUL character")
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else "file"
    rest = text[found.end() :] if found else text
    if scheme not in ("file", "mem"):
        # The rest of the address may hold a password: it stays out of the message.
        raise UnsupportedUrlError(
            f"no storage for {scheme}:// addresses; use a local path, file:// or mem://name"
        )
    if found and scheme == "file":
        rest = unquote(rest.removeprefix("localhost") if rest.startswith("localhost/") else rest)
    path, ref = _split_ref(scheme, rest, existing=existing)
    if not path:
        raise InvalidInputError(f"the address {text!r} names no dataset")
    return Location(scheme, os.path.expanduser(path) if scheme == "file" else path, ref)


def _split_ref(scheme: str, text: str, *, existing: bool) -> tuple[str, str | None]:
    path, at, ref = text.rpartition("@")
    if not at:
        return text, None
    if scheme == "file":
        if os.path.lexists(os.path.expanduser(text)):
            return text, None
        for position in (i for i in range(len(text) - 2, 0, -1) if existing and text[i] == "@"):
            if os.path.lexists(f"{os.path.expanduser(text[:position])}/{_MARK}"):
                return text[:position], text[position + 1 :]
    if "/" in ref:
        return text, None
    if not ref:
        raise InvalidInputError(f"no branch or commit follows the @ in {text!r}")
    return path, ref


def open_storage(url: str | os.PathLike[str] | Location) -> Storage:
    """Return the storage of an address; a branch or commit in it plays no part here."""
    location = url if isinstance(url, Location) else parse(url)
    if location.scheme == "mem":
        return open_memory(location.path)
    return LocalStorage(location.path)
