"""The exceptions of ``deeplake.util.exceptions``, all of them: scripts name them in ``except``.

Those that lakebed raises are its own. Others are what stands for them here, or classes that nothing raises.
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
"""What 3.9.52 has."""

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
"""Classes that nothing raises -> the class that they are below of."""


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(errors, _STANDS_FOR.get(name, name), None)
    if found is None:
        bases: tuple[type[BaseException], ...] = (errors.LakebedError,)
        if name in _BELOW:
            bases = (_class(_BELOW[name]),)
        elif name == "UnsupportedTensorTypeError":
            bases = (errors.LakebedError, TypeError)
        found = type(
            name, bases, {"__doc__": "Of Deep Lake 3.x; nothing here raises it.", "__module__": __name__}
        )
    globals()[name] = found
    return found


def _class(name: str) -> type[BaseException]:
    found: type[BaseException] = globals().get(name) or __getattr__(name)
    return found
