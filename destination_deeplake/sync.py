"""The write loop: messages in, rows published, states out, on any channel.

Rows are collected in the streams' tables. When their bytes reach `Pace.enough` over all streams, or the oldest row or
state has waited for `Pace.publish_seconds`, or the input ends, every stream publishes its rows; then the ledger
releases the states. A STATE alone never causes a publish.

However the sync ends, all complete records are published and acknowledged, and each stream gets one commit, whose
message tells whether it was complete. Streams end independently: an incomplete one does not hold back others.
"""

import contextlib
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from destination_deeplake.catalog import StreamKey
from destination_deeplake.channel import STDIO, Channel, Format
from destination_deeplake.completeness import Completeness
from destination_deeplake.config import WithoutStatus
from destination_deeplake.failures import ConfigError, IncompleteSourceError, SourceProtocolError
from destination_deeplake.ledger import Ledger
from destination_deeplake.messages import Output
from destination_deeplake.parallel import for_each
from destination_deeplake.partitions import PartitionLedger
from destination_deeplake.progress import Progress
from destination_deeplake.report import (
    StateNumbers,
    commit_message,
    count_state,
    lost_streams,
    named,
    passed_over,
    summary,
    warnings,
)
from destination_deeplake.stream.writer import StreamWriter
from destination_deeplake.wire import Rejected as Refused
from destination_deeplake.wire import StateEvent, StatusEvent, Wire, WireError, Wires

if TYPE_CHECKING:
    from destination_deeplake.letters import DeadLetters

_LARGE_BYTES = 16_000_000
"""Tables of at least this many bytes are published one at a time, because the memory of a publish grows with them."""
_BESIDE = 4
"""While a publish writes, the buffer limit is divided by this number."""
_LAST_SECONDS = 2.5
"""No step begins when less time than this is left, because the process would be killed in the middle."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Limits for data that wait to be published.

    Attributes
    ----------
    publish_bytes : int
        Buffered bytes over all streams that start a publish, if the streams have few columns.
    few_columns : int
        Number of columns that counts as few. A publish costs time per column, so the buffer grows with the number of
        columns, up to twice as many bytes.
    publish_seconds : float
        Longest time that a row or a STATE waits for a publish to begin.
    """

    publish_bytes: int = 64_000_000
    few_columns: int = 100
    publish_seconds: float = 240.0

    def enough(self, columns: int) -> int:
        """Return the buffered bytes that start a publish of a number of columns."""
        return (
            self.publish_bytes * min(max(columns, self.few_columns), 2 * self.few_columns) // self.few_columns
        )


PACE = Pace()


class Counts(Mapping[StreamKey, int]):
    """A live view of a count of each stream's table."""

    def __init__(self, writers: Sequence[StreamWriter], count: Callable[[StreamWriter], int]) -> None:
        self._writers = {writer.plan.key: writer for writer in writers}
        self._count = count

    def __getitem__(self, key: StreamKey) -> int:
        return self._count(self._writers[key])

    def __iter__(self) -> Iterator[StreamKey]:
        return iter(self._writers)

    def __len__(self) -> int:
        return len(self._writers)


