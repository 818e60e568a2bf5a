"""Facades on their way to another process: an address to open again instead of open files, caches and locks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.errors import MemoryDatasetCanNotBePickledError
from lakebed.session.credentials import LinkCredentials
from lakebed.session.handle import Handle
from lakebed.session.session import Session
from lakebed.storage.objects import ObjectStorage
from lakebed.storage.reader_locks import innermost
from lakebed.storage.url import open_storage, parse

if TYPE_CHECKING:
    from lakebed.storage.base import Storage
    from lakebed.storage.credentials import Given


@dataclass(frozen=True, slots=True)
class Address:
    """Where a facade's data lies, and how it was opened.

    Parameters
    ----------
    remote
        The storage, if it is that of an object store: of its credentials the secrets stay here.
    populated
        Credentials of links that were populated; the same goes for them.
    link_roots, link_hosts
        Where this process allows links to lead.
    """

    url: str
    shown: str
    ref: str
    read_only: bool
    remote: Storage | None = None
    populated: dict[str, Given] = field(default_factory=dict)
    link_roots: tuple[str, ...] = ()
    link_hosts: tuple[str, ...] = ()

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
        remote = session.storage if isinstance(innermost(session.storage), ObjectStorage) else None
        return cls(
            url,
            handle.path,
            ref,
            session.read_only,
            remote,
            session.credentials.populated,
            config.LINK_ROOTS,
            config.LINK_HOSTS,
        )

    def open(self) -> Handle:
        """Open it."""
        config.LINK_ROOTS = _joined(config.LINK_ROOTS, self.link_roots)
        config.LINK_HOSTS = _joined(config.LINK_HOSTS, self.link_hosts)
        storage = open_storage(parse(self.url)) if self.remote is None else self.remote
        session = Session(storage, self.ref, read_only=self.read_only)
        session.credentials = LinkCredentials(storage, self.populated)
        return Handle(session, self.shown)


def _joined(here: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return (*here, *(entry for entry in more if entry not in here))
