"""A token service on loopback, and before an S3 server a guard who wants its tokens and knows when they end.

Run as ``token_front.py PORT TARGET``; orders come on standard input (see `Proxy`). It hands out tokens that are valid
for `seconds` each; of `one_in` of them one is revoked when half of that is over, as if somebody had ended the session.
With `uses` all are revoked after so many requests.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

_DROPPED = ("connection", "transfer-encoding", "keep-alive")


class Front(ThreadingHTTPServer):
    """The server, what it shall do, and what it has done."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, target: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.target = target
        self.seconds, self.one_in, self.uses = 60.0, 0, 0
        self.used: Counter[str] = Counter()
        self.numbers = itertools.count(1)
        self.counts = {"granted": 0, "passed": 0, "expired": 0, "revoked": 0, "without": 0}
        self.mutex = threading.Lock()
        self.random = random.Random(1)

    def count(self, what: str) -> None:
        with self.mutex:
            self.counts[what] += 1

    def grant(self) -> tuple[int, float, float]:
        """Return number, end and true end of a new token."""
        with self.mutex:
            self.counts["granted"] += 1
            is_short = self.one_in > 0 and self.random.randrange(self.one_in) == 0
        now = time.time()
        true_end = now + self.seconds * (0.5 if is_short else 1.0)
        return next(self.numbers), now + self.seconds, true_end

    def is_used_up(self, number: str) -> bool:
        """Count a use of a token, and tell whether it is one too many."""
        with self.mutex:
            self.used[number] += 1
            return 0 < self.uses < self.used[number]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no failure of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Front
    _upstream: http.client.HTTPConnection | None = None

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _DROPPED:
                self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, what: str, status: int, code: str) -> None:
        self.server.count(what)
        text = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"
        self._answer(status, text.encode(), [("Content-Type", "application/xml")])

    def _route(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "POST" and self.path == "/" and b"AssumeRole" in body:
            self._assume(parse_qs(body.decode("latin-1")))
            return
        token = self.headers.get("x-amz-security-token", "")
        if not token:
            self._refuse("without", 403, "InvalidAccessKeyId")
            return
        number, end, true_end = token.split("/")
        if time.time() > float(end):
            self._refuse("expired", 400, "ExpiredToken")
        elif time.time() > float(true_end) or self.server.is_used_up(number):
            self._refuse("revoked", 403, "InvalidToken")
        else:
            self._pass_on(body)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _route  # noqa: N815

    def _assume(self, form: dict[str, list[str]]) -> None:
        number, end, true_end = self.server.grant()
        until = datetime.fromtimestamp(end, UTC).isoformat()
        text = (
            '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
            f"<AccessKeyId>ASIA{number:08d}</AccessKeyId><SecretAccessKey>canary-{number}</SecretAccessKey>"
            f"<SessionToken>canary-{number}/{end:.3f}/{true_end:.3f}</SessionToken>"
            f"<Expiration>{until}</Expiration></Credentials><AssumedRoleUser><AssumedRoleId>A:x</AssumedRoleId>"
            f"<Arn>{form['RoleArn'][0]}</Arn></AssumedRoleUser></AssumeRoleResult></AssumeRoleResponse>"
        )
        self._answer(200, text.encode(), [("Content-Type", "text/xml")])

    def _pass_on(self, body: bytes) -> None:
        self.server.count("passed")
        for attempt in (1, 2):
            if self._upstream is None:
                self._upstream = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=60)
                self._upstream.connect()
                self._upstream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._upstream.request(self.command, self.path, body, dict(self.headers.items()))
                answer = self._upstream.getresponse()
                found = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self._upstream.close()
                self._upstream = None
                if attempt == 2:
                    raise
        self._answer(answer.status, found, answer.getheaders())


def main() -> None:
    server = Front(int(sys.argv[1]), int(sys.argv[2]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for line in sys.stdin:
        verb, values = json.loads(line)
        if verb == "set":
            server.seconds, server.one_in, server.uses = (
                values[name] for name in ("seconds", "one_in", "uses")
            )
        print(json.dumps(server.counts), flush=True)  # noqa: T201 - the answer to an order


if __name__ == "__main__":
    main()
