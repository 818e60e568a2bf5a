"""Errors of stored bytes, and limits that they would exceed."""

from __future__ import annotations

from lakebed.errors.inputs import CompressionError
from lakebed.errors.root import DatasetNotFoundError, LakebedError


class FormatError(LakebedError, ValueError):
    """Bytes do not follow the format."""


class CorruptError(FormatError):
    """Stored data is damaged.

    Parameters
    ----------
    message
        Text with the failure, its place, and the remedy.
    dataset, tensor, row
        Place of the failure, as far as known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        dataset: str | None = None,
        tensor: str | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(message)
        self.dataset = dataset
        self.tensor = tensor
        self.row = row


class ChecksumError(CorruptError):
    """Stored bytes differ from the bytes that were written."""


class DatasetCorruptError(CorruptError):
    """The files of a dataset contradict each other."""


class HistoryMissingError(DatasetCorruptError, DatasetNotFoundError):
    """A dataset has versions but no version tree, which was lost or not copied."""


class GetChunkError(CorruptError):
    """A chunk that the index names cannot be read."""


class ReadSampleFromChunkError(CorruptError):
    """A chunk does not yield the sample that the index places in it."""


class SampleDecompressionError(CompressionError, CorruptError):
    """A stored sample cannot be decompressed."""


class CorruptedSampleError(SampleDecompressionError):
    """The header of a file is damaged, or belongs to another format."""


# -- limits --------------------------------------------------------------------------------------------------


class LimitError(LakebedError, RuntimeError):
    """A limit of the format or of the configuration would be exceeded.

    Parameters
    ----------
    message
        Text with the failure, its place, and the remedy.
    limit
        Name of the limit in `lakebed.limits`, if that module has the limit.
    dataset, tensor, row
        Place of the failure, as far as known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        limit: str | None = None,
        dataset: str | None = None,
        tensor: str | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(message)
        self.limit = limit
        self.dataset = dataset
        self.tensor = tensor
        self.row = row


class DatasetTooLargeToDelete(LimitError):
    """Deleting this much needs `large_ok=True`."""


class TensorTooLargeToDelete(LimitError):
    """Deleting this much needs `large_ok=True`."""
