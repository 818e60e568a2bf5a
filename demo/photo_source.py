"""An Airbyte source of twelve photos: photo_source.py spec | check | discover | read, with the protocol's arguments.

Each record holds a photo twice, as base64 and as the address where a web server of this machine serves it, beside what
is on it: kind, names and boxes of its objects, and a small vector of its colours. `base_url` of the configuration says
where the folder of photos is served (`python -m http.server` does).
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

FOLDER = Path(__file__).resolve().parent / "photos"
BINS = 4
"""Of each colour; a vector has BINS ** 3 numbers."""
FIELDS: dict[str, Any] = {
    "id": {"type": "integer"},
    "kind": {"type": "string"},
    "photo": {"type": "string", "contentEncoding": "base64"},
    "photo_url": {"type": "string"},
    "objects": {"type": "array", "items": {"type": "string"}},
    "boxes": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
    "colours": {"type": "array", "items": {"type": "number"}},
    "photo_by": {"type": "string"},
}
STREAM = {
    "name": "photos",
    "json_schema": {"type": "object", "properties": FIELDS},
    "supported_sync_modes": ["full_refresh"],
    "source_defined_primary_key": [["id"]],
}


def main() -> None:
    """Answer one command of the protocol."""
    parser = argparse.ArgumentParser(description="An Airbyte source of twelve photos.")
    parser.add_argument("command", choices=["spec", "check", "discover", "read"])
    for name in ("config", "catalog", "state"):
        parser.add_argument(f"--{name}", type=Path)
    given = parser.parse_args()
    if given.command == "spec":
        properties = {"base_url": {"type": "string", "title": "Where the photos are served"}}
        schema = {"type": "object", "required": ["base_url"], "properties": properties}
        send({"type": "SPEC", "spec": {"connectionSpecification": schema}})
        return
    config = json.loads(given.config.read_bytes())
    if given.command == "check":
        send({"type": "CONNECTION_STATUS", "connectionStatus": {"status": "SUCCEEDED"}})
    elif given.command == "discover":
        send({"type": "CATALOG", "catalog": {"streams": [STREAM]}})
    else:
        send(status("STARTED"))
        for record in records(config["base_url"]):
            now = int(time.time() * 1000)
            send({"type": "RECORD", "record": {"stream": "photos", "emitted_at": now, "data": record}})
        descriptor = {"stream_descriptor": {"name": "photos"}, "stream_state": {"done": True}}
        send({"type": "STATE", "state": {"type": "STREAM", "stream": descriptor}})
        send(status("COMPLETE"))


def records(base_url: str) -> Iterator[dict[str, Any]]:
    """Yield a record for each photo."""
    for row in json.loads((FOLDER / "photos.json").read_bytes()):
        data = (FOLDER / row["file"]).read_bytes()
        yield {
            "id": row["id"],
            "kind": row["kind"],
            "photo": base64.b64encode(data).decode(),
            "photo_url": f"{base_url.rstrip('/')}/{row['file']}",
            "objects": row["objects"],
            "boxes": row["boxes"],
            "colours": colours(data),
            "photo_by": row["photo_by"],
        }


def colours(data: bytes) -> list[float]:
    """Return how often each range of colours occurs: BINS ** 3 shares, of length 1 as a vector."""
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).reshape(-1, 3)
    counts, _ = np.histogramdd(pixels, bins=(BINS,) * 3, range=[(0, 256)] * 3)
    shares = counts.reshape(-1) / len(pixels)
    return [round(float(share), 5) for share in shares / np.linalg.norm(shares)]


def status(word: str) -> dict[str, Any]:
    """Message that says how far the stream is."""
    stream = {"stream_descriptor": {"name": "photos"}, "status": word}
    trace = {"type": "STREAM_STATUS", "emitted_at": time.time() * 1000, "stream_status": stream}
    return {"type": "TRACE", "trace": trace}


def send(message: dict[str, Any]) -> None:
    """Print a message."""
    sys.stdout.write(json.dumps(message) + "\n")


if __name__ == "__main__":
    main()
