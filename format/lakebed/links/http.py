"""Files over HTTP and HTTPS, whole or in part, with bounds on size, time, redirects and retries."""

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
_PASSING = (429, 500, 502, 503, 504)  # status codes after which another attempt may succeed
_MAX_REDIRECTS = 5
_TRIES = 3
_BLOCK = 1 << 16
_PLAIN_HEADERS = {"User-Agent": "lakebed", "Accept-Encoding": "identity"}
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_BEYOND = re.compile(r"bytes \*/(\d+)")


@dataclass(frozen=True, slots=True)
class _Request:
    """Request for a file, or for `span`: the first byte and the length of a part."""

    place: Place
    span: tuple[int, int] | None
    headers: Mapping[str, str | Secret]
    policy: Policy | None
    deadline: float


class Http:
    """Reader of ``http://`` and ``https://`` addresses."""

    def __init__(self) -> None:
        self._pool = Pool()

    def close(self) -> None:
        """Close idle connections."""
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
            Request headers under ``"headers"``, if any, and under ``"hosts"`` the hosts that get these headers.
        policy
            Rules for links; None for a call of the user.

        Raises
        ------
        UnableToReadFromUrlError
            If no server sends the file in time.
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

        A server without ranges sends the file from its beginning: the bytes before ``start`` are read and dropped.

        Parameters
        ----------
        tag
            Tag of an earlier part; if the content has changed since, UnableToReadFromUrlError is raised.
        """
        if start < 0 or length < 0:
            raise ValueError(f"byte range ({start}, {length}) is negative")
        limits.check("MAX_FETCH_BYTES", length, f"part of {shown(url)}, in bytes")
        part = self._follow(url, (start, length), timeout, creds, policy)
        if tag is not None and part.tag != tag:
            raise UnableToReadFromUrlError(f"{shown(url)} was replaced while it was read; read it again")
        return part

    def _follow(
        self,
        url: str,
        span: tuple[int, int] | None,
        timeout: float | None,
        creds: Mapping[str, Any] | None,
        policy: Policy | None,
    ) -> Part:
        deadline = time.monotonic() + (config.HTTP_TIMEOUT if timeout is None else timeout)
        secret, named = _headers(creds)
        # The policy is not applied to an address that the user linked, but to the targets of its redirects.
        own = policy is not None and policy.is_own(url)
        first = here = _place(url, url)
        for _ in range(_MAX_REDIRECTS + 1):
            rule = None if own and here.origin == first.origin else policy
            if policy is not None:
                policy.scheme(here.url)
            if rule is not None and secret and here is first:
                rule.check_host(here.url, here.host, here.port)
                rule.check_secrets(here.url, here.host, here.port, named)
            headers: dict[str, str | Secret] = {**secret, **_PLAIN_HEADERS, **_ask_for(span)}
            answer = self._try(_Request(here, span, headers, rule, deadline))
            if isinstance(answer, Part):
                return answer
            there = _joined(here.url, answer, url)
            if scheme_of(there) not in WEB:
                raise UnableToReadFromUrlError(
                    f"{shown(url)} redirects to {shown(there)}, which is not a web address"
                )
            if policy is not None:
                policy.check_downgrade(here.url, there)
            place = _place(there, url)
            if place.origin != here.origin:
                secret = {}  # the credentials are only meant for the first server
            here = place
        raise UnableToReadFromUrlError(f"{shown(url)} redirects more than {_MAX_REDIRECTS} times")

    def _try(self, request: _Request) -> Part | str:
        """Try a request up to three times; return the wanted bytes, or the address to which the server redirects."""
        attempt = 0
        while True:
            try:
                return self._ask(request)
            except UnableToReadFromUrlError as error:
                pause = 0.1 * 4**attempt
                attempt += 1
                if attempt == _TRIES or not _may_pass(error) or time.monotonic() + pause > request.deadline:
                    raise
                time.sleep(pause)

    def _ask(self, request: _Request) -> Part | str:
        place, policy = request.place, request.policy
        try:
            proxy = Proxy.of(place)
            reused = self._pool.take(place, policy) if proxy is None else None
            if reused is not None:
                try:
                    return self._exchange(reused, request)
                except (http.client.BadStatusLine, ConnectionError):
                    pass  # the server had closed the idle connection
            return self._exchange(connect(place, proxy, policy, request.deadline), request)
        except (UnableToReadFromUrlError, UnsafePathError, LimitError):
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnableToReadFromUrlError(
                f"cannot read {shown(place.url)}: {str(error) or type(error).__name__}"
            ) from error

    def _exchange(self, connection: Connection, request: _Request) -> Part | str:
        keep = False
        try:
            answer = connection.ask(request.place.target, request.headers, request.deadline)
            if answer.status in _REDIRECTS and answer.headers.get("Location"):
                return str(answer.headers["Location"])
            part = _read(answer, connection, request.place.url, request.span)
            keep = answer.isclosed() and not answer.will_close
            return part
        finally:
            if keep:
                self._pool.give(request.place, connection)
            else:
                connection.close()


def _place(url: str, origin: str) -> Place:
    try:
        return Place.of(url)
    except ValueError as error:
        raise UnableToReadFromUrlError(
            f"{shown(origin)} is not a valid address, or redirects to one that is not: {error}"
        ) from error


def _joined(url: str, location: str, origin: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError as error:
        raise UnableToReadFromUrlError(
            f"{shown(origin)} redirects to an address that is not valid: {error}"
        ) from error


def _headers(creds: Mapping[str, Any] | None) -> tuple[dict[str, Secret], Sequence[str]]:
    """Return the headers of credentials, and the hosts that get these headers."""
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


def _ask_for(span: tuple[int, int] | None) -> dict[str, str]:
    # HTTP has no empty ranges: ask for one byte, which is dropped later.
    return {} if span is None else {"Range": f"bytes={span[0]}-{span[0] + max(1, span[1]) - 1}"}


def _may_pass(error: UnableToReadFromUrlError) -> bool:
    """Tell whether another try may succeed: the server was in trouble, or the connection broke."""
    if error.status is not None:
        return error.status in _PASSING
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError | socket.gaierror | ssl.SSLError | TimeoutError):
        return False
    return cause is None or isinstance(cause, OSError | http.client.HTTPException)


def _read(
    answer: http.client.HTTPResponse, connection: Connection, url: str, span: tuple[int, int] | None
) -> Part:
    """Return the wanted bytes of an answer.

    Raises
    ------
    UnableToReadFromUrlError
        If the answer does not hold them, or ends early.
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
        raise UnableToReadFromUrlError(
            f"cannot read {shown(url)}: the server sends compressed content, which was not requested"
        )
    if span is None:
        data = _body(answer, connection, url, 0, None)
        return Part(data, len(data), tag)
    start, length = span
    if answer.status == 200:
        data = _body(answer, connection, url, start, length)
        return Part(data, _length(answer), tag, has_ranges=False)
    found = _RANGE.fullmatch(told)
    if found is None or int(found[1]) != start or int(found[2]) < start:
        raise UnableToReadFromUrlError(
            f"cannot read {shown(url)}: bytes from {start} on were requested, the server sends {told!r:.80}"
        )
    wanted = min(length, int(found[2]) - start + 1)
    data = _body(answer, connection, url, 0, length)
    if len(data) < wanted:
        raise UnableToReadFromUrlError(f"{shown(url)} ends after {len(data)} of {wanted} bytes")
    return Part(data, None if found[3] == "*" else int(found[3]), tag)


