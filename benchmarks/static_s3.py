"""Buckets that are only read, served as fast as this machine can: nginx sends the objects, Python answers lists.

Buckets are folders. Signatures are not checked. There is no better server for comparing clients: what it costs is the
same for all, and little.
"""

from __future__ import annotations

import contextlib
import http.server
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from xml.sax.saxutils import escape

from integration_tests.stores.processes import free_port, running

_CONFIGURATION = """
daemon off;
pid {scratch}/pid;
worker_processes 1;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 300;
    keepalive_requests 1000000;
    client_body_temp_path {scratch}/body;
    proxy_temp_path {scratch}/proxy;
    fastcgi_temp_path {scratch}/fastcgi;
    uwsgi_temp_path {scratch}/uwsgi;
    scgi_temp_path {scratch}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        root {folder};
        error_page 403 404 =404 /missing;
        location = /missing {{
            internal;
            default_type application/xml;
            return 404 '<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>missing</Message></Error>';
        }}
        location / {{
            if ($arg_prefix$arg_list_type$arg_delimiter) {{ proxy_pass http://127.0.0.1:{lists}; }}
            if ($uri ~ "^/[^/]+/?$") {{ proxy_pass http://127.0.0.1:{lists}; }}
        }}
    }}
}}
"""


def program() -> str | None:
    """Path of nginx; None if it is not installed."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin:/usr/local/sbin")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Serve the buckets in a folder on a port of loopback, until the end of the block.

    Raises
    ------
    RuntimeError
        If nginx is not installed.
    """
    path = program()
    if path is None:
        raise RuntimeError("nginx is not installed: `apt-get install nginx-light`")
    port = free_port()
    with tempfile.TemporaryDirectory() as scratch, _lists(folder) as lists:
        configuration = Path(scratch) / "nginx.conf"
        configuration.write_text(
            _CONFIGURATION.format(scratch=scratch, port=port, folder=folder, lists=lists)
        )
        Path(scratch).chmod(0o755)
        # Workers of a nginx that root starts belong to nobody else, so that they may read the folder.
        user = ["-g", "user root;"] if _is_root() else []
        with running([path, "-c", str(configuration), *user], port):
            yield port


def _is_root() -> bool:
    return subprocess.run(["id", "-u"], capture_output=True, text=True, check=True).stdout.strip() == "0"


@contextlib.contextmanager
def _lists(folder: Path) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            address = urllib.parse.urlsplit(self.path)
            asked = {name: values[0] for name, values in urllib.parse.parse_qs(address.query).items()}
            self._answer(_page(folder, address.path.strip("/"), asked).encode())

        def do_HEAD(self) -> None:
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _page(folder: Path, bucket: str, asked: dict[str, str]) -> str:
    """Answer ListObjects or ListObjectsV2 in one page: few files lie here."""
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    after = asked.get("start-after") or asked.get("marker") or ""
    most = int(asked.get("max-keys", 1_000_000))
    contents, prefixes = [], set()
    root = folder / bucket
    for path in sorted((root / prefix.rpartition("/")[0]).rglob("*")):
        key = path.relative_to(root).as_posix()
        if not path.is_file() or not key.startswith(prefix) or key <= after:
            continue
        rest = key[len(prefix) :]
        if delimiter and delimiter in rest:
            prefixes.add(prefix + rest.partition(delimiter)[0] + delimiter)
            continue
        stat = path.stat()
        changed = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stat.st_mtime))
        # As nginx makes them.
        etag = f"{int(stat.st_mtime):x}-{stat.st_size:x}"
        contents.append(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{changed}</LastModified>"
            f"<ETag>&quot;{etag}&quot;</ETag><Size>{stat.st_size}</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>"
        )
    found = "".join(contents[:most])
    groups = "".join(
        f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>" for p in sorted(prefixes)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{escape(bucket)}</Name><Prefix>{escape(prefix)}</Prefix><Date>{formatdate()}</Date>"
        f"<KeyCount>{min(most, len(contents)) + len(prefixes)}</KeyCount><MaxKeys>{most}</MaxKeys>"
        f"<IsTruncated>false</IsTruncated>{found}{groups}</ListBucketResult>"
    )
