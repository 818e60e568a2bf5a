"""Rules for links of a dataset, which its writer chose and not the user who reads it (promise P5).

A link may lead to

* a file in the dataset's own folder, in ``config.LINK_ROOTS`` or in a folder of ``lakebed allow``, after symbolic links
  are resolved;
* a file that the user of this machine has linked in the same dataset before (:mod:`lakebed.links.kept`);
* a web address whose IP addresses are all public, or that ``config.LINK_HOSTS`` names;
* an object in a bucket, with the credentials that the user has given for its key, or anonymously;
* any place to which this process has appended a link itself.

Checks apply to the object in use: the open file, the connected address, and each redirect. Calls of the user have no
policy and may lead anywhere.
"""

from __future__ import annotations

import os
import re
import threading
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakebed import config
from lakebed.errors import InvalidInputError, UnsafePathError
from lakebed.links.networks import Address, hosts, is_public, literal, plain_host
from lakebed.runtime import process_hooks
from lakebed.storage.address import path_of, scheme_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

WEB = frozenset({"http", "https"})
_WEB_PORTS = (80, 443)
_MAX_URL = 8192

# Maximum number of links, 8 bytes each, of which a process remembers that it has appended them itself.
_REMEMBERED = 1 << 24
# If more new links than this wait unsorted, the next search sorts them first.
_UNSORTED = 64

