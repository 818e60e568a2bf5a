"""Why a link could not be followed: what went wrong below -> the error that says what can be done about it."""

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
"""What following a link, and decoding what is there, may raise."""


def failure_kind(error: BaseException) -> type[GetDataFromLinkError]:
    """Return the class of error for a link that failed with this one.

    LinkMissingError, LinkCredentialsError, LinkForbiddenError and LinkUnavailableError ask for different things to be
    done; a file that is there but is damaged, or of no known kind, is a plain GetDataFromLinkError.
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
