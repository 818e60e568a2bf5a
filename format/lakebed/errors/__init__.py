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
    ├── DatasetHandlerError*                             no dataset to open, or one in the way of a new one
    ├── ConflictError (RuntimeError)                     another process was faster
    │   ├── PreconditionFailed                           a conditional put met another object
    │   ├── VersionReplaced                              the version to open was removed: read the tree again
    │   ├── CommitFailed                                 nothing was published: safe to retry
    │   │   └── LeaseLost                                another writer took the branch over
    │   └── CommitStateUnknown                           published or not: read again before a retry
    ├── ModuleNotInstalledException* (ImportError)       install the extra that the message names
    ├── WorkerDied (RuntimeError)                        a process of a loader ended: the next pass starts others
    ├── LockedException* (RuntimeError)                  wait for the writer named in the message
    ├── ReadOnlyModeError* (PermissionError)             open for writing
    ├── InvalidInputError (ValueError)                   the caller must change the arguments
    │   ├── InvalidKeyError                              a storage key that could lead out of the root
    │   ├── UnsupportedUrlError
    │   ├── InvalidTensorNameError*, InvalidTensorGroupNameError*
    │   ├── InvalidKeyTypeError* (TypeError)
    │   ├── InvalidOperationError* (RuntimeError)
    │   ├── QueryError                                   with `kind`, `line`, `column`, `row`
    │   │   └── QuerySyntaxError
    │   ├── GroupInfoNotSupportedError*, InfoError*
    │   ├── DynamicTensorNumpyError*, EmptyTensorError*
    │   ├── SampleAppendError*, SampleAppendingError*, SampleExtendError*, SampleExtendingError*
    │   ├── SampleUpdateError*, SampleReadError*, BadLinkError*
    │   ├── MissingCredsError* (KeyError)                unknown name of credentials, or none stored under it
    │   ├── ManagedCredentialsNotFoundError*             no provider knows the name
    │   ├── TensorInvalidSampleShapeError*, InvalidShapeIntervalError*, EmptyPolygonError*
    │   ├── SampleHtypeMismatchError*, IncompatibleHtypeError*
    │   ├── RenameError*
    │   ├── InvalidViewException* (RuntimeError)
    │   ├── DatasetViewSavingError*                      commit first, or choose another id or place
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
    │   ├── TensorModifiedError*                         the version to compare with is not in this history
    │   └── MergeError*
    │       └── MergeConflictError*, MergeMismatchError*, MergeNotSupportedError*
    ├── TransformError* (RuntimeError)                   with `index`, `item`, `checkpoint`; the cause is the function's
    │   ├── AllSamplesSkippedError*
    │   ├── HubComposeEmptyListError*, HubComposeIncompatibleFunction*      these also an InvalidInputError
    │   ├── InvalidInputDataError*, InvalidOutputDatasetError*, InvalidTransformDataset*
    │   ├── TensorMismatchError*, UnsupportedSchedulerError*
    │   ├── SkippedRowError (ValueError)                 a function left out a row, which is not allowed
    │   └── ResumeError                                  resume=False starts over
    ├── IngestionError* (ValueError)                     the source is not what it was said to be
    │   ├── InvalidPathException*, SamePathException*, InvalidFileExtension*        these also an InvalidInputError
    │   ├── InvalidPandasDataframeError* (TypeError)
    │   ├── ExternalCommandError* (RuntimeError)         with `command` and `status`
    │   └── KaggleError*
    │       ├── KaggleMissingCredentialsError*
    │       └── KaggleDatasetAlreadyDownloadedError*     also an AlreadyExistsError
    ├── ExportError (ValueError)                         tensors are missing, or a file is in the way
    ├── StorageError (OSError)                           the store failed; with `errno`, if known
    │   ├── StorageFullError                             no space, or quota used up
    │   ├── StoragePermissionError (PermissionError)     the account may not do this
    │   │   └── CredentialsRejectedError                 the store does not accept the credentials
    │   ├── StorageUnavailableError (ConnectionError)    no answer, or "slow down", again and again: try later
    │   ├── BucketNotFoundError (FileNotFoundError)      also a NotFoundError
    │   ├── BucketElsewhereError                         name the bucket's region
    │   ├── StorageReadOnlyError                         read-only file system, or a web server
    │   ├── UnsafePathError (PermissionError)            a link in the dataset leads where it must not
    │   ├── TruncatedReadError (EOFError)                the object ends before the requested range
    │   ├── UnableToReadFromUrlError*                    the server refuses, fails, or is not there; with `status`
    │   └── GetDataFromLinkError*                        also a SampleReadError; with `url`, `dataset`, `tensor`, `row`
    │       ├── LinkMissingError (FileNotFoundError)     nothing is there
    │       ├── LinkCredentialsError (PermissionError)   credentials are missing, wrong or do not suffice
    │       ├── LinkForbiddenError (PermissionError)     the policy forbids the target
    │       └── LinkUnavailableError (ConnectionError)   the network or the server failed
    ├── FormatError (ValueError)                         bytes that no writer of the format produces
    │   └── CorruptError                                 with `dataset`, `tensor`, `row`
    │       ├── ChecksumError
    │       ├── DatasetCorruptError*
    │       │   └── HistoryMissingError                  also a DatasetNotFoundError
    │       ├── GetChunkError*, ReadSampleFromChunkError*
    │       └── SampleDecompressionError*                also a CompressionError*
    │           └── CorruptedSampleError*                the header of the file is wrong
    └── LimitError (RuntimeError)                        raise the limit that the message and `limit` name
        └── DatasetTooLargeToDelete*, TensorTooLargeToDelete*