def _length(answer: http.client.HTTPResponse) -> int | None:
    promised = answer.headers.get("Content-Length", "")
    return int(promised) if promised.isdecimal() else None


def _body(
    answer: http.client.HTTPResponse, connection: Connection, url: str, skip: int, wanted: int | None
) -> bytes:
    """Read the content of an answer, or ``wanted`` bytes of it after the first ``skip``."""
    what = f"{shown(url)}, in bytes"
    known = _length(answer)
    if wanted is None and known is not None:
        limits.check("MAX_FETCH_BYTES", known, what)
    end = None if wanted is None else skip + wanted
    parts: list[bytes] = []
    total = 0
    # read1 returns the bytes that have arrived, so a slow server cannot delay this loop beyond the deadline.
    while (end is None or total < end) and (part := answer.read1(_BLOCK)):
        limits.check("MAX_FETCH_BYTES", total + len(part), what)
        parts.append(part[max(0, skip - total) : None if end is None else end - total])
        total += len(part)
        connection.hurry()
    if (end is None or total < end) and known is not None and total != known:
        raise UnableToReadFromUrlError(f"{shown(url)} ends after {total} of {known} bytes")
    if known == total or (known is None and end is None):
        # `read1` does not notice the end of the answer; `close` makes the connection ready for the next request.
        answer.close()
    return b"".join(parts)


HTTP = Http()
"""Reader of this process."""
