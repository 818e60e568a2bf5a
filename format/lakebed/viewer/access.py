"""Access control: the token, tickets for videos and sounds, names of this server, and security headers."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors "
)
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_NOTEBOOKS = "'self' http://localhost:* http://127.0.0.1:* vscode-webview:"


def failure(kind: str, message: str, status: int, headers: Any = None, **more: Any) -> Response:
    """Return the kind and the text of an error with its status, as `Failure` of types.ts."""
    return JSONResponse({"error": {"kind": kind, "message": message, **more}}, status, headers)


class Access:
    """The conditions that a request must meet.

    Parameters
    ----------
    token
        Token that all addresses except the page itself require.
    host, port
        Address at which the server listens.
    proxied
        A notebook server forwards requests, and its name is unknown here.
    """

    def __init__(self, token: str, host: str, port: int, proxied: bool = False) -> None:
        self.token = token
        self._is_open = not _is_loopback(host)
        self._names = {"localhost", host.lower(), *([socket.gethostname().lower()] if self._is_open else [])}
        self._port = port
        self._used: set[str] = set()
        self._proxied = proxied
        policy = _POLICY + ("'self'" if proxied else _NOTEBOOKS)
        self._headers = [(b"content-security-policy", policy.encode()), *_HEADERS]

    def ticket(self, path: str, at: str, q: str) -> str:
        """Return the ticket that opens a video or sound without the token, for a decoded path, version and query."""
        return self._mac(f"{path}?at={at}&q={q}")

    def _mac(self, message: str) -> str:
        return hmac.new(
            self.token.encode(), message.encode("utf-8", "surrogatepass"), hashlib.sha256
        ).hexdigest()

    def opened(self, nonce: str, mac: str) -> bool:
        """Tell whether a one-time address may be used now; making one needs the token."""
        mine = self._mac(f"open {nonce}").encode()
        if nonce in self._used or not hmac.compare_digest(mac.encode("utf-8", "surrogatepass"), mine):
            return False
        self._used.add(nonce)
        return True

    def guarding(self, app: ASGIApp) -> ASGIApp:
        """Return an application that answers only permitted requests."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return  # returning closes the connection
            refused = self._refused(scope)

            async def sent(message: Message) -> None:
                if message["type"] == "http.response.start":
                    names = {name.lower() for name, _ in message["headers"]}
                    kept = [] if b"cache-control" in names else [(b"cache-control", b"no-store")]
                    message["headers"] = [*message["headers"], *kept, *self._headers]
                await send(message)

            if refused is None:
                await app(scope, receive, sent)
                return
            status, told = refused
            await failure("denied", told, status)(scope, receive, sent)

        return guarded

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Return the refusal of a request; None if it is permitted."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not (self._proxied or self._is_own(hosts[0])):
            return 403, "the header Host does not name this viewer"
        if not scope["path"].startswith("/v1"):
            return None  # the page itself holds no data, so it needs no token
        is_other = not self._proxied and headers.getlist("origin") not in ([], [f"http://{hosts[0]}"])
        if is_other or {*headers.getlist("sec-fetch-site")} - {"same-origin", "none"}:
            return 403, "the request comes from another page"
        given = headers.getlist("authorization")
        if len(given) == 1 and hmac.compare_digest(given[0].encode(), f"Bearer {self.token}".encode()):
            return None
        query = QueryParams(scope["query_string"])
        given_once = [query.getlist(name) or [""] for name in ("ticket", "at", "q")]
        if scope["path"].split("/")[3:4] == ["media"] and all(len(values) == 1 for values in given_once):
            (ticket,), (at,), (q,) = given_once
            if hmac.compare_digest(ticket.encode(), self.ticket(scope["path"], at, q).encode()):
                return None
        return (
            401,
            "the address of this page has no token, or the token of another viewer: start the viewer again",
        )

    def _is_own(self, host: str) -> bool:
        try:
            parts = urlsplit(f"http://{host}")
            name, port = parts.hostname or "", parts.port
        except ValueError:
            return False
        if parts.path or parts.query or parts.username is not None or (port or 80) != self._port:
            return False
        return name in self._names or (_address(name) is not None if self._is_open else _is_loopback(name))


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address literal as a number, which no name server can redirect; None for names."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_loopback(name: str) -> bool:
    found = _address(name)
    return name == "localhost" or (found is not None and found.is_loopback)
