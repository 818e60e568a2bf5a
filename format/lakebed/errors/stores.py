"""Disks, object stores, web servers and what links lead to."""

from __future__ import annotations

from copy import copy as _copied
from typing import Any

from lakebed.errors.inputs import SampleReadError
from lakebed.errors.root import LakebedError, NotFoundError


class StorageError(LakebedError, OSError):
    """The store could not do what it was asked for.

    Parameters
    ----------
    message
        What happened, where, what to do.
    errno
        Number of the operating system's error, if there was one.

    Attributes
    ----------
    dataset, tensor, row
        Which sample was being read, where one was.
    """

    dataset: str | None = None
    tensor: str | None = None
    row: int | None = None

    def __init__(self, message: str = "", *, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno

    def located(self, dataset: str, tensor: str, row: int) -> StorageError:
        """Return the error with the sample that was being read when it came."""
        found = _copied(self)
        found.args = (f"tensor {tensor!r}, row {row}: {self.message}",)
        found.dataset, found.tensor, found.row = dataset, tensor, row
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message,), {**self.__dict__, "errno": self.errno}


class StorageFullError(StorageError):
    """There is no space left, or a quota is used up."""


class StoragePermissionError(StorageError, PermissionError):
    """The operating system or the store refuses access."""


class CredentialsRejectedError(StoragePermissionError):
    """The store does not accept the credentials: they are unknown, wrong, expired, or there are none."""


class StorageUnavailableError(StorageError, ConnectionError):
    """The store did not answer in time, or asked to slow down, until the deadline for retries."""


class BucketNotFoundError(StorageError, NotFoundError, FileNotFoundError):
    """There is no such bucket or container."""


class BucketElsewhereError(StorageError):
    """The bucket is in another region than the one that was asked."""


class StorageReadOnlyError(StorageError):
    """The file system is mounted read-only, or the store is one that can only be read."""


class UnsafePathError(StorageError, PermissionError):
    """A link would lead out of the dataset's folder, or to an address that the policy does not allow."""


class TruncatedReadError(StorageError, EOFError):
    """The object ends before the range that was asked for."""


class UnableToReadFromUrlError(StorageError):
    """A web server did not deliver.

    Parameters
    ----------
    message
        What happened, where, what to do.
    status
        HTTP status, if there was an answer.
    """

    def __init__(self, message: str = "", *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class GetDataFromLinkError(StorageError, SampleReadError):
    """A link in a dataset cannot be followed, or leads to something else than it should; the cause says why.

    Parameters
    ----------
    message
        What happened, where, what to do.
    url
        Where the link leads.
    dataset, tensor, row
        Where the link is, as far as known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        url: str | None = None,
        dataset: str | None = None,
        tensor: str | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(message)
        self.url = url
        self.dataset = dataset
        self.tensor = tensor
        self.row = row


class LinkMissingError(GetDataFromLinkError, FileNotFoundError):
    """Nothing is where the link leads."""


class LinkCredentialsError(GetDataFromLinkError, PermissionError):
    """The link needs credentials that are missing, wrong or expired, or do not suffice."""


class LinkForbiddenError(GetDataFromLinkError, PermissionError):
    """The policy for links does not allow to go where the link leads."""


class LinkUnavailableError(GetDataFromLinkError, ConnectionError):
    """The server behind the link did not answer as it should, or the network failed."""
