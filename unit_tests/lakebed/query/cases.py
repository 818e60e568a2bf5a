"""The conformance cases of the query language, and the small data sets that they ask."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[2] / "data/tql-cases.jsonl.xz"

SOURCES = ("scalars", "det", "emb", "mats", "frames", "users", "orders", "sparse")


def cases() -> list[dict[str, Any]]:
    """Return the cases, each with `q`, `kind`, `expect` and `level`."""
    text = lzma.decompress(_FILE.read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def query_of(case: dict[str, Any], place: str = "mem://tql-") -> str:
    """Return the query with the addresses of the data sets, which are in memory by default."""
    return re.sub(r"@(\w+)", lambda found: f'"{place}{found[1]}"', case["q"])
