"""Read files over HTTP and HTTPS: pooled connections, a bound on size and on time, few redirects, few retries."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

from lakebed import config, limits
from lakebed.errors import LimitError, UnableToReadFromUrlError
from lakebed.links.address import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_REDIRECTS = (301, 302, 303, 307, 308)
_PASSING = (429, 500, 502, 503, 504)  # answers that another try may turn into a file
_MAX_REDIRECTS = 5
_TRIES = 3
_BLOCK = 1 << 16
_AGENT = "lakebed"

_Key = tuple[str, str, int | None]


class _Pool:
    """Idle connections, to be used again by whichever thread comes first."""

    def __init__(self) -> None:
        self._idle: dict[_Key, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()

    def take(self, key: _Key) -> http.client.HTTPConnection | None:
        with self._lock:
            if self._process != os.getpid():
                # A forked child shares the sockets with its parent: two conversations would mix.
                self._idle, self._process = {}, os.getpid()
            found = self._idle.get(key)
            return found.pop() if found else None

    def give(self, key: _Key, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            found = self._idle.setdefault(key, [])
            if self._process == os.getpid() and len(found) < max(1, config.LINK_THREADS):
                found.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        with self._lock:
            found, self._idle = self._idle, {}
        for connections in found.values():
            for connection in connections:
                connection.close()


class Http:
    """Fetcher of ``http://`` and ``https://`` addresses."""

    def __init__(self) -> None:
        self._pool = _Pool()
        self._tls: ssl.SSLContext | None = None

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._pool.clear()

    def fetch(self, url: str, *, timeout: float | None, creds: Mapping[str, Any] | None) -> bytes:
        """Read the file behind an address.

        Parameters
        ----------
        timeout
            Seconds for everything together; None for ``config.HTTP_TIMEOUT``.
        creds
            Request headers under ``"headers"``, if any.

        Raises
        ------
        UnableToReadFromUrlError
            If no server answers in time, or not with the file.
        LimitError
            If the file is larger than ``limits.MAX_FETCH_BYTES``.
        """
        deadline = time.monotonic() + (config.HTTP_TIMEOUT if timeout is None else timeout)
        headers = {
            "User-Agent": _AGENT,
            "Accept-Encoding": "identity",
            **dict((creds or {}).get("headers", {})),
        }
        here = url
        for _ in range(_MAX_REDIRECTS + 1):
            answer = self._try(here, headers, deadline)
            if isinstance(answer, bytes):
                return answer
            there = urljoin(here, answer)
            if urlsplit(there).scheme not in ("http", "https"):
                raise UnableToReadFromUrlError(
                    f"{shown(url)} redirects to {shown(there)}, which is no web address"
                )
            if urlsplit(there).netloc != urlsplit(here).netloc:
                headers = {
                    "User-Agent": _AGENT,
                    "Accept-Encoding": "identity",
                }  # they were meant for the first host
            here = there
        raise UnableToReadFromUrlError(f"{shown(url)} redirects more than {_MAX_REDIRECTS} times")

    def _try(self, url: str, headers: Mapping[str, str], deadline: float) -> bytes | str:
        """Ask up to three times; return the content, or the address that the server redirects to."""
        for attempt in range(_TRIES):
            try:
                return self._ask(url, headers, deadline)
            except UnableToReadFromUrlError as error:
                pause = 0.1 * 4**attempt
                if attempt + 1 == _TRIES or not _may_pass(error) or time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _ask(self, url: str, headers: Mapping[str, str], deadline: float) -> bytes | str:
        try:
            parts = urlsplit(url)
            key = (parts.scheme, parts.hostname or "", parts.port)
        except ValueError as error:
            raise UnableToReadFromUrlError(f"{shown(url)} is no valid address: {error}") from error
        if not key[1]:
            raise UnableToReadFromUrlError(f"{shown(url)} names no host")
        proxies = urllib.request.getproxies()
        if parts.scheme in proxies and not urllib.request.proxy_bypass(key[1]):
            return _through_proxy(url, headers, deadline)
        target = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._") + (
            f"?{parts.query}" if parts.query else ""
        )
        reused = self._pool.take(key)
        try:
            if reused is not None:
                try:
                    return self._exchange(reused, key, target, headers, url, deadline)
                except (http.client.BadStatusLine, ConnectionError, BrokenPipeError):
                    reused.close()  # the server had closed the idle connection: the next one is fresh
            fresh = self._connect(key, deadline)
            return self._exchange(fresh, key, target, headers, url, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, UnableToReadFromUrlError | LimitError):
                raise
            raise UnableToReadFromUrlError(
                f"cannot read {shown(url)}: {str(error) or type(error).__name__}"
            ) from error

    def _connect(self, key: _Key, deadline: float) -> http.client.HTTPConnection:
        scheme, host, port = key
        seconds = _left(deadline)
        if scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        key: _Key,
        target: str,
        headers: Mapping[str, str],
        url: str,
        deadline: float,
    ) -> bytes | str:
        keep = False
        try:
            if connection.sock is not None:
                connection.sock.settimeout(_left(deadline))
            connection.request("GET", target, headers=dict(headers))
            answer = connection.getresponse()
            if answer.status in _REDIRECTS and answer.headers.get("Location"):
                return str(answer.headers["Location"])
            if answer.status != 200:
                raise UnableToReadFromUrlError(
                    f"cannot read {shown(url)}: the server answers {answer.status} {answer.reason}",
                    status=answer.status,
                )
            data = _body(answer, connection, url, deadline)
            keep = not answer.will_close
            return data
        finally:
            if keep:
                self._pool.give(key, connection)
            else:
                connection.close()


def _may_pass(error: UnableToReadFromUrlError) -> bool:
    """Tell whether another try may succeed: the server was in trouble, or the connection broke."""
    if error.status is not None:
        return error.status in _PASSING
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError | socket.gaierror | ssl.SSLError | TimeoutError):
        return False
    return cause is None or isinstance(cause, OSError | http.client.HTTPException)


def _left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("timed out")
    return seconds


def _body(
    answer: http.client.HTTPResponse, connection: http.client.HTTPConnection | None, url: str, deadline: float
) -> bytes:
    what = f"{shown(url)}, in bytes"
    promised = answer.headers.get("Content-Length", "")
    if promised.isdigit():
        limits.check("MAX_FETCH_BYTES", int(promised), what)
    parts: list[bytes] = []
    total = 0
    # read1 returns what is there: a server that drips bytes cannot hold us beyond the deadline.
    while part := answer.read1(_BLOCK):
        parts.append(part)
        total += len(part)
        limits.check("MAX_FETCH_BYTES", total, what)
        seconds = _left(deadline)
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(seconds)
    answer.close()  # read1 does not notice the end: without this the connection is not ready for the next request
    if promised.isdigit() and total != int(promised):
        raise UnableToReadFromUrlError(f"{shown(url)} ends after {total} of {promised} bytes")
    return b"".join(parts)


def _through_proxy(url: str, headers: Mapping[str, str], deadline: float) -> bytes | str:
    """Leave the conversation with a proxy to urllib."""
    try:
        request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - http and https only
        with urllib.request.urlopen(request, timeout=_left(deadline)) as answer:  # noqa: S310
            return _body(answer, None, url, deadline)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, UnableToReadFromUrlError | LimitError):
            raise
        status = error.code if isinstance(error, urllib.error.HTTPError) else None
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is the answer, too
        raise UnableToReadFromUrlError(f"cannot read {shown(url)}: {error}", status=status) from error


HTTP = Http()
"""The fetcher of this process."""
