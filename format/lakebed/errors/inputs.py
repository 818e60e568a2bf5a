"""Errors that the caller must correct: arguments, samples, settings of tensors."""

from __future__ import annotations

from lakebed.errors.root import LakebedError
from lakebed.runtime.printable import printable


class InvalidInputError(LakebedError, ValueError):
    """An argument cannot be used as given."""


class InvalidKeyError(InvalidInputError):
    """A storage key is not a relative path that stays inside the root."""


class UnsupportedUrlError(InvalidInputError):
    """No storage handles this kind of address."""


class InvalidTensorNameError(InvalidInputError):
    """A tensor cannot have this name."""


class InvalidTensorGroupNameError(InvalidInputError):
    """A group cannot have this name."""


class InvalidKeyTypeError(InvalidInputError, TypeError):
    """An index or key is of a type that cannot select anything."""


class InvalidOperationError(InvalidInputError, RuntimeError):
    """The state or kind of the object does not allow this call."""


class QueryError(InvalidInputError):
    """A query cannot be answered: a name, a type or a value in it does not fit the data.

    Attributes
    ----------
    kind : str
        Kind of the error: ``unknown_column``, ``unknown_function``, ``unknown_source``, ``bad_class_name``,
        ``arity``, ``type``, ``shape``, ``index``, ``rank``, ``ambiguous``, ``alias_required``, ``duplicate_output``,
        ``schema_mismatch``, ``unsupported``, ``limit``, ``runtime`` or ``syntax``.
    line, column : int or None
        Place in the query, both counted from 1; None if the error has no place.
    row : int or None
        Row that could not be computed, if any.
    """

    def __init__(
        self,
        message: str = "",
        *,
        kind: str = "runtime",
        line: int | None = None,
        column: int | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.line = line
        self.column = column
        self.row = row

    def __str__(self) -> str:
        # Keep line breaks: the second line marks the position of the error.
        return "\n".join(map(printable, self.message.split("\n")))


class QuerySyntaxError(QueryError):
    """A query has a syntax error; the message shows its place."""


class GroupInfoNotSupportedError(InvalidInputError):
    """Info exists for datasets and tensors, not for groups."""


class InfoError(InvalidInputError):
    """A value cannot be stored in info."""


class DynamicTensorNumpyError(InvalidInputError):
    """Samples of unequal shapes do not make one array."""


class EmptyTensorError(InvalidInputError):
    """The tensor has no samples from which to answer."""


class SampleAppendError(InvalidInputError):
    """A sample could not be appended; the cause says why."""


class SampleAppendingError(InvalidInputError):
    """A row was not given as a mapping from tensor names to samples."""


class SampleExtendError(SampleAppendError):
    """Samples could not be appended; the cause says why."""


class SampleExtendingError(InvalidInputError):
    """Rows were not given as a mapping from tensor names to sequences of samples."""


class SampleUpdateError(InvalidInputError):
    """A sample could not be replaced; the cause says why."""


class SampleReadError(InvalidInputError):
    """The file behind a sample could not be read."""


class BadLinkError(InvalidInputError):
    """A link could not be appended: the file behind it cannot be read; the cause says why."""


class ManagedCredentialsNotFoundError(InvalidInputError):
    """No provider has credentials of this name."""


class MissingCredsError(InvalidInputError, KeyError):
    """A credentials key is unknown, or has no credentials yet."""


class TensorInvalidSampleShapeError(InvalidInputError):
    """The sample's number of axes differs from the tensor's."""


class InvalidShapeIntervalError(InvalidInputError):
    """The bounds of shapes contradict each other."""


class RenameError(InvalidInputError):
    """A tensor or group cannot get this name."""


class InvalidViewException(InvalidInputError, RuntimeError):
    """The dataset has changed since the view was made, so that its rows may differ."""


class DatasetViewSavingError(InvalidInputError):
    """A view cannot be saved: its rows are not committed, its id is taken, or the place is not empty."""


class UnsupportedParameterException(InvalidInputError, TypeError):
    """The call has no parameter of this name any more."""


class MemoryDatasetCanNotBePickledError(InvalidInputError, TypeError):
    """A dataset in the memory of this process cannot be pickled, because another process could not read it."""


class SampleHtypeMismatchError(InvalidInputError):
    """The htype does not take samples of this kind."""


class IncompatibleHtypeError(InvalidInputError):
    """The tensor's samples do not have the shape or dtype of another htype."""


class EmptyPolygonError(InvalidInputError):
    """A polygon has no points; a sample without polygons may be empty."""


class MetaError(InvalidInputError):
    """The settings of a tensor contradict each other."""


class TensorDtypeMismatchError(MetaError, TypeError):
    """The sample's dtype cannot be cast safely to the tensor's."""


class TensorMetaInvalidHtype(MetaError):
    """No htype has this name."""


class TensorMetaInvalidHtypeOverwriteKey(MetaError):
    """The htype has no setting of this name."""


class TensorMetaInvalidHtypeOverwriteValue(MetaError):
    """A setting of the htype cannot have this value."""


class TensorMetaMissingRequiredValue(MetaError):
    """The htype needs a setting that was not given."""


class MeshTensorMetaMissingRequiredValue(MetaError):
    """A mesh tensor needs its sample compression to be named."""


class TensorMetaMutuallyExclusiveKeysError(MetaError):
    """Two settings exclude each other."""


class CompressionError(LakebedError):
    """A sample could not be compressed or decompressed."""


class SampleCompressionError(CompressionError, InvalidInputError):
    """The compression cannot encode an array of this shape or dtype."""


class UnsupportedCompressionError(CompressionError, InvalidInputError):
    """The compression is unknown, or does not suit this htype."""
