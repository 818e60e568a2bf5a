"""What went wrong with a link, by what can be done about it."""

from __future__ import annotations

import pytest

from lakebed.errors import (
    BucketNotFoundError,
    CredentialsRejectedError,
    FormatError,
    GetDataFromLinkError,
    KeyNotFound,
    LimitError,
    LinkCredentialsError,
    LinkForbiddenError,
    LinkMissingError,
    LinkUnavailableError,
    ManagedCredentialsNotFoundError,
    MissingCredsError,
    ModuleNotInstalledException,
    SampleReadError,
    StoragePermissionError,
    StorageUnavailableError,
    UnableToReadFromUrlError,
    UnsafePathError,
)
from lakebed.links.failures import CAUGHT, failure_kind

CASES = [
    (FileNotFoundError(), LinkMissingError),
    (KeyNotFound(), LinkMissingError),
    (BucketNotFoundError(), LinkMissingError),
    (UnableToReadFromUrlError(status=404), LinkMissingError),
    (PermissionError(), LinkCredentialsError),
    (StoragePermissionError(), LinkCredentialsError),
    (CredentialsRejectedError(), LinkCredentialsError),
    (MissingCredsError(), LinkCredentialsError),
    (ManagedCredentialsNotFoundError(), LinkCredentialsError),
    (LinkCredentialsError(), LinkCredentialsError),
    (UnableToReadFromUrlError(status=401), LinkCredentialsError),
    (UnsafePathError(), LinkForbiddenError),
    (StorageUnavailableError(), LinkUnavailableError),
    (UnableToReadFromUrlError(), LinkUnavailableError),
    (UnableToReadFromUrlError(status=503), LinkUnavailableError),
    (TimeoutError(), LinkUnavailableError),
    (FormatError(), GetDataFromLinkError),
    (LimitError(), GetDataFromLinkError),
    (ModuleNotInstalledException(), GetDataFromLinkError),
]


@pytest.mark.parametrize(("error", "kind"), CASES, ids=lambda value: getattr(value, "__name__", repr(value)))
def test_kinds(error: Exception, kind: type[Exception]) -> None:
    """Whatever it is wrapped in."""
    assert failure_kind(error) is kind
    wrapped = SampleReadError("cannot read")
    wrapped.__cause__ = error
    assert failure_kind(wrapped) is kind
    assert isinstance(error, CAUGHT)
