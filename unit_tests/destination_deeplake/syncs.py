"""Syncs in this process: plans, messages, and what is there and was said afterwards."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.config import Place
from destination_deeplake.lake import Lake
from destination_deeplake.messages import Output
from destination_deeplake.stream.writer import open_stream
from destination_deeplake.sync import Pace, Sync

SCHEMA = {"properties": {"id": {"type": "integer"}, "text": {"type": "string"}}}


class Lines(Output):
    """Output into a list."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.all: list[dict[str, Any]] = []

    def lines(self, lines: Iterable[bytes]) -> None:
        self.all.extend(json.loads(line) for line in lines)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [message[kind.lower()] for message in self.all if message["type"] == kind]

    @property
    def acknowledged(self) -> list[tuple[int, float]]:
        return [(state["id"], state["destinationStats"]["recordCount"]) for state in self.of("STATE")]

    @property
    def logged(self) -> str:
        return "\n".join(log["message"] for log in self.of("LOG"))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def plan(name: str, mode: WriteMode = WriteMode.APPEND, **more: Any) -> StreamPlan:
    return StreamPlan(None, name, mode, SCHEMA, **more)


def start(
    root: Path,
    plans: list[StreamPlan],
    out: Lines,
    pace: Pace | None = None,
    clock: Clock | None = None,
    **more: Any,
) -> Sync:
    writers = [open_stream(Lake(Place(str(root))), a_plan) for a_plan in plans]
    return Sync(writers, out, pace or Pace(), clock or Clock(), **more)


def record(stream: str, number: int, **more: Any) -> dict[str, Any]:
    data = {"id": number, **more}
    return {"type": "RECORD", "record": {"stream": stream, "data": data, "emitted_at": 1700000000000}}


def state(number: int, stream: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": stream}, "stream_state": {"n": 1}},
    }
    if stream is None:
        body = {"type": "GLOBAL", "global": {"stream_states": []}}
    return {"type": "STATE", "state": {**body, "id": number, "sourceStats": {"recordCount": 7.0}}}


def status(stream: str, value: str) -> dict[str, Any]:
    body = {"stream_descriptor": {"name": stream}, "status": value}
    return {"type": "TRACE", "trace": {"type": "STREAM_STATUS", "emitted_at": 1.0, "stream_status": body}}


def feed(sync: Sync, *messages: dict[str, Any]) -> None:
    sync.feed(b"".join(json.dumps(message).encode() + b"\n" for message in messages))


def ids(path: Path) -> list[int]:
    return [int(number) for number in lakebed.load(str(path), read_only=True)["id"].numpy().reshape(-1)]


def messages(path: Path) -> list[str]:
    return [commit["message"] for commit in lakebed.load(str(path), read_only=True).commits]


def filled(root: Path, *names: str) -> None:
    """Put one row into each stream, as a runner without generations does."""
    sync = start(root, [plan(name) for name in names], Lines())
    feed(sync, *(record(name, 1) for name in names))
    sync.complete()
