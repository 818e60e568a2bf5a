"""Connections to web servers, directly or through a proxy: to the addresses that were checked, used again when idle.

A host name is resolved once. What it stands for is checked, and one of those very addresses is connected to: a name
server that answers differently the next time is not asked again. TLS and the ``Host`` header have the name.
"""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, unquote, urlsplit

from lakebed import config
from lakebed.errors import UnsafePathError
from lakebed.links.networks import Address, plain_host
from lakebed.runtime import process_hooks
from lakebed.storage.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakebed.links.policy import Policy

_MAX_PROXY_ANSWER = 1 << 16
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Place:
    """A parsed web address.

    Parameters
    ----------
    scheme, host, port
        Where to connect to; the host in one spelling.
    target
        What to ask there for: path and query.
    url
        The address as given.
    """

    scheme: str
    host: str
    port: int
    target: str
    url: str

    @classmethod
    def of(cls, url: str) -> Place:
        """Parse an address.

        Raises
        ------
        ValueError
            If it is none, or names no host.
        """
        parts = urlsplit(url)
        if parts.scheme not in _PORTS:
            raise ValueError("it is no http or https address")
        if not parts.hostname:
            raise ValueError("it names no host")
        host = parts.hostname
        try:
            host = plain_host(host)
        except ValueError:
            # An odd spelling of an IPv4 address is for the system to read; a policy refuses it.
            if not host.isascii():
                raise
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]{}|^`") if parts.query else ""
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
        return cls(parts.scheme, host, port, path + query, url)

    @property
    def origin(self) -> tuple[str, str, int]:
        """What may share secrets: scheme, host and port."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port as they are written in an address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class Connection(http.client.HTTPConnection):
    """A conversation with one server.

    Parameters
    ----------
    place
        Where the server is.
    addresses
        IP addresses to try, those of the proxy if there is one.
    deadline
        When to give up, by ``time.monotonic``.
    """

    def __init__(
        self, place: Place, addresses: Sequence[Address], port: int, deadline: float, proxy: Proxy | None
    ) -> None:
        super().__init__(place.host, place.port)
        self.default_port = _PORTS[place.scheme]
        self.address: Address | None = None
        self._place, self._proxy = place, proxy
        self._addresses, self._address_port = addresses, port
        self.deadline = deadline

    @property
    def is_direct(self) -> bool:
        """Whether no proxy is in between."""
        return self._proxy is None

    def connect(self) -> None:
        """Connect to the first address that answers."""
        failure: OSError | None = None
        for address in self._addresses:
            family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.settimeout(left(self.deadline))
                sock.connect((str(address), self._address_port))
            except OSError as error:
                sock.close()
                failure = error
                continue
            self.address = address
            self.sock = sock
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._place.scheme == "https":
                if self._proxy is not None:
                    self._proxy.tunnel(sock, self._place, self.deadline)
                self.sock = _tls().wrap_socket(sock, server_hostname=self.host)
            return
        raise failure or OSError(f"{self.host} has no address")

    def ask(
        self, target: str, headers: Mapping[str, str | Secret], deadline: float
    ) -> http.client.HTTPResponse:
        """Send a GET request and return its answer, whose body is still to be read."""
        self.deadline = deadline
        self.hurry()
        if self._proxy is not None and self._place.scheme == "http":
            target = f"http://{self._place.authority}{target}"
            headers = {**headers, **{name: Secret(text) for name, text in self._proxy.headers.items()}}
        try:
            self.request("GET", target, headers=_revealed(headers))
            return self.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise error.with_traceback(None)  # noqa: B904 - itself, without frames that hold headers

    def hurry(self) -> None:
        """Let the next wait for bytes end at the deadline."""
        if self.sock is not None:
            self.sock.settimeout(left(self.deadline))


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy as the environment names it: ``http://user:password@host:port``."""

    host: str
    port: int
    headers: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, place: Place) -> Proxy | None:
        """Return the proxy for a place; None if there is none, or the environment says that it needs none.

        Raises
        ------
        ValueError
            If the environment names none that can be used here.
        """
        found = urllib.request.getproxies().get(place.scheme)
        if not found or urllib.request.proxy_bypass(place.host):
            return None
        parts = urlsplit(found if "://" in found else f"http://{found}")
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(
                f"a proxy of kind {parts.scheme!r} is not supported; {place.scheme}_proxy names it"
            )
        secret = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
        headers = (
            {"Proxy-Authorization": f"Basic {base64.b64encode(secret).decode()}"} if parts.username else {}
        )
        return cls(parts.hostname, parts.port or 80, headers)

    def tunnel(self, sock: socket.socket, place: Place, deadline: float) -> None:
        """Ask the proxy to pass everything that follows on to a server."""
        where = (
            f"{place.authority if place.port != _PORTS[place.scheme] else f'{place.authority}:{place.port}'}"
        )
        lines = [
            f"CONNECT {where} HTTP/1.1",
            f"Host: {where}",
            *(f"{k}: {v}" for k, v in self.headers.items()),
        ]
        sock.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            sock.settimeout(left(deadline))
            # Byte by byte: what comes after the empty line belongs to TLS.
            byte = sock.recv(1)
            answer += byte
            if not byte or len(answer) > _MAX_PROXY_ANSWER:
                raise OSError("the proxy ended the conversation")
        status = answer.split(b" ", 2)[1:2]
        if status != [b"200"]:
            raise OSError(f"the proxy answers {answer.splitlines()[0].decode('latin-1')!r:.100}")


def connect(place: Place, proxy: Proxy | None, policy: Policy | None, deadline: float) -> Connection:
    """Return a connection that is about to be made, to addresses that the policy allows.

    Raises
    ------
    UnsafePathError
        If it allows one of them not.
    OSError
        If the name cannot be resolved.
    """
    free = policy is None or policy.check_host(place.url, place.host, place.port)
    if proxy is None:
        addresses = resolve(place.host, place.port, deadline)
        if policy is not None and not free:
            policy.check_addresses(place.url, place.host, place.port, addresses)
        return Connection(place, addresses, place.port, deadline, None)
    if policy is not None and not free:
        _check_behind_proxy(place, policy, deadline)
    return Connection(place, resolve(proxy.host, proxy.port, deadline), proxy.port, deadline, proxy)


def _check_behind_proxy(place: Place, policy: Policy, deadline: float) -> None:
    """Refuse what the proxy would resolve to a private address, as far as can be known here."""
    try:
        addresses = resolve(place.host, place.port, deadline)
    except OSError as error:
        raise UnsafePathError(
            f"the link to {place.scheme}://{place.authority} is not followed: only the proxy knows what {place.host} "
            "is, and it may be in a private network. If you trust the dataset, call "
            f'lakebed.allow_links("{place.host}")'
        ) from error
    policy.check_addresses(place.url, place.host, place.port, addresses)


def resolve(host: str, port: int, deadline: float) -> list[Address]:
    """Return the addresses of a host, in the order to try them.

    Raises
    ------
    OSError
        If it has none, or the name servers take too long.
    """
    found: list[list[Address] | OSError] = []

    def ask() -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.append(list(dict.fromkeys(ip_address(cast("str", info[4][0])) for info in infos)))
        except (OSError, UnicodeError) as error:
            found.append(error if isinstance(error, OSError) else OSError(f"{host!r} is no host name"))

    # A thread of its own: the system's resolver keeps no deadline.
    thread = threading.Thread(target=ask, name="lakebed-resolve", daemon=True)
    thread.start()
    thread.join(left(deadline))
    if not found:
        raise TimeoutError(f"the name {host} was not resolved in time")
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]


def left(deadline: float) -> float:
    """Return the seconds until a deadline.

    Raises
    ------
    TimeoutError
        If there are none.
    """
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


_TLS: list[ssl.SSLContext] = []


def _tls() -> ssl.SSLContext:
    if not _TLS:
        _TLS.append(ssl.create_default_context())
    return _TLS[0]


class Pool:
    """Idle connections, to be used again by whichever thread comes first."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}
        self._lock = threading.Lock()
        process_hooks.start()
        process_hooks.after_fork(self._forget)

    def _forget(self) -> None:
        """Begin anew in a forked child: it shares the sockets with its parent, and two conversations would mix."""
        self._lock = threading.Lock()
        self.clear()

    def take(self, place: Place, policy: Policy | None) -> Connection | None:
        """Return an idle connection to a server, if there is one to an address that the policy allows.

        Raises
        ------
        UnsafePathError
            If the policy forbids the host by its name.
        """
        free = policy is None or policy.check_host(place.url, place.host, place.port)
        with self._lock:
            found = self._idle.get(place.origin)
            if not found:
                return None
            connection = found.pop()
        if policy is not None and not free:
            try:
                policy.check_addresses(
                    place.url,
                    place.host,
                    place.port,
                    [] if connection.address is None else [connection.address],
                )
            except UnsafePathError:
                # Another program may use it. What the name stands for now will be seen.
                self.give(place, connection)
                return None
        return connection

    def give(self, place: Place, connection: Connection) -> None:
        """Take a connection back that another request may use."""
        with self._lock:
            found = self._idle.setdefault(place.origin, [])
            if connection.is_direct and len(found) < max(1, config.LINK_THREADS):
                found.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        """Close all."""
        with self._lock:
            found, self._idle = self._idle, {}
        for connections in found.values():
            for connection in connections:
                connection.close()


def _revealed(headers: Mapping[str, str | Secret]) -> dict[str, str]:
    return {name: text.reveal() if isinstance(text, Secret) else text for name, text in headers.items()}
