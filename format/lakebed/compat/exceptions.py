"""All exceptions of ``deeplake.util.exceptions``, since scripts name them in ``except``.

Some names lead to exceptions of lakebed with the same name, some to corresponding ones, and others to classes that are
never raised.
"""

from __future__ import annotations

from typing import Any

from lakebed import errors

NAMES = """
    AgreementError AgreementNotAcceptedError AllSamplesSkippedError AuthenticationException AuthorizationException
    AutoCompressionError BadGatewayException BadLinkError BadRequestException BufferError CheckoutError
    ChunkEngineError ChunkIdEncoderError ChunkSizeTooSmallError ClassNamesEmptyError CommitError CompressionError
    ConflictingDatasetParametersError CorruptedMetaError CorruptedSampleError CouldNotCreateNewDatasetException
    DatasetConnectError DatasetCorruptError DatasetHandlerError DatasetTooLargeToDelete DatasetUnsupportedPytorch
    DatasetViewSavingError DeepMemoryAccessError DirectoryAtPathException DynamicTensorNumpyError
    EmbeddingTensorPopError EmptyCommitError EmptyDeeplakePathException EmptyPolygonError EmptyTensorError
    EmptyTokenException ExternalCommandError FailedIngestionError FileAtPathException FilterError FullChunkError
    GCSDefaultCredsNotFoundError GatewayTimeoutException GetChunkError GetDataFromLinkError
    GroupInfoNotSupportedError HubComposeEmptyListError HubComposeIncompatibleFunction IncompatibleHtypeError
    IncorrectEmbeddingShapeError IncorrectQueriesTypeError IncorrectRelevanceTypeError InfoError IngestionError
    InvalidAuthContextError InvalidBytesRequestedError InvalidDatasetNameException InvalidDestinationPathError
    InvalidFileExtension InvalidHubPathException InvalidImageDimensions InvalidInputDataError InvalidKeyTypeError
    InvalidOperationError InvalidOutputDatasetError InvalidPandasDataframeError InvalidPathException
    InvalidShapeIntervalError InvalidSourcePathError InvalidTensorGroupNameError InvalidTensorLinkError
    InvalidTensorNameError InvalidTokenException InvalidTransformDataset InvalidViewException
    KaggleDatasetAlreadyDownloadedError KaggleError KaggleMissingCredentialsError LockedException
    ManagedCredentialsNotFoundError MemoryDatasetCanNotBePickledError MergeConflictError MergeError
    MergeMismatchError MergeNotSupportedError MeshTensorMetaMissingRequiredValue MetaAlreadyExistsError
    MetaDoesNotExistError MetaError MetaInvalidKey MetaInvalidRequiredMetaKey MissingCredsError
    MissingManagedCredsError MissingTensorMappingError ModuleNotInstalledException NotLoggedInAgreementError
    OutOfChunkCountError OutOfSampleCountError OverLimitException PathNotEmptyException ProviderListEmptyError
    ProviderSizeListMismatch ReadOnlyModeError ReadSampleFromChunkError RenameError ResourceNotFoundException
    S3DeletionError S3Error S3GetAccessError S3GetError S3ListError S3SetError SamePathException SampleAppendError
    SampleAppendingError SampleCompressionError SampleDecompressionError SampleExtendError SampleExtendingError
    SampleHtypeMismatchError SampleReadError SampleUpdateError ServerException TensorAlreadyExistsError
    TensorDoesNotExistError TensorDtypeMismatchError TensorGroupAlreadyExistsError TensorGroupDoesNotExistError
    TensorInvalidSampleShapeError TensorMetaInvalidHtype TensorMetaInvalidHtypeOverwriteKey
    TensorMetaInvalidHtypeOverwriteValue TensorMetaMissingKey TensorMetaMissingRequiredValue
    TensorMetaMutuallyExclusiveKeysError TensorMismatchError TensorModifiedError TensorTooLargeToDelete
    TensorUnsupportedSampleType TokenPermissionError TransformError TransformFailedError UnableToReadFromUrlError
    UnexpectedStatusCodeException UnprocessableEntityException UnsupportedCompressionError
    UnsupportedExtensionError UnsupportedParameterException UnsupportedSchedulerError UnsupportedTensorTypeError
    UserNotLoggedInException ValidationDatasetMissingError VersionControlError WaitTimeoutException
""".split()
"""Names of the exceptions in 3.9.52."""

_STANDS_FOR = {
    "DatasetConnectError": "InvalidInputError",
    "InvalidDestinationPathError": "InvalidInputError",
    "InvalidSourcePathError": "InvalidInputError",
    "CorruptedMetaError": "DatasetCorruptError",
    "FailedIngestionError": "IngestionError",
    "MissingManagedCredsError": "ManagedCredentialsNotFoundError",
    "S3DeletionError": "StorageError",
    "S3Error": "StorageError",
    "S3GetAccessError": "StoragePermissionError",
    "S3GetError": "StorageError",
    "S3ListError": "StorageError",
    "S3SetError": "StorageError",
    "TensorUnsupportedSampleType": "TensorDtypeMismatchError",
    "TransformFailedError": "TransformError",
}
"""Name of 3.9.52 -> the exception that is raised here for the same reason."""

_BELOW = {
    "AgreementNotAcceptedError": "AgreementError",
    "ChunkIdEncoderError": "ChunkEngineError",
    "ChunkSizeTooSmallError": "ChunkEngineError",
    "CouldNotCreateNewDatasetException": "AuthorizationException",
    "FullChunkError": "ChunkEngineError",
    "InvalidTensorLinkError": "MetaError",
    "MetaAlreadyExistsError": "MetaError",
    "MetaDoesNotExistError": "MetaError",
    "MetaInvalidKey": "MetaError",
    "MetaInvalidRequiredMetaKey": "MetaError",
    "NotLoggedInAgreementError": "AgreementError",
}
"""Classes that are never raised -> their base class."""


def __getattr__(name: str) -> Any:
    if name in globals():
        return globals()[name]
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(errors, _STANDS_FOR.get(name, name), None)
    if found is None:
        bases = (__getattr__(_BELOW[name]),) if name in _BELOW else (errors.LakebedError,)
        if name == "UnsupportedTensorTypeError":
            bases = (*bases, TypeError)
        found = type(
            name, bases, {"__doc__": "Of Deep Lake 3.x; nothing here raises it.", "__module__": __name__}
        )
    globals()[name] = found
    return found