# Characters that valid links do not need and that URL parsers treat differently.
_ODD = re.compile(r"[\x00-\x1f\x7f]")
_ODD_ON_THE_WEB = re.compile(r"[\x00-\x1f\x7f\\]")
_BUCKETS = {
    "s3": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]"),
    "gs": re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
    "az": re.compile(r"[$a-z0-9][a-z0-9-]{1,62}"),
}
_ALIASES = {"gcs": "gs", "azure": "az"}


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules for the links of one dataset.

    Parameters
    ----------
    dataset
        Address of the dataset: a path, or with a scheme.
    own
        A file of which this process has linked a part, so that it may be read although it is not linked as a whole.
    """

    dataset: str
    own: str | None = None

    def scheme(self, url: str) -> str:
        """Return the scheme of a link.

        Raises
        ------
        UnsafePathError
            If links of the scheme are not followed, or the address is spelled to mislead.
        """
        scheme = scheme_of(url)
        if scheme not in config.LINK_SCHEMES:
            raise UnsafePathError(
                f"the link to {shown(url)} is not followed: {scheme!r} is not in lakebed.config.LINK_SCHEMES"
            )
        if scheme == "file":
            if "\0" in url:
                raise UnsafePathError("a link holds a NUL character")
        elif len(url) > _MAX_URL or (_ODD_ON_THE_WEB if scheme in WEB else _ODD).search(url):
            raise UnsafePathError(
                f"the link to {shown(url)!r:.200} is not followed: it holds characters that no address has, "
                f"or is longer than {_MAX_URL}"
            )
        return scheme

    def is_own(self, url: str) -> bool:
        """Tell whether this process has appended the link itself, so that it may lead anywhere."""
        return url == self.own or is_remembered(url)

    def of_part(self, link: str, url: str) -> Policy:
        """Return the policy for the whole file of a link to a part.

        Parameters
        ----------
        link
            The link.
        url
            Path or address of the file.
        """
        return Policy(self.dataset, url) if self.is_own(link) else self

    # -- files -------------------------------------------------------------------------------------------------

    def check_file(self, path: str, real: str) -> None:
        """Refuse a file outside of the folders that are allowed.

        Parameters
        ----------
        path
            The path as linked, for the message.
        real
            Path of the file that is open, without symbolic links.

        Raises
        ------
        UnsafePathError
            If the file is outside of these folders.
        """
        if _is_below(real, self._roots()):
            return
        from lakebed.links import kept

        if kept.is_kept(self.dataset, path) or _is_below(real, kept.allowed()):
            return
        raise UnsafePathError(
            f"the link to {path!r} is not followed: it leads out of the dataset's folder, and was not made on this "
            "machine, or by a transform or an import. If you trust the dataset, call lakebed.allow_links with the "
            "folder that its links may lead to, or run `lakebed allow FOLDER` once"
        )

    def _roots(self) -> Sequence[str]:
        own = (self.dataset,) if self.dataset and scheme_of(self.dataset) == "file" else ()
        return (*own, *config.LINK_ROOTS)

    # -- the web -----------------------------------------------------------------------------------------------

    def check_host(self, url: str, host: str, port: int) -> bool:
        """Refuse a host by its spelling or port; tell whether its name alone is allowed, whatever its addresses.

        Raises
        ------
        UnsafePathError
            If its spelling is not canonical, or the address or port is not allowed.
        """
        try:
            plain = plain_host(host)
        except ValueError as error:
            raise _forbidden(url, f"{error}") from error
        allowed = hosts(config.LINK_HOSTS)
        if allowed.names_host(plain, port):
            return True
        address = literal(plain)
        if address is not None and allowed.has_address(address, port):
            return True
        if port < 1024 and port not in _WEB_PORTS:
            raise _forbidden(url, f"port {port} belongs to another service than the web", f"{plain}:{port}")
        if address is not None and not is_public(address):
            raise _forbidden(url, f"{plain} is not a public address", f"{plain}:{port}")
        return False

    def check_addresses(self, url: str, host: str, port: int, addresses: Iterable[Address]) -> None:
        """Refuse a host if one of its addresses is not allowed.

        Raises
        ------
        UnsafePathError
            If an address is not allowed.
        """
        allowed = hosts(config.LINK_HOSTS)
        for address in addresses:
            if not is_public(address) and not allowed.has_address(address, port):
                raise _forbidden(url, f"{host} is {address}, which is not a public address", f"{host}:{port}")

    def check_downgrade(self, url: str, there: str) -> None:
        """Refuse a redirect from an encrypted address to an address without encryption.

        Raises
        ------
        UnsafePathError
            If the redirect leads to an address without encryption.
        """
        if scheme_of(url) == "https" and scheme_of(there) == "http":
            raise _forbidden(url, f"it redirects from https to {shown(there)}, which is not encrypted")

    def check_secrets(self, url: str, host: str, port: int, named: Sequence[str]) -> None:
        """Refuse to send headers of the user to a host that only the dataset has chosen.

        Parameters
        ----------
        named
            Hosts that the credentials name.

        Raises
        ------
        UnsafePathError
            If neither the credentials nor ``config.LINK_HOSTS`` name the host.
        """
        plain = plain_host(host)
        if not any(hosts(tuple(each)).names_host(plain, port) for each in (named, config.LINK_HOSTS)):
            raise UnsafePathError(
                f"the headers of the credentials are not sent to {shown(url)}: put the hosts that they are meant for "
                f'into the credentials, as "hosts": ["{plain}"]'
            )

    # -- buckets -----------------------------------------------------------------------------------------------

    def cloud(self, url: str) -> tuple[str, str, str]:
        """Return scheme, bucket and key of a link into a bucket.

        Raises
        ------
        UnsafePathError
            If the bucket could name a host, or the key another bucket.
        """
        given = self.scheme(url)
        scheme = _ALIASES.get(given, given)
        bucket, _, key = url[len(given) + 3 :].partition("/")
        pattern = _BUCKETS.get(scheme)
        if (
            url[len(given) : len(given) + 3] != "://"
            or pattern is None
            or not pattern.fullmatch(bucket)
            or ".." in bucket
            or literal(bucket) is not None
        ):
            raise _forbidden(url, f"{bucket!r:.80} is not a name of a bucket")
        if not key or any(part in ("", ".", "..") for part in key.removesuffix("/").split("/")):
            raise _forbidden(url, "its key is not a plain name in the bucket")
        return scheme, bucket, key


def _is_below(real: str, roots: Iterable[str]) -> bool:
    """Tell whether a file is below one of the folders."""
    for root in roots:
        base = os.path.realpath(os.path.expanduser(root))  # noqa: PTH111
        if real.startswith(base if base.endswith(os.sep) else base + os.sep):
            return True
    return False


def _forbidden(url: str, why: str, entry: str | None = None) -> UnsafePathError:
    text = f"the link to {shown(url)} is not followed: {why}"
    if entry is not None:
        text += f'. If you trust the dataset, call lakebed.allow_links("{entry}"), or name it in LAKEBED_LINK_HOSTS'
    return UnsafePathError(text)


# -- what the user allows ----------------------------------------------------------------------------------------


def allow_links(*places: str | os.PathLike[str]) -> None:
    """Allow the links of all datasets that this process reads to lead into folders, or to hosts of private networks.

    Forked workers inherit it, and a dataset carries it to other processes. Other programs take ``LAKEBED_LINK_ROOTS``
    (folders, separated like ``PATH``) and ``LAKEBED_LINK_HOSTS`` (separated by spaces) from the environment. Links that
    a process appends itself need no permission.

    Parameters
    ----------
    places
        Folders as paths (text that holds a ``/``, ``.``, ``~``, or a path object); hosts as ``nas``,
        ``nas.example.org:8080``, ``*.example.org``, ``10.1.0.0/16`` or ``[fd00::1]:80``.

    Raises
    ------
    InvalidInputError
        If a place is neither a folder that exists nor a host.

    Examples
    --------
    >>> lakebed.allow_links("/data/photos", "10.1.0.0/16")  # doctest: +SKIP
    """
    roots: list[str] = []
    names: list[str] = []
    for place in places:
        text = os.fspath(place)
        if not text:
            raise InvalidInputError("allow_links takes folders and hosts; an empty text is neither")
        if not isinstance(place, str) or _is_folder(text):
            roots.append(_folder(text))
        else:
            hosts((text,))
            names.append(text)
    config.LINK_ROOTS = (*config.LINK_ROOTS, *(root for root in roots if root not in config.LINK_ROOTS))
    config.LINK_HOSTS = (*config.LINK_HOSTS, *(name for name in names if name not in config.LINK_HOSTS))


def _is_folder(text: str) -> bool:
    """Tell whether a text is a path, and not a network such as 10.1.0.0/16."""
    if text.startswith(("/", "./", "../", "~", "file:")) or text in (".", ".."):
        return True
    try:
        hosts((text,))
    except InvalidInputError:
        return True
    return False


def _folder(text: str) -> str:
    path = os.path.realpath(path_of(text))
    if not os.path.isdir(path):  # noqa: PTH112
        raise InvalidInputError(f"{text!r} is neither a folder that links could lead into, nor a host")
    return path


# -- what the process has linked itself --------------------------------------------------------------------------


class _Memory:
    """Links as hashes, which are secret to this process; if they become too many, the older half is forgotten.

    Adding must cost very little: new hashes are merged into the sorted ones on the next search.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: array[int] = array("q")
        self._known = self._older = np.zeros(0, np.int64)
        process_hooks.new_lock_after_fork(self, "_lock")

    def add(self, texts: Iterable[str]) -> None:
        with self._lock:
            self._recent.extend(map(hash, texts))
            if len(self._recent) > _REMEMBERED // 2:
                self._sort()

    def __contains__(self, text: str) -> bool:
        wanted = hash(text)
        with self._lock:
            if len(self._recent) > _UNSORTED:
                self._sort()
            return wanted in self._recent or any(_is_in(wanted, run) for run in (self._known, self._older))

    def _sort(self) -> None:
        self._known = np.concatenate([self._known, np.array(self._recent, np.int64)])
        self._known.sort(kind="stable")  # the stable sort merges runs that are already sorted
        self._recent = array("q")
        if len(self._known) > _REMEMBERED // 2:
            self._older, self._known = self._known, np.zeros(0, np.int64)


def _is_in(value: int, run: NDArray[np.int64]) -> bool:
    at = int(np.searchsorted(run, value))
    return at < len(run) and int(run[at]) == value


_MEMORY = _Memory()


def remember(links: Iterable[str]) -> None:
    """Allow this process to read the links that its user appends, in any dataset.

    The permission covers exactly these links, not other files in their folders or other addresses of their hosts.
    """
    here = os.getcwd() + os.sep  # noqa: PTH109
    _MEMORY.add([text if text[:1] == "/" or "://" in text else here + text for text in links])


def is_remembered(link: str) -> bool:
    """Tell whether this process has appended a link; relative paths start at the working directory."""
    is_whole = link[:1] == "/" or "://" in link
    return (link if is_whole else os.getcwd() + os.sep + link) in _MEMORY  # noqa: PTH109
