"""Credentials by name, which each process finds when it needs them, by asking providers.

Providers are, in this order: the environment, the owner's file, the keyring of the operating system, other packages.
The first entry that is found may hold the credentials, or name their maker: ``provider = "aws-assume-role"``.

Other processes get only the name. Secrets are in the present :class:`Grant` of a name, and :class:`Renewal` asks again
before it expires, or once if a store rejects it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from lakebed import config
from lakebed.credentials import aws, plugins
from lakebed.credentials.base import OPTIONS, entry, option, without_options
from lakebed.credentials.environment import Environment
from lakebed.credentials.file import OwnersFile
from lakebed.credentials.system_keyring import SystemKeyring
from lakebed.errors import InvalidInputError, LinkCredentialsError, ManagedCredentialsNotFoundError
from lakebed.runtime import clock
from lakebed.storage.address import shown
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.credentials import CredentialSource, Given, Grant, kept

if TYPE_CHECKING:
    from lakebed.credentials.base import Provider
    from lakebed.storage.credentials import Creds

_log = logging.getLogger(__name__)

PROVIDERS: tuple[Provider, ...] = (Environment(), OwnersFile(), SystemKeyring())
"""Providers in the order of the search; providers of other packages come last."""


def _role(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a role for the store.

    Raises
    ------
    InvalidInputError
        If the entry names no role.
    """
    if not entry.get("role_arn"):
        raise InvalidInputError("credentials of the provider 'aws-assume-role' need a role_arn")
    return without_options(entry)


# Providers by type. Those named "-default" use the sources that the cloud's own tools use: profile, environment, or
# identity and metadata of the machine; they may also assume a role (``role_arn``, ``external_id``,
# ``duration_seconds``, ...).
MAKERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "aws-secretsmanager": aws.secret,
    "aws-ssm": aws.parameter,
    "aws-assume-role": _role,
    "aws-default": without_options,
    "gcp-default": without_options,
    "azure-default": without_options,
}
"""Makers of credentials from an entry, by its ``provider``."""


class Keys(Protocol):
    """Credentials of a dataset for writers and readers of links."""

    def code(self, key: str | None) -> int:
        """Return the code by which samples refer to a name, 0 for None, and mark it as used.

        Raises
        ------
        MissingCredsError
            If the dataset does not have the name.
        """
        ...

    def by_name(self, key: str | None, url: str) -> Creds | None:
        """Return the credentials of a name for an address; None for None.

        Raises
        ------
        MissingCredsError
            If the dataset does not have the name, or no provider has credentials for it.
        LinkCredentialsError
            If the credentials are not for this address.
        """
        ...

    def by_code(self, code: int, url: str) -> Creds | None:
        """Return the credentials of a code for an address, as :meth:`by_name`; None for 0.

        Raises
        ------
        FormatError
            If no name has the code.
        """
        ...


class Entry(NamedTuple):
    """Entry of a name, and its provider."""

    provider: str
    found: Given | CredentialSource


class Named:
    """Source of the credentials of a name, whose grants hold the keys of ``creds=``.

    Parameters
    ----------
    key
        The name.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.urls: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The name, for logs."""
        return f"credentials {self.key!r}"

    def __repr__(self) -> str:
        return f"Named({self.key!r})"

    def __reduce__(self) -> tuple[type[Named], tuple[str]]:
        return Named, (self.key,)

    def grant(self) -> Grant:
        """Ask the providers.

        Raises
        ------
        ManagedCredentialsNotFoundError
            If no provider knows the name.
        InvalidInputError, StoragePermissionError, StorageUnavailableError
            If a provider has an unusable entry, or cannot be asked.
        """
        began = clock.now()
        provider, found = look_up(self.key)
        if isinstance(found, CredentialSource):
            self.urls = ()
            return plugins.granted(found)
        self.urls = _urls(found, self.key)
        made = _made(found, self.key)
        if isinstance(made, CredentialSource):
            return plugins.granted(made)
        _log.debug("the credentials %r come from the %s", self.key, provider)
        return Grant(_with_hosts(made, self.urls), began + _ttl(found, self.key))


class NamedCredentials(Renewal):
    """Credentials of a name, shared in a process; a pickle holds only the name."""

    def __init__(self, key: str) -> None:
        self._named = Named(key)
        super().__init__(self._named)

    def __repr__(self) -> str:
        return f"NamedCredentials({self._named.key!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self._named.key,)

    def check(self, url: str) -> None:
        """Check that the credentials may be sent to an address, since the writer of a dataset chose the address.

        Raises
        ------
        LinkCredentialsError
            If the entry of the credentials names other addresses.
        ManagedCredentialsNotFoundError
            If no provider knows the name.
        """
        if self._named.urls is None:
            self.grant()
        if self._named.urls and not any(_is_below(url, root) for root in self._named.urls):
            raise LinkCredentialsError(
                f"the credentials {self._named.key!r} are not for {shown(url)}: `urls` of their entry names other "
                "addresses",
                url=url,
            )


