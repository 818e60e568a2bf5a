"""Named credentials: a dataset stores only their names; secrets stay outside of the dataset."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from lakebed.dataset.base import DatasetBase
from lakebed.errors import InvalidInputError, ReadOnlyModeError
from lakebed.session.credentials import LinkCredentials
from lakebed.storage.base import innermost, is_bucket
from lakebed.storage.credentials import kept

if TYPE_CHECKING:
    from lakebed.storage.credentials import Creds


class CredsMethods(DatasetBase):
    """Names of credentials for links, and their values in this process."""

    @property
    def link_creds(self) -> LinkCredentials:
        """Names of credentials in the dataset, and credentials that were populated in this process."""
        return self._handle.session.credentials

    def _changeable_creds(self) -> LinkCredentials:
        session = self._handle.session
        if session.read_only:
            raise ReadOnlyModeError(
                f"{session.storage.url} was opened read-only; names of credentials can not be changed, but "
                "populate_creds works"
            )
        return session.credentials

    def add_creds_key(self, creds_key: str, managed: bool = False) -> None:
        """Declare a name of credentials, which links can use: ``lakebed.link(url, creds_key=...)``.

        The dataset stores only the name, at once and for all versions. Several processes may add names at the same
        time.

        Parameters
        ----------
        creds_key
            The name.
        managed
            True if a provider has the credentials: ``lakebed creds set NAME`` stores them, see the page on credentials.
            Programs that read the dataset then need no ``populate_creds``.

        Raises
        ------
        ValueError
            If the name exists already, or is not a text.
        ManagedCredentialsNotFoundError
            If the name is managed, and no provider knows it.
        ReadOnlyModeError
            If the dataset was opened read-only.
        """
        self._changeable_creds().declare(creds_key, managed=managed)

    def populate_creds(
        self, creds_key: str, creds: Creds | None = None, from_environment: bool = False
    ) -> None:
        """Set the credentials of a name for this dataset in this process; secrets are neither stored nor pickled.

        Parameters
        ----------
        creds_key
            Name of the credentials.
        creds
            Credentials by the keys of Deep Lake 3.x (``aws_access_key_id``, ...), or ``{"headers": {...}}`` for web
            servers.
        from_environment
            Use the sources of the cloud's own tools: environment, profile, role of the machine.

        Raises
        ------
        MissingCredsError
            If the dataset has no such name.
        ValueError
            If both or neither of ``creds`` and ``from_environment`` are given.
        """
        creds = kept(creds)
        self._handle.session.credentials.populate(creds_key, creds, from_environment=from_environment)

    def update_creds_key(
        self, creds_key: str, new_creds_key: str | None = None, managed: bool | None = None
    ) -> None:
        """Rename a name for all links that use it, or change whether it is managed.

        Parameters
        ----------
        creds_key
            Name of the credentials.
        new_creds_key
            New name; None keeps it.
        managed
            True if a provider has the credentials; None keeps the setting.

        Raises
        ------
        KeyError
            If the name does not exist.
        ValueError
            If no change is given.
        ManagedCredentialsNotFoundError
            If the name becomes managed, and no provider knows it.
        ReadOnlyModeError
            If the dataset was opened read-only.
        """
        self._changeable_creds().update(creds_key, new_creds_key, managed)

    def get_creds_keys(self) -> set[str]:
        """Return the names of credentials that the dataset declares."""
        return set(self._handle.session.credentials.creds_keys)

    def get_managed_creds_keys(self) -> list[str]:
        """Return the managed names in the order in which they became managed."""
        return [name for name in self._handle.session.credentials.names().managed if isinstance(name, str)]

    def connect(
        self,
        creds_key: str | None = None,
        dest_path: str | None = None,
        org_id: str | None = None,
        ds_name: str | None = None,
        token: str | None = None,
    ) -> None:
        """Use named credentials for the dataset's own storage from now on.

        In Deep Lake 3.x, this method told the vendor's service which of its credentials open the dataset. Here a
        provider finds the credentials by name, in this process and in processes to which the dataset is pickled;
        nothing is stored.

        Parameters
        ----------
        creds_key
            Name that a provider knows.
        dest_path, org_id, ds_name, token
            Arguments for the vendor's service, which is not needed here: ``dest_path`` raises an error, and the other
            arguments cause a warning.

        Raises
        ------
        ValueError
            If no name is given, ``dest_path`` is given, or the dataset needs no credentials.
        ManagedCredentialsNotFoundError
            If no provider knows the name.
        """
        from lakebed.documents.linked_creds import check_name

        if dest_path is not None:
            raise InvalidInputError(
                "there is no managed service to connect a dataset to, and none is needed: open it by its path"
            )
        if creds_key is None:
            raise InvalidInputError(
                "The creds_key argument must be provided: the name of credentials to open with"
            )
        if org_id is not None or ds_name is not None:
            warnings.warn(
                "there is no managed service that lists datasets, and none is needed: org_id and ds_name have no "
                "meaning here; the dataset is opened by its path",
                stacklevel=2,
            )
        storage = innermost(self._handle.session.storage)
        if not is_bucket(storage):
            raise InvalidInputError(
                f"{storage.url} is opened without credentials; there is nothing to connect"
            )
        from lakebed.credentials.named import named

        source = named(check_name(creds_key))
        source.grant()
        storage.use(source)
