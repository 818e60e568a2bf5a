"""The write loop: messages in, rows published, states out.

Rows collect in the streams' tables. When they come to `Pace.publish_bytes` over all streams together, or the
oldest row or state has waited for `Pace.publish_seconds`, or the input ends, every stream publishes what it
has; then the ledger lets the states go. A STATE as such never causes a publish.

However the sync ends, what came whole is published and acknowledged, and each stream gets one commit that
says whether the sync was complete.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from destination_deeplake.catalog import StreamKey, StreamPlan
from destination_deeplake.config import DestinationConfig
from destination_deeplake.failures import IncompleteSourceError, SourceProtocolError
from destination_deeplake.intake import Intake
from destination_deeplake.ledger import Ledger
from destination_deeplake.messages import Output
from destination_deeplake.stream_writer import StreamWriter, open_stream
from destination_deeplake.wire import StateEvent, StatusEvent, Wire, WireError

_STREAMS_IN_MESSAGE = 20


@dataclass(frozen=True, slots=True)
class Pace:
    """How much and how long may wait.

    Attributes
    ----------
    publish_bytes : int
        Buffered bytes over all streams that start a publish.
    publish_seconds : float
        Longest time that a row or a STATE waits.
    """

    publish_bytes: int = 64_000_000
    publish_seconds: float = 300.0


class Received(Mapping[StreamKey, int]):
    """Live view of the records that each stream has received."""

    def __init__(self, writers: Sequence[StreamWriter]) -> None:
        self._tables = {writer.plan.key: writer.table for writer in writers}

    def __getitem__(self, key: StreamKey) -> int:
        return self._tables[key].total_rows

    def __iter__(self) -> Iterator[StreamKey]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


class Sync:
    """One sync, fed with blocks of input.

    Parameters
    ----------
    writers : sequence of StreamWriter
        One per configured stream, open.
    out : Output
        Where states and log lines go.
    pace : Pace
        Limits of what may wait.
    clock : callable
        Seconds, monotonic.
    """

    def __init__(
        self,
        writers: Sequence[StreamWriter],
        out: Output,
        pace: Pace = Pace(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writers = writers
        self._out = out
        self._pace = pace
        self._clock = clock
        self._wire = Wire({writer.plan.key: writer.table for writer in writers})
        self._received = Received(writers)
        self._ledger = Ledger()
        self._statuses: dict[StreamKey, str] = {}
        self._waiting_since: float | None = None
        self._started = clock()
        self._bytes = 0
        self._ended = False

    def feed(self, block: bytes | memoryview) -> None:
        """Take a block of input in.

        Raises
        ------
        SourceProtocolError
            If a line is no message; what came before it is published and acknowledged by `stop`.
        """
        self._bytes += len(block)
        self._follow(self._wire.feed(block))
        if self._waiting_since is None and (
            self._ledger or any(writer.table.rows for writer in self._writers)
        ):
            self._waiting_since = self._clock()
        buffered = sum(writer.table.nbytes for writer in self._writers)
        if buffered >= self._pace.publish_bytes or self.seconds_left() == 0:
            self.publish()

    def idle(self) -> None:
        """Publish if the deadline passed; called when no input came."""
        if self.seconds_left() == 0:
            self.publish()

    def seconds_left(self) -> float | None:
        """Return the seconds until something has waited too long; None when nothing waits."""
        if self._waiting_since is None:
            return None
        return max(0.0, self._waiting_since + self._pace.publish_seconds - self._clock())

    def publish(self) -> None:
        """Publish the rows of all streams, then let the states go that waited for them."""
        self._waiting_since = None
        try:
            for writer in self._writers:
                writer.publish()
        finally:
            self._acknowledge()

    def complete(self) -> None:
        """End the sync at the end of the input.

        Raises
        ------
        SourceProtocolError
            If the last line is no message.
        IncompleteSourceError
            If the source said that it had begun a stream, and not that it completed it.
        """
        self._follow(self._wire.finish())
        self.publish()
        unfinished = [writer for writer in self._writers if self._is_unfinished(writer)]
        self._end(unfinished)
        if unfinished:
            names = ", ".join(repr(str(writer.plan)) for writer in unfinished[:_STREAMS_IN_MESSAGE])
            raise IncompleteSourceError(
                f"The source ended before it completed {len(unfinished)} of {len(self._writers)} streams "
                f"({names}). What it sent is kept, streams to be overwritten still show their old rows. "
                "Run the sync again."
            )

    def stop(self) -> None:
        """End the sync before the end of the input: publish, acknowledge and commit what came whole.

        Nothing is left to do after `complete`, whether or not it found something to raise.
        """
        if self._ended:
            return
        try:
            self.publish()
        finally:
            self._end(self._writers)

    def _follow(self, events: Iterator[object]) -> None:
        """Act on the messages that are no records, each at its place among the records."""
        try:
            for event in events:
                if isinstance(event, StateEvent):
                    self._ledger.arrived(event, self._received)
                    # Nothing may be waiting for: a state of a stream without new rows goes out at once.
                    self._out.lines(self._ledger.release())
                elif isinstance(event, StatusEvent):
                    self._statuses[event.namespace or None, event.name] = event.status
        except WireError as error:
            raise SourceProtocolError(
                f"Line {error.line_number} of the input is no Airbyte message ({error.reason}). Everything "
                "before it is written; the source, or what carries its output here, must be repaired."
            ) from None

    def _acknowledge(self) -> None:
        """Let the states go that promise no more than what is published."""
        self._ledger.published({writer.plan.key: writer.durable for writer in self._writers})
        self._out.lines(self._ledger.release())

    def _is_unfinished(self, writer: StreamWriter) -> bool:
        """Tell whether the source spoke of the stream's progress and did not say that it was done."""
        return self._statuses.get(writer.plan.key, "COMPLETE") != "COMPLETE"

    def _end(self, unfinished: Sequence[StreamWriter]) -> None:
        """Commit every stream, release what waited for that, report; each step even if another one fails."""
        self._ended = True
        with contextlib.ExitStack() as stack:
            stack.callback(self._report)
            stack.callback(self._acknowledge)
            for writer in reversed(self._writers):
                if writer in unfinished:
                    stack.callback(writer.abandon, self._commit_message(writer, "incomplete"))
                else:
                    stack.callback(writer.finish, self._commit_message(writer, "complete"))

    def _commit_message(self, writer: StreamWriter, outcome: str) -> str:
        sync_id = writer.plan.sync_id
        name = "Airbyte sync" if sync_id is None else f"Airbyte sync {sync_id}"
        others = (f"{other.plan} {other.written}" for other in self._writers if other is not writer)
        also = ", ".join(itertools.islice(others, _STREAMS_IN_MESSAGE))
        rest = len(self._writers) - 1 - _STREAMS_IN_MESSAGE
        return (
            f"{name}, {outcome}: {writer.plan} {writer.written} records"
            + (f"; also {also}" if also else "")
            + (f" and {rest} more streams" if rest > 0 else "")
        )

    def _report(self) -> None:
        """Log what was written and what was not; never what was in it."""
        for writer in self._writers:
            table = writer.table
            if table.nulled:
                self._out.log(
                    "WARN",
                    f"Stream {str(writer.plan)!r}: {table.nulled} values did not fit their column and were "
                    "stored as null; _airbyte_meta.changes of the row names each.",
                )
            if table.unknown_fields:
                self._out.log(
                    "WARN",
                    f"Stream {str(writer.plan)!r}: {table.unknown_fields} values of fields that its schema "
                    "does not have were ignored.",
                )
        if self._wire.ignored:
            what = ", ".join(f"{count} {reason}" for reason, count in sorted(self._wire.ignored.items()))
            self._out.log("WARN", f"Ignored {sum(self._wire.ignored.values())} lines of input: {what}.")
        rows = sum(writer.written for writer in self._writers)
        seconds = max(self._clock() - self._started, 1e-9)
        megabytes = self._bytes / 1e6
        self._out.log(
            "INFO",
            f"Wrote {rows} records of {len(self._writers)} streams from {megabytes:.1f} MB of input in "
            f"{seconds:.1f} s: {rows / seconds:.0f} records/s, {megabytes / seconds:.1f} MB/s.",
        )


