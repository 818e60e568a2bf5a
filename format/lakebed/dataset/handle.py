"""What the facades of one dataset share."""

from __future__ import annotations

import weakref

from lakebed.dataset.farewell import close_finally, ready
from lakebed.dataset.info import Live
from lakebed.dataset.session import Session


class Handle:
    """What every facade of one dataset holds; when the last is gone, or the interpreter exits, the session closes.

    Parameters
    ----------
    path
        The address as it was given, to be shown; None shows the storage's own.

    Attributes
    ----------
    infos
        What callers hold of the infos: of the dataset under "", of tensors under their keys.
    """

    def __init__(self, session: Session, path: str | None = None) -> None:
        self.session = session
        self.path = session.storage.url if path is None else path
        self.infos: dict[str, Live] = {}
        ready()
        weakref.finalize(self, close_finally, session.close)
