"""The location of the datasets: `destination_path`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from destination_deeplake.config.values import Section, json_type

if TYPE_CHECKING:
    from lakebed import Credentials

_FIELD = "destination_path"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_HTTP_BUCKETS = re.compile(r"amazonaws\.com|googleapis\.com|blob\.core\.windows\.net", re.IGNORECASE)

BUCKETS = {"s3": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az"}
"""Schemes of object stores -> their canonical form."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, or a prefix of a bucket, below which the datasets are stored.

    Attributes
    ----------
    url : str
        Absolute path of a local folder, or the address of a bucket, perhaps with a prefix.
    creds : lakebed.Credentials or None
        Credentials of a bucket, shared by all datasets, which then share connections.
    """

    url: str
    creds: "Credentials | None" = None

    @property
    def folder(self) -> Path | None:
        """The local folder; None for a bucket."""
        return None if _SCHEME.match(self.url) else Path(self.url)

    def dataset(self, name: str) -> str:
        """Return the address of the dataset in a folder, see `naming.dataset_folder`."""
        return f"{self.url.rstrip('/')}/{name}"

    def __str__(self) -> str:
        return self.url


def scheme_of(url: str) -> str:
    """Return `s3`, `gs` or `az` for the address of a bucket that `address` gave, `file` for a folder."""
    return url.partition("://")[0] if "://" in url else "file"


def address(form: Section) -> str:
    """Return `destination_path`, checked: an absolute local path, or a bucket's address in its shortest spelling.

    Raises
    ------
    ConfigError
        If the field is missing, or is not the address of a place that can be written.
    """
    value = form.value(_FIELD)
    if value is None and not form.has(_FIELD):
        raise form.error(
            _FIELD, "the configuration has no destination_path; set it to the folder for the datasets."
        )
    if not isinstance(value, str):
        raise form.error(_FIELD, f"must be a string, not {json_type(value)}.")
    text = value.strip()
    if not text:
        raise form.error(_FIELD, "is empty; set it to the folder for the datasets.")
    if "\0" in text:
        raise form.error(_FIELD, "holds a NUL character; no folder can have that name.")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise form.error(_FIELD, "holds half a surrogate pair; no folder can have that name.")
    found = _SCHEME.match(text)
    if found is None or found[1].lower() == "file":
        return _local(form, text, is_url=found is not None)
    return _bucket(form, found[1].lower(), text[found.end() :])


def _local(form: Section, text: str, *, is_url: bool) -> str:
    if is_url:
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise form.error(
                _FIELD,
                f"names the host {parts.netloc!r}; for a folder on this machine, write file:/// with three slashes.",
            )
        text = unquote(text[len("file://") + len(parts.netloc) :])
    path = Path(text)
    if text.startswith("~"):
        raise form.error(
            _FIELD,
            "begins with ~, which only a shell turns into a home folder; write the whole path, for example "
            f"{Path('/local', *path.parts[1:])}.",
        )
    if not path.is_absolute():
        raise form.error(
            _FIELD,
            "must be an absolute path, because a relative one depends on the current folder; write for example "
            f"{Path('/local') / path}, or s3://bucket/{path}.",
        )
    return str(path)


def _bucket(form: Section, scheme: str, rest: str) -> str:
    if scheme in ("http", "https") and _HTTP_BUCKETS.search(rest):
        raise form.error(_FIELD, "is the web address of a bucket; write s3://bucket/folder, gs:// or az://.")
    if scheme not in BUCKETS:
        raise form.error(
            _FIELD,
            f"datasets cannot be written to {scheme}:// addresses; write an absolute path, s3://, gs:// or az://.",
        )
    bucket, _, prefix = rest.partition("/")
    if "@" in bucket or ":" in bucket:
        raise form.error(
            _FIELD,
            "holds a user name, a password or a port before the bucket; write them into credentials and "
            "endpoint_url, and here s3://bucket/folder.",
        )
    if not bucket:
        raise form.error(_FIELD, f"names no bucket; write for example {scheme}://bucket/folder.")
    if "?" in rest or "#" in rest:
        raise form.error(
            _FIELD, "must not hold ? or #; write signatures into credentials and leave out the rest."
        )
    if any(part in (".", "..") for part in prefix.split("/")):
        raise form.error(
            _FIELD, "has a part . or .., which has no meaning in a bucket; write the folder itself."
        )
    folders = "/".join(part for part in prefix.split("/") if part)
    return f"{BUCKETS[scheme]}://{bucket}" + (f"/{folders}" if folders else "")
