#!/usr/bin/env python3
"""An Airbyte source that replays a file of messages, so that PyAirbyte has something to run."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any


def option(name: str) -> dict[str, Any]:
    """JSON of the file that a command line option names."""
    found: dict[str, Any] = json.loads(Path(sys.argv[sys.argv.index(name) + 1]).read_text())
    return found


def main() -> None:
    """Answer spec, check, discover; copy the file for read."""
    command = sys.argv[1]
    if command == "spec":
        print(json.dumps({"type": "SPEC", "spec": {"connectionSpecification": {"type": "object"}}}))
    elif command == "check":
        print(json.dumps({"type": "CONNECTION_STATUS", "connectionStatus": {"status": "SUCCEEDED"}}))
    elif command == "discover":
        catalog = json.loads(Path(option("--config")["catalog"]).read_text())
        streams = [configured["stream"] for configured in catalog["streams"]]
        print(json.dumps({"type": "CATALOG", "catalog": {"streams": streams}}))
    else:
        with Path(option("--config")["messages"]).open("rb") as messages:
            shutil.copyfileobj(messages, sys.stdout.buffer, 1 << 20)


if __name__ == "__main__":
    main()
