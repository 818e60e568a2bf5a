"""Transforms: functions over rows that fail, input and output that do not go together."""

from __future__ import annotations

from typing import Any

from lakebed.errors.inputs import InvalidInputError
from lakebed.errors.root import LakebedError


class TransformError(LakebedError, RuntimeError):
    """A transform failed; the cause is the error of the function, where it was one.

    Parameters
    ----------
    index
        Number of the input sample, counted from 0.
    item
        Text of the input sample; None where it is a row of a dataset.
    sample
        The input sample itself, as in 3.x; None where the input was only iterated over.
    checkpoint
        Input samples whose rows are kept by the last checkpoint; None without checkpoints.
    """

    def __init__(
        self,
        message: str = "",
        *,
        index: int | None = None,
        item: Any = None,
        sample: Any = None,
        checkpoint: int | None = None,
    ) -> None:
        super().__init__(message)
        self.index = index
        self.item = item
        self.sample = sample
        self.checkpoint = checkpoint


class SkippedRowError(TransformError, ValueError):
    """A function left a row out, which says why, and rows must not be left out."""


class HubComposeEmptyListError(TransformError, InvalidInputError):
    """``compose`` was given no functions."""


class HubComposeIncompatibleFunction(TransformError, InvalidInputError):
    """``compose`` was given something that is no call of a function made by ``compute``."""


class InvalidInputDataError(TransformError, InvalidInputError):
    """The input of a transform is nothing that has items."""


class InvalidOutputDatasetError(TransformError, InvalidInputError):
    """The output of a transform cannot take its rows."""


class InvalidTransformDataset(TransformError, InvalidInputError):
    """A function added more rows to one tensor than to another."""


class TensorMismatchError(TransformError, InvalidInputError):
    """A function named other tensors than the output has."""


class UnsupportedSchedulerError(TransformError, InvalidInputError):
    """There is no scheduler of this name."""


class AllSamplesSkippedError(TransformError):
    """Every input sample failed, and ``ignore_errors`` left all of them out."""


class ResumeError(TransformError, InvalidInputError):
    """A transform that was interrupted was begun again with something else."""
