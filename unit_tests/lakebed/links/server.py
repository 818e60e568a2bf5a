"""A web server in a thread, which misbehaves where a test asks for it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

from lakebed.links.http import HTTP


@dataclass
class Web:
    """Files by path; `connections` counts TCP connections, `requests` the paths that were asked for."""

    files: dict[str, bytes]
    url: str = ""
    connections: int = 0
    requests: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    failures: int = 0
    most_at_once: int = 0
    at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Web]:  # noqa: C901 - one branch per misbehaviour
    """Serve files on a free port of this machine, whole or by range; other paths misbehave.

    =====================  ==========================================================================
    /redirect/N            asks N times to go elsewhere
    /to/ADDRESS            asks to go there
    /ftp                   asks to leave the web
    /fail                  answers 503 as often as `failures` says
    /short                 ends early
    /drip                  sends a byte now and then
    /close, /drop          closes the connection after the answer, with and without saying so
    /slow/PATH             waits
    /whole/PATH            knows no ranges
    /chunked/PATH          knows neither ranges nor lengths
    /wrong-range, /zipped  sends what was not asked for
    =====================  ==========================================================================
    """
    web = Web(files)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            with web.lock:
                web.connections += 1
            super().setup()

        def log_message(self, *args: object) -> None:
            pass

        def answer(self, data: bytes, status: int = 200, length: int | None = None, **headers: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(data) if length is None else length))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            with web.lock:
                web.requests.append(self.path)
                web.headers.append(dict(self.headers))
                web.at_once += 1
                web.most_at_once = max(web.most_at_once, web.at_once)
            try:
                self.respond(unquote(urlsplit(self.path).path))
            finally:
                with web.lock:
                    web.at_once -= 1

        def do_CONNECT(self) -> None:
            with web.lock:
                web.requests.append(self.path)
                web.headers.append(dict(self.headers))
            self.answer(b"", 403)

        def file(self, data: bytes) -> None:
            """Answer with a file, or with the range of it that is asked for."""
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            tag = f'"{hash(data)}"'
            if found is None:
                self.answer(data, ETag=tag)
            elif int(found[1]) >= len(data):
                self.answer(b"", 416, **{"Content-Range": f"bytes */{len(data)}"})
            else:
                first, last = int(found[1]), min(int(found[2]), len(data) - 1)
                told = {"Content-Range": f"bytes {first}-{last}/{len(data)}", "ETag": tag}
                self.answer(data[first : last + 1], 206, **told)

        def respond(self, path: str) -> None:  # noqa: C901 - one branch per misbehaviour
            kind, _, rest = path[1:].partition("/")
            if kind == "redirect" and int(rest) > 0:
                self.answer(b"elsewhere", 302, Location=f"/redirect/{int(rest) - 1}")
            elif kind == "redirect":
                self.answer(b"arrived")
            elif kind == "to":
                self.answer(b"elsewhere", 302, Location=rest)
            elif kind == "status":
                self.answer(b"", int(rest))
            elif kind == "ftp":
                self.answer(b"", 302, Location="file:///etc/hostname")
            elif kind == "fail" and web.failures > 0:
                web.failures -= 1
                self.answer(b"", 503)
            elif kind == "fail":
                self.answer(b"recovered")
            elif kind == "short":
                self.answer(b"123", length=10)
                self.close_connection = True
            elif kind == "drip":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                for _ in range(100):
                    self.wfile.write(b".")
                    self.wfile.flush()
                    time.sleep(0.05)
            elif kind == "slow":
                time.sleep(0.05)
                self.answer(web.files["/" + rest])
            elif kind == "close":
                self.answer(b"closing", Connection="close")
                self.close_connection = True
            elif kind == "drop":
                # As a server does that closes an idle connection just before the next request.
                self.answer(b"dropping")
                self.close_connection = True
            elif kind == "whole":
                self.answer(web.files["/" + rest])
            elif kind == "chunked":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                data = web.files["/" + rest]
                for at in range(0, len(data), 10_000):
                    piece = data[at : at + 10_000]
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
            elif kind == "wrong-range":
                self.answer(b"12345", 206, **{"Content-Range": "bytes 0-4/10"})
            elif kind == "zipped":
                self.answer(b"12345", **{"Content-Encoding": "gzip"})
            elif path in web.files:
                self.file(web.files[path])
            else:
                self.answer(b"", 404)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # clients that went away are part of the tests

    with Server(("127.0.0.1", 0), Handler) as server:
        web.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield web
        finally:
            HTTP.close()
            server.shutdown()
            thread.join()
