"""Reading of the input: rows of tables, and messages that are not records.

One line is one JSON message; in Protocol Buffers each message follows its length. A record goes straight into the table
of its stream; states and stream statuses are yielded as events, at their places among the records; everything else is
validated, counted and ignored.

An invalid line ends the input; with ``rejects``, it is passed to that function, and reading continues. These are
invalid: malformed JSON (NaN and Infinity included), invalid UTF-8, nesting beyond the limit, a line that is too long or
ends early, a RECORD without a stream or without data. An invalid STATE or stream status always ends the input, because
without it the completeness of streams is unknown. Tolerated are a byte order mark before the first line, CR before a
newline, blank lines, duplicate keys (the last one counts), unknown keys, and a last line without a newline.

In Protocol Buffers, a record is also invalid if the number of its values differs from that of the stream's fields, or
if a text is not UTF-8; lengths beyond the input, and an end inside of a message, end the input.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from destination_deeplake.columns import RecordTable
from destination_deeplake.native.records import MESSAGE_INVALID, MESSAGE_STATE, Reader

_REJECTED = b'"rejectedRecordCount":'
_NO_RECORDS = frozenset(
    ("LOG", "TRACE", "CONTROL", "SPEC", "CONNECTION_STATUS", "CATALOG", "DESTINATION_CATALOG")
)
_SCOPES = ("STREAM", "GLOBAL", "LEGACY")


class WireError(Exception):
    """A line that is not an Airbyte message.

    Attributes
    ----------
    line_number : int
        Number of the line, from 1.
    reason : str
        The defect; never quotes the line.
    """

    def __init__(self, line_number: int, reason: str) -> None:
        super().__init__(f"line {line_number}: {reason}")
        self.line_number = line_number
        self.reason = reason


@dataclass(frozen=True, slots=True)
class StateScope:
    """Scope of a state.

    Attributes
    ----------
    kind : str
        STREAM, GLOBAL or LEGACY; a state of an unknown type counts as LEGACY.
    namespace, name : str or None
        The stream, if the state names one, else None; the namespace is also None if the stream has none.
    """

    kind: str
    namespace: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class _Splice:
    """Replacement of the bytes `start` to `end` of a line by `before`, the counts and `after`.

    If the line has a count of rejected records, it is in bytes `rejected_start` to `rejected_end`; else these are -1.
    """

    start: int
    end: int
    before: bytes
    after: bytes
    rejected_start: int
    rejected_end: int


@dataclass(frozen=True, slots=True)
class StateEvent:
    """A STATE message.

    Attributes
    ----------
    raw : bytes
        The unchanged line, without its newline.
    scope : StateScope
        Scope of the state.
    """

    raw: bytes
    scope: StateScope
    _splice: _Splice = field(repr=False)

    def acknowledged(self, record_count: int, rejected_count: int = 0) -> bytes:
        """Return the line with `state.destinationStats.recordCount` set, and all other bytes unchanged.

        A `rejectedRecordCount` is added if it is not zero, or was there before. The protocol writes counts as doubles,
        `12.0`. The line has no newline at its end.
        """
        splice = self._splice
        count = b"%d.0" % record_count
        rejected = b"%d.0" % rejected_count
        edits = [(splice.start, splice.end, splice.before + count + splice.after)]
        if splice.rejected_start >= 0:
            edits.append((splice.rejected_start, splice.rejected_end, rejected))
        elif rejected_count:
            edits = [
                (
                    splice.start,
                    splice.end,
                    b'%b%b,"rejectedRecordCount":%b%b' % (splice.before, count, rejected, splice.after),
                )
            ]
        line = self.raw
        for start, end, text in sorted(edits, reverse=True):
            line = line[:start] + text + line[end:]
        return line


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
        STARTED, RUNNING, COMPLETE, INCOMPLETE, or another text of the source.
    """

    namespace: str | None
    name: str
    status: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is not a message.

    Attributes
    ----------
    line_number : int
        Number of the line, from 1.
    key : (namespace, stream) or None
        The stream that the line names, if known; else None.
    reason : str
        The defect; never quotes the line.
    raw : bytes
        The beginning of the line, up to 1 MiB, without its newline.
    size : int
        Number of bytes of the line; for a line that is too long, number of bytes that were read.
    partition : str or None
        The partition of the record, if known; else None.
    """

    line_number: int
    key: tuple[str | None, str] | None
    reason: str
    raw: bytes = field(repr=False)
    size: int
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Records of streams without a table.

    Attributes
    ----------
    streams : mapping of (namespace, stream) to int
        Number of records of each stream, for the first thousand streams.
    others : int
        Number of records of further streams.
    """

    streams: Mapping[tuple[str | None, str], int]
    others: int

    def __bool__(self) -> bool:
        return bool(self.streams or self.others)

    def of(self, key: tuple[str | None, str]) -> int:
        """Return the maximum number of these records that a stream without a table may have had."""
        return self.streams.get(key, self.others)


Event: TypeAlias = StateEvent | StatusEvent


