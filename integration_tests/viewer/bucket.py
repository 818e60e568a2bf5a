"""A web server of files as buckets serve them: ranges, CORS, and a log of what was asked."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_RANGE = re.compile(r"bytes=(\d*)-(\d*)\Z")


class Bucket(ThreadingHTTPServer):
    """Files of a folder.

    Attributes
    ----------
    asked : list of (str, int)
        Path and bytes of each answer.
    latency : float
        Seconds before each answer.
    has_ranges, has_cors : bool
        Whether ranges are answered, and pages of other origins are let in.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[tuple[str, int]] = []
        self.latency = 0.0
        self.has_ranges = self.has_cors = True
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Address, without a slash at its end."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Bucket
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_OPTIONS(self) -> None:
        self._answer(
            204, b"", {"Access-Control-Allow-Headers": "Range", "Access-Control-Allow-Methods": "GET"}
        )

    def do_GET(self) -> None:
        time.sleep(self.server.latency)
        path = unquote(urlsplit(self.path).path).lstrip("/")
        file = self.server.root / path
        if ".." in Path(path).parts or not file.is_file():
            self._answer(404, b"no such key", {})
            return
        with file.open("rb") as opened:
            size = file.stat().st_size
            found = _RANGE.match(self.headers.get("Range", "")) if self.server.has_ranges else None
            if found is None:
                self._answer(200, opened.read(), {})
                return
            first, last = found.groups()
            start = int(first) if first else max(0, size - int(last))
            stop = min(size, int(last) + 1) if first and last else size
            if start >= size:
                self._answer(416, b"", {"Content-Range": f"bytes */{size}"})
                return
            opened.seek(start)
            self._answer(
                206, opened.read(stop - start), {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}
            )

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.server.asked.append((unquote(self.path), len(body)))
        self.send_response(status)
        if self.server.has_cors:
            headers |= {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Content-Range"}
        types = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
        headers["Content-Type"] = types.get(Path(urlsplit(self.path).path).suffix, "application/octet-stream")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""


@contextmanager
def serving(root: Path) -> Iterator[Bucket]:
    """Serve a folder while the block runs."""
    with Bucket(root) as bucket:
        thread = threading.Thread(target=bucket.serve_forever)
        thread.start()
        try:
            yield bucket
        finally:
            bucket.shutdown()
            thread.join()
