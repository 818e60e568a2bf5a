"""Every error that lakebed raises, in one tree.

A branch of the tree says what a handler can do about it; each class also inherits the builtin that a Python
user would expect to catch.  Names marked * are those of Deep Lake 3.x and keep their meaning.  A message says
what happened, where, and what to do::

    LakebedError
    ├── NotFoundError (LookupError)                      ask for something else, or create it
    │   ├── KeyNotFound (KeyError)                       no object under this storage key
    │   ├── DatasetNotFoundError (FileNotFoundError)     also a DatasetHandlerError
    │   ├── VersionNotFoundError (KeyError)              no branch, commit or tag of this name
    │   ├── TensorDoesNotExistError* (KeyError, AttributeError)
    │   └── TensorGroupDoesNotExistError* (KeyError)
    ├── AlreadyExistsError (ValueError)                  choose another name, or open the existing one
    │   ├── DatasetExistsError (FileExistsError)         also a DatasetHandlerError
    │   ├── PathNotEmptyException* (FileExistsError)
    │   ├── BranchExistsError, TagExistsError            also a CheckoutError
    │   ├── TensorAlreadyExistsError*
    │   └── TensorGroupAlreadyExistsError*
    ├── DatasetHandlerError*                             there is none to open, or one in the way of a new one
    ├── ConflictError (RuntimeError)                     somebody else was faster
    │   ├── PreconditionFailed                           a conditional put met another object
    │   ├── VersionReplaced                              the version to open is gone: read the tree again
    │   ├── CommitFailed                                 nothing was published: safe to retry
    │   │   └── LeaseLost                                another writer took the branch over
    │   └── CommitStateUnknown                           published or not: read again before a retry
    ├── ModuleNotInstalledException* (ImportError)       install the extra that the message names
    ├── LockedException* (RuntimeError)                  wait for the writer named in the message
    ├── ReadOnlyModeError* (PermissionError)             open for writing
    ├── InvalidInputError (ValueError)                   the caller must change the arguments
    │   ├── InvalidKeyError                              a storage key that could lead out of the root
    │   ├── UnsupportedUrlError
    │   ├── InvalidTensorNameError*, InvalidTensorGroupNameError*
    │   ├── InvalidKeyTypeError* (TypeError)
    │   ├── InvalidOperationError* (RuntimeError)
    │   ├── GroupInfoNotSupportedError*, InfoError*
    │   ├── DynamicTensorNumpyError*, EmptyTensorError*
    │   ├── SampleAppendError*, SampleAppendingError*, SampleExtendError*, SampleExtendingError*
    │   ├── SampleUpdateError*, SampleReadError*, BadLinkError*, MissingCredsError*
    │   ├── TensorInvalidSampleShapeError*, InvalidShapeIntervalError*, EmptyPolygonError*
    │   ├── SampleHtypeMismatchError*, IncompatibleHtypeError*
    │   ├── RenameError*
    │   ├── InvalidViewException* (RuntimeError)
    │   ├── UnsupportedParameterException* (TypeError)
    │   ├── MemoryDatasetCanNotBePickledError* (TypeError)
    │   ├── SampleCompressionError*                      also a CompressionError*
    │   ├── UnsupportedCompressionError*                 also a CompressionError*
    │   └── MetaError*
    │       ├── TensorDtypeMismatchError* (TypeError)
    │       ├── TensorMetaInvalidHtype*
    │       ├── TensorMetaInvalidHtypeOverwriteKey*, TensorMetaInvalidHtypeOverwriteValue*
    │       ├── TensorMetaMissingRequiredValue*, MeshTensorMetaMissingRequiredValue*
    │       └── TensorMetaMutuallyExclusiveKeysError*
    ├── VersionControlError*
    │   ├── CheckoutError* (ValueError)                  no such branch or commit
    │   ├── CommitError*
    │   │   └── EmptyCommitError*
    │   ├── TensorModifiedError*                         the version to compare with is on another line
    │   └── MergeError*
    │       └── MergeConflictError*, MergeMismatchError*, MergeNotSupportedError*
    ├── StorageError (OSError)                           the store failed; `errno` is kept where there is one
    │   ├── StorageFullError                             no space, or quota used up
    │   ├── StoragePermissionError (PermissionError)
    │   ├── StorageReadOnlyError                         read-only file system
    │   ├── UnsafePathError (PermissionError)            a link in the dataset leads out of its folder
    │   ├── TruncatedReadError (EOFError)                the object ends before the range that was asked for
    │   ├── UnableToReadFromUrlError*                    the server refuses, fails, or is not there; with `status`
    │   └── GetDataFromLinkError*                        also a SampleReadError; with `url`, `dataset`, `tensor`, `row`
    ├── FormatError (ValueError)                         bytes that no writer of the format produces
    │   └── CorruptError                                 with `dataset`, `tensor`, `row`
    │       ├── ChecksumError
    │       ├── DatasetCorruptError*
    │       │   └── HistoryMissingError                  also a DatasetNotFoundError
    │       ├── GetChunkError*, ReadSampleFromChunkError*
    │       └── SampleDecompressionError*                also a CompressionError*
    │           └── CorruptedSampleError*                its header already is wrong
    └── LimitError (RuntimeError)                        raise the limit that the message and `limit` name
        └── DatasetTooLargeToDelete*, TensorTooLargeToDelete*
"""

