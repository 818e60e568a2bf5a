"""Connections to web servers, directly or through a proxy: to checked addresses, and used again when idle.

A host name is resolved once. Its addresses are checked, and the connection goes to one of these addresses, because a
name server could answer differently a second time. TLS and the ``Host`` header use the name.
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
from functools import cache
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
        Server to connect to; the host in its canonical spelling.
    target
        Path and query of the request.
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
            If the text is not a web address, or names no host.
        """
        parts = urlsplit(url)
        if parts.scheme not in _PORTS:
            raise ValueError("it is not an http or https address")
        if not parts.hostname:
            raise ValueError("it names no host")
        host = parts.hostname
        try:
            host = plain_host(host)
        except ValueError:
            # The system accepts odd spellings of IPv4 addresses; `plain_host` and the policy do not.
            if not host.isascii():
                raise
        path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]{}|^`") if parts.query else ""
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
        return cls(parts.scheme, host, port, path + query, url)

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port, which addresses that share secrets have in common."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port as written in an address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class Connection(http.client.HTTPConnection):
    """Connection to a server.

    Parameters
    ----------
    place
        Address of the server.
    addresses
        IP addresses to try; if a proxy is used, the addresses of the proxy.
    deadline
        Time to give up, by ``time.monotonic``.
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
        """True if the connection uses no proxy."""
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
        """Send a GET request and return its answer with an unread body."""
        self.deadline = deadline
        self.hurry()
        if self._proxy is not None and self._place.scheme == "http":
            target = f"http://{self._place.authority}{target}"
            headers = {**headers, **{name: Secret(text) for name, text in self._proxy.headers.items()}}
        try:
            self.request("GET", target, headers=_revealed(headers))
            return self.getresponse()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise error.with_traceback(None)  # noqa: B904 - without the frames that hold headers

    def hurry(self) -> None:
        """End the next wait for bytes at the deadline."""
        if self.sock is not None:
            self.sock.settimeout(left(self.deadline))


@dataclass(frozen=True, slots=True)
class Proxy:
    """Proxy from the environment: ``http://user:password@host:port``."""

    host: str
    port: int
    headers: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, place: Place) -> Proxy | None:
        """Return the proxy for a place; None if the environment names none or exempts the host.

        Raises
        ------
        ValueError
            If the proxy is of an unsupported kind.
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
        """Ask the proxy for a tunnel to a server."""
        is_usual = place.port == _PORTS[place.scheme]
        where = f"{place.authority}:{place.port}" if is_usual else place.authority
        lines = [
            f"CONNECT {where} HTTP/1.1",
            f"Host: {where}",
            *(f"{k}: {v}" for k, v in self.headers.items()),
        ]
        sock.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            sock.settimeout(left(deadline))
            # Read byte by byte, because the bytes after the empty line belong to TLS.
            byte = sock.recv(1)
            answer += byte
            if not byte or len(answer) > _MAX_PROXY_ANSWER:
                raise OSError("the proxy closed the connection")
        status = answer.split(b" ", 2)[1:2]
        if status != [b"200"]:
            raise OSError(f"the proxy answers {answer.splitlines()[0].decode('latin-1')!r:.100}")


def connect(place: Place, proxy: Proxy | None, policy: Policy | None, deadline: float) -> Connection:
    """Return an unopened connection to the addresses that the policy allows.

    Raises
    ------
    UnsafePathError
        If the policy forbids one of the addresses.
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
    """Refuse a host that a proxy would resolve to a private address, as far as this machine can resolve the name."""
    try:
        addresses = resolve(place.host, place.port, deadline)
    except OSError as error:
        raise UnsafePathError(
            f"the link to {place.scheme}://{place.authority} is not followed: this machine cannot resolve "
            f"{place.host}, only the proxy can, so it may be in a private network. If you trust the dataset, call "
            f'lakebed.allow_links("{place.host}")'
        ) from error
    policy.check_addresses(place.url, place.host, place.port, addresses)


def resolve(host: str, port: int, deadline: float) -> list[Address]:
    """Return the addresses of a host, in the order to try them.

    Raises
    ------
    OSError
        If the host has no address, or the name servers take too long.
    """
    found: list[list[Address] | OSError] = []

    def ask() -> None:
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.append(list(dict.fromkeys(ip_address(cast("str", info[4][0])) for info in infos)))
        except (OSError, UnicodeError) as error:
            found.append(error if isinstance(error, OSError) else OSError(f"{host!r} is not a host name"))

    # Ask in a thread, because the system's resolver does not support a deadline.
    thread = threading.Thread(target=ask, name="lakebed-resolve", daemon=True)
    thread.start()
    thread.join(left(deadline))
    if not found:
        raise TimeoutError(f"the address of host {host} was not found in time")
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]


def left(deadline: float) -> float:
    """Return the seconds until a deadline.

    Raises
    ------
    TimeoutError
        If the deadline has passed.
    """
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


class Pool:
    """Idle connections for the next request of any thread."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}
        self._lock = threading.Lock()
        process_hooks.start()
        process_hooks.after_fork(self._forget)

    def _forget(self) -> None:
        """Drop all connections in a forked child, which shares the sockets with its parent."""
        self._lock = threading.Lock()
        self.clear()

    def take(self, place: Place, policy: Policy | None) -> Connection | None:
        """Return an idle connection to a server at an address that the policy allows; None if none exists.

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
            known = [] if connection.address is None else [connection.address]
            try:
                policy.check_addresses(place.url, place.host, place.port, known)
            except UnsafePathError:
                # Keep the connection for callers with another policy; this call resolves the name again.
                self.give(place, connection)
                return None
        return connection

    def give(self, place: Place, connection: Connection) -> None:
        """Keep a connection for later requests to the same server, or close it."""
        with self._lock:
            found = self._idle.setdefault(place.origin, [])
            if connection.is_direct and len(found) < max(1, config.LINK_THREADS):
                found.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        """Close all idle connections."""
        with self._lock:
            found, self._idle = self._idle, {}
        for connections in found.values():
            for connection in connections:
                connection.close()


def _revealed(headers: Mapping[str, str | Secret]) -> dict[str, str]:
    return {name: text.reveal() if isinstance(text, Secret) else text for name, text in headers.items()}
