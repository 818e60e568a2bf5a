"""The source of messages: standard input, or Unix sockets on which the source listens.

The platform sets these variables, which have the names and values of Airbyte's own connectors:

    DATA_CHANNEL_MEDIUM         STDIO (the default), SOCKET
    DATA_CHANNEL_FORMAT         JSONL (the default), PROTOBUF, which is only possible on sockets
    DATA_CHANNEL_SOCKET_PATHS   paths of the sockets, with commas between them

An empty variable counts as not set. The source creates the sockets when it starts, before or after the destination.
"""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from destination_deeplake.failures import ConfigError, IncompleteSourceError
from destination_deeplake.messages import Level

if TYPE_CHECKING:
    import socket

_PATHS = "DATA_CHANNEL_SOCKET_PATHS"
_LONGEST_PATH = 107
"""Longest path of a Unix socket in bytes (sockaddr_un of Linux)."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.2
"""Seconds between attempts to connect; most succeed at once."""
_SECONDS_BETWEEN_LINES = 60.0

_Choice = TypeVar("_Choice", bound=StrEnum)


class Medium(StrEnum):
    """Carrier of the messages."""

    STDIO = "STDIO"
    SOCKET = "SOCKET"


class Format(StrEnum):
    """Encoding of the messages."""

    JSONL = "JSONL"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class Channel:
    """Carrier and encoding of the messages.

    Attributes
    ----------
    medium : Medium
        The carrier.
    format : Format
        Encoding; JSONL on standard input.
    paths : tuple of str
        The sockets; empty for standard input.
    """

    medium: Medium = Medium.STDIO
    format: Format = Format.JSONL
    paths: tuple[str, ...] = ()

    @property
    def lanes(self) -> int:
        """Number of inputs that are read concurrently: the sockets, or 1 for standard input."""
        return max(1, len(self.paths))

    @property
    def is_parallel(self) -> bool:
        """True if messages arrive in no common order, so that records are counted by partition."""
        return self.medium is Medium.SOCKET


STDIO = Channel()


def read_channel(environ: Mapping[str, str]) -> Channel:
    """Return the channel that the environment names.

    Raises
    ------
    ConfigError
        If the value of a variable is invalid, or two variables contradict each other.
    """
    medium = _choice(environ, "DATA_CHANNEL_MEDIUM", Medium.STDIO)
    form = _choice(environ, "DATA_CHANNEL_FORMAT", Format.JSONL)
    if medium is Medium.SOCKET:
        return Channel(medium, form, _paths(environ.get(_PATHS, "")))
    if form is Format.PROTOBUF:
        raise ConfigError(
            "DATA_CHANNEL_FORMAT is PROTOBUF, which is only possible on sockets; set DATA_CHANNEL_MEDIUM to "
            "SOCKET, or the format to JSONL."
        )
    return Channel(medium, form)


def _choice(environ: Mapping[str, str], name: str, default: _Choice) -> _Choice:
    value = environ.get(name) or default
    try:
        return type(default)(value)
    except ValueError:
        raise ConfigError(f"{name} is {value!r}; set it to {' or '.join(type(default))}.") from None


def _paths(value: str) -> tuple[str, ...]:
    if not value:
        raise ConfigError(
            f"DATA_CHANNEL_MEDIUM is SOCKET, but {_PATHS} is not set; set it to the paths of the sockets, with commas "
            "between them, or the medium to STDIO."
        )
    paths = value.split(",")
    for path in paths:
        if not path:
            raise ConfigError(f"{_PATHS} has an empty path: {value!r}. Remove the comma, or write the path.")
        if paths.count(path) > 1:
            raise ConfigError(f"{_PATHS} names {path!r} twice; name each socket once.")
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise ConfigError(
                f"{_PATHS} has a path of more than {_LONGEST_PATH} bytes, which is too long for a socket: "
                f"{path!r}. Put the sockets into a folder with a shorter path."
            )
    return tuple(paths)


def connect(
    paths: Sequence[str],
    log: Callable[[Level, str], None],
    *,
    is_stopped: Callable[[], bool],
    seconds: float = 900.0,
) -> "list[socket.socket]":
    """Connect to the sockets of the source; wait for sockets that do not exist yet.

    Parameters
    ----------
    paths : sequence of str
        The sockets.
    log : callable
        Takes a level and a text.
    is_stopped : callable
        Tells whether to give up without an error; called several times a second.
    seconds : float
        Time to wait for all sockets together.

    Returns
    -------
    list of socket.socket
        Connected and blocking, in the order of the paths; empty if stopped.

    Raises
    ------
    IncompleteSourceError
        If a socket could not be connected in time.
    """
    connected: dict[str, socket.socket] = {}
    reasons: dict[str, str] = {}
    pause, started = _FIRST_PAUSE, time.monotonic()
    told = started
    with contextlib.ExitStack() as stack:
        while True:
            for path in paths:
                if path not in connected and (found := _connected(path, reasons)) is not None:
                    connected[path] = stack.enter_context(found)
                    log("INFO", f"Socket {path} connected for reading")
            if len(connected) == len(paths):
                stack.pop_all()
                return [connected[path] for path in paths]
            if is_stopped():
                return []
            missing = ", ".join(f"{path} ({reasons[path]})" for path in paths if path not in connected)
            now = time.monotonic()
            if now - started >= seconds:
                raise IncompleteSourceError(
                    f"The source did not open all of its sockets within {seconds / 60:.0f} minutes. Missing: "
                    f"{missing}. Run the sync again; if it fails again, look whether the source has failed, and "
                    "whether source and destination share the folder of the sockets and name the same ones "
                    f"({_PATHS})."
                )
            if now - told >= _SECONDS_BETWEEN_LINES:
                told = now
                log("INFO", f"Waiting for the sockets of the source since {now - started:.0f} s: {missing}.")
            time.sleep(min(pause, max(0.0, started + seconds - now)))
            pause = min(2 * pause, _LONGEST_PAUSE)


def _connected(path: str, reasons: dict[str, str]) -> "socket.socket | None":
    """Return a socket connected to a path; None, with the reason in `reasons`, if no process listens there yet."""
    import socket  # most syncs use no sockets

    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Do not block on a listener that does not accept yet, so that signals are noticed.
    client.setblocking(False)
    try:
        client.connect(path)
    except OSError as error:
        client.close()
        reasons[path] = error.strerror or str(error)
        return None
    client.setblocking(True)
    return client
