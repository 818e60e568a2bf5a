"""The slowest destination: what a reader of sockets must store and answer, in a page of plain Python.

It decodes with the package `protobuf`, stores each record at once, and answers a state when all records of its
partitions have come, in the order of the ordinals. Sources and checks are tried on it.
"""

from __future__ import annotations

import copy
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from integration_tests.acknowledgements import scope
from integration_tests.messages import Json, Message, StreamName, parse
from integration_tests.sockets import schema
from integration_tests.sockets.script import is_status, partitions_of


def frames(data: bytes) -> Iterator[bytes]:
    """Yield the messages behind their lengths; a part of one at the end is left out."""
    position = 0
    while position < len(data):
        size = shift = 0
        while position < len(data):
            byte = data[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if position + size > len(data) or data[position - 1] >= 0x80:
            return
        yield data[position : position + size]
        position += size


def decoded(data: bytes, form: str) -> list[Any]:
    """Messages of one socket: records as their Protocol Buffers or JSON, all others as JSON."""
    if form == "JSONL":
        return [parse(line) for line in data.splitlines(keepends=True) if line.endswith(b"\n")]
    found = []
    for frame in frames(data):
        message = schema.AirbyteMessage.FromString(frame)
        kind = message.WhichOneof("value")
        assert kind is not None, "a message without content"
        if kind == "record":
            found.append(message.record)
        elif kind == "airbyte_protocol_message":
            found.append(parse(message.airbyte_protocol_message))
    return found


class Model:
    """A destination of `sockets` sockets."""

    def __init__(self, sockets: int) -> None:
        self.answers: list[Message] = []
        self.stored: defaultdict[StreamName, list[Json]] = defaultdict(list)
        """Records in the order in which they came: values by place, or data by name."""
        self._sockets = sockets
        self._counts: Counter[str] = Counter()
        self._waiting: dict[StreamName, dict[int, Message]] = {}
        self._next: Counter[StreamName] = Counter()
        self._completed: defaultdict[StreamName, set[int]] = defaultdict(set)

    def take(self, socket: int, message: Any) -> None:
        """Take one message of a socket."""
        if isinstance(message, schema.AirbyteMessage().record.__class__):
            self.stored[message.stream_namespace, message.stream_name].append(list(message.data))
            self._counts[message.partition_id] += 1
        elif message["type"] == "RECORD":
            record = message["record"]
            self.stored[record.get("namespace") or "", record["stream"]].append(record["data"])
            self._counts[record["partition_id"]] += 1
        elif message["type"] == "STATE":
            state = message["state"]
            self._waiting.setdefault(scope(state), {})[state["id"]] = state
        elif is_status(message, "COMPLETE"):
            descriptor = message["trace"]["stream_status"]["stream_descriptor"]
            self._completed[descriptor.get("namespace") or "", descriptor["name"]].add(socket)
        self._release()

    def is_complete(self, stream: StreamName) -> bool:
        """Tell whether every socket said COMPLETE, and every state went out."""
        return len(self._completed[stream]) == self._sockets and not self._waiting.get(stream)

    def _release(self) -> None:
        for of, waiting in self._waiting.items():
            while (state := waiting.get(self._next[of] + 1)) is not None:
                count = sum(self._counts[partition] for partition in partitions_of(state))
                if count < state["sourceStats"]["recordCount"]:
                    break
                self._next[of] += 1
                answer = copy.deepcopy(waiting.pop(self._next[of]))
                answer["destinationStats"] = {"recordCount": float(count)}
                self.answers.append(json.loads(json.dumps({"type": "STATE", "state": answer}, default=float)))
