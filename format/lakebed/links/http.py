"""Read files over HTTP and HTTPS, whole or in part: a bound on size and on time, few redirects, few retries."""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from lakebed import config, limits
from lakebed.errors import LimitError, UnableToReadFromUrlError, UnsafePathError
from lakebed.links.connections import Connection, Place, Pool, Proxy, connect
from lakebed.links.part import Part
from lakebed.links.policy import WEB
from lakebed.storage.address import scheme_of, shown
from lakebed.storage.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakebed.links.policy import Policy

_REDIRECTS = (301, 302, 303, 307, 308)
_PASSING = (429, 500, 502, 503, 504)  # answers that another try may turn into a file
_MAX_REDIRECTS = 5
_TRIES = 3
_BLOCK = 1 << 16
_PLAIN_HEADERS = {"User-Agent": "lakebed", "Accept-Encoding": "identity"}
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_BEYOND = re.compile(r"bytes \*/(\d+)")


@dataclass(frozen=True, slots=True)
class _WantedRange:
    """What is wanted of a file."""

    start: int
    length: int


class Http:
    """Fetcher of ``http://`` and ``https://`` addresses."""

    def __init__(self) -> None:
        self._pool = Pool()

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._pool.clear()

    def fetch(
        self,
        url: str,
        *,
        timeout: float | None = None,
        creds: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
    ) -> bytes:
        """Read the file behind an address.

        Parameters
        ----------
        timeout
            Seconds for everything together; None for ``config.HTTP_TIMEOUT``.
        creds
            Request headers under ``"headers"``, if any, and under ``"hosts"`` whom they are meant for.
        policy
            What a link may lead to; None is the user's own call.

        Raises
        ------
        UnableToReadFromUrlError
            If no server answers in time, or not with the file.
        UnsafePathError
            If the policy does not allow the address, or one that it redirects to.
        LimitError
            If the file is larger than ``limits.MAX_FETCH_BYTES``.
        """
        return self._follow(url, None, timeout, creds, policy).data

    def fetch_part(
        self,
        url: str,
        start: int,
        length: int,
        *,
        timeout: float | None = None,
        creds: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        tag: str | None = None,
    ) -> Part:
        """Read ``length`` bytes from offset ``start``, fewer at the file's end; see :meth:`fetch`.

        A server that does not know ranges sends the file from its beginning: what is before is read and dropped.

        Parameters
        ----------
        tag
            What an earlier part came with: another file there now is an UnableToReadFromUrlError.
        """
        if start < 0 or length < 0:
            raise ValueError(f"byte range ({start}, {length}) is negative")
        limits.check("MAX_FETCH_BYTES", length, f"part of {shown(url)}, in bytes")
        part = self._follow(url, _WantedRange(start, length), timeout, creds, policy)
        if tag is not None and part.tag != tag:
            raise UnableToReadFromUrlError(f"{shown(url)} was replaced while it was read; read it again")
        return part

    def _follow(
        self,
        url: str,
        span: _WantedRange | None,
        timeout: float | None,
        creds: Mapping[str, Any] | None,
        policy: Policy | None,
    ) -> Part:
        deadline = time.monotonic() + (config.HTTP_TIMEOUT if timeout is None else timeout)
        secret, named = _headers(creds)
        # An address that the user has linked is free; where its server redirects to is not.
        own = policy is not None and policy.is_own(url)
        first = here = _place(url, url)
        for _ in range(_MAX_REDIRECTS + 1):
            rule = None if own and here.origin == first.origin else policy
            if policy is not None:
                policy.scheme(here.url)
            if rule is not None and secret and here is first:
                rule.check_host(here.url, here.host, here.port)
                rule.check_secrets(here.url, here.host, here.port, named)
            answer = self._try(here, span, {**secret, **_PLAIN_HEADERS, **_ask_for(span)}, rule, deadline)
            if isinstance(answer, Part):
                return answer
            there = _joined(here.url, answer, url)
            if scheme_of(there) not in WEB:
                raise UnableToReadFromUrlError(
                    f"{shown(url)} redirects to {shown(there)}, which is no web address"
                )
            if policy is not None:
                policy.check_downgrade(here.url, there)
            place = _place(there, url)
            if place.origin != here.origin:
                secret = {}  # it was meant for the first server
            here = place
        raise UnableToReadFromUrlError(f"{shown(url)} redirects more than {_MAX_REDIRECTS} times")

    def _try(
        self,
        place: Place,
        span: _WantedRange | None,
        headers: Mapping[str, str | Secret],
        policy: Policy | None,
        deadline: float,
    ) -> Part | str:
        """Ask up to three times; return what is wanted, or the address that the server redirects to."""
        for attempt in range(_TRIES):
            try:
                return self._ask(place, span, headers, policy, deadline)
            except UnableToReadFromUrlError as error:
                pause = 0.1 * 4**attempt
                if attempt + 1 == _TRIES or not _may_pass(error) or time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _ask(
        self,
        place: Place,
        span: _WantedRange | None,
        headers: Mapping[str, str | Secret],
        policy: Policy | None,
        deadline: float,
    ) -> Part | str:
        try:
            proxy = Proxy.of(place)
            reused = self._pool.take(place, policy) if proxy is None else None
            if reused is not None:
                try:
                    return self._exchange(reused, place, span, headers, deadline)
                except (http.client.BadStatusLine, ConnectionError):
                    pass  # the server had closed the idle connection: the next one is fresh
            fresh = connect(place, proxy, policy, deadline)
            return self._exchange(fresh, place, span, headers, deadline)
        except (UnableToReadFromUrlError, UnsafePathError, LimitError):
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnableToReadFromUrlError(
                f"cannot read {shown(place.url)}: {str(error) or type(error).__name__}"
            ) from error

    def _exchange(
        self,
        connection: Connection,
        place: Place,
        span: _WantedRange | None,
        headers: Mapping[str, str | Secret],
        deadline: float,
    ) -> Part | str:
        keep = False
        try:
            answer = connection.ask(place.target, headers, deadline)
            if answer.status in _REDIRECTS and answer.headers.get("Location"):
                return str(answer.headers["Location"])
            part = _read(answer, connection, place.url, span)
            keep = answer.isclosed() and not answer.will_close
            return part
        finally:
            if keep:
                self._pool.give(place, connection)
            else:
                connection.close()


