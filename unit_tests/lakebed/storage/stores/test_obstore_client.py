"""The library that speaks to stores works in forked children, whoever used it before the fork."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import http.server, os, sys, threading

import lakebed
import obstore.store

class Files(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "2")
        self.send_header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"

def read(obstore):
    store = obstore.store.HTTPStore.from_url(url, client_options={"allow_http": True})
    return bytes(obstore.get(store, "file").bytes())

BEFORE
pid = os.fork()
if pid == 0:
    from lakebed.storage.stores.obstore_client import client

    found = read(client())
    if os.fork() == 0:
        os._exit(0 if read(client()) == b"ok" else 3)
    os._exit(0 if found == b"ok" and os.wait()[1] == 0 else 2)
status = os.waitpid(pid, 0)[1]
assert read(obstore) == b"ok"
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(
    "before",
    [
        "assert read(obstore) == b'ok'",  # the program's own use of it
        "from lakebed.storage.stores.obstore_client import client; assert read(client()) == b'ok'",
        "pass",
    ],
)
def test_a_forked_child_speaks_to_stores(before: str) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore:This process:DeprecationWarning",
            "-c",
            PROGRAM.replace("BEFORE", before),
        ],
        timeout=300,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
