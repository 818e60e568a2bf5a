"""Trace messages for exceptions.

`failure_type` decides what the platform does: `config_error` asks the user to act and is not retried,
`transient_error` is retried, `system_error` is a defect of the connector.

    config_error      wrong configuration or catalog, a folder or bucket that cannot be used (missing rights, wrong
                      credentials or region, read-only, no folder or bucket, foreign dataset), a full disk: a retry
                      would find it as full as before, and every retry delivers rows again
    transient_error   another writer holds the dataset, a lost race, a device or network that did not answer,
                      a source that stopped before it was done
    system_error      everything else, including input that violates the protocol

The trace messages have the fields of `AirbyteTracedException` of the CDK, so a platform sees no difference between the
two entry points (`run` and `destination`). The text of an unexpected exception is left out, because it may quote a
record. Its type and the lines of code are sent only for a system_error: the other failures are explained in words.
"""

import errno
import os
import time
from enum import StrEnum
from typing import NamedTuple

from destination_deeplake.messages import Message, shown


class FailureType(StrEnum):
    """`failure_type` of the protocol."""

    CONFIG = "config_error"
    TRANSIENT = "transient_error"
    SYSTEM = "system_error"


class ConnectorError(Exception):
    """An expected failure; its text says what happened, where, what to do, and quotes no record."""

    failure_type = FailureType.SYSTEM


class ConfigError(ConnectorError):
    """A failure that ends only if the user changes the configuration, the catalog or the place of the datasets."""

    failure_type = FailureType.CONFIG


class IncompleteSourceError(ConnectorError):
    """A source that stopped before it had completed a stream."""

    failure_type = FailureType.TRANSIENT


class SourceProtocolError(ConnectorError):
    """A line of the input that is not an Airbyte message."""


class Failure(NamedTuple):
    """Content of a trace message for one exception; the stack trace is empty if it would not help."""

    failure_type: FailureType
    message: str
    internal_message: str
    stack_trace: str = ""

    def trace(self) -> Message:
        """Return the TRACE message."""
        error = {
            "message": shown(self.message),
            "internal_message": shown(self.internal_message),
            "failure_type": self.failure_type.value,
        }
        if self.stack_trace:
            error["stack_trace"] = shown(self.stack_trace)
        now = float(time.time_ns() // 1_000_000)
        return {"type": "TRACE", "trace": {"type": "ERROR", "emitted_at": now, "error": error}}


UNEXPECTED = "Something went wrong in the connector. See the logs for more details."

_CONFIG_ERRNO = {
    errno.EACCES: "permission denied; let the user that runs the connector write there",
    errno.EPERM: "permission denied; let the user that runs the connector write there",
    errno.EROFS: "the file system is read-only; mount it writable or choose another folder",
    errno.ENOSPC: "no space left; free some or choose another folder",
    errno.EDQUOT: "the disk quota is used up; raise it or choose another folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder; choose another folder",
    errno.EISDIR: "a folder is in the place of a file; choose another folder",
    errno.ENAMETOOLONG: "the path is too long for the file system; choose a shorter folder",
    errno.ELOOP: "the path runs through a loop of symbolic links; choose another folder",
}

_TRANSIENT_ERRNO = frozenset(
    (errno.EAGAIN, errno.EBUSY, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT)
)

_OF_LAKEBED = {
    "CredentialsRejectedError": (FailureType.CONFIG, "Correct the fields under credentials."),
    "StoragePermissionError": (
        FailureType.CONFIG,
        "Let the account list, read, write and delete objects there, or change the fields under credentials.",
    ),
    "MissingCredsError": (FailureType.CONFIG, "Choose another method under credentials."),
    "ManagedCredentialsNotFoundError": (
        FailureType.CONFIG,
        "Keep credentials under this name where the connector runs, or choose another method under credentials.",
    ),
    "BucketElsewhereError": (FailureType.CONFIG, "Set region."),
    "BucketNotFoundError": (FailureType.CONFIG, "Correct destination_path."),
    "StorageFullError": (FailureType.CONFIG, ""),
    "StorageReadOnlyError": (FailureType.CONFIG, "Correct destination_path."),
    "StorageUnavailableError": (FailureType.TRANSIENT, ""),
    "LockedException": (
        FailureType.TRANSIENT,
        "Wait until the other writer ends, then run the sync again; the lock of a killed writer expires after a while.",
    ),
    "ConflictError": (FailureType.TRANSIENT, ""),
}
"""Names of lakebed's errors, special ones first -> type, and advice.

The keys are names, not classes, so that describing a failure does not import the library."""


def describe(error: BaseException) -> Failure:
    """Return the failure type and the texts for any exception."""
    failure_type, message, internal = _classified(error)
    is_ours = failure_type is FailureType.SYSTEM
    return Failure(failure_type, message, internal, _stack(error) if is_ours else "")


def _classified(error: BaseException) -> tuple[FailureType, str, str]:
    kind = type(error).__name__
    if isinstance(error, ConnectorError):
        return error.failure_type, str(error), str(error)
    if isinstance(error, OSError):
        if (advice := storage_advice(error)) is not None:
            return FailureType.CONFIG, advice, f"{kind}: {error}"
        if error.errno in _TRANSIENT_ERRNO:
            return (
                FailureType.TRANSIENT,
                f"The storage did not answer as it should: {error}",
                f"{kind}: {error}",
            )
    if _is_lakebed(error):
        names = {base.__name__ for base in type(error).__mro__}
        found = (_OF_LAKEBED[name] for name in _OF_LAKEBED if name in names)
        failure_type, advice = next(found, (FailureType.SYSTEM, ""))
        said = without_advice(error) if "LockedException" in names else str(error)
        text = f"{_sentence(said)} {advice}" if advice else said
        return failure_type, text, f"{kind}: {error}"
    if isinstance(error, MemoryError):
        return FailureType.TRANSIENT, "Out of memory; give the connector more.", kind
    if isinstance(error, ImportError):  # names packages, and no record
        return FailureType.SYSTEM, f"The installation is not complete: {error}", f"{kind}: {error}"
    return FailureType.SYSTEM, UNEXPECTED, kind


def storage_advice(error: OSError) -> str | None:
    """Return the advice for an error that the user can fix; else None."""
    code = error.errno
    if code is None and isinstance(error, PermissionError) and not _is_lakebed(error):
        code = errno.EACCES
    if code not in _CONFIG_ERRNO:
        return None
    what = f"cannot write {error.filename or 'there'}"
    if _is_lakebed(error):
        # The advice in this error is for programmers; remove it, because advice for users follows.
        what = without_advice(error).removesuffix(f": {os.strerror(code)}")
    return f"{what[0].upper()}{what[1:]}: {_CONFIG_ERRNO[code]}."


def without_advice(error: BaseException) -> str:
    """Return the text of lakebed's error without its advice, which is for Python programs."""
    text = str(error)
    return text.rpartition("; ")[0] or text


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _is_lakebed(error: BaseException) -> bool:
    """Tell whether lakebed raised the error, without importing lakebed."""
    return any(base.__module__.startswith("lakebed.") for base in type(error).__mro__)


def _stack(error: BaseException) -> str:
    """Return the traceback with types and code lines, without the texts of unexpected exceptions."""
    import traceback  # most syncs have none

    chain: list[str] = []
    told: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in told:  # chains of exceptions can be circular
        told.add(id(link))
        text = f": {link}" if isinstance(link, ConnectorError | OSError) else ""
        chain.append("".join(traceback.format_tb(link.__traceback__)) + type(link).__name__ + text)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return "\n\n".join(reversed(chain)) + "\n"
