"""Release of STATEs when records and states arrive over several sockets, in no common order.

Each record names its partition. A state names one or several, and their number of records; it is released once this
number of records is published. States of a stream, and global ones, are released in the order of their numbers, which
begin with 1. If a state lacks its partition, number or count, it waits for the end of the input, when all records have
arrived. Like `ledger`, this module is pure: it gets counts and returns states.

Source: Airbyte's bulk CDK, which counts and releases by the same rules.
"""

import bisect
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from destination_deeplake.catalog import StreamKey
from destination_deeplake.ledger import Partitions, State


@dataclass(frozen=True, slots=True)
class _Waiting:
    state: State
    number: int | None
    """Position of the state among the states of its scope, from 1."""
    partitions: frozenset[str]
    expected: int | None
    """Number of records of each partition."""


class PartitionLedger:
    """The states that were received and not emitted yet."""

    def __init__(self) -> None:
        self._waiting: defaultdict[StreamKey | None, list[_Waiting]] = defaultdict(list)
        self._released: Counter[StreamKey | None] = Counter()
        self._records: defaultdict[StreamKey, Counter[str]] = defaultdict(Counter)
        self._rejected: defaultdict[StreamKey, Counter[str]] = defaultdict(Counter)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def arrived(self, state: State, *_counts: object) -> None:
        """Add a state; the counts of records before it, which `Ledger.arrived` needs, are ignored."""
        body = json.loads(state.raw)["state"]
        scope = state.scope
        key = (
            (scope.namespace or None, scope.name)
            if scope.kind == "STREAM" and scope.name is not None
            else None
        )
        one = _Waiting(state, _whole(body.get("id")), _partitions(body), _expected(body))
        bisect.insort(self._waiting[key], one, key=lambda one: (one.number is None, one.number or 0))

    def published(
        self,
        _durable: Mapping[StreamKey, int],
        _letters: int = 0,
        partitions: Partitions = MappingProxyType({}),
        rejected: Partitions = MappingProxyType({}),
    ) -> None:
        """Add the numbers of published records of each partition of a stream, as rows and as dead letters."""
        for counts, more in ((self._records, partitions), (self._rejected, rejected)):
            for key, found in more.items():
                counts[key].update(found)

    def release(self) -> Iterator[bytes]:
        """Yield the lines of all released states, in order; each is yielded once."""
        for key, waiting in self._waiting.items():
            while waiting and waiting[0].number == self._released[key] + 1:
                first = waiting[0]
                records, letters = self._counted(key, first)
                if not first.partitions or first.expected != records + letters:
                    break
                yield self._gone(key, waiting.pop(0), records, letters)

    def unfinished(
        self, rejected: int = 0, written: Partitions = MappingProxyType({})
    ) -> set[StreamKey | None]:
        """Return the streams, None for all, of which a state still waits for records at the end of the input.

        Parameters
        ----------
        rejected : int
            Number of dead letters of unknown partitions: this number of records may be missing without being lost.
        written : mapping of (namespace, name) to mapping of str to int
            Number of records by partition that are written, but durable only once their stream is complete.
        """
        missing = Counter[StreamKey | None]()
        for key, waiting in self._waiting.items():
            for one in waiting:
                if one.partitions and one.expected is not None:
                    came = sum(self._counted(key, one)) + _sum(written, key, one.partitions)
                    missing[key] += abs(one.expected - came)
        return set() if missing.total() <= rejected else {key for key, count in missing.items() if count}

    def release_all(self) -> Iterator[bytes]:
        """Yield the lines of all states that still wait, after the end of a complete input."""
        for key, waiting in self._waiting.items():
            while waiting:
                first = waiting.pop(0)
                records, letters = self._counted(key, first)
                lost = max(0, (first.expected or 0) - records - letters) if first.partitions else 0
                yield self._gone(key, first, records, letters + lost)

    def _gone(self, key: StreamKey | None, one: _Waiting, records: int, rejected: int) -> bytes:
        self._released[key] += 1
        for counts in (self._records, self._rejected):
            for stream in counts if key is None else (key,):
                for partition in one.partitions:
                    counts[stream].pop(partition, None)
        return one.state.acknowledged(records, rejected)

    def _counted(self, key: StreamKey | None, one: _Waiting) -> tuple[int, int]:
        """Return the numbers of published records and dead letters of a state's partitions."""
        return _sum(self._records, key, one.partitions), _sum(self._rejected, key, one.partitions)


def _sum(counts: Partitions, key: StreamKey | None, partitions: Collection[str]) -> int:
    """Return the records of partitions of one stream, or of all."""
    found = counts.values() if key is None else [counts.get(key, {})]
    return sum(one.get(partition, 0) for one in found for partition in partitions)


def _whole(value: object) -> int | None:
    """Return a count, which may be a double in JSON; None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 0:
        return None
    return int(value)


def _partitions(body: Mapping[str, Any]) -> frozenset[str]:
    """Return the partitions that a state names: its own, and those of the stream states in a global state."""
    shared = body.get("global")
    states = shared.get("stream_states") if isinstance(shared, dict) else None
    named = [body, *(states if isinstance(states, list) else ())]
    found = (one.get("partition_id") for one in named if isinstance(one, dict))
    return frozenset(name for name in found if isinstance(name, str))


def _expected(body: Mapping[str, Any]) -> int | None:
    stats = body.get("sourceStats")
    return _whole(stats.get("recordCount")) if isinstance(stats, dict) else None
