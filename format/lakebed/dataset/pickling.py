"""Facades on their way to another process: an address to open again instead of open files, caches and locks."""

from __future__ import annotations

from dataclasses import dataclass

from lakebed.dataset.handle import Handle
from lakebed.dataset.session import Session
from lakebed.errors import MemoryDatasetCanNotBePickledError
from lakebed.storage.url import open_storage, parse


@dataclass(frozen=True, slots=True)
class Address:
    """Where a facade's data lies, and how it was opened."""

    url: str
    shown: str
    ref: str
    read_only: bool

    @classmethod
    def of(cls, handle: Handle) -> Address:
        """Return the address of a handle; what it has unpublished is published first.

        Raises
        ------
        MemoryDatasetCanNotBePickledError
            If the dataset lives in this process only.
        """
        session = handle.session
        url = session.storage.url
        if url.startswith("mem://"):
            raise MemoryDatasetCanNotBePickledError(
                f"{url} lives in the memory of this process, where no other can open it; copy it to a path"
            )
        session.flush()
        ref = session.branch if session.is_head else session.snapshot.version_id
        return cls(url, handle.path, ref, session.read_only)

    def open(self) -> Handle:
        """Open it."""
        return Handle(Session(open_storage(parse(self.url)), self.ref, read_only=self.read_only), self.shown)
