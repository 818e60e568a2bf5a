"""Pickling of open datasets: a pickle holds an address, which the other process opens; no files, caches or locks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.errors import MemoryDatasetCanNotBePickledError
from lakebed.session.credentials import LinkCredentials
from lakebed.session.session import Session
from lakebed.storage.base import traits_of
from lakebed.storage.url import open_storage, parse

if TYPE_CHECKING:
    from lakebed.storage.base import Storage
    from lakebed.storage.credentials import Given


@dataclass(frozen=True, slots=True)
class Place:
    """Storage of a dataset, and the credentials of its links.

    Parameters
    ----------
    remote
        The storage, if it is remote; secrets of its credentials are not pickled.
    populated
        Populated credentials of links; their secrets are not pickled, either.
    link_roots, link_hosts
        Folders and hosts to which this process allows links.
    """

    url: str
    remote: Storage | None = None
    populated: dict[str, Given] = field(default_factory=dict)
    link_roots: tuple[str, ...] = ()
    link_hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, storage: Storage, credentials: LinkCredentials) -> Place:
        """Return the storage of a dataset in a form that can be pickled.

        Raises
        ------
        MemoryDatasetCanNotBePickledError
            If the dataset lives in this process only.
        """
        if storage.url.startswith("mem://"):
            raise MemoryDatasetCanNotBePickledError(
                f"{storage.url} is in the memory of this process, where no other process can open it; copy it to a path"
            )
        remote = None if traits_of(storage).local else storage
        return cls(storage.url, remote, credentials.populated, config.LINK_ROOTS, config.LINK_HOSTS)

    def open(self) -> tuple[Storage, LinkCredentials]:
        """Open the storage in this process, with the same rules for links as in the process that pickled it."""
        config.LINK_ROOTS = _joined(config.LINK_ROOTS, self.link_roots)
        config.LINK_HOSTS = _joined(config.LINK_HOSTS, self.link_hosts)
        storage = open_storage(parse(self.url)) if self.remote is None else self.remote
        return storage, LinkCredentials(storage, self.populated)


def _joined(here: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return (*here, *(entry for entry in more if entry not in here))


@dataclass(frozen=True, slots=True)
class Address:
    """Version of an open dataset, and how it was opened.

    Parameters
    ----------
    version
        Id of the version.
    branch
        Branch of the version.
    is_head
        True for the head of the branch.
    """

    place: Place
    version: str
    branch: str
    is_head: bool
    read_only: bool

    @classmethod
    def of(cls, session: Session) -> Address:
        """Publish the changes of an open dataset, and return its address.

        Raises
        ------
        MemoryDatasetCanNotBePickledError
            If the dataset lives in this process only.
        """
        place = Place.of(session.storage, session.credentials)
        with session.mutex:
            session.flush()
            return cls(place, session.snapshot.version_id, session.branch, session.is_head, session.read_only)

    def open(self) -> Session:
        """Open the dataset as it was opened: at the tip of the same branch, or at the same commit."""
        storage, credentials = self.place.open()
        ref = self.branch if self.is_head else self.version
        return Session(storage, ref, read_only=self.read_only, credentials=credentials)

    def open_version(self) -> Session:
        """Open exactly the version that was open, for reading.

        Raises
        ------
        VersionReplaced
            If another head has replaced it, and its files were removed.
        """
        storage, credentials = self.place.open()
        head_of = self.branch if self.is_head else None
        return Session(storage, self.version, read_only=True, head_of=head_of, credentials=credentials)
