"""Errors for links that cannot be followed, by their causes."""

from __future__ import annotations

from lakebed.errors import (
    BucketNotFoundError,
    CredentialsRejectedError,
    GetDataFromLinkError,
    KeyNotFound,
    LakebedError,
    LinkCredentialsError,
    LinkForbiddenError,
    LinkMissingError,
    LinkUnavailableError,
    ManagedCredentialsNotFoundError,
    MissingCredsError,
    StorageUnavailableError,
    UnableToReadFromUrlError,
    UnsafePathError,
)

_KINDS: tuple[tuple[tuple[type[Exception], ...], type[GetDataFromLinkError]], ...] = (
    ((UnsafePathError,), LinkForbiddenError),
    ((MissingCredsError, ManagedCredentialsNotFoundError, CredentialsRejectedError), LinkCredentialsError),
    ((KeyNotFound, BucketNotFoundError, FileNotFoundError, NotADirectoryError), LinkMissingError),
    ((PermissionError,), LinkCredentialsError),
    ((StorageUnavailableError, ConnectionError, TimeoutError), LinkUnavailableError),
)
_STATUSES = {
    401: LinkCredentialsError,
    403: LinkCredentialsError,
    407: LinkCredentialsError,
    404: LinkMissingError,
    410: LinkMissingError,
}

CAUGHT = (LakebedError, OSError, LookupError, ValueError)
"""Exceptions of following a link and decoding its file."""


def failure_kind(error: BaseException) -> type[GetDataFromLinkError]:
    """Return the class of error for a link that failed with an exception.

    LinkMissingError, LinkCredentialsError, LinkForbiddenError and LinkUnavailableError have different remedies; a file
    that is damaged or of an unknown kind is a plain GetDataFromLinkError.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, GetDataFromLinkError):
            return type(cause)
        if isinstance(cause, UnableToReadFromUrlError):
            return _STATUSES.get(cause.status or 0, LinkUnavailableError)
        for kinds, found in _KINDS:
            if isinstance(cause, kinds):
                return found
        cause = cause.__cause__
    return GetDataFromLinkError
