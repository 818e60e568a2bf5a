"""Makers of small sources, and the import that most tests of importers do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import lakebed


def imported(format: str, src: Any, **options: Any) -> Any:  # noqa: A002 - the user's word
    """Import a source into memory, in this thread unless the options say otherwise; return the report."""
    return lakebed.import_from(format, src, "mem://", **{"workers": 0, "progressbar": False, **options})


def picture(at: int, kind: str = "JPEG") -> bytes:
    """Return a small picture as a file; pictures of other numbers have other pixels, and another height."""
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(at).integers(0, 255, (5 + at % 2, 6, 3), np.uint8)).save(file, kind)
    return file.getvalue()


def photo(path: Path, number: int = 0) -> None:
    """Write a small picture of one color, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((20 + number, 30, 3), 40 * number, np.uint8)).save(path)
