"""Log lines of a running sync: its plan, the progress of each stream, and how each stream ended.

    at the start       the place, then each stream with its mode, its columns and the choices for them
    while it runs      for each stream with new records: their number and speed, at its first publish and then at most
                       every 30 seconds
    at its end         each stream with its outcome, and its version

The lines have names of streams and columns, never their values.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from destination_deeplake.catalog import StreamKey, StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice
from destination_deeplake.columns import shape_text
from destination_deeplake.messages import Output
from destination_deeplake.stream.writer import StreamWriter

SECONDS = 30.0
"""Seconds between two lines about a stream."""
_COLUMNS = 12


@dataclass(slots=True)
class _Told:
    """Last reported numbers of a stream."""

    at: float
    records: int = 0
    bytes: int = 0
    published_bytes: int = 0
    is_first: bool = True


class Progress:
    """Logs the progress of a sync's streams.

    Parameters
    ----------
    writers : sequence of StreamWriter
        The streams.
    out : Output
        Receives the lines.
    clock : callable
        Seconds, monotonic.
    """

    def __init__(
        self, writers: Sequence[StreamWriter], out: Output, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._writers = writers
        self._out = out
        self._clock = clock
        self._started = self._checked = clock()
        self._told: dict[StreamKey, _Told] = {writer.plan.key: _Told(self._started) for writer in writers}

    def seconds_left(self) -> float:
        """Return the seconds until it is time for `tick`."""
        return max(0.0, self._checked + SECONDS - self._clock())

    def tick(self) -> None:
        """Log streams with new records, if it is time."""
        if self.seconds_left() > 0:
            return
        self._checked = self._clock()
        for writer in self._writers:
            told = self._told[writer.plan.key]
            if writer.table.total_rows > told.records and self._checked - told.at >= SECONDS / 2:
                self._tell(writer, told)

    def published(self, writer: StreamWriter, nbytes: int) -> None:
        """Add the bytes that a stream has published; thread-safe for different streams."""
        told = self._told[writer.plan.key]
        told.published_bytes += nbytes
        if told.is_first or self._clock() - told.at >= SECONDS:
            self._tell(writer, told)

    def finished(self, writer: StreamWriter, outcome: str) -> None:
        """Log the end of a stream."""
        facts = [f"{writer.written:,} records"]
        if writer.table.rejected:
            facts.append(f"{writer.table.rejected:,} rejected")
        if writer.commit_id is None:
            facts.append("nothing changed for readers, no new version")
        else:
            facts.append(f"version {writer.commit_id[:12]}")
        self._out.log("INFO", f"Stream {str(writer.plan)!r} is {outcome}: {', '.join(facts)}.")

    def _tell(self, writer: StreamWriter, told: _Told) -> None:
        now, records = self._clock(), writer.table.total_rows
        size = told.published_bytes + writer.table.nbytes
        seconds = max(now - told.at, 1e-3)
        self._out.log(
            "INFO",
            f"Stream {str(writer.plan)!r}: {records:,} records ({size / 1e6:,.1f} MB) received, {writer.written:,} "
            f"written; {(records - told.records) / seconds:,.0f} records/s, {(size - told.bytes) / seconds / 1e6:,.1f} "
            "MB/s.",
        )
        told.at, told.records, told.bytes, told.is_first = now, records, size, False


def opening(place: str, branch: str | None, writers: Sequence[StreamWriter]) -> Iterator[str]:
    """Yield the plan of the sync: first the place, then each stream."""
    count = f"{len(writers)} stream{'' if len(writers) == 1 else 's'}"
    yield f"Writing {count} to {place}, branch {branch or 'main'}."
    for writer in writers:
        plan = writer.plan
        parts = [_mode(plan), f"{writer.table.source_columns} columns", *_chosen(plan)]
        yield f"Stream {str(plan)!r}: {'; '.join(parts)}."


def _mode(plan: StreamPlan) -> str:
    """Describe what the sync does with existing rows, for the log."""
    mode = str(plan.mode)
    if plan.mode is WriteMode.DEDUP:
        keys = ", ".join(".".join(path) for path in plan.primary_key)
        newest = f", the newest by {'.'.join(plan.cursor)}" if plan.cursor else ""
        mode += f" by {keys}{newest}"
    if plan.truncates:
        mode += f", in the place of all rows before generation {plan.generation_id}"
    return mode


def _chosen(plan: StreamPlan) -> Iterator[str]:
    """Yield the configured choices for the columns."""
    choices = plan.choices
    if choices.include is not None:
        yield f"only {_listed(choices.include)}"
    if choices.exclude:
        yield f"without {_listed(choices.exclude)}"
    if choices.columns:
        yield f"chosen: {_listed([_column(choice) for choice in choices.columns.values()])}"


def _column(choice: ColumnChoice) -> str:
    """Describe the choice for a column, for the log."""
    shape = None if choice.shape is None else f"of shape {shape_text(choice.shape)}"
    kinds = (
        choice.htype,
        choice.dtype,
        choice.decoding,
        shape,
        choice.sample_compression,
        choice.chunk_compression,
    )
    said = " ".join(str(kind) for kind in kinds if kind is not None)
    into = "" if choice.tensor is None else f" in {choice.tensor}"
    return f"{choice.column}{into}{f' as {said}' if said else ''}"


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _COLUMNS
    return ", ".join(names[:_COLUMNS]) + (f" and {rest} more" if rest > 0 else "")
