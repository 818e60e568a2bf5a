"""How the messages of a test reach the connector: by standard input, or by sockets, in a process or in this one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from integration_tests.acknowledgements import partition_violations, stamp, violations
from integration_tests.connector import Connection, Outcome, run
from integration_tests.messages import Message, completed, lines, read
from integration_tests.sockets.encode import Misfits, Nulls
from integration_tests.sockets.script import is_status, with_partitions
from integration_tests.sockets.source import AT_ONCE, Behaviour, SocketSource
from unit_tests.effort import IS_SOAK


@dataclass(frozen=True)
class Carrier:
    """A way to the connector.

    On sockets, states get the ordinals of their source; on standard input they have those of the platform.
    """

    form: str | None = None
    """JSONL or PROTOBUF; None is standard input."""
    sockets: int = 0
    behaviour: Behaviour = AT_ONCE
    seed: int = 0
    misfits: Misfits = Misfits.OWN
    nulls: Nulls = Nulls.UNSET

    @property
    def in_order(self) -> bool:
        """Whether rows lie in the order in which they were sent."""
        return self.sockets <= 1

    def lines(self, messages: bytes | Iterable[Message]) -> bytes:
        """Messages as they come on standard input: states have the ids of the platform."""
        return stamp(messages if isinstance(messages, bytes) else lines(messages))

    def to_the_end(self, catalog: Message, messages: bytes | Iterable[Message]) -> bytes:
        """Messages with a COMPLETE of each stream, which sources of sockets always send; as they are on another way."""
        given = messages if isinstance(messages, bytes) else lines(messages)
        if self.form is None or any(map(is_status, read(given))):
            return given
        return given + lines(completed(catalog))

    def script(self, messages: bytes | Iterable[Message]) -> list[Message]:
        """Messages as the source of this way sends them."""
        given = read(self.lines(messages))
        return list(given) if self.form is None else with_partitions(given, self.seed)

    def violations(self, messages: bytes | Iterable[Message], outcome: Outcome) -> list[str]:
        """Breaches of the rules on states, of a sync that was complete."""
        script = self.script(messages)
        answered = outcome.messages
        return violations(script, answered) if self.form is None else partition_violations(script, answered)

    def sync(self, connection: Connection, catalog: Message, messages: bytes | Iterable[Message]) -> Outcome:
        """Run a whole sync in a process, of a source that comes to its end."""
        command = connection.command(catalog)
        sent = self.to_the_end(catalog, messages)
        if self.form is None:
            return run(command, self.lines(sent))
        with self.source(catalog, self.script(sent)) as source:
            return run(command, environ=source.environ)

    @contextlib.contextmanager
    def source(self, catalog: Message, script: list[Message]) -> Iterator[SocketSource]:
        """Play a script, in a folder whose path is short enough for sockets."""
        assert self.form is not None
        with tempfile.TemporaryDirectory(dir="/tmp", prefix="sockets-") as folder:
            paths = [Path(folder) / f"airbyte_socket_{number}.sock" for number in range(self.sockets)]
            with SocketSource(
                paths, catalog, script, self.form, self.seed, self.behaviour, self.misfits, self.nulls
            ) as source:
                yield source


@contextlib.contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Have variables in the environment of this process."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


STDIN = Carrier()
ONE_BY_ONE = {
    "stdin": STDIN,
    "jsonl-1": Carrier("JSONL", 1),
    "protobuf-1": Carrier("PROTOBUF", 1, Behaviour(probes=0.1), nulls=Nulls.ENUM),
}
"""Ways that keep the order of messages."""
CARRIERS = {
    **(ONE_BY_ONE if IS_SOAK else {"stdin": STDIN}),
    "jsonl-3": Carrier("JSONL", 3, seed=3),
    "protobuf-4": Carrier("PROTOBUF", 4, Behaviour(probes=0.1), seed=4, nulls=Nulls.FLAG),
}
