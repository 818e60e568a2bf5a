"""A web server that shows a folder and knows ranges, for machines without nginx: ``web_server.py PORT FOLDER``."""

from __future__ import annotations

import re
import sys
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    folder = Path()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Send a file, or a range of it."""
        path = (self.folder / unquote(urlsplit(self.path).path).lstrip("/")).resolve()
        if not path.is_file() or not path.is_relative_to(self.folder):
            self._head(404, 0)
            return
        data, status, found = path.read_bytes(), 200, path.stat()
        size, start, end = len(data), 0, len(data)
        headers = {
            "ETag": f'"{found.st_mtime_ns:x}-{size:x}"',
            "Last-Modified": formatdate(found.st_mtime, usegmt=True),
        }
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if asked:
            status = 206
            start = int(asked[1]) if asked[1] else max(0, size - int(asked[2]))
            end = min(size, int(asked[2]) + 1) if asked[1] and asked[2] else size
            if start >= size:
                self._head(416, 0, {"Content-Range": f"bytes */{size}"})
                return
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self._head(status, end - start, {**headers, "Accept-Ranges": "bytes"})
        if self.command == "GET":
            self.wfile.write(memoryview(data)[start:end])

    def do_HEAD(self) -> None:
        """Tell what a read would give."""
        self.do_GET()

    def _head(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()


class Server(ThreadingHTTPServer):
    """Many connections at once."""

    daemon_threads = True
    request_queue_size = 256


if __name__ == "__main__":
    Handler.folder = Path(sys.argv[2]).resolve()
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
