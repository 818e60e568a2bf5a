"""Errors of transforms: failing functions, input and output that do not fit together."""

from __future__ import annotations

from typing import Any

from lakebed.errors.inputs import InvalidInputError
from lakebed.errors.root import LakebedError


class TransformError(LakebedError, RuntimeError):
    """A transform failed; if a function raised an error, that error is the cause.

    Parameters
    ----------
    index
        Number of the input sample, counted from 0.
    item
        Text of the input sample; None for a row of a dataset.
    sample
        The input sample itself, as in 3.x; None if the input was only iterated over.
    checkpoint
        Number of input samples in the last checkpoint; None if the transform made no checkpoints.
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
    """A function left out a row, for the reason in the message, where no row may be left out."""


class HubComposeEmptyListError(TransformError, InvalidInputError):
    """``compose`` was given no functions."""


class HubComposeIncompatibleFunction(TransformError, InvalidInputError):
    """``compose`` was given an object that is not a call of a function made by ``compute``."""


class InvalidInputDataError(TransformError, InvalidInputError):
    """The input of a transform has no items."""


class InvalidOutputDatasetError(TransformError, InvalidInputError):
    """The output of a transform cannot take its rows."""


class InvalidTransformDataset(TransformError, InvalidInputError):
    """A function added more rows to one tensor than to another."""


class TensorMismatchError(TransformError, InvalidInputError):
    """A function returned tensors that the output does not have."""


class UnsupportedSchedulerError(TransformError, InvalidInputError):
    """No scheduler has this name."""


class AllSamplesSkippedError(TransformError):
    """Every input sample failed and was left out by ``ignore_errors``."""


class ResumeError(TransformError, InvalidInputError):
    """An interrupted transform was resumed with other input or functions."""