from __future__ import annotations

from typing import Any


class LakebedError(Exception):
    """Root of every error that lakebed raises on purpose."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    @property
    def message(self) -> str:
        """Text of the error."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        # KeyError would show the repr, OSError "[Errno ...]".
        return self.message


# -- not found -----------------------------------------------------------------------------------------------


class NotFoundError(LakebedError, LookupError):
    """Something that was asked for by name is not there."""


class KeyNotFound(NotFoundError, KeyError):
    """The store holds no object under this key."""


class DatasetHandlerError(LakebedError):
    """There is no dataset to open, or there is one where a new one should go."""


class DatasetNotFoundError(DatasetHandlerError, NotFoundError, FileNotFoundError):
    """There is no dataset at this address."""


class VersionNotFoundError(NotFoundError, KeyError):
    """No branch, commit or tag goes by this name."""


class TensorDoesNotExistError(NotFoundError, KeyError, AttributeError):
    """The dataset has no tensor of this name."""


class TensorGroupDoesNotExistError(NotFoundError, KeyError):
    """The dataset has no group of this name."""


# -- already exists ------------------------------------------------------------------------------------------


class AlreadyExistsError(LakebedError, ValueError):
    """Something of this name is already there."""


class DatasetExistsError(DatasetHandlerError, AlreadyExistsError, FileExistsError):
    """A dataset is already at this address."""


class PathNotEmptyException(AlreadyExistsError, FileExistsError):
    """The folder for a new dataset holds other files."""


class TensorAlreadyExistsError(AlreadyExistsError):
    """The dataset already has a tensor of this name."""


class TensorGroupAlreadyExistsError(AlreadyExistsError):
    """The dataset already has a group of this name."""


# -- conflicts and locks -------------------------------------------------------------------------------------


class ConflictError(LakebedError, RuntimeError):
    """Somebody else changed the same thing first."""


class PreconditionFailed(ConflictError):
    """The object is not, or no longer, the one that a conditional put expected; nothing was written."""


class VersionReplaced(ConflictError):
    """A version was replaced, and its files were removed, while it was being opened; the next try sees the new one."""


class CommitFailed(ConflictError):
    """Nothing was published: reading again and retrying is safe."""


class LeaseLost(CommitFailed):
    """The writer stood still for longer than its lease, and another took the branch over; nothing was published."""


class CommitStateUnknown(ConflictError):
    """The answer of the store was lost: whether the version is published shows only by reading again."""


class LockedException(LakebedError, RuntimeError):
    """Another writer holds the lock."""


class LockedWarning(UserWarning):
    """Another process writes the branch that was opened; reading works, and changes must wait."""


class DisplacedWarning(UserWarning):
    """A writer of Deep Lake 3.x pushed a version off its branch that we published; `lakebed repair` brings it back."""


class ReadOnlyModeError(LakebedError, PermissionError):
    """The dataset was opened for reading."""


class ModuleNotInstalledException(LakebedError, ImportError):
    """A package that this needs is not installed."""


# -- invalid input -------------------------------------------------------------------------------------------


class InvalidInputError(LakebedError, ValueError):
    """An argument cannot be used as given."""


class InvalidKeyError(InvalidInputError):
    """A storage key is no relative path that stays inside the root."""


class UnsupportedUrlError(InvalidInputError):
    """No storage handles this kind of address."""


class InvalidTensorNameError(InvalidInputError):
    """A tensor cannot have this name."""


class InvalidTensorGroupNameError(InvalidInputError):
    """A group cannot have this name."""


class InvalidKeyTypeError(InvalidInputError, TypeError):
    """An index or key is of a type that cannot select anything."""


class InvalidOperationError(InvalidInputError, RuntimeError):
    """The object is in a state, or of a kind, that does not allow this call."""


class GroupInfoNotSupportedError(InvalidInputError):
    """Info exists for datasets and tensors, not for groups."""


class InfoError(InvalidInputError):
    """A value cannot be stored in info."""


class DynamicTensorNumpyError(InvalidInputError):
    """Samples of unequal shapes do not make one array."""


class EmptyTensorError(InvalidInputError):
    """The tensor holds no sample that could answer."""


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


class MissingCredsError(InvalidInputError):
    """A credentials key is unknown, or has no credentials yet."""


class TensorInvalidSampleShapeError(InvalidInputError):
    """The sample's number of axes differs from the tensor's."""


class InvalidShapeIntervalError(InvalidInputError):
    """The bounds of shapes contradict each other."""


class RenameError(InvalidInputError):
    """Something cannot get this name."""


class InvalidViewException(InvalidInputError, RuntimeError):
    """The dataset has changed since the view was made: its rows may be others now."""


class UnsupportedParameterException(InvalidInputError, TypeError):
    """The call has no parameter of this name any more."""


class MemoryDatasetCanNotBePickledError(InvalidInputError, TypeError):
    """Another process could not see a dataset that lives in this one's memory."""


