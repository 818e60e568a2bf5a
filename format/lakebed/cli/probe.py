"""One cheap request with some credentials, to find out whether they are good for an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.errors import KeyNotFound, LakebedError, StorageError, UnsupportedUrlError
from lakebed.links.fetch import fetch_part
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.url import SCHEMES

if TYPE_CHECKING:
    from lakebed.credentials.named import NamedCredentials


def probe(url: str, creds: NamedCredentials) -> LakebedError | None:
    """Ask for one object, or the beginning of a list; return what is wrong, None if the server lets us in.

    Parameters
    ----------
    url
        An object or a folder of a store, or a file on a web server.
    """
    try:
        creds.check(url)
        _ask(url, creds)
    except KeyNotFound:
        return None  # only who is let in hears that there is nothing
    except LakebedError as error:
        return error
    except OSError as error:
        return StorageError(f"{url} can not be reached: {type(error).__name__}")
    return None


def _ask(url: str, creds: NamedCredentials) -> None:
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        raise UnsupportedUrlError(f"{url} is no address that asks for credentials: {', '.join(SCHEMES)}")
    if scheme in ("http", "https"):
        fetch_part(url, 0, 1, creds=creds)
        return
    bucket, _, prefix = rest.partition("/")
    storage = ObjectStorage(SCHEMES[scheme], bucket, "", creds)
    if prefix and not prefix.endswith("/") and storage.stat(prefix) is not None:
        return
    next(iter(storage.list(prefix)), None)
