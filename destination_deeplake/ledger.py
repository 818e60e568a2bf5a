"""Which STATE may be emitted now.

A STATE promises that all records before it are published: those of its stream, or of all streams for a GLOBAL
or LEGACY one. The ledger keeps the states in the order in which they came and lets them go in that order,
each once. It is pure: counts in, states out.

`recordCount` of a state is the number of records since the previous state that counted them: a STREAM state
counts its stream, a GLOBAL or LEGACY one all streams. So every record is counted by exactly one state, which
is what the platform compares with its own count.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from destination_deeplake.catalog import StreamKey


class Scope(Protocol):
    """What a state speaks for: `kind` is STREAM, GLOBAL or LEGACY."""

    @property
    def kind(self) -> str:
        """STREAM, GLOBAL or LEGACY."""

    @property
    def namespace(self) -> str | None:
        """Namespace of the stream; None when there is none, or for the other kinds."""

    @property
    def name(self) -> str | None:
        """Name of the stream; None for the other kinds."""


class State(Protocol):
    """A STATE message as the wire hands it over."""

    @property
    def scope(self) -> Scope:
        """What it speaks for."""

    def acknowledged(self, record_count: int) -> bytes:
        """Return the line to emit."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    state: State
    record_count: int
    needs: Mapping[StreamKey, int]
    """Stream -> number of its records that must be published; only streams that were behind."""


class Ledger:
    """States that came and were not emitted yet.

    Examples
    --------
    After each STATE `arrived`, after each publish `published`; `release` yields what may go out.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._counted: dict[StreamKey, int] = {}
        self._published: dict[StreamKey, int] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def arrived(self, state: State, received: Mapping[StreamKey, int]) -> None:
        """Take a state in.

        Parameters
        ----------
        state : State
            The message.
        received : mapping of (namespace, name) to int
            Records of each configured stream since the start of the sync, all of them before this state.
        """
        scope = state.scope
        if scope.kind == "STREAM":
            key = (scope.namespace or None, scope.name or "")
            totals = {key: received.get(key, 0)}
        else:
            totals = dict(received)
        count = sum(total - self._counted.get(key, 0) for key, total in totals.items())
        self._counted.update(totals)
        needs = {key: total for key, total in totals.items() if total > self._published.get(key, 0)}
        self._waiting.append(_Waiting(state, count, needs))

    def published(self, durable: Mapping[StreamKey, int]) -> None:
        """Note how many records of each stream, counted as in `arrived`, are published."""
        self._published.update(durable)

    def release(self) -> Iterator[bytes]:
        """Yield the lines of all states that may go out, in order; a state is gone once it was yielded."""
        while self._waiting and self._is_published(self._waiting[0].needs):
            ready = self._waiting.popleft()
            yield ready.state.acknowledged(ready.record_count)

    def _is_published(self, needs: Mapping[StreamKey, int]) -> bool:
        return all(self._published.get(key, 0) >= total for key, total in needs.items())