class SampleHtypeMismatchError(InvalidInputError):
    """The htype does not take samples of this kind."""


class IncompatibleHtypeError(InvalidInputError):
    """The tensor's samples do not have the shape or dtype of another htype."""


class EmptyPolygonError(InvalidInputError):
    """A polygon has no points; a sample without polygons may be empty."""


class MetaError(InvalidInputError):
    """The settings of a tensor do not go together."""


class TensorDtypeMismatchError(MetaError, TypeError):
    """The sample's dtype cannot be cast safely to the tensor's."""


class TensorMetaInvalidHtype(MetaError):
    """There is no htype of this name."""


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


# -- versions ------------------------------------------------------------------------------------------------


class VersionControlError(LakebedError):
    """A step in the version history is not possible."""


class CheckoutError(VersionControlError, ValueError):
    """No branch or commit goes by this address."""


class BranchExistsError(CheckoutError, AlreadyExistsError):
    """A branch of this name is already there."""


class TagExistsError(CheckoutError, AlreadyExistsError):
    """A tag, branch or version of this name is already there."""


class CommitError(VersionControlError):
    """The present state cannot be committed."""


class EmptyCommitError(CommitError):
    """There is no change to commit."""


class TensorModifiedError(VersionControlError):
    """What was modified since a version can not be told, as it is not on this line of history."""


class MergeError(VersionControlError):
    """Two lines of history can not be merged; nothing was changed."""


class MergeConflictError(MergeError):
    """The same samples changed on both lines.

    Attributes
    ----------
    conflicts
        What changed on both: ``(tensor name, row here, row there)`` each; None for a row that was deleted.
    """

    def __init__(
        self, message: str = "", *, conflicts: tuple[tuple[str, int | None, int | None], ...] = ()
    ) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class MergeMismatchError(MergeError):
    """A tensor has other settings on one line than on the other."""


class MergeNotSupportedError(MergeError):
    """A tensor has no sample ids, by which samples are told apart."""


# -- storage -------------------------------------------------------------------------------------------------


class StorageError(LakebedError, OSError):
    """The store could not do what it was asked for.

    Parameters
    ----------
    message
        What happened, where, what to do.
    errno
        Number of the operating system's error, if there was one.
    """

    def __init__(self, message: str = "", *, errno: int | None = None) -> None:
        super().__init__(message)
        self.errno = errno

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message,), {**self.__dict__, "errno": self.errno}


class StorageFullError(StorageError):
    """There is no space left, or a quota is used up."""


class StoragePermissionError(StorageError, PermissionError):
    """The operating system or the store refuses access."""


class StorageReadOnlyError(StorageError):
    """The file system is mounted read-only."""


class UnsafePathError(StorageError, PermissionError):
    """A symbolic link or special file would lead out of the dataset's folder."""


class TruncatedReadError(StorageError, EOFError):
    """The object ends before the range that was asked for."""


class UnableToReadFromUrlError(StorageError):
    """A web server did not deliver.

    Parameters
    ----------
    message
        What happened, where, what to do.
    status
        HTTP status, if there was an answer.
    """

    def __init__(self, message: str = "", *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class GetDataFromLinkError(StorageError, SampleReadError):
    """A link in a dataset cannot be followed, or leads to something else than it should; the cause says why.

    Parameters
    ----------
    message
        What happened, where, what to do.
    url
        Where the link leads.
    dataset, tensor, row
        Where the link is, as far as known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        url: str | None = None,
        dataset: str | None = None,
        tensor: str | None = None,
        row: int | None = None,
    ) -> None:
        super().__init__(message)
        self.url = url
        self.dataset = dataset
        self.tensor = tensor
        self.row = row


# -- format --------------------------------------------------------------------------------------------------


class FormatError(LakebedError, ValueError):
    """Bytes are not what the format says they should be."""


class CorruptError(FormatError):
    """Stored data is damaged.

    Parameters
    ----------
    message
        What happened, where, what to do.
    dataset, tensor, row
        Where, as far as known.
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
    """Stored bytes differ from those that were written."""


class DatasetCorruptError(CorruptError):
    """The files of a dataset contradict each other."""


class HistoryMissingError(DatasetCorruptError, DatasetNotFoundError):
    """There are versions of a dataset, but no version tree: it was lost, or a copy was cut off."""


class GetChunkError(CorruptError):
    """A chunk that the index names cannot be read."""


class ReadSampleFromChunkError(CorruptError):
    """A chunk does not yield the sample that the index places in it."""


class SampleDecompressionError(CompressionError, CorruptError):
    """A stored sample cannot be decompressed."""


class CorruptedSampleError(SampleDecompressionError):
    """The header of a file is damaged, or that of another format."""


# -- limits --------------------------------------------------------------------------------------------------


class LimitError(LakebedError, RuntimeError):
    """A limit of the format or of the configuration would be exceeded.

    Parameters
    ----------
    message
        What happened, where, what to do.
    limit
        Name of the limit in `lakebed.limits`, if it is one of those.
    dataset, tensor, row
        Where, as far as known.
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
