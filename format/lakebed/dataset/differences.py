"""What changed between versions, as a dictionary or in print."""

from __future__ import annotations

from typing import Any

from lakebed.dataset.session import Session


def diff(session: Session, id_1: str | None, id_2: str | None, *, as_dict: bool) -> dict[str, Any] | None:
    """Print or return what changed; see ``Dataset.diff``."""
    raise NotImplementedError
