"""Messages to the platform: one JSON object per line on standard output.

All output goes through one `Output`, straight to the file descriptor: without a buffer, which an exit could lose, and
with whole lines from all threads. A partial write to the pipe is continued; if the other end has made the pipe
non-blocking, writes wait until it is ready.
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
    """Return text that is safe in terminals and browsers, where logs are read."""
    if text.replace("\n", "").isprintable():
        return text
    # Imported here, because `spec` needs to be fast and does not need this slow import.
    from lakebed.runtime.printable import printable

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
    """Return the CONNECTION_STATUS message: success, or failure with advice."""
    status = {"status": "SUCCEEDED"} if problem is None else {"status": "FAILED", "message": shown(problem)}
    return {"type": "CONNECTION_STATUS", "connectionStatus": status}


class Output:
    """Output of lines to a file descriptor, each at once and as a whole.

    Parameters
    ----------
    descriptor : int
        Descriptor that is open for writing; it is not closed here.
    debug : bool
        Whether DEBUG log lines are written.
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
            If the reader has closed the pipe.
        """
        self.lines((json.dumps(message).encode(),))

    def lines(self, lines: Iterable[bytes]) -> None:
        """Write lines in order, adding line ends.

        Raises
        ------
        BrokenPipeError
            If the reader has closed the pipe. Raised once; later messages are dropped.
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
        """True if the pipe had no reader when a line other than a log line was written."""
        return self._closed

    @property
    def is_unread(self) -> bool:
        """True if the pipe had no reader when a log line was written."""
        return self._is_unread

    def log(self, level: Level, text: str) -> None:
        """Write a LOG message; a closed pipe is not an error here, so that no rows are lost because of a log line."""
        if level == "DEBUG" and not self._debug:
            return
        try:
            self.send(log_message(level, text))
        except BrokenPipeError:
            # The next STATE will find the pipe closed, too, and raise the error.
            self._closed, self._is_unread = False, True

    def _write(self, data: memoryview) -> int:
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                ready = select.poll()
                ready.register(self._descriptor, select.POLLOUT)
                ready.poll()
