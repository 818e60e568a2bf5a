"""The platform's rules on the states that a destination sends back, checked on what a sync sent and answered.

The orchestrator stamps every state with an `id` and looks it up in each answer; it compares the destination's
count with its own. States of one stream come back in the order in which they were sent, global ones likewise,
each exactly once, and nothing in them may be changed but `destinationStats`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from integration_tests.messages import Json, Message, StreamName, name_of

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
    untouched = {key: value for key, value in answered.items() if key != "destinationStats"}
    if untouched != {key: value for key, value in sent.items() if key != "destinationStats"}:
        broken.append(f"state {sent['id']}: changed")
    return broken
