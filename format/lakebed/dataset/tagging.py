"""Tags, as one open dataset sees and makes them."""

from __future__ import annotations

from lakebed.dataset.session import Session
from lakebed.versions.refs import Tag


def tags(session: Session) -> dict[str, Tag]:
    """Return all tags by name."""
    raise NotImplementedError


def create_tag(session: Session, name: str, commit: str | None, message: str | None) -> Tag:
    """Give a commit a name."""
    raise NotImplementedError


def delete_tag(session: Session, name: str) -> None:
    """Remove a tag."""
    raise NotImplementedError
