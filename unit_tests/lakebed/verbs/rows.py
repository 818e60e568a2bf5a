"""Rows that verbs are asked of, as plain Python has them."""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS: list[dict[str, Any]] = [
    {
        "name": None if i == 5 else f"n{i}",
        "age": None if i in (4, 11) else i * 7 % 10,
        "score": None if i == 2 else i / 4,
        "kind": None if i == 7 else ("cat", "dog", "emu")[i * 5 % 3],
        "vec": np.array([i, 1, -i], np.float32),
    }
    for i in range(20)
]
