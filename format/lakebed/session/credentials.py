"""Named credentials of an open dataset. The dataset stores only the names, never the credentials.

Credentials passed to :meth:`LinkCredentials.populate` stay in the memory of this process. For all other names,
:mod:`lakebed.credentials.named` finds the credentials when a link needs them, here and in every worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lakebed.documents.linked_creds import FILE, LinkedCreds
from lakebed.errors import (
    DatasetCorruptError,
    FormatError,
    InvalidInputError,
    KeyNotFound,
    LimitError,
    ManagedCredentialsNotFoundError,
    MissingCredsError,
)
from lakebed.storage.credentials import Given, kept, register_named

if TYPE_CHECKING:
    from lakebed.credentials.named import NamedCredentials
    from lakebed.storage.base import Storage
    from lakebed.storage.credentials import Creds

KEY = FILE


class LinkCredentials:
    """Credentials of a dataset and all its views; the names are read from storage on first use.

    Parameters
    ----------
    storage
        Storage of the dataset.
    populated
        Credentials by name that were set in this process and do not come from a provider.
    """

    def __init__(self, storage: Storage, populated: Mapping[str, Given] | None = None) -> None:
        self._storage = storage
        self._populated: dict[str, Given] = dict(populated or {})
        self._known: LinkedCreds | None = None
        self._used: dict[str, int] = {}  # name -> code, for names that the file marks as used
        self._mutex = threading.Lock()

    def begin_in_child(self) -> None:
        """Replace the lock in a forked child: the thread that may have held the lock does not exist there."""
        self._mutex = threading.Lock()

    def __repr__(self) -> str:
        names = f"names={self._known.names!r}, " if self._known is not None else ""
        return f"LinkCredentials({names}populated={sorted(self._populated)!r})"

    @property
    def populated(self) -> dict[str, Given]:
        """Credentials by name that this process has populated; in an unpickled copy their use raises an error."""
        return dict(self._populated)

    # -- names -------------------------------------------------------------------------------------------------

    def names(self) -> LinkedCreds:
        """Read the names that the dataset now declares from storage.

        Raises
        ------
        DatasetCorruptError
            If the file is damaged.
        """
        self._known = read_names(self._storage)
        return self._known

    def _names(self) -> LinkedCreds:
        return self._known or self.names()

    @property
    def creds_keys(self) -> list[str]:
        """Declared names."""
        return self.names().names

    @property
    def managed_creds_keys(self) -> set[str]:
        """Names that a provider knows."""
        return {name for name in self.names().managed if isinstance(name, str)}

    @property
    def used_creds_keys(self) -> set[str]:
        """Names to which samples refer."""
        return {name for name in self.names().used if isinstance(name, str)}

    @property
    def missing_keys(self) -> list[str]:
        """Declared names that are neither populated nor managed."""
        names = self.names()
        return [name for name in names.names if name not in self._populated and name not in names.managed]

    # -- changing ----------------------------------------------------------------------------------------------

    def declare(self, key: str, *, managed: bool = False) -> None:
        """Add a name; raises the errors of ``Dataset.add_creds_key``."""
        LinkedCreds().declared(key)
        if managed:
            check_known(key)
        self._change(
            lambda names: names.declared(key, managed=managed),
            lambda names: key in names.keys and (not managed or key in names.managed),
        )

    def update(self, key: str, new: str | None, managed: bool | None) -> None:
        """Rename a name, or change whether it is managed; raises the errors of ``Dataset.update_creds_key``."""
        if new is None and managed is None:
            raise InvalidInputError("At least one of new_creds_key or managed must be provided.")
        final = key if new is None else new
        if managed:
            self.names().check(key)
            check_known(final)

        def edit(names: LinkedCreds) -> LinkedCreds:
            names.check(key)
            changed = names if new is None else names.renamed(key, new)
            return changed if managed is None else changed.with_management(final, managed=managed)

        def holds(names: LinkedCreds) -> bool:
            is_managed = managed is None or (final in names.managed) == managed
            return is_managed and final in names.names and (final == key or key not in names.names)

        self._change(edit, holds)
        with self._mutex:
            if final != key and key in self._populated:
                self._populated[final] = self._populated.pop(key)

    def populate(self, key: str, creds: Creds | None, *, from_environment: bool) -> None:
        """Keep credentials for a name in memory; raises the errors of ``Dataset.populate_creds``."""
        creds = kept(creds)
        if creds is not None and from_environment:
            raise InvalidInputError(
                "Only one of creds or from_environment can be provided. Both cannot be provided at the same time."
            )
        if creds is None and not from_environment:
            raise InvalidInputError(
                f"populate_creds({key!r}) needs creds, or from_environment=True to look where the cloud usually looks"
            )
        self.names().check(key)
        with self._mutex:
            self._populated[key] = Given({}) if creds is None else creds

    def _change(
        self, edit: Callable[[LinkedCreds], LinkedCreds], holds: Callable[[LinkedCreds], bool]
    ) -> LinkedCreds:
        with self._mutex:
            self._known = change_names(self._storage, edit, holds)
            self._used = {}
            return self._known

    # -- for links ---------------------------------------------------------------------------------------------

    def code(self, key: str | None) -> int:
        """Mark a name as used, and return the code by which samples refer to the name; 0 for None.

        Raises
        ------
        MissingCredsError
            If the dataset has no such name.
        """
        if key is None:
            return 0
        code = self._used.get(key)
        if code is not None:
            return code
        names = self._names()
        if key not in names.names:
            names = self.names()  # another process may have added the name
        names.check(key)
        if key not in names.used:
            # Mark the name as used before samples are published, because Deep Lake 3.x asks the user for all used
            # names.

            def used(found: LinkedCreds) -> LinkedCreds:
                found.check(key)
                return found.with_used([key])

            names = self._change(used, lambda found: key in found.used)
        code = names.codes[key]
        self._used[key] = code
        return code

    def by_code(self, code: int, url: str) -> Creds | None:
        """Return the credentials to read ``url`` for the name with a code, as :meth:`by_name` does; None for code 0.

        Raises
        ------
        FormatError
            If no name has the code.
        """
        if code == 0:
            return None
        names = self._names()
        name = (names if code <= len(names.keys) else self.names()).name_of(code)
        try:
            return self.by_name(name, url)
        except MissingCredsError:
            renamed = self.names().name_of(code)
            if renamed == name:
                raise
        return self.by_name(renamed, url)

    def by_name(self, key: str | None, url: str) -> Creds | None:
        """Return the credentials of a name to read ``url``; None for the name None, and for files on this machine.

        Raises
        ------
        MissingCredsError
            If the dataset has no such name, or no provider has credentials for it.
        LinkCredentialsError
            If the credentials are not valid for this address.
        """
        from lakebed.storage.address import scheme_of

        if key is None:
            return None
        populated = self._populated.get(key)
        if populated is not None and not populated.left_behind:
            return populated
        if key not in self._names().names:
            self.names().check(key)
        if scheme_of(url) == "file":
            return None
        source = _named(key)
        try:
            source.check(url)
        except ManagedCredentialsNotFoundError as error:
            raise MissingCredsError(self._nothing(key, error)) from None
        return source

    def _nothing(self, key: str, error: Exception) -> str:
        if key in self._populated:
            return (
                f"credentials {key!r} were populated in another process, and secrets are not passed on: store them "
                f"under this name, so that every process finds them (`lakebed creds set {key}`), or populate them here"
            )
        return f"Creds key {key} is used but not populated: call ds.populate_creds({key!r}, ...), or {error}"


def check_known(key: str) -> None:
    """Check that a provider has credentials for a name.

    Raises
    ------
    ManagedCredentialsNotFoundError
        If no provider has them.
    """
    _named(key).grant()


def _named(key: str) -> NamedCredentials:
    """Return the credentials of a name; providers are loaded on first use."""
    from lakebed.credentials.named import named

    return named(key)


register_named(_named)


# -- the file ----------------------------------------------------------------------------------------------------


def read_names(storage: Storage) -> LinkedCreds:
    """Return the names of credentials in a dataset.

    Raises
    ------
    DatasetCorruptError
        If the file is damaged.
    """
    try:
        return LinkedCreds.from_bytes(storage.get(KEY))
    except KeyNotFound:
        return LinkedCreds()
    except (FormatError, LimitError) as error:
        raise DatasetCorruptError(
            f"{KEY} of {storage.url} can not be read: {error}", dataset=storage.url
        ) from error


def change_names(
    storage: Storage, edit: Callable[[LinkedCreds], LinkedCreds], holds: Callable[[LinkedCreds], bool]
) -> LinkedCreds:
    """Edit the file of names durably; concurrent changes by other programs are kept.

    Parameters
    ----------
    holds
        Returns whether the names contain the edit already: a request may succeed although its answer is lost.

    Raises
    ------
    DatasetCorruptError
        If the file is damaged.
    CommitFailed, CommitStateUnknown
        If the file could not be replaced (CommitFailed), or if it is unknown whether it was replaced.
    """
    from lakebed.storage.shared_files import change_file

    _, names = change_file(
        storage,
        KEY,
        read=lambda: read_names(storage),
        edit=edit,
        dump=LinkedCreds.to_bytes,
        holds=holds,
        advice="look at ds.get_creds_keys() before repeating the change",
    )
    return names
