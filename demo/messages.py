"""Small filters over Airbyte messages on stdin: what a platform does around a sync, for the demo.

The first argument chooses one:

    summary      say in a few lines what came
    catalog N    discovered catalog -> configured catalog of the sync with the number N, every stream appended
    state        answered states -> the state file of the next sync, the last one of each stream
    rate B E     count records; the sync began and ended at these times
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Message = dict[str, Any]


def messages(lines: Iterable[str]) -> Iterator[Message]:
    """Parse the lines that are messages; a connector may print others."""
    for line in lines:
        if line.startswith("{"):
            yield json.loads(line)


def summary(source: Iterable[Message]) -> None:
    """Print one line per interesting message and a count of the rest."""
    counts: Counter[str] = Counter()
    for message in source:
        if message["type"] == "SPEC":
            specification = message["spec"]["connectionSpecification"]
            print(f"  {specification['title']}: {', '.join(specification['properties'])}")
        elif message["type"] == "CONNECTION_STATUS":
            status = message["connectionStatus"]
            print(f"  {status['status']} {status.get('message') or ''}")
        elif message["type"] == "LOG":
            print(f"  {message['log']['level'].lower()}: {message['log']['message']}")
        else:
            counts[message["type"]] += 1
    if counts:
        print("  answered:", ", ".join(f"{count} {kind}" for kind, count in counts.items()))


def catalog(source: Iterable[Message], sync_id: str) -> None:
    """Configure every stream of a discovered catalog."""
    streams = next(message["catalog"]["streams"] for message in source if message["type"] == "CATALOG")
    configured = [
        {
            "stream": stream,
            "sync_mode": "incremental",
            "cursor_field": stream.get("default_cursor_field", []),
            "destination_sync_mode": "append",
            "generation_id": 1,
            "minimum_generation_id": 0,
            "sync_id": int(sync_id),
        }
        for stream in streams
    ]
    json.dump({"streams": configured}, sys.stdout)


def state(source: Iterable[Message]) -> None:
    """Keep the last state of each stream."""
    last = {
        message["state"]["stream"]["stream_descriptor"]["name"]: message["state"]
        for message in source
        if message["type"] == "STATE"
    }
    json.dump(list(last.values()), sys.stdout)


def rate(source: Iterable[Message], began: str, ended: str) -> None:
    """Print records per second and how many came of each stream."""
    streams = Counter(message["record"]["stream"] for message in source if message["type"] == "RECORD")
    total, seconds = streams.total(), float(ended) - float(began)
    listed = ", ".join(f"{name} {count:,}" for name, count in streams.items())
    print(f"  {total:,} records ({listed}) in {seconds:.1f} s: {total / seconds:,.0f} rows per second")


def main() -> None:
    """Run the filter that the first argument names."""
    name, *arguments = sys.argv[1:]
    filters: dict[str, Callable[..., None]]
    filters = {"summary": summary, "catalog": catalog, "state": state, "rate": rate}
    filters[name](messages(sys.stdin), *arguments)


if __name__ == "__main__":
    main()