def _place(url: str, origin: str) -> Place:
    try:
        return Place.of(url)
    except ValueError as error:
        raise UnableToReadFromUrlError(
            f"{shown(origin)} is, or redirects to, no valid address: {error}"
        ) from error


def _joined(url: str, location: str, origin: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError as error:
        raise UnableToReadFromUrlError(f"{shown(origin)} redirects to no valid address: {error}") from error


def _headers(creds: Mapping[str, Any] | None) -> tuple[dict[str, Secret], Sequence[str]]:
    """Return the headers of credentials and the hosts that they are for; secrets are shown to the server only."""
    found = {key: _revealed(value) for key, value in (creds or {}).items() if key in ("headers", "hosts")}
    named = dict(found.get("headers") or {})
    headers = {str(name): Secret(str(_revealed(value))) for name, value in named.items()}
    hosts = found.get("hosts") or ()
    return headers, [hosts] if isinstance(hosts, str) else [str(host) for host in hosts]


def _revealed(value: Any) -> Any:
    if not isinstance(value, Secret):
        return value
    text = value.reveal()
    return json.loads(text) if text[:1] in ("{", "[") else text


def _ask_for(span: _WantedRange | None) -> dict[str, str]:
    # No byte cannot be asked for: one is read, and dropped.
    return {} if span is None else {"Range": f"bytes={span.start}-{span.start + max(1, span.length) - 1}"}


def _may_pass(error: UnableToReadFromUrlError) -> bool:
    """Tell whether another try may succeed: the server was in trouble, or the connection broke."""
    if error.status is not None:
        return error.status in _PASSING
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError | socket.gaierror | ssl.SSLError | TimeoutError):
        return False
    return cause is None or isinstance(cause, OSError | http.client.HTTPException)


def _read(
    answer: http.client.HTTPResponse, connection: Connection, url: str, span: _WantedRange | None
) -> Part:
    """Return what is wanted from an answer.

    Raises
    ------
    UnableToReadFromUrlError
        If it is none that could hold it, or ends early.
    """
    tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
    told = answer.headers.get("Content-Range", "")
    if answer.status == 416 and span is not None and (beyond := _BEYOND.fullmatch(told)):
        return Part(b"", int(beyond[1]), tag)
    if answer.status != 200 and not (answer.status == 206 and span is not None):
        raise UnableToReadFromUrlError(
            f"cannot read {shown(url)}: the server answers {answer.status} {answer.reason}",
            status=answer.status,
        )
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnableToReadFromUrlError(f"cannot read {shown(url)}: the server sends it compressed, unasked")
    if span is None:
        data = _body(answer, connection, url, 0, None)
        return Part(data, len(data), tag)
    if answer.status == 200:
        promised = answer.headers.get("Content-Length", "")
        data = _body(answer, connection, url, span.start, span.length)
        return Part(data, int(promised) if promised.isdecimal() else None, tag, has_ranges=False)
    found = _RANGE.fullmatch(told)
    if found is None or int(found[1]) != span.start or int(found[2]) < span.start:
        raise UnableToReadFromUrlError(
            f"cannot read {shown(url)}: asked for bytes from {span.start} on, the server sends {told!r:.80}"
        )
    wanted = min(span.length, int(found[2]) - span.start + 1)
    data = _body(answer, connection, url, 0, span.length)
    if len(data) < wanted:
        raise UnableToReadFromUrlError(f"{shown(url)} ends after {len(data)} of {wanted} bytes")
    return Part(data, None if found[3] == "*" else int(found[3]), tag)


def _body(
    answer: http.client.HTTPResponse, connection: Connection, url: str, skip: int, wanted: int | None
) -> bytes:
    """Read the content of an answer, or ``wanted`` bytes of it after the first ``skip``."""
    what = f"{shown(url)}, in bytes"
    promised = answer.headers.get("Content-Length", "")
    known = int(promised) if promised.isdecimal() else None
    if wanted is None and known is not None:
        limits.check("MAX_FETCH_BYTES", known, what)
    end = None if wanted is None else skip + wanted
    parts: list[bytes] = []
    total = 0
    # read1 returns what is there: a server that drips bytes cannot hold us beyond the deadline.
    while (end is None or total < end) and (part := answer.read1(_BLOCK)):
        limits.check("MAX_FETCH_BYTES", total + len(part), what)
        parts.append(part[max(0, skip - total) : None if end is None else end - total])
        total += len(part)
        connection.hurry()
    if (end is None or total < end) and known is not None and total != known:
        raise UnableToReadFromUrlError(f"{shown(url)} ends after {total} of {promised} bytes")
    if known == total or (known is None and end is None):
        answer.close()  # read1 does not notice the end: without this the connection is not ready for the next request
    return b"".join(parts)


HTTP = Http()
"""The fetcher of this process."""
