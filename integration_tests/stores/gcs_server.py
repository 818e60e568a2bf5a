"""A small server with Google Cloud Storage's XML interface, objects in memory, generations enforced.

Run as ``gcs_server.py PORT``. It is not the real thing: the emulators that can be had speak Google's JSON interface
only, while the client that `lakebed` uses speaks the XML one, and they do not enforce ``x-goog-if-generation-match``.
So this is written from Google's reference of the XML interface, as much of it as the client asks for; what it can not
show is whether Google does what its reference says. There are no accounts: every request is let in.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_PAGE = 1000


@dataclass(frozen=True)
class Blob:
    """One generation of an object."""

    data: bytes
    generation: int
    modified: float = field(default_factory=time.time)

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.data, usedforsecurity=False).hexdigest()}"'


class Buckets:
    """All objects, and uploads in parts that are not finished."""

    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, Blob]] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.mutex = threading.Lock()
        self.generations = itertools.count(1_700_000_000_000_000)

    def put(self, bucket: str, key: str, data: bytes, condition: str | None) -> Blob | None:
        """Store an object; None if the present generation is another than the condition says (0: there is none)."""
        with self.mutex:
            present = self.buckets[bucket].get(key)
            if condition is not None and int(condition) != (present.generation if present else 0):
                return None
            blob = self.buckets[bucket][key] = Blob(data, next(self.generations))
            return blob


STATE = Buckets()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _address(self) -> tuple[str, str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        bucket, _, key = parts.path.lstrip("/").partition("/")
        return unquote(bucket), unquote(key), parse_qs(parts.query, keep_blank_values=True)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer(self, status: int, body: bytes = b"", **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode())

    def _bucket(self, name: str) -> dict[str, Blob] | None:
        found = STATE.buckets.get(name)
        if found is None:
            self._error(404, "NoSuchBucket")
        return found

    def do_GET(self) -> None:
        """Read an object or a range of it, or list."""
        bucket, key, query = self._address()
        blobs = self._bucket(bucket)
        if blobs is None:
            return
        if not key:
            self._list(blobs, query)
            return
        blob = blobs.get(key)
        if blob is None:
            self._error(404, "NoSuchKey")
            return
        size, status, start, end = len(blob.data), 200, 0, len(blob.data)
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        headers: dict[str, object] = {
            "ETag": blob.etag,
            "x_goog_generation": blob.generation,
            "Last_Modified": formatdate(blob.modified, usegmt=True),
            "Content_Type": "application/octet-stream",
        }
        if asked:
            status = 206
            if not asked[1]:
                start = max(0, size - int(asked[2]))
            else:
                start = int(asked[1])
                end = min(size, int(asked[2]) + 1) if asked[2] else size
            if start >= size:
                self._answer(416, b"", Content_Range=f"bytes */{size}")
                return
            headers["Content_Range"] = f"bytes {start}-{end - 1}/{size}"
        if self.command == "HEAD":
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), str(value))
            self.send_header("Content-Length", str(end - start))
            self.end_headers()
            return
        self._answer(status, blob.data[start:end], **headers)

    def do_HEAD(self) -> None:
        """Tell what a read would give."""
        self.do_GET()

    def _list(self, blobs: dict[str, Blob], query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        after = query.get("continuation-token", query.get("start-after", [""]))[0]
        with STATE.mutex:
            keys = sorted(key for key in blobs if key.startswith(prefix) and key > after)
            page = [(key, blobs[key]) for key in keys[:_PAGE]]
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Generation>{blob.generation}</Generation>"
            f"<LastModified>{time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(blob.modified))}</LastModified>"
            f"<ETag>{escape(blob.etag)}</ETag><Size>{len(blob.data)}</Size></Contents>"
            for key, blob in page
        )
        more = ""
        if len(keys) > _PAGE:
            more = f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>"
        text = f"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult>{entries}{more}</ListBucketResult>"
        self._answer(200, text.encode(), Content_Type="application/xml")

    def do_PUT(self) -> None:
        """Make a bucket; write, copy, or write a part of an object."""
        bucket, key, query = self._address()
        data = self._body()
        if not key:
            STATE.buckets.setdefault(bucket, {})
            self._answer(200)
            return
        blobs = self._bucket(bucket)
        if blobs is None:
            return
        if "uploadId" in query:
            STATE.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = data
            self._answer(200, ETag=f'"{len(data)}"')
            return
        source = self.headers.get("x-goog-copy-source")
        if source is not None:
            found = blobs.get(unquote(source).lstrip("/").partition("/")[2])
            if found is None:
                self._error(404, "NoSuchKey")
                return
            data = found.data
        blob = STATE.put(bucket, key, data, self.headers.get("x-goog-if-generation-match"))
        if blob is None:
            self._error(412, "PreconditionFailed")
            return
        self._answer(200, ETag=blob.etag, x_goog_generation=blob.generation)

    def do_POST(self) -> None:
        """Begin or finish an upload in parts."""
        bucket, key, query = self._address()
        self._body()
        if "uploads" in query:
            name = str(next(STATE.generations))
            STATE.uploads[name] = {}
            text = (
                f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            )
            self._answer(200, text.encode())
            return
        parts = STATE.uploads.pop(query["uploadId"][0])
        blob = STATE.put(bucket, key, b"".join(parts[n] for n in sorted(parts)), None)
        if blob is None:
            raise AssertionError("without a condition nothing can be in the way")
        text = (
            f"<CompleteMultipartUploadResult><ETag>{escape(blob.etag)}</ETag></CompleteMultipartUploadResult>"
        )
        self._answer(200, text.encode(), x_goog_generation=blob.generation)

    def do_DELETE(self) -> None:
        """Remove an object, or forget an upload."""
        bucket, key, query = self._address()
        if "uploadId" in query:
            STATE.uploads.pop(query["uploadId"][0], None)
            self._answer(204)
            return
        blobs = self._bucket(bucket)
        if blobs is None:
            return
        with STATE.mutex:
            found = blobs.pop(key, None)
        if found is None:
            self._error(404, "NoSuchKey")
        else:
            self._answer(204)


class Server(ThreadingHTTPServer):
    """Many connections at once."""

    daemon_threads = True
    request_queue_size = 256


if __name__ == "__main__":
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
