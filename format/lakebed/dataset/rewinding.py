"""Go back: drop what is uncommitted, or the history below one commit."""

from __future__ import annotations

from lakebed.dataset.session import Session


def reset(session: Session, *, force: bool) -> None:
    """Drop everything since the last commit; see ``Dataset.reset``."""
    raise NotImplementedError


def squash(session: Session, message: str) -> str:
    """Replace the history by one commit; see ``Dataset.squash``."""
    raise NotImplementedError
