"""``python -m lakebed.viewer PATH``: start the server, and print its address as one line of JSON."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import sys
import threading
from typing import Any

from lakebed.errors import LakebedError, ModuleNotInstalledException
from lakebed.viewer.lake import Lake

MISSING = "The viewer needs Starlette and uvicorn: pip install starlette uvicorn, or, in a checkout, pip install '.[view]'"

_ENDING_SECONDS = 3.0


def main() -> None:
    """Serve until the process is ended, or, with ``--with-parent``, until standard input is."""
    arguments = _parser().parse_args()
    try:
        import uvicorn

        from lakebed.viewer.access import Access
        from lakebed.viewer.app import app
    except ModuleNotFoundError as error:
        _end(ModuleNotInstalledException(f"{MISSING} ({error})"))
    given: dict[str, Any] = json.loads(sys.stdin.buffer.readline()) if arguments.settings else {}
    try:
        lake = Lake(arguments.path, given)
    except (LakebedError, OSError) as error:
        _end(error)
    family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((arguments.host, arguments.port))
    except OSError as error:
        _end(error)
    listening.listen(128)
    port = listening.getsockname()[1]
    access = Access(secrets.token_urlsafe(16), arguments.host, port, arguments.proxied)
    config = uvicorn.Config(
        access.guarding(app(lake, access)), log_level="error", access_log=False, server_header=False, lifespan="off"
    )
    server = uvicorn.Server(config)
    if arguments.with_parent:
        threading.Thread(target=_end_with_parent, args=(server,), daemon=True).start()
    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    state = f"&v1={json.dumps(given['state'])}" if "state" in given else ""
    url = f"http://{host}:{port}/#token={access.token}{state}"
    sys.stdout.write(json.dumps({"url": url, "port": port, "token": access.token}) + "\n")
    sys.stdout.flush()
    server.run(sockets=[listening])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lakebed.viewer", description=__doc__)
    parser.add_argument("path", help="a dataset, or a folder of some")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--proxied", action="store_true", help="a notebook server stands before this one, under a name of its own"
    )
    parser.add_argument("--with-parent", action="store_true", help="end when standard input does")
    parser.add_argument(
        "--settings", action="store_true", help="read a line of JSON from standard input: creds, rows, state, link roots"
    )
    return parser


def _end(error: Exception) -> Any:
    sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
    sys.exit(1)


def _end_with_parent(server: Any) -> None:
    """Wait until the other end of standard input is closed, as the operating system does when its process dies."""
    while sys.stdin.buffer.read(1 << 16):
        pass
    server.should_exit = True
    threading.Event().wait(_ENDING_SECONDS)
    os._exit(0)  # something is still being read


if __name__ == "__main__":
    main()
