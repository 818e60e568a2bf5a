"""Importers and exporters: sources that hold nothing, or not what they should; places that results cannot go to."""

from __future__ import annotations

from lakebed.errors.inputs import InvalidInputError
from lakebed.errors.root import AlreadyExistsError, LakebedError


class IngestionError(LakebedError, ValueError):
    """What is to be imported is not there, or not what it was said to be."""


class ExportError(LakebedError, ValueError):
    """A dataset cannot be written in a format: the tensors for it are missing, or there is something in the way."""


class InvalidPathException(IngestionError, InvalidInputError):
    """The source of an import is no folder or file."""


class SamePathException(IngestionError, InvalidInputError):
    """Source and destination of an import are one place."""


class InvalidFileExtension(IngestionError, InvalidInputError):
    """A file has no suffix that says which files belong to it."""


class InvalidPandasDataframeError(IngestionError, TypeError):
    """What is to be imported is no data frame."""


class ExternalCommandError(IngestionError, RuntimeError):
    """A program that an import needs has failed.

    Parameters
    ----------
    command
        The program and its arguments.
    status
        Its exit status.
    """

    def __init__(self, message: str = "", *, command: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.command = command
        self.status = status


class KaggleError(IngestionError):
    """A Kaggle data set cannot be downloaded."""


class KaggleMissingCredentialsError(KaggleError):
    """There is no Kaggle user name or key."""


class KaggleDatasetAlreadyDownloadedError(KaggleError, AlreadyExistsError):
    """The folder for the download holds files already."""
