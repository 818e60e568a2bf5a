"""Read a replayed file into PyAirbyte's DuckDB cache and print the CPU seconds of that.

Run by the interpreter of the environment that has PyAirbyte: pyairbyte_duckdb.py MESSAGES CATALOG DATABASE
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import airbyte


def cpu_seconds() -> float:
    """CPU seconds of this process; the replaying child is not counted."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Print records and CPU seconds."""
    messages, catalog, database = sys.argv[1:]
    source = airbyte.get_source(
        "source-replay",
        local_executable=Path(__file__).with_name("replay_source.py"),
        config={"messages": messages, "catalog": catalog},
    )
    source.select_all_streams()
    cache = airbyte.caches.DuckDBCache(db_path=database)
    began = cpu_seconds()
    result = source.read(cache, force_full_refresh=True)
    print(f"RESULT {result.processed_records} {cpu_seconds() - began}", file=sys.__stdout__)


if __name__ == "__main__":
    main()