class Sync:
    """A sync, fed with blocks of input.

    Parameters
    ----------
    writers : sequence of StreamWriter
        Open writers, one per configured stream.
    out : Output
        Receives states and log lines.
    pace : Pace
        Limits for waiting data.
    clock : callable
        Seconds, monotonic.
    letters : DeadLetters or None
        Receives lines and values that cannot be stored; with None, such a line ends the sync.
    connection : str or None
        Name of the connection in commit messages.
    without_status : WithoutStatus
        Condition under which an overwritten stream without a stream status is complete.
    time_left : callable
        Returns the seconds until the process is killed; None without a signal.
    channel : Channel
        Channel of the input.

    Attributes
    ----------
    wires : Wires
        Decoders of the input, one per lane.
    room : int
        Number of bytes that may be buffered now.
    """

    def __init__(
        self,
        writers: Sequence[StreamWriter],
        out: Output,
        pace: Pace = PACE,
        clock: Callable[[], float] = time.monotonic,
        *,
        letters: "DeadLetters | None" = None,
        connection: str | None = None,
        without_status: WithoutStatus = WithoutStatus.WITH_STATE,
        time_left: Callable[[], float | None] = lambda: None,
        channel: Channel = STDIO,
    ) -> None:
        self._writers = writers
        self._out = out
        self._pace = pace
        self._clock = clock
        self._letters = letters
        self._letters_lock = threading.Lock()
        self._connection = connection
        self._time_left = time_left
        tables = {writer.plan.key: writer.table for writer in writers}
        self._unplaced = 0
        self._letters_of: dict[StreamKey, Counter[str]] = defaultdict(Counter)
        rejects = None if letters is None else self._reject
        is_protobuf = channel.format is Format.PROTOBUF
        self.wires = Wires(
            [Wire(tables, rejects, lane=lane, protobuf=is_protobuf) for lane in range(channel.lanes)]
        )
        self._received = Counts(writers, lambda writer: writer.table.total_rows)
        self._rejected = Counts(writers, lambda writer: writer.table.rejected)
        # A rejected line without a known stream may have been a record of any stream, so count it for each.
        self._came = Counts(
            writers,
            lambda writer: writer.table.total_rows + writer.table.rejected + self.wires.rejected_strays,
        )
        self._ledger: Ledger | PartitionLedger = PartitionLedger() if channel.is_parallel else Ledger()
        self._completeness = Completeness(
            [writer.plan.key for writer in writers if writer.removes_rows],
            without_status,
            lanes=channel.lanes,
            asks_status=channel.is_parallel,
        )
        self._without_status = without_status
        self._states = {writer.plan.key: StateNumbers() for writer in writers}
        self._waiting_since: float | None = None
        self._started = clock()
        self._progress = Progress(writers, out, clock)
        self._bytes = 0
        self._ended = False
        self.room = pace.enough(0)

    def feed(self, block: bytes | memoryview) -> None:
        """Process a block of input.

        Raises
        ------
        SourceProtocolError
            If a line is not a message; `stop` publishes and acknowledges everything before it.
        """
        self.take_in(0, self.wires[0].feed(block), len(block))

    def take_in(self, lane: int, events: Iterable[object], nbytes: int) -> None:
        """Process the report of a lane: a number of bytes, and messages that are not records.

        Raises
        ------
        SourceProtocolError
            As `feed`.
        """
        self._bytes += nbytes
        self._follow(events, lane)
        self._go_on(sum(writer.table.nbytes for writer in self._writers))

    def idle(self) -> None:
        """Publish if the deadline has passed, and log the progress; called when no input arrived."""
        self._go_on(0)

    def _go_on(self, buffered: int) -> None:
        """Publish if enough bytes are buffered, or data have waited long enough."""
        letters = 0 if self._letters is None else self._letters.nbytes
        if self._waiting_since is None and (
            self._ledger or letters or any(writer.table.rows for writer in self._writers)
        ):
            self._waiting_since = self._clock()
        columns = sum(writer.table.width for writer in self._writers if writer.table.rows)
        self.room = self._pace.enough(columns)
        if buffered + letters >= self.room or self.seconds_left() == 0:
            self.publish()
        self._progress.tick()

    def seconds_asleep(self) -> float:
        """Return the seconds for which `idle` need not be called if no input arrives."""
        left, until = self.seconds_left(), self._progress.seconds_left()
        return until if left is None else min(left, until)

    def seconds_left(self) -> float | None:
        """Return the seconds until the publish is due; None if nothing waits."""
        if self._waiting_since is None:
            return None
        return max(0.0, self._waiting_since + self._pace.publish_seconds - self._clock())

    def publish(self) -> None:
        """Publish the rows of all streams, then release the states that waited for them."""
        self._waiting_since = None
        room, self.room = self.room, self.room // _BESIDE
        try:
            self._for_each([writer for writer in self._writers if writer.table.rows], self._publish)
        finally:
            self.room = room
            self._acknowledge()

    def complete(self) -> None:
        """End the sync at the end of the input.

        Raises
        ------
        SourceProtocolError
            If the last line is not a message.
        ConfigError
            If the input had records of streams that are not in the catalog.
        IncompleteSourceError
            If a stream is not complete; see `completeness`.
        """
        if not isinstance(self._ledger, PartitionLedger):
            self._follow(self.wires[0].finish(), 0)
        self.publish()
        waiting = {writer.plan.key: writer.waiting_partitions for writer in self._writers}
        missing = self._ledger.unfinished(self._unplaced, waiting)
        unfinished = [
            writer
            for writer in self._writers
            if not self._is_complete(writer) or not missing.isdisjoint((writer.plan.key, None))
        ]
        self._end(unfinished)
        if not unfinished and all(writer.durable == writer.written for writer in self._writers):
            self._out.lines(self._ledger.release_all())
        if lost := self.wires.lost:
            raise ConfigError(
                "The source sent records of streams that are not in the catalog: "
                f"{lost_streams(lost, self._writers)}. They are not stored, no STATE that covers them is emitted, "
                "and no table is replaced. Correct the streams or namespaces of the catalog, and run the sync "
                "again."
            )
        if unfinished:
            raise IncompleteSourceError(
                f"The source ended before it completed {len(unfinished)} of {len(self._writers)} streams "
                f"({named(unfinished)}). What it sent is kept, streams to be overwritten still show their old rows. "
                f"{self._why(unfinished)}Run the sync again."
            )
        if self._writers and self._completeness.is_empty(self._came):
            self._out.log("WARN", "The input was empty: no record, no STATE.")

    def stop(self) -> None:
        """End the sync before the end of the input: publish, acknowledge and commit all complete records.

        Streams that the source completed before are complete. No effect after `complete`, even if that raised an error.
        """
        if self._ended:
            return
        try:
            self.publish()
        finally:
            completed = self._completeness.statuses
            self._end(
                [
                    writer
                    for writer in self._writers
                    if completed.get(writer.plan.key) != "COMPLETE" or not self._is_complete(writer)
                ]
            )

    def _follow(self, events: Iterable[object], lane: int) -> None:
        """Process the messages that are not records, at their positions among the records."""
        has_states = False
        try:
            for event in events:
                if isinstance(event, StateEvent):
                    self._arrived(event)
                    has_states = True
                elif isinstance(event, StatusEvent):
                    key = event.namespace or None, event.name
                    self._completeness.status(key, event.status, lane)
            if has_states:
                # A state of a stream without new rows is released at once.
                self._out.lines(self._ledger.release())
        except WireError as error:
            raise unreadable(error) from None

    def _reject(self, rejected: Refused) -> None:
        """Keep a line that is not a message as a dead letter; called in the reading thread."""
        if self._letters is None:
            return
        with self._letters_lock:
            self._letters.line(rejected)
            if rejected.key is None or rejected.partition is None:
                self._unplaced += 1
            else:
                self._letters_of[rejected.key][rejected.partition] += 1

    def _arrived(self, event: StateEvent) -> None:
        scope = event.scope
        key = (scope.namespace or None, scope.name) if scope.name is not None else None
        stream = key if scope.kind == "STREAM" else None
        count_state(self._states, self._received, stream)
        self._completeness.state(key, self._came)
        if (lost := self.wires.lost) and (
            stream is None or (stream not in self._received and lost.of(stream))
        ):
            return  # the state covers a record that will never be stored, so it must not be released
        if self._letters is None:
            self._ledger.arrived(event, self._received)
        else:
            rejected: dict[StreamKey | None, int] = dict(self._rejected.items())
            rejected[None] = self.wires.rejected_strays
            self._ledger.arrived(event, self._received, rejected, self._letters.taken)

    def _publish(self, writer: StreamWriter) -> None:
        nbytes = writer.table.nbytes
        refused = writer.publish()
        self._progress.published(writer, nbytes)
        if refused and self._letters is not None:
            with self._letters_lock:
                for values in refused:
                    self._letters.values(writer.plan.key, *values)

    def _for_each(self, writers: Sequence[StreamWriter], step: Callable[[StreamWriter], None]) -> None:
        """Run a step for some streams, as long as time is left."""

        def in_time(writer: StreamWriter) -> None:
            left = self._time_left()
            if left is None or left > _LAST_SECONDS:
                step(writer)

        for_each(writers, in_time, alone=lambda writer: writer.table.nbytes >= _LARGE_BYTES)

    def _acknowledge(self) -> None:
        """Release the states whose records are all published."""
        durable = {writer.plan.key: writer.durable for writer in self._writers}
        letters, rejected = 0, dict[StreamKey, Counter[str]]()
        if self._letters is not None:
            with self._letters_lock:
                self._letters.publish()
                letters, rejected = self._letters.durable, dict(self._letters_of)
                self._letters_of.clear()
        partitions = {writer.plan.key: writer.take_durable_partitions() for writer in self._writers}
        self._ledger.published(durable, letters, partitions, rejected)
        self._out.lines(self._ledger.release())

    def _is_complete(self, writer: StreamWriter) -> bool:
        return self._completeness.is_complete(
            writer.plan, self._came, lost=bool(self.wires.lost), source_failed=self.wires.source_errors > 0
        )

    def _why(self, unfinished: Sequence[StreamWriter]) -> str:
        """Return a sentence for the message, about streams whose completeness the configuration decided."""
        by_rule = [writer for writer in unfinished if self._completeness.is_by_rule(writer.plan)]
        if not by_rule:
            return ""
        if self._completeness.is_empty(self._came):
            return "Its output was empty. "
        if self.wires.source_errors:
            return "It said that it failed. "
        no_state = self._without_status is WithoutStatus.WITH_STATE
        return (
            f"No stream status says that {named(by_rule)} is complete"
            + (", and no STATE came after its last record" if no_state else "")
            + f" (complete_without_status is {self._without_status}; set it to "
            + ("always for a source that sends neither). " if no_state else "with_state or always). ")
        )

    def _end(self, unfinished: Sequence[StreamWriter]) -> None:
        """Commit every stream, release the last states, report; each step runs even if another one fails."""
        self._ended = True
        incomplete = {writer.plan.key for writer in unfinished}
        with contextlib.ExitStack() as stack:
            stack.callback(self._report)
            if self._letters is not None:
                stack.callback(
                    self._letters.finish, f"Dead letters of {self._connection or 'an Airbyte sync'}"
                )
            stack.callback(self._acknowledge)
            stack.callback(
                self._for_each,
                self._writers,
                lambda writer: self._finish(writer, is_complete=writer.plan.key not in incomplete),
            )

    def _finish(self, writer: StreamWriter, *, is_complete: bool) -> None:
        """End one stream."""
        with writer.given_up_on_failure():
            is_finished = is_complete and writer.finish()
            if not is_finished:
                writer.abandon()
        outcome = "complete" if is_finished else "incomplete"
        writer.commit(
            commit_message(
                writer,
                self._writers,
                outcome=outcome,
                connection=self._connection,
                states=self._states[writer.plan.key],
            )
        )
        self._progress.finished(writer, outcome)

    def _report(self) -> None:
        """Log amounts of written and unwritten data, never their contents."""
        ignored = self.wires.ignored
        for text in warnings(self._writers, ignored):
            self._out.log("WARN", text)
        if (others := passed_over(ignored)) is not None:
            self._out.log("DEBUG", others)
        self._out.log("INFO", summary(self._writers, self._bytes, self._clock() - self._started))


def unreadable(error: WireError, path: str | None = None) -> SourceProtocolError:
    """Return the failure for an invalid line, or an invalid message of a socket."""
    if path is not None:
        return SourceProtocolError(
            f"Message {error.line_number} of the socket {path} is not an Airbyte message ({error.reason}). Complete "
            "messages before it are written; the source must be repaired."
        )
    return SourceProtocolError(
        f"Line {error.line_number} of the input is not an Airbyte message ({error.reason}). Everything before it is "
        "written; the source, or the program that passes on its output, must be repaired."
    )
