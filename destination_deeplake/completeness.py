"""Completeness of streams: whether new rows may replace the old ones.

    last status of the stream                         complete
    COMPLETE                                          yes
    any other                                         no
    none, but some other stream has one               no: the source failed before it read this one
    none at all, and the sync removes no rows         yes: this removes nothing
    none at all, refresh by generations               no: the platform then sends COMPLETE if the source succeeds
    none at all, overwrite                            as configured, see `WithoutStatus`

No rows are ever removed after an input without records and states, or by a sync that lost records because their streams
are not in the catalog: the lost records may belong to this stream. If the source reported a failure (TRACE ERROR), only
streams with the status COMPLETE are complete.

The write mode overwrite counts as "overwrite" above even if generations are numbered: a platform numbers them for every
destination, but sends statuses only to destinations that support refreshes, and requests no overwrite from these.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from destination_deeplake.catalog import StreamKey, StreamPlan, WriteMode
from destination_deeplake.config import WithoutStatus

_COMPLETE, _RUNNING = "COMPLETE", "RUNNING"


class Completeness:
    """The completeness of a sync's streams, by the messages received so far.

    Parameters
    ----------
    removing : iterable of (namespace, name)
        Streams whose old rows are removed when they are complete.
    rule : WithoutStatus
        Condition under which an overwrite without a status is complete.
    lanes : int
        Number of sockets of the input, 1 for standard input; each has its own statuses.
    asks_status : bool
        Whether a stream without a status is never complete.

    Attributes
    ----------
    statuses : dict
        Last status of each stream that has one.
    """

    def __init__(
        self,
        removing: Iterable[StreamKey],
        rule: WithoutStatus = WithoutStatus.WITH_STATE,
        *,
        lanes: int = 1,
        asks_status: bool = False,
    ) -> None:
        self.statuses: dict[StreamKey, str] = {}
        self._said: defaultdict[StreamKey, dict[int, str]] = defaultdict(dict)
        self._lanes = lanes
        self._asks_status = asks_status
        self._removing = frozenset(removing)
        self._rule = rule
        self._at_state: dict[StreamKey, int] = {}
        self._has_states = False

    def status(self, stream: StreamKey, status: str, lane: int = 0) -> None:
        """Note a status of a stream, which is complete once it has the status COMPLETE on all sockets."""
        said = self._said[stream]
        said[lane] = status
        others = [other for other in said.values() if other != _COMPLETE]
        is_whole = len(said) == self._lanes
        self.statuses[stream] = others[-1] if others else _COMPLETE if is_whole else _RUNNING

    def state(self, stream: StreamKey | None, came: Mapping[StreamKey, int]) -> None:
        """Note a state of a stream, or of all streams if the state names none, and the number of records before it."""
        self._has_states = True
        for key in self._removing if stream is None else self._removing & {stream}:
            self._at_state[key] = came[key]

    def is_complete(
        self, plan: StreamPlan, came: Mapping[StreamKey, int], *, lost: bool, source_failed: bool
    ) -> bool:
        """Tell whether a stream is complete after the end of the input.

        Parameters
        ----------
        plan : StreamPlan
            The stream.
        came : mapping of (namespace, name) to int
            Records of each stream.
        lost : bool
            Whether records of streams that are not in the catalog were lost.
        source_failed : bool
            Whether the source said that it failed.
        """
        status, removes = self.statuses.get(plan.key), plan.key in self._removing
        if removes and lost:
            return False
        if status is not None or self.statuses or self._asks_status:
            return status == _COMPLETE
        if not removes:
            return True
        if plan.mode is not WriteMode.OVERWRITE or source_failed or self.is_empty(came):
            return False
        if self._rule is WithoutStatus.WITH_STATE:
            return self._at_state.get(plan.key) == came[plan.key]
        return self._rule is WithoutStatus.ALWAYS

    def is_empty(self, came: Mapping[StreamKey, int]) -> bool:
        """Tell whether the input held no record, no state and no status."""
        return not (self._has_states or self.statuses or any(came.values()))

    def is_by_rule(self, plan: StreamPlan) -> bool:
        """Tell whether the configuration decided about a stream, because no stream had a status."""
        is_asked = self.statuses or self._asks_status
        return not is_asked and plan.key in self._removing and plan.mode is WriteMode.OVERWRITE
