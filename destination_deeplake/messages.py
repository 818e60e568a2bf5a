"""Messages to the platform: one JSON object per line on standard output.

Everything that the connector says goes through one `Output`, straight to the file descriptor: no buffer that
an exit could lose, and no line inside another. A write that the pipe takes in part only is continued.
"""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

Message = dict[str, Any]
Level = Literal["FATAL", "ERROR", "WARN", "INFO", "DEBUG"]


def log_message(level: Level, text: str) -> Message:
    """Return a LOG message. The text must hold no record content."""
    return {"type": "LOG", "log": {"level": level, "message": text}}


def spec_message(specification: Mapping[str, Any]) -> Message:
    """Return the SPEC message."""
    return {"type": "SPEC", "spec": dict(specification)}


def status_message(problem: str | None) -> Message:
    """Return the CONNECTION_STATUS message: succeeded, or failed with a sentence that says what to change."""
    status = {"status": "SUCCEEDED"} if problem is None else {"status": "FAILED", "message": problem}
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
        self._closed = False

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
        try:
            while data and not self._closed:
                data = data[self._write(data) :]
        except BrokenPipeError:
            self._closed = True
            raise

    def log(self, level: Level, text: str) -> None:
        """Write a LOG message."""
        if level != "DEBUG" or self._debug:
            self.send(log_message(level, text))

    def _write(self, data: memoryview) -> int:
        return os.write(self._descriptor, data)
