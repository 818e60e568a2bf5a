"""``python -m lakebed.viewer PATH``: start the server, and print its address as one line of JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

from lakebed.errors import LakebedError, ModuleNotInstalledException
from lakebed.viewer.lake import Lake

_MISSING = "The viewer needs Starlette and uvicorn: pip install 'lakebed[view]'"

_ENDING_SECONDS = 3.0


def main() -> None:
    """Serve until the process ends or, with ``--with-parent``, until standard input is closed."""
    arguments = _parser().parse_args()
    try:
        import uvicorn

        from lakebed.viewer.access import Access
        from lakebed.viewer.app import app
    except ModuleNotFoundError as error:
        _end(ModuleNotInstalledException(f"{_MISSING} ({error})"))
    lines = _lines()
    given: dict[str, Any] = json.loads(next(lines, b"{}")) if arguments.with_parent else {}
    try:
        lake = Lake(arguments.path, given)
    except (LakebedError, OSError) as error:
        _end(error)
    try:
        family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
        listening = socket.create_server((arguments.host, arguments.port), family=family)
    except OSError as error:
        _end(error)
    port = listening.getsockname()[1]
    access = Access(secrets.token_urlsafe(16), arguments.host, port, arguments.proxied)
    guarded = access.guarding(app(lake, access))
    quiet: dict[str, Any] = {"log_level": "error", "access_log": False, "server_header": False}
    server = uvicorn.Server(uvicorn.Config(guarded, lifespan="off", **quiet))
    if arguments.with_parent:
        threading.Thread(target=_follow_parent, args=(server, lake, lines), daemon=True).start()
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    if host in ("0.0.0.0", "[::]"):  # noqa: S104 - these stand for all addresses of this machine
        host = socket.gethostname()
    url = f"http://{host}:{port}/#token={access.token}"
    sys.stdout.write(json.dumps({"url": url, "port": port, "token": access.token}) + "\n")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(lake):
        server.run(sockets=[listening])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lakebed.viewer", description=__doc__)
    parser.add_argument("path", help="a dataset, or a folder of datasets")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 takes a free one")
    told = "a notebook server with another host name forwards the requests"
    parser.add_argument("--proxied", action="store_true", help=told)
    told = "read settings as a line of JSON, then rows to show, from standard input; end when it is closed"
    parser.add_argument("--with-parent", action="store_true", help=told)
    return parser


def _end(error: Exception) -> Any:
    is_missing = isinstance(error, ModuleNotInstalledException)
    sys.stdout.write(json.dumps({"error": str(error), "is_missing": is_missing}) + "\n")
    sys.exit(1)


def _lines() -> Iterator[bytes]:
    """Yield the lines of standard input, unbuffered, because a thread that waits in Python's buffer prevents exit."""
    rest = b""
    while part := os.read(0, 1 << 16):
        *lines, rest = (rest + part).split(b"\n")
        yield from lines


def _follow_parent(server: Any, lake: Lake, lines: Iterator[bytes]) -> None:
    """Receive rows to show until standard input is closed, which also happens if the parent dies."""
    for line in lines:
        told = json.loads(line)
        lake.rows[told["name"]] = range(*told["range"]) if told["range"] else told["rows"]
        sys.stdout.write("{}\n")  # tell the parent that these rows can now be shown
        sys.stdout.flush()
    server.should_exit = True
    threading.Event().wait(_ENDING_SECONDS)
    lake.close()
    os._exit(0)  # end the process although a request is still reading


if __name__ == "__main__":
    main()
