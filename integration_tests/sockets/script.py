"""What a source of the fast mode says: messages with partitions, and which of its sockets says which.

A partition is what lies between two states of a stream, or of all streams for global states. Each of its records names
it, and its state says how many there are, so that records and states may come in any order, on any socket.
"""

from __future__ import annotations

import copy
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum

from integration_tests.messages import Json, Message, StreamName, name_of


class Order(StrEnum):
    """In which order the messages of a script reach one socket."""

    KEPT = "kept"
    """That of the script: a state comes behind those of its records that the same socket carries."""
    PARTITIONS = "partitions"
    """Partitions are read side by side: a later one may be done before an earlier one, and its state come first."""
    ANY = "any"
    """Any: states before their records, too. Statuses stay at the end."""


def with_partitions(messages: Iterable[Message], seed: int = 0, *, snapshots: bool = False) -> list[Message]:
    """Give records their partition, and states their ordinal, partition and number of records.

    States of streams are counted for each stream, others over all. With `snapshots` a global state names a partition of
    each stream, beside its own: those of records that were read as a table and not from a log.
    """
    chosen = random.Random(seed)
    counts: Counter[str] = Counter()
    open_partitions: dict[StreamName | None, str] = {}
    ordinals: Counter[StreamName | None] = Counter()
    script = copy.deepcopy(list(messages))
    kinds = {message["state"].get("type") for message in script if message["type"] == "STATE"}
    assert kinds <= {"STREAM"} or "STREAM" not in kinds, "states of streams and of all do not go together"
    by_stream = not kinds - {"STREAM"}

    def partition(scope: StreamName | None) -> str:
        if scope not in open_partitions:
            letters = "".join(chosen.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=4))
            open_partitions[scope] = f"{letters}-{len(counts)}"
            counts[open_partitions[scope]] = 0
        return open_partitions[scope]

    def end(state: Message, scope: StreamName | None) -> int:
        """End a partition with an object of a state; return how many records it has."""
        ordinals[scope] += 1
        state["id"], state["partition_id"] = ordinals[scope], partition(scope)
        return counts[open_partitions.pop(scope)]

    for message in script:
        if message["type"] == "RECORD":
            scope = name_of(message["record"])
            in_log = not by_stream and (not snapshots or chosen.random() < 0.5)
            message["record"]["partition_id"] = partition(None if in_log else scope)
            counts[message["record"]["partition_id"]] += 1
        elif message["type"] == "STATE":
            state = message["state"]
            if by_stream:
                count = end(state, name_of(state["stream"]["stream_descriptor"], "name"))
            else:
                count = end(state, None)
                scopes = [scope for scope in open_partitions if scope is not None]
                for scope in scopes:
                    count += end(_of_stream(state, scope), scope)
            state["sourceStats"] = {**(state.get("sourceStats") or {}), "recordCount": float(count)}
    return script


def _of_stream(state: Message, scope: StreamName) -> Message:
    """The part of a global state that speaks of a stream; made where there is none."""
    assert state.get("type") == "GLOBAL", "only global states name the partitions of streams"
    states: list[Message] = state["global"].setdefault("stream_states", [])
    for each in states:
        if name_of(each["stream_descriptor"], "name") == scope:
            return each
    namespace, name = scope
    descriptor = {"name": name, "namespace": namespace} if namespace else {"name": name}
    states.append({"stream_descriptor": descriptor, "stream_state": {"snapshot": True}})
    return states[-1]


def partitions_of(state: Message) -> list[str]:
    """Partitions that a state speaks for."""
    named = [state, *((state.get("global") or {}).get("stream_states") or [])]
    return list(dict.fromkeys(each["partition_id"] for each in named if "partition_id" in each))


def is_status(message: Message, *words: str) -> bool:
    """Tell whether a message is a stream status, one of these words if any are given."""
    trace = message.get("trace") or {}
    if message["type"] != "TRACE" or trace.get("type") != "STREAM_STATUS":
        return False
    return not words or trace["stream_status"]["status"] in words


def deal(
    messages: Sequence[Message], sockets: int, seed: int = 0, order: Order = Order.KEPT
) -> list[list[tuple[int, Message]]]:
    """Return what each socket carries, with the places in the script.

    A COMPLETE is carried by each socket, everything else by one of them.
    """
    chosen = random.Random(seed)
    dealt: list[list[tuple[int, Message]]] = [[] for _ in range(sockets)]
    for place, message in _ordered(messages, chosen, order):
        carriers = dealt if is_status(message, "COMPLETE") else [chosen.choice(dealt)]
        for carrier in carriers:
            carrier.append((place, message))
    return dealt


def _ordered(messages: Sequence[Message], chosen: random.Random, order: Order) -> list[tuple[int, Message]]:
    """Messages and their places in the script, in the order in which a source may send them."""
    placed = list(enumerate(messages))
    if order is Order.KEPT:
        return placed
    # Behind a status, nothing of its stream may come; statuses of all streams come last, as sources send them.
    moving = [each for each in placed if not is_status(each[1])]
    if order is Order.ANY:
        chosen.shuffle(moving)
    else:
        moving = _side_by_side(moving, chosen)
    return [*moving, *(each for each in placed if is_status(each[1]))]


def _side_by_side(placed: Sequence[tuple[int, Message]], chosen: random.Random) -> list[tuple[int, Message]]:
    """Interleave the partitions, up to three of them at a time, each in its own order."""
    lanes: defaultdict[Json, list[tuple[int, Message]]] = defaultdict(list)
    for place, message in placed:
        of = (message.get("record") or message.get("state") or {}).get("partition_id")
        lanes[of].append((place, message))
    waiting, found = list(lanes.values()), []
    while waiting:
        lane = chosen.choice(waiting[:3])
        found.append(lane.pop(0))
        waiting = [each for each in waiting if each]
    return found
