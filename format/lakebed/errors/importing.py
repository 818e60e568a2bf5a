"""Errors of importers and exporters: unusable sources and destinations."""

from __future__ import annotations

from lakebed.errors.inputs import InvalidInputError
from lakebed.errors.root import AlreadyExistsError, LakebedError


class IngestionError(LakebedError, ValueError):
    """The source of an import is missing, or of another kind than stated."""


class ExportError(LakebedError, ValueError):
    """A dataset cannot be written in a format: tensors are missing, or a file with the name exists."""


class InvalidPathException(IngestionError, InvalidInputError):
    """The source of an import is neither a folder nor a file."""


class SamePathException(IngestionError, InvalidInputError):
    """Source and destination of an import are the same place."""


class InvalidFileExtension(IngestionError, InvalidInputError):
    """A file has no suffix, by which the files that belong to it would be found."""


class InvalidPandasDataframeError(IngestionError, TypeError):
    """The source of an import is not a data frame."""


class ExternalCommandError(IngestionError, RuntimeError):
    """A program that an import needs has failed.

    Parameters
    ----------
    command
        The program and its arguments.
    status
        Exit status of the program.
    """

    def __init__(self, message: str = "", *, command: str = "", status: int = 0) -> None:
        super().__init__(message)
        self.command = command
        self.status = status


class KaggleError(IngestionError):
    """A Kaggle data set cannot be downloaded."""


class KaggleMissingCredentialsError(KaggleError):
    """The Kaggle user name or key is missing."""


class KaggleDatasetAlreadyDownloadedError(KaggleError, AlreadyExistsError):
    """The folder for the download holds files already."""
