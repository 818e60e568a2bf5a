"""Messages to the platform: one JSON object per line on standard output.

Everything that the connector says goes through one `Output`, straight to the file descriptor: no buffer that
an exit could lose, and no line inside another, from whichever thread. A write that the pipe takes in part only is
continued, and one that it does not take yet, because a program at its other end has made it non-blocking, waits.
"""

import json
import os
import select
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

Message = dict[str, Any]
Level = Literal["FATAL", "ERROR", "WARN", "INFO", "DEBUG"]


def shown(text: str) -> str:
    """Return text as a terminal or a browser can show it, which is where logs are read."""
    if text.replace("\n", "").isprintable():
        return text
    from lakebed.runtime.printable import printable  # the library is slow to import, and `spec` does without

    return printable(text, lines=True)


def log_message(level: Level, text: str) -> Message:
    """Return a LOG message. The text must hold no record content."""
    return {"type": "LOG", "log": {"level": level, "message": shown(text)}}


def specification() -> dict[str, Any]:
    """Return the connector specification (`spec.json`)."""
    spec: dict[str, Any] = json.loads(Path(__file__).with_name("spec.json").read_bytes())
    return spec


def spec_message(specification: Mapping[str, Any]) -> Message:
    """Return the SPEC message."""
    return {"type": "SPEC", "spec": dict(specification)}


def status_message(problem: str | None) -> Message:
    """Return the CONNECTION_STATUS message: succeeded, or failed with a sentence that says what to change."""
    status = {"status": "SUCCEEDED"} if problem is None else {"status": "FAILED", "message": shown(problem)}
    return {"type": "CONNECTION_STATUS", "connectionStatus": status}


class Output:
    """Lines to a file descriptor, each complete and at once.

    Parameters
    ----------
    descriptor : int
        Open for writing; not closed here.
    debug : bool
        Whether DEBUG log lines go out.
    """

    def __init__(self, descriptor: int, *, debug: bool = False) -> None:
        self._descriptor = descriptor
        self._debug = debug
        self._closed = self._is_unread = False
        self._mutex = threading.Lock()

    def send(self, message: Message) -> None:
        """Write one message.

        Raises
        ------
        BrokenPipeError
            If nobody reads any more.
        """
        self.lines((json.dumps(message).encode(),))

    def lines(self, lines: Iterable[bytes]) -> None:
        """Write finished lines, in order; each gets its line end here.

        Raises
        ------
        BrokenPipeError
            If nobody reads any more. Raised once: what is said on the way out after that is dropped.
        """
        data = memoryview(b"".join(line + b"\n" for line in lines))
        with self._mutex:
            try:
                while data and not self._closed:
                    data = data[self._write(data) :]
            except BrokenPipeError:
                self._closed = True
                raise

    @property
    def is_closed(self) -> bool:
        """True if a line other than a log line found its reader gone."""
        return self._closed

    @property
    def is_unread(self) -> bool:
        """True if a log line found its reader gone."""
        return self._is_unread

    def log(self, level: Level, text: str) -> None:
        """Write a LOG message; no rows are to be lost because nobody reads it, so that is not raised here."""
        if level == "DEBUG" and not self._debug:
            return
        try:
            self.send(log_message(level, text))
        except BrokenPipeError:
            # The next line that matters, a STATE, shall find out by itself and say so.
            self._closed, self._is_unread = False, True

    def _write(self, data: memoryview) -> int:
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                ready = select.poll()
                ready.register(self._descriptor, select.POLLOUT)
                ready.poll()
