"""Bytes of standard input -> rows in tables, and the messages that are no records.

One line is one JSON message. A record goes straight into the table of its stream; states and stream statuses
come out as events, each at its place among the records; everything else is validated, counted and ignored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from destination_deeplake.columns import RecordTable
from destination_deeplake.native.records import MESSAGE_INVALID, MESSAGE_STATE, Reader

_SCOPES = ("STREAM", "GLOBAL", "LEGACY")


class WireError(Exception):
    """A line is no Airbyte message.

    Attributes
    ----------
    line_number : int
        Number of the line, from 1.
    reason : str
        What is wrong with it; never contains any of it.
    """

    def __init__(self, line_number: int, reason: str) -> None:
        super().__init__(f"line {line_number}: {reason}")
        self.line_number = line_number
        self.reason = reason


@dataclass(frozen=True, slots=True)
class StateScope:
    """What a state speaks for.

    Attributes
    ----------
    kind : str
        STREAM, GLOBAL or LEGACY; a state of an unknown type counts as LEGACY.
    namespace, name : str or None
        The stream; None for the other kinds, and for no namespace.
    """

    kind: str
    namespace: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class _Splice:
    """Bytes `start` to `end` of a line become `before`, the record count, `after`."""

    start: int
    end: int
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class StateEvent:
    """A STATE message.

    Attributes
    ----------
    raw : bytes
        The whole line as it came, without its newline.
    scope : StateScope
        What it speaks for.
    """

    raw: bytes
    scope: StateScope
    _splice: _Splice = field(repr=False)

    def acknowledged(self, record_count: int) -> bytes:
        """Return the line with `state.destinationStats.recordCount` set, every other byte as it came.

        The protocol writes the count as a double, `12.0`. There is no newline at the end.
        """
        splice = self._splice
        count = b"%d.0" % record_count
        return self.raw[: splice.start] + splice.before + count + splice.after + self.raw[splice.end :]


@dataclass(frozen=True, slots=True)
class StatusEvent:
    """A TRACE message about the progress of a stream.

    Attributes
    ----------
    namespace : str or None
        None for no namespace.
    name : str
        The stream.
    status : str
        STARTED, RUNNING, COMPLETE, INCOMPLETE, or whatever the source said.
    """

    namespace: str | None
    name: str
    status: str


Event: TypeAlias = StateEvent | StatusEvent


class Wire:
    """Reader of one input.

    Parameters
    ----------
    tables : mapping of (namespace, stream) to RecordTable
        Where records go. A namespace that is None, or "", is also one that is absent or null in a message.
    """

    def __init__(self, tables: Mapping[tuple[str | None, str], RecordTable]) -> None:
        self._tables = dict(tables)
        self._reader = Reader(
            [
                (_encoded(namespace or ""), _encoded(name), table.builder)
                for (namespace, name), table in self._tables.items()
            ]
        )

    @property
    def line_number(self) -> int:
        """Number of the last line that was read, from 1."""
        return self._reader.line_number

    @property
    def ignored(self) -> dict[str, int]:
        """How many records of unknown streams and messages of other types came, by what they were."""
        return self._reader.ignored()

    def feed(self, block: bytes | bytearray | memoryview) -> Iterator[Event]:
        """Read a block, which may begin and end inside a line.

        The block is read as the iterator advances: when an event comes out, exactly the records before it
        are in the tables. A block must stay unchanged until it is read to its end, and the next one wait.

        Yields
        ------
        StateEvent or StatusEvent
            In the order of the input.

        Raises
        ------
        WireError
            If a line is no message. The records before it are in the tables, nothing of the line is.
        OverflowError
            If a text column of a table would reach 2 GiB.
        RuntimeError
            If the block before was not read to its end.
        """
        self._reader.attach(block)
        return self._events(last=False)

    def finish(self) -> Iterator[Event]:
        """Read the last line if no newline ended it; yields and raises as `feed`."""
        self._reader.attach(b"")
        return self._events(last=True)

    def _events(self, *, last: bool) -> Iterator[Event]:
        reader = self._reader
        while found := reader.advance(last):
            if found == MESSAGE_INVALID:
                raise WireError(reader.line_number, reader.reason())
            if found == MESSAGE_STATE:
                raw, scope, namespace, name, start, end, before, after = reader.state()
                yield StateEvent(
                    raw, StateScope(_SCOPES[scope], namespace, name), _Splice(start, end, before, after)
                )
            else:
                yield StatusEvent(*reader.status())
        reader.detach()


def _encoded(name: str) -> bytes:
    """Return a name as the reader compares it; half a surrogate pair, which JSON can spell, keeps a form."""
    return name.encode("utf-8", "surrogatepass")
