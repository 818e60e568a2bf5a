"""Airbyte messages as plain JSON: reading recordings, making catalogs and messages.

Numbers with a fraction or an exponent are parsed as `Decimal`: comparisons see the digits that were sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

Json = Any
Message = dict[str, Json]
StreamName = tuple[str, str]
"""Namespace ("" for none) and name."""


def parse(text: str | bytes) -> Json:
    """Parse JSON without rounding numbers."""
    return json.loads(text, parse_float=Decimal)


def read(lines: bytes | Iterable[bytes]) -> Iterator[Message]:
    """Parse messages, one on each line; other lines (a tool's log) are left out."""
    for line in lines.splitlines() if isinstance(lines, bytes) else lines:
        if line.startswith(b"{"):
            yield parse(line)


def name_of(record_or_stream: Mapping[str, Json], key: str = "stream") -> StreamName:
    """Namespace and name; absent, null and empty namespaces are one."""
    return record_or_stream.get("namespace") or "", record_or_stream[key]


def records(source: Iterable[Message]) -> dict[StreamName, list[Message]]:
    """Record messages of each stream, in the order in which they came."""
    found: dict[StreamName, list[Message]] = {}
    for message in source:
        if message["type"] == "RECORD":
            found.setdefault(name_of(message["record"]), []).append(message["record"])
    return found


def states(source: Iterable[Message]) -> list[Message]:
    """State objects in the order in which they came."""
    return [message["state"] for message in source if message["type"] == "STATE"]


def configure(streams: Iterable[Mapping[str, Json]], mode: str = "append", **extra: Json) -> Message:
    """Configured catalog of discovered streams.

    Parameters
    ----------
    streams
        Streams of a discovered catalog, or of a configured one (then its own mode is replaced).
    mode
        `destination_sync_mode` of all.
    extra
        Further keys of each configured stream, such as `generation_id`.
    """
    configured = []
    for stream in streams:
        inner = dict(stream.get("stream", stream))
        inner.setdefault("supported_sync_modes", ["full_refresh"])
        configured.append(
            {"stream": inner, "sync_mode": "full_refresh", "destination_sync_mode": mode, **extra}
        )
    return {"streams": configured}


def stream(name: str, namespace: str | None = None, /, **properties: Json) -> Message:
    """Discovered stream whose properties are given as JSON schemas."""
    described = {"name": name, "json_schema": {"type": "object", "properties": properties}}
    return described if namespace is None else {**described, "namespace": namespace}


def record(name: str, data: Json, namespace: str | None = None, emitted_at: int = 1) -> Message:
    """RECORD message."""
    inner = {"stream": name, "data": data, "emitted_at": emitted_at}
    return {"type": "RECORD", "record": inner if namespace is None else {**inner, "namespace": namespace}}


def state(name: str, content: Json, namespace: str | None = None, **extra: Json) -> Message:
    """STATE message of one stream; `extra` goes beside the state, as the platform's `id` does."""
    descriptor = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    inner = {"stream_descriptor": descriptor, "stream_state": content}
    return {"type": "STATE", "state": {"type": "STREAM", "stream": inner, **extra}}


def status(name: str, word: str = "COMPLETE", namespace: str | None = None) -> Message:
    """TRACE message about the progress of a stream."""
    descriptor: dict[str, Any] = (
        {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    )
    body = {"stream_descriptor": descriptor, "status": word}
    return {"type": "TRACE", "trace": {"type": "STREAM_STATUS", "emitted_at": 1.0, "stream_status": body}}


def completed(catalog: Mapping[str, Json]) -> list[Message]:
    """COMPLETE for every stream, as the platform sends it when the source has succeeded."""
    streams = [configured["stream"] for configured in catalog["streams"]]
    return [status(stream["name"], namespace=stream.get("namespace")) for stream in streams]


def lines(source: Iterable[Message]) -> bytes:
    """Serialise messages, one on each line."""
    return b"".join(json.dumps(message).encode() + b"\n" for message in source)
