"""A sync as PyAirbyte does it: pyairbyte_sync.py SOURCE SOURCE_CONFIG DESTINATION DESTINATION_CONFIG.

Run by the interpreter of the environment that has PyAirbyte; the arguments are programs and JSON files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import airbyte


def main() -> None:
    """Check the destination, read the source and write, and print how many records were sent."""
    source_program, source_config, program, config = map(Path, sys.argv[1:])
    source = airbyte.get_source(
        source_program.name,
        local_executable=source_program,
        config=json.loads(source_config.read_text()),
        streams="*",
    )
    destination = airbyte.get_destination(
        program.name, local_executable=program, config=json.loads(config.read_text())
    )
    destination.check()
    result = destination.write(source, cache=False, state_cache=False)
    print(f"RESULT {result.processed_records}", file=sys.__stdout__)


if __name__ == "__main__":
    main()
