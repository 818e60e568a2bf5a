"""The platform's rules on the states that a destination sends back, checked on what a sync sent and answered.

The orchestrator stamps every state with an `id` and looks it up in each answer; it compares the destination's
count with its own. States of one stream come back in the order in which they were sent, global ones likewise,
each exactly once, and nothing in them may be changed but `destinationStats`.

Over sockets, sources stamp the states themselves, from 1 for each stream or over all, and name the partitions that a
state speaks for: there the order of arrival says nothing, see `partition_violations`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping

from integration_tests.messages import Json, Message, StreamName, name_of
from integration_tests.sockets.script import partitions_of

GLOBAL = ("", "*")
"""Scope of global states: all streams together."""
LEGACY = ("", "?")
"""Scope of legacy states, for which the platform counts no records."""


def stamp(lines: bytes) -> bytes:
    """Give every state the `id` that the orchestrator would give it; other lines stay as they are."""
    stamped = []
    for number, line in enumerate(lines.splitlines(keepends=True)):
        message = json.loads(line) if b'"STATE"' in line else {}
        if message.get("type") == "STATE":
            message["state"]["id"] = number
            line = json.dumps(message).encode() + b"\n"
        stamped.append(line)
    return b"".join(stamped)


def scope(state: Message) -> StreamName:
    """Stream that a state speaks of, `GLOBAL` or `LEGACY`."""
    if state.get("type") == "STREAM":
        return name_of(state["stream"]["stream_descriptor"], "name")
    return GLOBAL if state.get("type") == "GLOBAL" else LEGACY


def violations(sent: Iterable[Message], answered: Iterable[Message]) -> list[str]:
    """List every breach of the rules; the sent states are stamped."""
    given: dict[Json, tuple[Message, int]] = {}
    order: dict[StreamName, list[Json]] = {}
    records: Counter[StreamName] = Counter()
    for message in sent:
        if message["type"] == "RECORD":
            records[name_of(message["record"])] += 1
        elif message["type"] == "STATE":
            state = message["state"]
            # No records have the scope of legacy states.
            counted = records.total() if scope(state) == GLOBAL else records[scope(state)]
            records = Counter() if scope(state) == GLOBAL else records
            records.pop(scope(state), None)
            given[state["id"]] = (state, counted)
            order.setdefault(scope(state), []).append(state["id"])

    broken: list[str] = []
    seen: dict[StreamName, list[Json]] = {}
    for message in answered:
        if message["type"] == "STATE":
            state = message["state"]
            if state.get("id") not in given:
                broken.append(f"answered a state with the id {state.get('id')!r}, which was never sent")
                continue
            seen.setdefault(scope(state), []).append(state["id"])
            broken += _differences(state, *given[state["id"]])
    for stream, ids in order.items():
        if seen.get(stream, []) != ids:
            broken.append(f"{stream}: sent {ids}, answered {seen.get(stream, [])}")
    return broken


def _differences(answered: Message, sent: Message, records: int) -> list[str]:
    broken = []
    stats = answered.get("destinationStats") or {}
    count = stats.get("recordCount")
    if count is None or count + stats.get("rejectedRecordCount", 0) != records:
        broken.append(f"state {sent['id']}: counted {count}, {records} were sent")
    if _without_counts(answered) != _without_counts(sent):
        broken.append(f"state {sent['id']}: changed")
    return broken


COUNTS = ("destinationStats", "committedRecordsCount", "committedBytesCount", "rejectedRecordsCount")
"""What a destination may add to a state, and to the states of streams in a global one."""


def _without_counts(state: Message) -> Message:
    rest = {key: value for key, value in state.items() if key not in COUNTS}
    inner = rest.get("global")
    if isinstance(inner, dict) and inner.get("stream_states"):
        rest["global"] = {
            **inner,
            "stream_states": [_without_counts(each) for each in inner["stream_states"]],
        }
    return rest


def partition_violations(
    sent: Iterable[Message], answered: Iterable[Message], *, complete: bool = True
) -> list[str]:
    """List every breach of the rules for states with partitions.

    Parameters
    ----------
    sent
        The whole script of the source, with partitions; what of it arrived does not matter here.
    answered
        Messages of the destination.
    complete
        Whether all states must have come back; otherwise the first ones of each stream, or of all.
    """
    records, states = _by_partition(sent)
    given = {(scope(state), state["id"]): state for state in states}
    expected: dict[StreamName, list[Json]] = {}
    for of, ordinal in given:
        expected.setdefault(of, []).append(ordinal)

    broken: list[str] = []
    seen: dict[StreamName, list[Json]] = {}
    for state in (message["state"] for message in answered if message["type"] == "STATE"):
        of, ordinal = scope(state), state.get("id")
        if (of, ordinal) not in given:
            broken.append(f"{of}: answered a state with the id {ordinal!r}, which was never sent")
            continue
        seen.setdefault(of, []).append(ordinal)
        count = sum(len(records.get(partition, ())) for partition in partitions_of(given[of, ordinal]))
        broken += [f"{of}, {breach}" for breach in _differences(state, given[of, ordinal], count)]
    for of, ordinals in expected.items():
        answers = seen.get(of, [])
        if answers != (sorted(ordinals) if complete else sorted(ordinals)[: len(answers)]):
            broken.append(f"{of}: sent {sorted(ordinals)}, answered {answers}")
    return broken


def not_durable(
    sent: Iterable[Message],
    answered: Iterable[Message],
    stored: Mapping[StreamName, Mapping[Hashable, int]],
    identity: Callable[[Json], Hashable],
) -> list[str]:
    """List every record that an acknowledged state speaks for and that is not in its dataset.

    Parameters
    ----------
    sent
        The script of the source.
    answered
        Messages of the destination, up to its death.
    stored
        Stream -> how many rows its dataset has of each record, read back afterwards.
    identity
        Data of a record -> what tells it from the others.
    """
    records, states = _by_partition(sent)
    given = {(scope(state), state["id"]): state for state in states}
    answers = [message["state"] for message in answered if message["type"] == "STATE"]
    return [
        f"{scope(state)}, state {state['id']}: {name_of(record)} lacks {identity(record['data'])} of {partition}"
        for state in answers
        for partition in partitions_of(given[scope(state), state["id"]])
        for record in records.get(partition, ())
        if not stored.get(name_of(record), {}).get(identity(record["data"]))
    ]


def _by_partition(sent: Iterable[Message]) -> tuple[dict[str, list[Message]], list[Message]]:
    """Records of each partition, and the states."""
    records: dict[str, list[Message]] = {}
    states = []
    for message in sent:
        if message["type"] == "RECORD":
            records.setdefault(message["record"]["partition_id"], []).append(message["record"])
        elif message["type"] == "STATE":
            states.append(message["state"])
    return records, states
