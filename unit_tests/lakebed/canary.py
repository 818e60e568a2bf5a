"""A secret that must show up nowhere, what listens for it everywhere, and a server that tells on its clients."""

from __future__ import annotations

import base64
import logging
import pickle
import secrets
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

CANARY = f"kanari{secrets.token_hex(12)}"
_SPELLINGS = {
    CANARY,
    CANARY.upper(),
    quote(CANARY),
    *(base64.b64encode(b"\0" * n + CANARY.encode()).decode()[4 if n else 0 : 30] for n in range(3)),
}
TESTS = str(Path(__file__).parent)


class Watch:
    """Collects everything that a program lets out; :meth:`hits` are the places where the secret was."""

    def __init__(self) -> None:
        self.failures = self.looked = 0
        self._seen: list[tuple[str, str]] = []

    def see(self, where: str, text: str | bytes) -> None:
        """Look at one thing that came out."""
        self.looked += 1
        found = text.decode("latin-1") if isinstance(text, bytes) else text
        if any(spelling in found for spelling in _SPELLINGS):
            at = min(found.find(spelling) for spelling in _SPELLINGS if spelling in found)
            self._seen.append((where, found[max(0, at - 200) : at + 60]))

    def hits(self) -> list[tuple[str, str]]:
        """Return where it was, and what stood before it."""
        return self._seen

    def shown(self, where: str, thing: Any) -> None:
        """Look at an object in the ways in which programs show one."""
        for how in (repr, str, format, lambda found: repr(getattr(found, "__dict__", ""))):
            self.see(f"{where} as {how}", how(thing))
        try:
            self.see(f"pickle of {where}", pickle.dumps(thing))
        except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
            self.error(f"pickling {where}", error)

    def fails(self, where: str, call: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Call what has to fail, and look at the error in the ways in which programs show one."""
        try:
            call(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.failures += 1
            self.error(where, error)
            return
        raise AssertionError(f"{where} did not fail")

    def tries(self, where: str, call: Callable[..., object], *arguments: Any, **options: Any) -> None:
        """Call what may fail or not, and look at the error or the result."""
        try:
            found = call(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self.failures += 1
            self.error(where, error)
        else:
            self.see(where, repr(found))

    def error(self, where: str, error: BaseException) -> None:
        """Look at an error, its causes and all their frames but those of tests."""
        self.see(f"{where}: traceback", "".join(traceback.format_exception(error)))
        seen: set[int] = set()
        waiting: list[BaseException | None] = [error]
        while waiting:
            found = waiting.pop()
            if found is None or id(found) in seen:
                continue
            seen.add(id(found))
            self.see(f"{where}: {type(found).__name__}", f"{found!r} {found} {vars(found)!r} {found.args!r}")
            for frame, _ in traceback.walk_tb(found.__traceback__):
                if not frame.f_code.co_filename.startswith(TESTS):
                    name = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                    for local, value in frame.f_locals.items():
                        self.see(f"{where}: {local} in {name}", _repr(value))
            waiting += [found.__cause__, None if found.__suppress_context__ else found.__context__]
        try:
            self.see(f"{where}: pickled", pickle.dumps(error))
        except (pickle.PicklingError, TypeError, AttributeError, ValueError):
            return

    def files(self, folder: Path) -> None:
        """Look into all files below a folder."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.see(str(path), path.read_bytes())


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - an object that is not complete yet
        return ""


class _Listener(logging.Handler):
    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.DEBUG)
        self._watch = watch
        self.records = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.records += 1
        text = record.getMessage()
        if record.exc_info:
            text += "".join(traceback.format_exception(*record.exc_info))
        self._watch.see(f"log of {record.name}", f"{text} {record.args!r}")


@contextmanager
def listening(watch: Watch) -> Iterator[_Listener]:
    """Hear what every logger says at DEBUG."""
    listener, root = _Listener(watch), logging.getLogger()
    levels = {name: logging.getLogger(name).level for name in list(logging.root.manager.loggerDict)}
    before = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        yield listener
    finally:
        root.removeHandler(listener)
        root.setLevel(before)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


class Telltale:
    """What a server does; ``mode`` says how it misbehaves, and all that it was sent is in its answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.mode = "denied"
        self.heard = 0


_ANSWERS = {
    "denied": (403, "AccessDenied"),
    "unknown key": (403, "InvalidAccessKeyId"),
    "bad token": (400, "InvalidToken"),
    "expired": (400, "ExpiredToken"),
    "no bucket": (404, "NoSuchBucket"),
    "broken": (500, "InternalError"),
    "slow down": (503, "SlowDown"),
    "unauthorized": (401, "Unauthorized"),
    "teapot": (418, "Teapot"),
}


@contextmanager
def telltale() -> Iterator[Telltale]:
    """Run a server that sends every header, and the secret that it should not know, back in its errors."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            server.heard += 1
            length = int(self.headers.get("Content-Length") or 0)
            sent = self.rfile.read(length).decode("latin-1")
            told = f"{CANARY} {dict(self.headers)} {sent}".replace("<", " ").replace("&", " ")
            status, code = _ANSWERS.get(server.mode, (200, "OK"))
            body = (
                f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>you said {told}</Message>"
                f"<Token-0>{CANARY}</Token-0></Error>"
            )
            if status == 200:
                body = "neither XML nor an image"
            if server.mode == "silent":
                time.sleep(1.0)
                self.close_connection = True
                return
            if server.mode == "json":
                status, body = 400, f'{{"__type": "Strange", "message": "{CANARY}"}}'
            elif server.mode == "secret":
                status, body = (
                    200,
                    f'{{"SecretString": "not json {CANARY}", "Parameter": {{"Value": "{CANARY}"}}}}',
                )
            elif server.mode == "redirect":
                status = 302
            data = b"" if self.command == "HEAD" else body.encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://127.0.0.1:1/x")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - names of the base class

        def log_message(self, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # clients that went away

    with Server(("127.0.0.1", 0), Handler) as http:
        server = Telltale(f"http://127.0.0.1:{http.server_address[1]}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
