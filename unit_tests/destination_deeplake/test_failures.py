"""Failures: the right type, a message that helps, and nothing of a record in it."""

import errno
import os

import pytest

from destination_deeplake.failures import UNEXPECTED, ConfigError, FailureType, SourceProtocolError, describe
from lakebed import errors
from lakebed.errors.stores import storage_error


@pytest.mark.parametrize(
    ("error", "failure_type", "words"),
    [
        (ConfigError("set it"), FailureType.CONFIG, "set it"),
        (SourceProtocolError("line 3"), FailureType.SYSTEM, "line 3"),
        (
            PermissionError(errno.EACCES, "no", "/lake"),
            FailureType.CONFIG,
            "Cannot write /lake: permission denied",
        ),
        (OSError(errno.ENOSPC, "full", "/lake"), FailureType.CONFIG, "no space left"),
        (OSError(errno.EROFS, "ro", "/lake"), FailureType.CONFIG, "read-only"),
        (NotADirectoryError(errno.ENOTDIR, "x", "/lake"), FailureType.CONFIG, "is a file, not a folder"),
        (OSError(errno.ETIMEDOUT, "x"), FailureType.TRANSIENT, "did not answer"),
        (OSError(errno.EIO, "x"), FailureType.SYSTEM, UNEXPECTED),
        (
            errors.StorageFullError("disk is full", errno=errno.ENOSPC),
            FailureType.CONFIG,
            "Disk is full: no space",
        ),
        (
            storage_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "write", "/lake/a"),
            FailureType.CONFIG,
            "Cannot write /lake/a: no space left; free some or choose another folder.",
        ),
        (
            storage_error(OSError(errno.EACCES, os.strerror(errno.EACCES)), "write", "/lake/a"),
            FailureType.CONFIG,
            "Cannot write /lake/a: permission denied; let the user that runs the connector write there.",
        ),
        (
            errors.StoragePermissionError("may not write /lake", errno=errno.EACCES),
            FailureType.CONFIG,
            "May not write /lake: permission",
        ),
        (
            errors.StoragePermissionError("cannot write s3://lake: 403"),
            FailureType.CONFIG,
            "Cannot write s3://lake: 403. Let the account list, read, write and delete objects there",
        ),
        (
            errors.CredentialsRejectedError("cannot read s3://lake: 401"),
            FailureType.CONFIG,
            "Cannot read s3://lake: 401. Correct the fields under credentials.",
        ),
        (errors.MissingCredsError("nobody knows 'lab'"), FailureType.CONFIG, "Choose another method"),
        (
            errors.ManagedCredentialsNotFoundError("no 'lab'"),
            FailureType.CONFIG,
            "Keep credentials under this name",
        ),
        (errors.BucketElsewhereError("301"), FailureType.CONFIG, "Set region."),
        (errors.BucketNotFoundError("404"), FailureType.CONFIG, "Correct destination_path."),
        (errors.StorageFullError("507"), FailureType.CONFIG, "507"),
        (errors.StorageUnavailableError("503", errno=errno.ECONNREFUSED), FailureType.TRANSIENT, "503"),
        (
            errors.LockedException("branch 'main' is held by 12; wait, or open it with read_only=True"),
            FailureType.TRANSIENT,
            "Branch 'main' is held by 12. Wait until the other writer ends, then run the sync again",
        ),
        (errors.CommitFailed("lost the race"), FailureType.TRANSIENT, "lost the race"),
        (errors.FormatError("bad header"), FailureType.SYSTEM, "bad header"),
        (MemoryError(), FailureType.TRANSIENT, "Out of memory"),
        (ValueError("x"), FailureType.SYSTEM, UNEXPECTED),
        (
            ImportError("pyarrow 26 needs NumPy 2"),
            FailureType.SYSTEM,
            "The installation is not complete: pyarrow 26 needs NumPy 2",
        ),
    ],
)
def test_failures_have_the_type_that_makes_the_platform_do_the_right_thing(
    error: Exception, failure_type: FailureType, words: str
) -> None:
    failure = describe(error)
    assert failure.failure_type is failure_type
    assert words in failure.message


def test_texts_of_unexpected_exceptions_stay_out_because_they_may_quote_a_record() -> None:
    def fail() -> None:
        try:
            int("secret-value")
        except ValueError as error:
            raise RuntimeError("secret-value again") from error

    with pytest.raises(RuntimeError) as caught:
        fail()
    trace = describe(caught.value).trace()
    assert "secret-value" not in str(trace).replace('int("secret-value")', "").replace(
        '"secret-value again"', ""
    )
    assert "ValueError" in trace["trace"]["error"]["stack_trace"]
    assert "in fail" in trace["trace"]["error"]["stack_trace"]


def test_exceptions_that_cause_each_other_come_to_an_end() -> None:
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert describe(first).stack_trace.split() == ["KeyError", "ValueError"]


def test_a_trace_has_the_fields_of_the_protocol() -> None:
    message = describe(ValueError("set it")).trace()
    assert message["type"] == "TRACE"
    assert message["trace"]["type"] == "ERROR"
    assert message["trace"]["emitted_at"] > 1e12
    assert set(message["trace"]["error"]) == {"message", "internal_message", "stack_trace", "failure_type"}


@pytest.mark.parametrize("error", [ConfigError("set it"), errors.LockedException("held by 12")])
def test_what_is_no_defect_of_ours_has_no_stack_trace(error: Exception) -> None:
    assert set(describe(error).trace()["trace"]["error"]) == {"message", "internal_message", "failure_type"}
