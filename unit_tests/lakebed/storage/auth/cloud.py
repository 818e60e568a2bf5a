"""A small cloud on loopback: services that hand out credentials, and a store that wants them to be valid.

::

    POST /                                                  STS: AssumeRole, AssumeRoleWithWebIdentity
    GET  /latest/meta-data/iam/security-credentials/...     metadata of a virtual machine
    GET  /container                                         metadata of a container
    GET  /federation/credentials                            SSO
    GET  /computeMetadata/v1/...                            metadata of Google Cloud
    POST /<tenant>/oauth2/v2.0/token                        Azure Active Directory
    GET, PUT, HEAD /<bucket>/<key>                          objects; a session token that has run out is refused

Every session token holds the time at which it ends. Requests are recorded with their headers.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ACCESS_KEY = "AKIAGIVEN"
HIDDEN = "canary-secret-of-the-caller"


class Cloud(ThreadingHTTPServer):
    """The server.

    Parameters
    ----------
    seconds
        How long the credentials that it hands out are valid.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, seconds: float = 3600.0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seconds = seconds
        self.scheme = "http"
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
        self.granted = 0
        self.refused = 0
        self.revoked: set[str] = set()
        self.code = "ExpiredToken"
        self.external_id: str | None = None
        self.fails_with: int | None = None
        self.delay = 0.0
        self.mutex = threading.Lock()

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no failure."""

    def grant(self, who: str) -> tuple[str, str, str, datetime]:
        """Return new credentials, valid from now on."""
        with self.mutex:
            self.granted += 1
            number = self.granted
        end = time.time() + self.seconds
        return (
            f"ASIA{number:06d}",
            f"canary-secret-{number}",
            f"canary-token-{number}-{who}-{end:.3f}",
            datetime.fromtimestamp(end, UTC),
        )

    def calls(self, what: str) -> list[tuple[dict[str, str], dict[str, str]]]:
        """Return headers and parameters of all requests for something."""
        return [
            (headers, form) for _, path, headers, form in self.asked if what in (path, form.get("Action"))
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Cloud

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: bytes | str, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _route(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        parts = urlsplit(self.path)
        is_form = "form-urlencoded" in (self.headers.get("Content-Type") or "")
        text = body.decode("latin-1") if is_form else parts.query
        form = {key: values[0] for key, values in parse_qs(text).items()}
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.server.asked.append((self.command, parts.path, headers, form))
        if self.server.delay:
            time.sleep(self.server.delay)
        if self.server.fails_with is not None and self.command == "POST":
            self._answer(self.server.fails_with, _error("ServiceUnavailable"))
        elif "Action" in form:
            self._token_service(form)
        elif parts.path.startswith("/latest/"):
            self._machine(parts.path)
        elif parts.path == "/container":
            self._answer(200, self._as_json("container"), Content_Type="application/json")
        elif parts.path == "/federation/credentials":
            self._sso()
        elif parts.path.startswith("/computeMetadata/"):
            self._google()
        elif parts.path == "/" and "metadata-flavor" in headers:
            self._answer(200, "computeMetadata/", Metadata_Flavor="Google")
        elif parts.path.endswith("/oauth2/v2.0/token"):
            found = {"access_token": f"canary-token-azure-{form.get('client_id')}", "expires_in": 3600}
            self._answer(200, json.dumps({**found, "token_type": "Bearer"}), Content_Type="application/json")
        else:
            self._object(parts.path, headers, body)

    do_GET = do_PUT = do_POST = do_HEAD = _route  # noqa: N815

    def _token_service(self, form: dict[str, str]) -> None:
        action = form["Action"]
        wanted = self.server.external_id
        if action == "AssumeRole" and wanted is not None and form.get("ExternalId") != wanted:
            self._answer(403, f"<ErrorResponse>{_error('AccessDenied')}</ErrorResponse>")
            return
        key, hidden, token, end = self.server.grant("sts")
        self._answer(
            200,
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials>'
            f"<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{hidden}</SecretAccessKey>"
            f"<SessionToken>{token}</SessionToken><Expiration>{end.isoformat()}</Expiration></Credentials>"
            "<AssumedRoleUser><AssumedRoleId>AROA:x</AssumedRoleId><Arn>arn:aws:sts::1:assumed-role/r/x</Arn>"
            f"</AssumedRoleUser></{action}Result></{action}Response>",
            Content_Type="text/xml",
        )

    def _machine(self, path: str) -> None:
        if path == "/latest/api/token":
            self._answer(200, "metadata-session")
        elif path.endswith("/security-credentials/"):
            self._answer(200, "role-of-machine")
        else:
            self._answer(200, self._as_json("machine"), Content_Type="application/json")

    def _as_json(self, who: str) -> str:
        key, hidden, token, end = self.server.grant(who)
        return json.dumps(
            {
                "Code": "Success",
                "AccessKeyId": key,
                "SecretAccessKey": hidden,
                "Token": token,
                "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        )

    def _sso(self) -> None:
        key, hidden, token, end = self.server.grant("sso")
        found = {
            "accessKeyId": key,
            "secretAccessKey": hidden,
            "sessionToken": token,
            "expiration": int(end.timestamp() * 1000),
        }
        self._answer(200, json.dumps({"roleCredentials": found}), Content_Type="application/json")

    def _google(self) -> None:
        _, _, token, _ = self.server.grant("google")
        found = {"access_token": token, "expires_in": int(self.server.seconds), "token_type": "Bearer"}
        self._answer(200, json.dumps(found), Content_Type="application/json", Metadata_Flavor="Google")

    def _object(self, path: str, headers: dict[str, str], body: bytes) -> None:
        token = headers.get("x-amz-security-token", "")
        if token in self.server.revoked or (token and float(token.rpartition("-")[2]) < time.time()):
            self.server.refused += 1
            status = 403 if self.server.code == "AccessDenied" else 400
            self._answer(status, _error(self.server.code), Content_Type="application/xml")
        elif self.command == "PUT":
            self.server.objects[path] = body
            self._answer(200, b"", ETag='"1"')
        elif path in self.server.objects:
            date = "Sat, 21 Nov 2026 00:00:00 GMT"
            self._answer(200, self.server.objects[path], ETag='"1"', Last_Modified=date)
        else:
            self._answer(404, _error("NoSuchKey"), Content_Type="application/xml")


def _error(code: str) -> str:
    return f"<Error><Code>{code}</Code><Message>{code}</Message><RequestId>1</RequestId></Error>"


@contextmanager
def cloud(seconds: float = 3600.0, certificate: tuple[str, str] | None = None) -> Iterator[Cloud]:
    """Run the server for as long as the block lasts; with a certificate and its key it speaks TLS."""
    server = Cloud(seconds)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.scheme = "https"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
