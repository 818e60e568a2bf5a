"""Reports of a sync: the commit message of each stream, and the last lines of the log.

`lakebed log` shows the message of a version:

    Airbyte sync 42 of shop-to-lake, complete: public.users 1200 records, 3 rejected
    generation 7, took the place of all rows before
    states 3, after 500, 1000 and 1200 records
    also public.orders 3400, public.items 0

Contents of records never appear.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from destination_deeplake.catalog import StreamKey, full_name
from destination_deeplake.stream.writer import StreamWriter
from destination_deeplake.wire import Lost

_STREAMS_IN_MESSAGE = 20
_STREAMS_IN_SUMMARY = 200
_COLUMNS = 20
_FIRST_STATES = 8


@dataclass(slots=True)
class StateNumbers:
    """The number of a stream's states, and the number of records before each of some states."""

    count: int = 0
    last: int = 0
    first: list[int] = field(default_factory=list)

    def arrived(self, records: int) -> None:
        """Count a state that followed a number of records."""
        if self.count < _FIRST_STATES:
            self.first.append(records)
        self.count += 1
        self.last = records

    def __str__(self) -> str:
        """Return `3, after 500, 1000 and 1200 records`; of many numbers, only the first and the last."""
        if not self.count:
            return "0"
        *before, last = self.first if self.count <= _FIRST_STATES else [*self.first[:3], self.last]
        numbers = ", ".join(map(str, before))
        joint = " and " if self.count <= _FIRST_STATES else ", ... "
        return f"{self.count}, after {numbers + joint if before else ''}{last} records"


def count_state(
    numbers: Mapping[StreamKey, StateNumbers], received: Mapping[StreamKey, int], stream: StreamKey | None
) -> None:
    """Count a state for its stream, or for all streams if it names none."""
    for key in numbers if stream is None else (stream,):
        if key in numbers:
            numbers[key].arrived(received[key])


def commit_message(
    writer: StreamWriter,
    writers: Sequence[StreamWriter],
    *,
    outcome: str,
    connection: str | None = None,
    states: StateNumbers | None = None,
) -> str:
    """Return the message of a stream's version.

    Parameters
    ----------
    writer, writers : StreamWriter
        The stream, and all streams of the sync.
    outcome : str
        Outcome of the stream: complete or incomplete.
    connection : str or None
        Name of the connection.
    states : StateNumbers or None
        States of the stream.
    """
    plan = writer.plan
    name = "Airbyte sync" if plan.sync_id is None else f"Airbyte sync {plan.sync_id}"
    of = f" of {connection}" if connection else ""
    rejected = writer.table.rejected
    lines = [
        f"{name}{of}, {outcome}: {plan} {writer.written} records"
        + (f", {rejected} rejected" if rejected else "")
    ]
    if facts := ", ".join(_facts(writer)):
        lines.append(facts)
    if states is not None and states.count:
        lines.append(f"states {states}")
    if also := _others(writer, writers):
        lines.append(f"also {also}")
    return "\n".join(lines)


def _facts(writer: StreamWriter) -> Iterator[str]:
    plan, merged = writer.plan, writer.merged
    if plan.generation_id:
        yield f"generation {plan.generation_id}"
    if writer.was_swapped:
        yield "took the place of all rows before"
    if merged is not None:
        counts = ((what, getattr(merged, what)) for what in ("updated", "deleted", "superseded", "collapsed"))
        if found := ", ".join(f"{count} {what}" for what, count in counts if count):
            yield f"by key: {found}"
    elif writer.was_put_off:
        yield "newer rows of known keys wait for the next sync"
    if writer.expired:
        yield f"{writer.expired} rows of generations before {plan.oldest_wanted} removed"


def _others(writer: StreamWriter, writers: Sequence[StreamWriter]) -> str:
    others = (f"{other.plan} {other.written}" for other in writers if other is not writer)
    named = ", ".join(itertools.islice(others, _STREAMS_IN_MESSAGE))
    rest = len(writers) - 1 - _STREAMS_IN_MESSAGE
    return named + (f" and {rest} more streams" if rest > 0 else "")