_shared: dict[str, NamedCredentials] = {}


def named(key: str) -> NamedCredentials:
    """Return the credentials of a name, which need not exist yet."""
    found = _shared.get(key)
    # If two threads race, both use the value that was stored first.
    return found if found is not None else _shared.setdefault(key, NamedCredentials(key))


def forget(key: str | None = None) -> None:
    """Ask the providers again for a name, or (None) for all names, at the next use."""
    for name in [key] if key is not None else list(_shared):
        _shared.pop(name, None)


def look_up(key: str) -> Entry:
    """Return the entry of the first provider that knows a name.

    Raises
    ------
    ManagedCredentialsNotFoundError
        If no provider knows the name.
    InvalidInputError, StoragePermissionError, StorageUnavailableError
        If the entry is unusable, or a provider cannot be asked.
    """
    for provider in PROVIDERS:
        found = provider.find(key)
        if found is not None:
            return Entry(provider.name, found)
    other = plugins.first(key)
    if other is not None:
        return Entry(*other)
    asked = ", ".join(provider.place(key) for provider in PROVIDERS)
    raise ManagedCredentialsNotFoundError(
        f"no provider knows the credentials {key!r} (asked: {asked}); `lakebed creds set {key}` stores them"
    )


def _made(found: Given, key: str) -> Given | CredentialSource:
    """Return the credentials in an entry, or the credentials that its provider makes."""
    name = option(found, "provider")
    maker = None if name is None else MAKERS.get(name)
    if name is None:
        made: Any = {key: value for key, value in found.items() if key not in OPTIONS}
    elif maker is not None:
        made = maker(found)
    else:
        made = _from_plugin(name, key, found)
    if isinstance(made, CredentialSource):
        return made
    covered = kept(made)
    assert isinstance(covered, Given)  # noqa: S101 - kept makes this of every dictionary
    return covered


def _from_plugin(name: str, key: str, found: Given) -> Mapping[str, Any] | CredentialSource:
    points = plugins.installed()
    if name not in points:
        known = ", ".join([*MAKERS, *points])
        raise InvalidInputError(
            f"the credentials {key!r} name the unknown provider {name!r}; known are: {known}"
        )
    made = plugins.ask(points[name], key, found)
    if made is None:
        raise ManagedCredentialsNotFoundError(f"the provider {name!r} does not know the credentials {key!r}")
    return made


def _ttl(found: Given, key: str) -> float:
    ttl = found.get("ttl", config.CREDS_SECONDS)
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not ttl > 0:
        raise InvalidInputError(f"ttl of the credentials {key!r} must be a number of seconds above 0")
    return float(ttl)


def _urls(found: Given, key: str) -> tuple[str, ...]:
    urls = found.get("urls", [])
    if not isinstance(urls, list) or not all(isinstance(url, str) and "://" in url for url in urls):
        raise InvalidInputError(
            f'urls of the credentials {key!r} must be a list of addresses, such as ["s3://bucket/folder/"]'
        )
    return tuple(urls)


def _with_hosts(made: Given, urls: tuple[str, ...]) -> Given:
    """Return credentials whose headers are sent only to the web servers in ``urls``, if it names web servers."""
    hosts = [urlsplit(url).netloc for url in urls if url.startswith(("http://", "https://"))]
    if not hosts or "headers" not in made or "hosts" in made:
        return made
    covered = entry({**made, "hosts": hosts})
    return made if covered is None else covered


_UP = re.compile(r"(?:^|/)\.\.?(?:/|$)")


def _is_below(url: str, root: str) -> bool:
    """Tell whether an address equals another or is below it, however a server interprets dots and escapes."""
    one, other = urlsplit(url), urlsplit(root)
    if (one.scheme.lower(), one.netloc.lower()) != (other.scheme.lower(), other.netloc.lower()):
        return False
    base = other.path.rstrip("/")
    if not base:
        return True
    path = unquote(one.path).replace("\\", "/")
    return not _UP.search(path) and (path == base or path.startswith(f"{base}/"))


__all__ = ["Keys", "Named", "NamedCredentials", "forget", "look_up", "named"]