"""

from __future__ import annotations

from lakebed.errors.data import (
    ChecksumError,
    CorruptedSampleError,
    CorruptError,
    DatasetCorruptError,
    DatasetTooLargeToDelete,
    FormatError,
    GetChunkError,
    HistoryMissingError,
    LimitError,
    ReadSampleFromChunkError,
    SampleDecompressionError,
    TensorTooLargeToDelete,
)
from lakebed.errors.history import (
    BranchExistsError,
    CheckoutError,
    CommitError,
    EmptyCommitError,
    MergeConflictError,
    MergeError,
    MergeMismatchError,
    MergeNotSupportedError,
    TagExistsError,
    TensorModifiedError,
    VersionControlError,
)
from lakebed.errors.importing import (
    ExportError,
    ExternalCommandError,
    IngestionError,
    InvalidFileExtension,
    InvalidPandasDataframeError,
    InvalidPathException,
    KaggleDatasetAlreadyDownloadedError,
    KaggleError,
    KaggleMissingCredentialsError,
    SamePathException,
)
from lakebed.errors.inputs import (
    BadLinkError,
    CompressionError,
    DatasetViewSavingError,
    DynamicTensorNumpyError,
    EmptyPolygonError,
    EmptyTensorError,
    GroupInfoNotSupportedError,
    IncompatibleHtypeError,
    InfoError,
    InvalidInputError,
    InvalidKeyError,
    InvalidKeyTypeError,
    InvalidOperationError,
    InvalidShapeIntervalError,
    InvalidTensorGroupNameError,
    InvalidTensorNameError,
    InvalidViewException,
    ManagedCredentialsNotFoundError,
    MemoryDatasetCanNotBePickledError,
    MeshTensorMetaMissingRequiredValue,
    MetaError,
    MissingCredsError,
    QueryError,
    QuerySyntaxError,
    RenameError,
    SampleAppendError,
    SampleAppendingError,
    SampleCompressionError,
    SampleExtendError,
    SampleExtendingError,
    SampleHtypeMismatchError,
    SampleReadError,
    SampleUpdateError,
    TensorDtypeMismatchError,
    TensorInvalidSampleShapeError,
    TensorMetaInvalidHtype,
    TensorMetaInvalidHtypeOverwriteKey,
    TensorMetaInvalidHtypeOverwriteValue,
    TensorMetaMissingRequiredValue,
    TensorMetaMutuallyExclusiveKeysError,
    UnsupportedCompressionError,
    UnsupportedParameterException,
    UnsupportedUrlError,
)
from lakebed.errors.root import (
    AlreadyExistsError,
    CommitFailed,
    CommitStateUnknown,
    ConflictError,
    DatasetExistsError,
    DatasetHandlerError,
    DatasetNotFoundError,
    DisplacedWarning,
    KeyNotFound,
    LakebedError,
    LeaseLost,
    LockedException,
    LockedWarning,
    ModuleNotInstalledException,
    NotFoundError,
    PathNotEmptyException,
    PreconditionFailed,
    ReadOnlyModeError,
    TensorAlreadyExistsError,
    TensorDoesNotExistError,
    TensorGroupAlreadyExistsError,
    TensorGroupDoesNotExistError,
    UnusualSampleWarning,
    VersionNotFoundError,
    VersionReplaced,
    WeakStoreWarning,
    WorkerDied,
)
from lakebed.errors.stores import (
    BucketElsewhereError,
    BucketNotFoundError,
    CredentialsRejectedError,
    GetDataFromLinkError,
    LinkCredentialsError,
    LinkForbiddenError,
    LinkMissingError,
    LinkUnavailableError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageReadOnlyError,
    StorageUnavailableError,
    TruncatedReadError,
    UnableToReadFromUrlError,
    UnsafePathError,
)
from lakebed.errors.transforms import (
    AllSamplesSkippedError,
    HubComposeEmptyListError,
    HubComposeIncompatibleFunction,
    InvalidInputDataError,
    InvalidOutputDatasetError,
    InvalidTransformDataset,
    ResumeError,
    SkippedRowError,
    TensorMismatchError,
    TransformError,
    UnsupportedSchedulerError,
)

__all__ = [
    "AllSamplesSkippedError",
    "AlreadyExistsError",
    "BadLinkError",
    "BranchExistsError",
    "BucketElsewhereError",
    "BucketNotFoundError",
    "CheckoutError",
    "ChecksumError",
    "CommitError",
    "CommitFailed",
    "CommitStateUnknown",
    "CompressionError",
    "ConflictError",
    "CorruptError",
    "CorruptedSampleError",
    "CredentialsRejectedError",
    "DatasetCorruptError",
    "DatasetExistsError",
    "DatasetHandlerError",
    "DatasetNotFoundError",
    "DatasetTooLargeToDelete",
    "DatasetViewSavingError",
    "DisplacedWarning",
    "DynamicTensorNumpyError",
    "EmptyCommitError",
    "EmptyPolygonError",
    "EmptyTensorError",
    "ExportError",
    "ExternalCommandError",
    "FormatError",
    "GetChunkError",
    "GetDataFromLinkError",
    "GroupInfoNotSupportedError",
    "HistoryMissingError",
    "HubComposeEmptyListError",
    "HubComposeIncompatibleFunction",
    "IncompatibleHtypeError",
    "InfoError",
    "IngestionError",
    "InvalidFileExtension",
    "InvalidInputDataError",
    "InvalidInputError",
    "InvalidKeyError",
    "InvalidKeyTypeError",
    "InvalidOperationError",
    "InvalidOutputDatasetError",
    "InvalidPandasDataframeError",
    "InvalidPathException",
    "InvalidShapeIntervalError",
    "InvalidTensorGroupNameError",
    "InvalidTensorNameError",
    "InvalidTransformDataset",
    "InvalidViewException",
    "KaggleDatasetAlreadyDownloadedError",
    "KaggleError",
    "KaggleMissingCredentialsError",
    "KeyNotFound",
    "LakebedError",
    "LeaseLost",
    "LimitError",
    "LinkCredentialsError",
    "LinkForbiddenError",
    "LinkMissingError",
    "LinkUnavailableError",
    "LockedException",
    "LockedWarning",
    "ManagedCredentialsNotFoundError",
    "MemoryDatasetCanNotBePickledError",
    "MergeConflictError",
    "MergeError",
    "MergeMismatchError",
    "MergeNotSupportedError",
    "MeshTensorMetaMissingRequiredValue",
    "MetaError",
    "MissingCredsError",
    "ModuleNotInstalledException",
    "NotFoundError",
    "PathNotEmptyException",
    "PreconditionFailed",
    "QueryError",
    "QuerySyntaxError",
    "ReadOnlyModeError",
    "ReadSampleFromChunkError",
    "RenameError",
    "ResumeError",
    "SamePathException",
    "SampleAppendError",
    "SampleAppendingError",
    "SampleCompressionError",
    "SampleDecompressionError",
    "SampleExtendError",
    "SampleExtendingError",
    "SampleHtypeMismatchError",
    "SampleReadError",
    "SampleUpdateError",
    "SkippedRowError",
    "StorageError",
    "StorageFullError",
    "StoragePermissionError",
    "StorageReadOnlyError",
    "StorageUnavailableError",
    "TagExistsError",
    "TensorAlreadyExistsError",
    "TensorDoesNotExistError",
    "TensorDtypeMismatchError",
    "TensorGroupAlreadyExistsError",
    "TensorGroupDoesNotExistError",
    "TensorInvalidSampleShapeError",
    "TensorMetaInvalidHtype",
    "TensorMetaInvalidHtypeOverwriteKey",
    "TensorMetaInvalidHtypeOverwriteValue",
    "TensorMetaMissingRequiredValue",
    "TensorMetaMutuallyExclusiveKeysError",
    "TensorMismatchError",
    "TensorModifiedError",
    "TensorTooLargeToDelete",
    "TransformError",
    "TruncatedReadError",
    "UnableToReadFromUrlError",
    "UnsafePathError",
    "UnsupportedCompressionError",
    "UnsupportedParameterException",
    "UnsupportedSchedulerError",
    "UnsupportedUrlError",
    "UnusualSampleWarning",
    "VersionControlError",
    "VersionNotFoundError",
    "VersionReplaced",
    "WeakStoreWarning",
    "WorkerDied",
]
