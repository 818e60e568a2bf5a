"""A source that listens on sockets and plays messages over them, as Airbyte's sources do in their fast mode.

    python -m integration_tests.sockets.source MESSAGES CATALOG PATH...

MESSAGES has one JSON message on each line, as a source writes them on standard output; they get partitions here, and
are dealt to the sockets by a seed. Start the destination with the variables that it prints. At the end it prints how
many records of which partition went out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import socket
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from integration_tests.messages import Json, Message, read
from integration_tests.sockets.encode import Encoder, Misfits, Nulls, delimited, probe, text_of
from integration_tests.sockets.script import Order, deal, with_partitions

FORMATS = ("JSONL", "PROTOBUF")


@dataclass(frozen=True)
class Behaviour:
    """How a source plays its messages; without values, at once and to the end."""

    order: Order = Order.KEPT
    probes: float = 0.0
    """Probability of a probe before a message; PROTOBUF only."""
    pause: float = 0.0
    """Longest pause before a message, in seconds."""
    piece: int = 1 << 30
    """Bytes of a write at most; 1 splits between any two bytes."""
    ends_before: int | None = None
    """Place in the script where the source dies: what comes before it is sent, on all sockets."""
    ends_on: Mapping[int, int] = field(default_factory=dict)
    """Socket -> number of its messages after which it is closed while the others go on."""
    torn: bool = False
    """Whether a socket that ends too early has a half of the next message."""
    late: Mapping[int, float] = field(default_factory=dict)
    """Socket -> seconds until it is there."""
    never: frozenset[int] = frozenset()
    """Sockets that never appear."""
    silent: frozenset[int] = frozenset()
    """Sockets on which nothing comes, and which stay open until the source is stopped."""


AT_ONCE = Behaviour()


class _Frame(NamedTuple):
    place: int
    data: bytes
    partition: str | None
    """Of a record."""
    is_whole: bool = True

    def torn(self) -> _Frame:
        """Return its first half."""
        return self._replace(data=self.data[: len(self.data) // 2], is_whole=False)


class SocketSource:
    """Plays messages over sockets as long as its context is open.

    Parameters
    ----------
    paths
        Where to listen.
    catalog
        Configured catalog; the schemas type the values.
    messages
        With partitions, see `with_partitions`.
    form
        JSONL or PROTOBUF.
    seed
        Of all that is drawn.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        catalog: Message,
        messages: Sequence[Message],
        form: str = "PROTOBUF",
        seed: int = 0,
        behaviour: Behaviour = AT_ONCE,
        misfits: Misfits = Misfits.NULL,
        nulls: Nulls = Nulls.UNSET,
    ) -> None:
        assert form in FORMATS
        self.paths = [str(path) for path in paths]
        self.sent: Counter[str] = Counter()
        """Partition -> records that went out whole."""
        self.messages_sent = [0] * len(self.paths)
        self._form = form
        self._seed = seed
        self._behaviour = behaviour
        self._encoder = Encoder(catalog, misfits, nulls)
        self._queues = [
            [self._frame(place, message) for place, message in dealt]
            for dealt in deal(messages, len(self.paths), seed, behaviour.order)
        ]
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def environ(self) -> dict[str, str]:
        """Variables for the destination."""
        return {
            "DATA_CHANNEL_MEDIUM": "SOCKET",
            "DATA_CHANNEL_FORMAT": self._form,
            "DATA_CHANNEL_SOCKET_PATHS": ",".join(self.paths),
        }

    def __enter__(self) -> Self:
        for number, path in enumerate(self.paths):
            if number in self._behaviour.never:
                continue
            # Those that are not late listen when this returns.
            server = None if number in self._behaviour.late else self._listen(path)
            thread = threading.Thread(target=self._serve, args=[number, server], daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        for path in self.paths:
            Path(path).unlink(missing_ok=True)

    def wait(self, seconds: float | None = 300.0) -> None:
        """Wait until everything is played, not for sockets that are silent; None waits for ever."""
        for number, thread in zip(self._numbers(), self._threads, strict=True):
            if number not in self._behaviour.silent:
                thread.join(seconds)
                assert not thread.is_alive(), f"socket {number} is still being read"

    def stop(self) -> None:
        """Close everything: what a destination has not taken is lost to it."""
        self._stopping.set()
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _numbers(self) -> list[int]:
        return [number for number in range(len(self.paths)) if number not in self._behaviour.never]

    def _frame(self, place: int, message: Message) -> _Frame:
        partition = message["record"]["partition_id"] if message["type"] == "RECORD" else None
        if self._form == "PROTOBUF":
            return _Frame(place, delimited(self._encoder.encode(message)), partition)
        return _Frame(place, text_of(message).encode() + b"\n", partition)

    def _listen(self, path: str) -> socket.socket:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(path)
        server.listen()
        self._hold(server)
        return server

    def _hold(self, one: socket.socket) -> None:
        with self._lock:
            self._open.append(one)
            if self._stopping.is_set():
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _serve(self, number: int, server: socket.socket | None) -> None:
        if server is None:
            if self._stopping.wait(self._behaviour.late[number]):
                return
            server = self._listen(self.paths[number])
        with server:
            try:
                client, _ = server.accept()
            except OSError:  # shut down by `stop`
                return
        with client:
            self._hold(client)
            # A destination that dies takes nothing any more.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._play(number, client)

    def _play(self, number: int, client: socket.socket) -> None:
        behaviour, chosen = self._behaviour, random.Random(self._seed * 1000 + number)
        if number in behaviour.silent:
            self._stopping.wait()
            return
        for frame in self._until_its_end(number):
            if behaviour.pause and self._stopping.wait(chosen.uniform(0, behaviour.pause)):
                return
            if self._form == "PROTOBUF" and chosen.random() < behaviour.probes:
                self._send(client, delimited(probe()))
            self._send(client, frame.data)
            self.messages_sent[number] += frame.is_whole
            if frame.partition is not None and frame.is_whole:
                with self._lock:
                    self.sent[frame.partition] += 1

    def _until_its_end(self, number: int) -> Iterator[_Frame]:
        """Yield what a socket carries; the last one may be a part of a message."""
        behaviour, queue = self._behaviour, self._queues[number]
        last, before = behaviour.ends_on.get(number), behaviour.ends_before
        for count, frame in enumerate(queue):
            if count == last or frame.place == before:
                if behaviour.torn:
                    yield frame.torn()
                    return
                if count == last:
                    return
            # In another order than that of the script, messages before its end may come behind those after it.
            if before is None or frame.place < before:
                yield frame

    def _send(self, client: socket.socket, data: bytes) -> None:
        for start in range(0, len(data), self._behaviour.piece):
            client.sendall(data[start : start + self._behaviour.piece])


def _pairs(values: Iterable[str]) -> dict[int, float]:
    """Read `SOCKET=NUMBER` arguments."""
    return {int(number): float(value) for number, _, value in (each.partition("=") for each in values)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Play a file."""
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(description=summary, epilog=details)
    parser.add_argument("messages", type=Path, metavar="MESSAGES", help="JSON messages, one on each line")
    parser.add_argument("catalog", type=Path, metavar="CATALOG", help="configured catalog")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="where to listen")
    parser.add_argument("--format", choices=FORMATS, default="PROTOBUF")
    parser.add_argument("--seed", type=int, default=0, help="of partitions, sockets and pauses")
    parser.add_argument("--order", choices=list(Order), default=Order.KEPT)
    parser.add_argument("--snapshots", action="store_true", help="global states name partitions of streams")
    parser.add_argument("--misfits", choices=list(Misfits), default=Misfits.NULL)
    parser.add_argument("--nulls", choices=list(Nulls), default=Nulls.UNSET)
    parser.add_argument("--probes", type=float, default=0.0, help="probability of one before each message")
    parser.add_argument("--pause", type=float, default=0.0, help="longest pause before a message, seconds")
    parser.add_argument("--piece", type=int, default=1 << 30, help="bytes of a write at most")
    parser.add_argument("--ends-before", type=int, help="die at this message of the file")
    parser.add_argument("--ends-on", action="append", default=[], metavar="SOCKET=MESSAGES")
    parser.add_argument("--torn", action="store_true", help="die in the middle of a message")
    parser.add_argument("--late", action="append", default=[], metavar="SOCKET=SECONDS")
    parser.add_argument("--never", action="append", default=[], type=int, metavar="SOCKET")
    parser.add_argument("--silent", action="append", default=[], type=int, metavar="SOCKET")
    given = parser.parse_args(arguments)
    catalog = json.loads(given.catalog.read_bytes())
    behaviour = Behaviour(
        order=Order(given.order),
        probes=given.probes,
        pause=given.pause,
        piece=given.piece,
        ends_before=given.ends_before,
        ends_on={number: int(count) for number, count in _pairs(given.ends_on).items()},
        torn=given.torn,
        late=_pairs(given.late),
        never=frozenset(given.never),
        silent=frozenset(given.silent),
    )
    messages = with_partitions(read(given.messages.read_bytes()), given.seed, snapshots=given.snapshots)
    source = SocketSource(
        given.paths,
        catalog,
        messages,
        given.format,
        given.seed,
        behaviour,
        Misfits(given.misfits),
        Nulls(given.nulls),
    )
    with source:
        _say({"environ": source.environ})
        source.wait(None)
        _say({"messages": source.messages_sent, "partitions": dict(source.sent)})


def _say(value: Json) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
