"""Errors of disks, object stores, web servers and links."""

from __future__ import annotations

import errno
from copy import copy as _copied
from typing import Any

from lakebed.errors.inputs import SampleReadError
from lakebed.errors.root import LakebedError, NotFoundError


class StorageError(LakebedError, OSError):
    """The store failed.

    Parameters
    ----------
    message
        Failure, place, and remedy.
    errno
        Number of the operating system's error, if any.

    Attributes
    ----------
    dataset, tensor, row
        Sample that was being read, if any.
    """

    dataset: str | None = None
    tensor: str | None = None
    row: int | None = None

    def __init__(self, message: str = "", *, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno

    def located(self, dataset: str, tensor: str, row: int) -> StorageError:
        """Return the error with the sample that was being read."""
        found = _copied(self)
        found.args = (f"tensor {tensor!r}, row {row}: {self.message}",)
        found.dataset, found.tensor, found.row = dataset, tensor, row
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message,), {**self.__dict__, "errno": self.errno}


class StorageFullError(StorageError):
    """The disk or a quota is full."""


class StoragePermissionError(StorageError, PermissionError):
    """The operating system or the store refuses access."""


class CredentialsRejectedError(StoragePermissionError):
    """The store rejects the credentials: they are unknown, wrong, expired or missing."""


class StorageUnavailableError(StorageError, ConnectionError):
    """The store did not answer in time, or asked to slow down, until the deadline for retries."""


class BucketNotFoundError(StorageError, NotFoundError, FileNotFoundError):
    """The bucket or container does not exist."""


class BucketElsewhereError(StorageError):
    """The bucket is in another region."""


class StorageReadOnlyError(StorageError):
    """The file system or the store is read-only."""


class UnsafePathError(StorageError, PermissionError):
    """A link would lead out of the dataset's folder, or to an address that the policy does not allow."""


class TruncatedReadError(StorageError, EOFError):
    """The object ends before the requested range."""


class UnableToReadFromUrlError(StorageError):
    """A web server did not send a file.

    Parameters
    ----------
    message
        Text with the failure, its place, and the remedy.
    status
        HTTP status, if the server answered.
    """

    def __init__(self, message: str = "", *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class GetDataFromLinkError(StorageError, SampleReadError):
    """A link in a dataset cannot be followed, or leads to an unsuitable file; the cause tells the reason.

    Parameters
    ----------
    message
        Text with the failure, its place, and the remedy.
    url
        Target of the link.
    dataset, tensor, row
        Place of the link, as far as known.
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
    """The target of the link does not exist."""


class LinkCredentialsError(GetDataFromLinkError, PermissionError):
    """The link needs credentials that are missing, wrong, expired or insufficient."""


class LinkForbiddenError(GetDataFromLinkError, PermissionError):
    """The policy for links forbids the target of the link."""


class LinkUnavailableError(GetDataFromLinkError, ConnectionError):
    """The server behind the link did not answer as it should, or the network failed."""


OUT_OF_FILES = frozenset((errno.EMFILE, errno.ENFILE))
# ext4 and XFS report EBADMSG and EUCLEAN if their own tables are damaged; only Linux has EUCLEAN.
_FAILING = (errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO))
_KINDS: dict[int | None, tuple[type[StorageError], str]] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), (StorageFullError, "free some space and try again")),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM), (StoragePermissionError, "ask for access, or use another place")
    ),
    **dict.fromkeys(OUT_OF_FILES, (StorageError, "close files or raise the limit (ulimit -n)")),
    **dict.fromkeys(_FAILING, (StorageError, "the disk or its connection fails: check it (dmesg)")),
    errno.ENOTDIR: (StorageError, "a folder of this path is a file: choose another path"),
    errno.EROFS: (StorageReadOnlyError, "open for reading, or mount it writable"),
    errno.ELOOP: (UnsafePathError, "replace the symbolic link by the file it points to"),
    errno.ENAMETOOLONG: (StorageError, "use shorter names"),
    errno.ENOLCK: (
        StorageError,
        "this file system has no locks: mount it with them (NFS: lockd), or write to a local disk",
    ),
}


def storage_error(error: OSError, doing: str, path: str) -> LakebedError:
    """Return the error of the tree for an error of the operating system; return errors of the tree unchanged."""
    if isinstance(error, LakebedError):
        return error
    kind, advice = _KINDS.get(error.errno, (StorageError, "check the disk"))
    return kind(f"cannot {doing} {path}: {error.strerror or error}; {advice}", errno=error.errno)