def warnings(writers: Sequence[StreamWriter], ignored: Mapping[str, int]) -> Iterator[str]:
    """Yield warnings about data that was not stored unchanged."""
    for writer in writers:
        table, stream = writer.table, f"Stream {str(writer.plan)!r}"
        if writer.replaced is not None and writer.replaced[0] > 2 * writer.replaced[1]:
            before, now = writer.replaced
            yield f"{stream}: {before} rows were replaced by {now}. The old rows are in the previous version."
        if writer.merged is not None and writer.merged.collapsed:
            yield (
                f"{stream}: {writer.merged.collapsed:,} rows were removed because a newer row has the same key: until "
                "now, the stream had another key, or none. They are in the previous version."
            )
        if writer.keyless is not None:
            count, first = writer.keyless
            yield (
                f"{stream}: {count:,} records have no value in a field of their primary key, the first is record "
                f"{first:,} of the stream. Of those with the same other key fields, only the newest is kept: choose a "
                "key that every record has, or sync in append mode."
            )
        misfits = writer.misfits
        for misfit in misfits[:_COLUMNS]:
            yield f"{stream}, {misfit}. They are stored as null; _airbyte_meta.changes of their rows names the column."
        if rest := misfits[_COLUMNS:]:
            count = sum(misfit.count for misfit in rest)
            yield f"{stream}: {count:,} values of {len(rest)} more columns did not fit and are stored as null."
        if table.unknown_fields and not writer.plan.choices.leaves_out:
            yield (
                f"{stream}: {table.unknown_fields} values of fields that its schema does not have were ignored."
            )
        if writer.untimed:
            yield (
                f"{stream}: {writer.untimed:,} records have no emitted_at that can be read; their "
                "_airbyte_extracted_at is null, which counts as older than any time."
            )
        if rejected := table.rejected:
            yield f"{stream}: {rejected} lines were not records and are kept as dead letters."
    strange = {what: count for what, count in ignored.items() if is_strange(what)}
    if strange:
        yield f"Left out {sum(strange.values()):,} records: {_counted(strange)}."


def is_strange(what: str) -> bool:
    """Tell whether messages that the wire counts under this name hold data, and are not for other readers."""
    return what.startswith("records of ")


def passed_over(ignored: Mapping[str, int]) -> str | None:
    """Return a line about messages for other readers, such as logs and estimates; None if there are none."""
    others = {what: count for what, count in ignored.items() if not is_strange(what)}
    return f"{sum(others.values()):,} messages were for others: {_counted(others)}." if others else None


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))


def named(writers: Sequence[StreamWriter]) -> str:
    """Return the names of streams, the first twenty of them."""
    return ", ".join(repr(str(writer.plan)) for writer in writers[:_STREAMS_IN_MESSAGE])


def lost_streams(lost: Lost, writers: Sequence[StreamWriter]) -> str:
    """Return the streams that have records but are not in the catalog, and similar streams of the catalog.

    A similar stream often has the same name in another namespace.
    """
    parts = []
    for (namespace, name), count in itertools.islice(lost.streams.items(), _STREAMS_IN_MESSAGE):
        alike = [repr(full_name(*writer.plan.key)) for writer in writers if writer.plan.key[1] == name]
        hint = f"; the catalog has {', '.join(alike[:_STREAMS_IN_MESSAGE])}" if alike else ""
        parts.append(f"{full_name(namespace, name)!r} ({count} records{hint})")
    rest = len(lost.streams) - len(parts) + (lost.others > 0)
    return ", ".join(parts) + (" and more" if rest else "")


def summary(writers: Sequence[StreamWriter], input_bytes: int, seconds: float) -> str:
    """Return the last line of the log: amounts, speed and streams."""
    rows, megabytes, seconds = (
        sum(writer.written for writer in writers),
        input_bytes / 1e6,
        max(seconds, 1e-9),
    )
    each = ", ".join(f"{writer.plan} {writer.written:,}" for writer in writers[:_STREAMS_IN_SUMMARY])
    rest = len(writers) - _STREAMS_IN_SUMMARY
    return (
        f"Wrote {rows:,} records of {len(writers)} streams from {megabytes:,.1f} MB of input in "
        f"{seconds:,.1f} s: {rows / seconds:,.0f} records/s, {megabytes / seconds:,.1f} MB/s. "
        f"By stream: {each or 'none'}{f' and {rest} more streams' if rest > 0 else ''}."
    )
