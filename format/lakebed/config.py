"""Defaults that a user may change before opening a dataset."""

from __future__ import annotations

import getpass
import os

# Bound of the cache of whole chunks per open dataset, in bytes.
CACHE_BYTES = 256 * 1024 * 1024

# A bare append is published at the latest when this much time lies between it and the next one, in seconds.
MAX_UNPUBLISHED_SECONDS = 30.0


def author() -> str:
    """Return the name that commits carry: LAKEBED_AUTHOR, or the operating system's user."""
    name = os.environ.get("LAKEBED_AUTHOR")
    if name:
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "public"
