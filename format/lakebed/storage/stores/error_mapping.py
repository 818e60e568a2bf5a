"""Conversion of a store's answers to errors of this package: one line with failure and remedy, without secrets.

The client reports a failure as a text with the status, the server's XML, and addresses that may hold signatures. Only
the status, the server's error code and the first line of its message are passed on.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Any

from lakebed.errors import (
    BucketElsewhereError,
    BucketNotFoundError,
    CredentialsRejectedError,
    KeyNotFound,
    PreconditionFailed,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageReadOnlyError,
    StorageUnavailableError,
    TruncatedReadError,
)
from lakebed.storage.secret import hidden

if TYPE_CHECKING:
    from lakebed.errors import LakebedError

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>\s*([\w.]+)\s*</Code>")
_MESSAGE = re.compile(r"<Message>\s*([^<\r\n]*)")
_OS_ERROR = re.compile(r"\bOs \{\s*code: (\d+)")
_HTTP = re.compile(r"https?://\S+")
_MOST_TEXT = 160

_NO_BUCKET = frozenset("NoSuchBucket ContainerNotFound ContainerBeingDeleted InvalidBucketName".split())
_REJECTED = frozenset(
    """
    InvalidAccessKeyId SignatureDoesNotMatch ExpiredToken InvalidToken TokenRefreshRequired RequestExpired
    ExpiredTokenException InvalidClientTokenId UnrecognizedClientException AuthFailure AuthenticationFailed
    AuthenticationRequired NoAuthenticationInformation InvalidAuthenticationInfo UserSuspended NotSignedUp
    AccessKeyDisabled InvalidSecurity MissingSecurityHeader AuthorizationHeaderMalformed
    """.split()
)
_FULL = frozenset(
    "QuotaExceeded InsufficientCapacity InsufficientStorage AccountIsFull XMinioStorageFull".split()
)
_BUSY = frozenset(
    "SlowDown ServerBusy TooManyRequests ServiceUnavailable InternalError OperationTimedOut".split()
)
_CONFLICTS = frozenset(
    "ConditionalRequestConflict OperationAborted PreconditionFailed ConditionNotMet".split()
)

_BAD, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED = 400, 401, 403, 404, 405
_CONFLICT, _PRECONDITION, _NO_SUCH_RANGE, _TOO_MANY = 409, 412, 416, 429
_FAILED, _NOT_IMPLEMENTED, _NO_SPACE = 500, 501, 507
_OVERLOADED = 500, 503, 504

# Texts in the client's errors that mean a connection that failed, or an answer that broke off.
_BROKEN_BODY = ("error decoding response body", "request or response body error")
_BROKEN = (*_BROKEN_BODY, "error sending request", "operation timed out", "connection closed", "HTTP error")


# Text in the client's error about credentials that it cannot read; a part of the credentials follows.
_NO_SENSE = "credential provider"

# Texts in the client's errors that mean that the answer is not the requested part.
_NO_PARTS = ("non-partial", "RangeNotSupported", "suffix range", "Wanted range starting at")


class NoPartError(TruncatedReadError):
    """The object has no such part, or the server returns no parts."""


class SilentError(StoragePermissionError):
    """A refusal without a reason, such as the answer to a HEAD request."""


class FailedRequest:
    """Parsed text of a failure.

    Parameters
    ----------
    error
        Exception of the client.
    """

    def __init__(self, error: BaseException) -> None:
        self._error, self._text = error, str(error)
        status = _STATUS.search(self._text)
        code, message = _CODE.search(self._text), _MESSAGE.search(self._text)
        self.status = int(status[1]) if status else 0
        self.code = code[1] if code else ""
        self.message = message[1].strip() if message else ""

    @property
    def is_broken(self) -> bool:
        """True if the answer is missing or incomplete."""
        return not self.status and any(text in self._text for text in _BROKEN)

    @property
    def has_begun(self) -> bool:
        """True if the store sent anything."""
        return bool(self.status) or any(text in self._text for text in _BROKEN_BODY)

    @property
    def is_no_part(self) -> bool:
        """True if the store lacks the requested part, or returns no parts."""
        return self.status == _NO_SUCH_RANGE or (
            not self.status and any(text in self._text for text in _NO_PARTS)
        )

    @property
    def reason(self) -> str:
        """Reason of the store in one line."""
        if self.status:
            said = " ".join(part for part in (str(self.status), self.code) if part)
            return f"the store answered {said}" + (f" ({_clean(self.message)})" if self.message else "")
        if "dns error" in self._text or "failed to lookup address" in self._text:
            return "the name of the host is not known"
        if self.is_timeout:
            return "the store did not answer in time"
        found = _OS_ERROR.search(self._text)
        if found:
            return os.strerror(int(found[1]))
        if self.is_broken:
            return "the connection failed"
        if _NO_SENSE in self._text:
            return "the client cannot read the credentials"
        return _clean(self._text.partition("\n")[0])

    @property
    def is_timeout(self) -> bool:
        """True if the client gave up waiting."""
        return "TimedOut" in self._text or "kind: Timeout" in self._text or "timed out" in self._text

    @property
    def is_refusal(self) -> bool:
        """True if the store was too busy or did not answer in time, so that it should get fewer requests."""
        return self.is_timeout or self.code in _BUSY or self.status in (_TOO_MANY, *_OVERLOADED)

    @property
    def errno(self) -> int | None:
        """Number of the operating system's error, if known."""
        found = _OS_ERROR.search(self._text)
        if found:
            return int(found[1])
        return errno.ETIMEDOUT if self.is_timeout else None

    def explained(self, doing: str, key: str, where: str, client: Any) -> LakebedError:
        """Return the error to raise.

        Parameters
        ----------
        doing
            The action: "read", "write", ...
        key, where
            Key of the object, and address of the storage without secrets.
        client
            The module that defines the client's errors.
        """
        kinds = client.exceptions
        at = f"{key!r} in {where}" if key else where
        what = f"cannot {doing} {at}: {self.reason}"
        if self.code in _NO_BUCKET:
            return BucketNotFoundError(f"{what}; create the bucket, or correct its name")
        if self.status in (_CONFLICT, _PRECONDITION) or isinstance(
            self._error, (kinds.AlreadyExistsError, kinds.PreconditionError)
        ):
            return PreconditionFailed(f"{at} changed since it was read; read it again and repeat the change")
        if isinstance(self._error, FileNotFoundError) or self.status == _NOT_FOUND:
            return KeyNotFound(f"{key!r} does not exist in {where}")
        return self._refusal(what, kinds) or self._failure(what)

    def _refusal(self, what: str, kinds: Any) -> LakebedError | None:
        is_rejected = self.code in _REJECTED or self.status == _UNAUTHORIZED
        if is_rejected or isinstance(self._error, kinds.UnauthenticatedError):
            return CredentialsRejectedError(f"{what}; check the credentials, they may be wrong or expired")
        if self.status in (_BAD, _FORBIDDEN) and not self.code:
            return SilentError(f"{what}; check the credentials and the permissions of the account")
        if self.status == _FORBIDDEN or isinstance(self._error, kinds.PermissionDeniedError):
            return StoragePermissionError(
                f"{what}; give the account this permission, or use other credentials"
            )
        if self.is_no_part:
            return NoPartError(
                f"{what}; the object is shorter, or the server does not return parts of objects"
            )
        if self.code in _FULL or self.status == _NO_SPACE:
            return StorageFullError(f"{what}; delete data, or raise the quota")
        if self.status == _NOT_ALLOWED:
            return StorageReadOnlyError(f"{what}; this server does not support the request")
        return None

    def _failure(self, what: str) -> StorageError:
        is_busy = self.status == _TOO_MANY or self.code in _BUSY
        if is_busy or (self.status >= _FAILED and self.status != _NOT_IMPLEMENTED) or self.is_broken:
            return StorageUnavailableError(
                f"{what}; check the network and the address, or try again later", errno=self.errno
            )
        if 300 <= self.status < 400 or "configured region" in self._text:
            return BucketElsewhereError(
                f"{what}; the bucket is in another region: name it, by creds={{'aws_region': ...}}"
            )
        return StorageError(what, errno=self.errno)


def _clean(text: str) -> str:
    """Return a text in one short line, without addresses, which may hold signatures."""
    line = " ".join(_HTTP.sub("(address)", hidden(text)).split())
    return line if len(line) <= _MOST_TEXT else f"{line[:_MOST_TEXT]}..."
