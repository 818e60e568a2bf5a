"""Release of STATE messages in order.

A STATE promises that all records before it are published: the records of its stream, or of all streams for a
GLOBAL or LEGACY state. The ledger releases each state once: states of a stream in their order, a GLOBAL or LEGACY state
after all earlier and before all later states. It is pure: it gets counts and returns states.

`recordCount` of a state is the number of records since the previous state that counted them: a STREAM state
counts its stream, a GLOBAL one all streams. So each record is counted by at most one state, as in the platform's own
count. The platform counts no records for a LEGACY state that names no stream, so neither does the ledger. Refused lines
are counted likewise, as `rejectedRecordCount`; a line of an unknown stream is counted by states that count all streams.
If dead letters are kept, a state also waits for the dead letters before it.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol, TypeVar

from destination_deeplake.catalog import StreamKey

Partitions = Mapping[StreamKey, Mapping[str, int]]
"""Stream -> id of a partition -> number of its records."""

_Key = TypeVar("_Key", bound=StreamKey | None)


class Scope(Protocol):
    """Scope of a state: `kind` is STREAM, GLOBAL or LEGACY."""

    @property
    def kind(self) -> str:
        """STREAM, GLOBAL or LEGACY."""

    @property
    def namespace(self) -> str | None:
        """Namespace of the stream; None if the state names no stream, or the stream has no namespace."""

    @property
    def name(self) -> str | None:
        """Name of the stream, which a LEGACY state may have, too; None if the state names no stream."""


class State(Protocol):
    """A STATE message from the wire."""

    @property
    def scope(self) -> Scope:
        """Scope of the state."""

    @property
    def raw(self) -> bytes:
        """The message as JSON."""

    def acknowledged(self, record_count: int, rejected_count: int = 0) -> bytes:
        """Return the line to emit."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    number: int
    """Position of the state among all states."""
    state: State
    record_count: int
    rejected_count: int
    needs: Mapping[StreamKey, int]
    """Stream -> number of records that must be published first; only streams with unpublished records."""
    letters: int
    """Number of dead letters that must be published first."""


@dataclass(slots=True)
class _Section:
    """States of streams, and the GLOBAL or LEGACY state that arrived after them and ended the section."""

    streams: dict[StreamKey, deque[_Waiting]] = field(default_factory=dict)
    last: _Waiting | None = None


class Ledger:
    """The states that were received and not emitted yet.

    Examples
    --------
    Call `arrived` after each STATE and `published` after each publish; `release` then yields the released states.
    """

    def __init__(self) -> None:
        self._sections = deque([_Section()])
        self._arrived = 0
        self._released = 0
        self._counted: dict[StreamKey, int] = {}
        self._rejected: dict[StreamKey | None, int] = {}
        self._published: dict[StreamKey, int] = {}
        self._letters = 0
        # Streams whose next state in the first section may be ready; usually one of hundreds.
        self._moved: set[StreamKey] = set()

    def __len__(self) -> int:
        return self._arrived - self._released

    def arrived(
        self,
        state: State,
        received: Mapping[StreamKey, int],
        rejected: Mapping[StreamKey | None, int] = MappingProxyType({}),
        letters: int = 0,
    ) -> None:
        """Add a state.

        Parameters
        ----------
        state : State
            The message.
        received : mapping of (namespace, name) to int
            Records of each configured stream since the start of the sync, all of them before this state.
        rejected : mapping of (namespace, name), or None, to int
            Refused lines of each stream since the start of the sync; under None the refused lines of unknown streams.
        letters : int
            Dead letters since the start of the sync, all of them before this state.
        """
        scope = state.scope
        counted: dict[StreamKey, int] = {}
        refused: dict[StreamKey | None, int] = {}
        if scope.kind == "GLOBAL":
            counted, refused = dict(received), dict(rejected)
        elif scope.name is not None:
            key = (scope.namespace or None, scope.name)
            counted, refused = {key: received.get(key, 0)}, {key: rejected.get(key, 0)}
        totals = counted if scope.kind == "STREAM" else received
        needs = {key: total for key, total in totals.items() if total > self._published.get(key, 0)}
        counts = _since(self._counted, counted), _since(self._rejected, refused)
        waiting = _Waiting(self._arrived, state, *counts, needs, letters)
        self._arrived += 1
        section = self._sections[-1]
        if scope.kind == "STREAM":
            section.streams.setdefault(key, deque()).append(waiting)
            self._moved.add(key)
        else:
            section.last = waiting
            self._sections.append(_Section())

    def published(
        self,
        durable: Mapping[StreamKey, int],
        letters: int = 0,
        _partitions: Partitions = MappingProxyType({}),
        _rejected: Partitions = MappingProxyType({}),
    ) -> None:
        """Note how many records of each stream and how many dead letters, counted as in `arrived`, are published."""
        self._published.update(durable)
        self._letters = max(self._letters, letters)
        self._moved.update(self._sections[0].streams)

    def release(self) -> Iterator[bytes]:
        """Yield the lines of all released states, in order; each is yielded once."""
        while True:
            section = self._sections[0]
            ready = [state for key in self._moved for state in self._ready(section, key)]
            self._moved.clear()
            last = section.last
            is_over = last is not None and not section.streams and self._is_published(last)
            if last is not None and is_over:
                ready.append(last)
                self._sections.popleft()
                self._moved.update(self._sections[0].streams)
            for waiting in sorted(ready, key=lambda state: state.number):
                self._released += 1
                yield waiting.state.acknowledged(waiting.record_count, waiting.rejected_count)
            if not is_over:
                return

    def unfinished(
        self, _rejected: int = 0, _written: Partitions = MappingProxyType({})
    ) -> set[StreamKey | None]:
        """Return no stream: with ordered input, missing records cannot be detected."""
        return set()

    def release_all(self) -> Iterator[bytes]:
        """Yield nothing: states that still wait promise records that are not stored."""
        yield from ()

    def _ready(self, section: _Section, key: StreamKey) -> Iterator[_Waiting]:
        """Remove and return the released states of a stream."""
        queue = section.streams.get(key, ())
        while queue and self._is_published(queue[0]):
            yield queue.popleft()
        if not queue:
            section.streams.pop(key, None)

    def _is_published(self, waiting: _Waiting) -> bool:
        return waiting.letters <= self._letters and all(
            self._published.get(key, 0) >= total for key, total in waiting.needs.items()
        )


def _since(counted: dict[_Key, int], totals: Mapping[_Key, int]) -> int:
    """Return, for each key, by how much its total has grown since the last call."""
    grown = sum(total - counted.get(key, 0) for key, total in totals.items())
    counted.update(totals)
    return grown
