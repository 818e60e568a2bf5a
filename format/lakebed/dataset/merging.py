"""Merge another line of history into the open one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from lakebed.dataset.session import Session

Resolution = Literal["ours", "theirs"] | Callable[[str, Any, Any], Any] | None


def merge(
    session: Session, target: str, resolution: Resolution, *, delete_removed_tensors: bool, force: bool
) -> None:
    """Merge; see ``Dataset.merge``."""
    raise NotImplementedError
