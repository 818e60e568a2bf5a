"""Bounds that protect a process from hostile or damaged input."""

from __future__ import annotations

# Position rows are 32-bit, so no honest chunk holds more (FORMAT.md 5.1); decompression stops here too.
MAX_CHUNK_DATA = (1 << 32) - 1