class Wire:
    """Reader of one input.

    Parameters
    ----------
    tables : mapping of (namespace, stream) to RecordTable
        Tables that receive the records. None or "" as a namespace also stands for a namespace that is missing or null
        in a message.
    rejects : callable or None
        Called with every invalid line, in order, before later lines are read. None lets such a line end the input.
    lane : int
        Number of the lane of the tables that is filled.
    protobuf : bool
        Whether messages are Protocol Buffers, not lines of JSON.

    Attributes
    ----------
    rejected : int
        Number of lines that were passed to `rejects`.
    rejected_strays : int
        Number of passed lines that were, or may have been, records of an unknown stream. The other lines are counted in
        `RecordTable.rejected`.
    """

    def __init__(
        self,
        tables: Mapping[tuple[str | None, str], RecordTable],
        rejects: Callable[[Rejected], None] | None = None,
        *,
        lane: int = 0,
        protobuf: bool = False,
    ) -> None:
        self.rejected = 0
        self.rejected_strays = 0
        self._tables = {(namespace or "", name): table for (namespace, name), table in tables.items()}
        self._rejects = rejects
        self._lane = lane
        self._namespaces = defaultdict[str, list[str]](list)
        for namespace, name in self._tables:
            self._namespaces[name].append(namespace)
        self._reader = Reader(
            [
                (_encoded(namespace), _encoded(name), table.lanes[lane].builder)
                for (namespace, name), table in self._tables.items()
            ],
            protobuf,
        )

    @property
    def line_number(self) -> int:
        """Number of the last line that was read, from 1."""
        return self._reader.line_number

    @property
    def nbytes(self) -> int:
        """Bytes buffered now in its lane of the tables."""
        return sum(table.lanes[self._lane].builder.nbytes for table in self._tables.values())

    @property
    def ignored(self) -> dict[str, int]:
        """Numbers of ignored messages: records of unknown streams, and other types, by type."""
        return self._reader.ignored()

    @property
    def lost(self) -> Lost:
        """Number of records of streams without a table."""
        known, others = self._reader.strangers()
        return Lost({(namespace or None, name): count for (namespace, name), count in known.items()}, others)

    @property
    def source_errors(self) -> int:
        """Number of failures that the source has reported."""
        return self._reader.source_errors

    def feed(self, block: bytes | bytearray | memoryview) -> Iterator[Event]:
        """Read a block, which may begin and end inside a line.

        The block is read as the iterator advances: when an event is yielded, the tables have exactly the records before
        it. A block must not change, and the next block must not be passed, until the block is read to its end.

        Yields
        ------
        StateEvent or StatusEvent
            In the order of the input.

        Raises
        ------
        WireError
            If a line is invalid and `rejects` is None, or it is an invalid STATE or stream status. The tables have the
            records before it, and nothing of the line.
        OverflowError
            If a text column of a table would reach 2 GiB.
        RuntimeError
            If the previous block was not read to its end.
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
                self._reject()
            elif found == MESSAGE_STATE:
                raw, scope, namespace, name, start, end, before, after, first, stop = reader.state()
                yield StateEvent(
                    raw,
                    StateScope(_SCOPES[scope], namespace, name),
                    _Splice(start, end, before, after, first, stop),
                )
            else:
                yield StatusEvent(*reader.status())
        reader.detach()

    def _reject(self) -> None:
        """Pass the current line to `rejects`, or raise."""
        reader = self._reader
        steering, kind, name, namespace, ended, late, raw, size = reader.rejected()
        if self._rejects is None or steering:
            raise WireError(reader.line_number, reader.reason())
        key = None
        if name is not None:
            if namespace is None:
                namespace = "" if ended else self._lost_namespace(name, late=late)
            if namespace is not None:
                key = namespace or None, name
        if key is None:
            self.rejected_strays += kind not in _NO_RECORDS
        elif (namespace or "", name) in self._tables:
            self._tables[namespace or "", name or ""].lanes[self._lane].builder.reject()
        self.rejected += 1
        partition = reader.partition()
        named = None if partition is None else partition.decode("utf-8", "surrogateescape")
        self._rejects(Rejected(reader.line_number, key, reader.reason(), raw, size, named))

    def _lost_namespace(self, name: str, *, late: bool) -> str | None:
        """Return the namespace of a line of which only the beginning is known; "" if it has none, None if unknown.

        `late` means that the source writes namespaces after the data, so that the namespace was cut off.
        """
        known = self._namespaces.get(name, [""])
        if len(known) == 1:
            return known[0]
        return "" if "" in known and not late else None


class Wires:
    """The readers of one sync, and their joint counts.

    Parameters
    ----------
    wires : sequence of Wire
        One for each lane.
    """

    def __init__(self, wires: Sequence[Wire]) -> None:
        self._wires = wires

    def __getitem__(self, lane: int) -> Wire:
        return self._wires[lane]

    @property
    def ignored(self) -> dict[str, int]:
        """As `Wire.ignored`."""
        total = Counter[str]()
        for wire in self._wires:
            total.update(wire.ignored)
        return dict(total)

    @property
    def lost(self) -> Lost:
        """As `Wire.lost`."""
        if len(self._wires) == 1:
            return self._wires[0].lost
        found = [wire.lost for wire in self._wires]
        streams = Counter[tuple[str | None, str]]()
        for lost in found:
            streams.update(lost.streams)
        return Lost(dict(streams), sum(lost.others for lost in found))

    @property
    def source_errors(self) -> int:
        """Number of failures that the source has reported."""
        return sum(wire.source_errors for wire in self._wires)

    @property
    def rejected_strays(self) -> int:
        """As `Wire.rejected_strays`."""
        return sum(wire.rejected_strays for wire in self._wires)


def _encoded(name: str) -> bytes:
    """Return a name as the reader compares it, in bytes that can also hold half a surrogate pair."""
    return name.encode("utf-8", "surrogatepass")