def begin(config: DestinationConfig, plans: Sequence[StreamPlan], out: Output, pace: Pace = Pace()) -> Sync:
    """Open the dataset of every stream and return the sync.

    Raises
    ------
    ConfigError, lakebed.errors.LakebedError, OSError
        If a dataset cannot be opened.
    """
    writers = [open_stream(config.destination_path, plan) for plan in plans]
    for writer in writers:
        for note in writer.notes:
            out.log("WARN", f"Stream {str(writer.plan)!r}: {note}.")
    return Sync(writers, out, pace)


def write(
    config: DestinationConfig,
    plans: Sequence[StreamPlan],
    descriptor: int,
    out: Output,
    pace: Pace = Pace(),
) -> int:
    """Run one sync from a file descriptor and return the exit status.

    Raises
    ------
    Exception
        Whatever ended the sync early; what came whole before is written and acknowledged.
    """
    with Intake(descriptor) as intake:
        sync = begin(config, plans, out, pace)
        try:
            for block in intake.blocks(sync.seconds_left):
                if block is None:
                    sync.idle()
                else:
                    sync.feed(block)
            if intake.stopped_by is None:
                sync.complete()
                return 0
            out.log("WARN", f"Stopped by signal {intake.stopped_by}; writing what came so far.")
        finally:
            sync.stop()
        return 128 + intake.stopped_by
