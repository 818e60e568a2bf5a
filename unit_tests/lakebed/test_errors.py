"""The error tree is the one that its docstring draws, and its errors behave like their builtins."""

from __future__ import annotations

import builtins
import pickle
import re

from lakebed import errors
from lakebed.errors import LakebedError

CLASSES = {
    name: item
    for name, item in vars(errors).items()
    if isinstance(item, type) and issubclass(item, LakebedError)
}
DEEP_LAKE_3 = [
    "IngestionError",
    "InvalidPathException",
    "SamePathException",
    "InvalidFileExtension",
    "InvalidPandasDataframeError",
    "ExternalCommandError",
    "KaggleError",
    "KaggleMissingCredentialsError",
    "KaggleDatasetAlreadyDownloadedError",
    "DatasetHandlerError",
    "DatasetCorruptError",
    "DatasetViewSavingError",
    "ReadOnlyModeError",
    "LockedException",
    "CheckoutError",
    "VersionControlError",
    "EmptyCommitError",
    "TensorModifiedError",
    "MergeError",
    "MergeConflictError",
    "MergeMismatchError",
    "MergeNotSupportedError",
    "CommitError",
    "TensorDoesNotExistError",
    "TensorAlreadyExistsError",
    "TensorGroupAlreadyExistsError",
    "TensorGroupDoesNotExistError",
    "InvalidTensorNameError",
    "InvalidTensorGroupNameError",
    "InvalidKeyTypeError",
    "SampleAppendError",
    "SampleAppendingError",
    "SampleExtendError",
    "SampleExtendingError",
    "SampleUpdateError",
    "DynamicTensorNumpyError",
    "EmptyTensorError",
    "TensorDtypeMismatchError",
    "TensorInvalidSampleShapeError",
    "TensorMetaInvalidHtype",
    "TensorMetaMissingRequiredValue",
    "TensorMetaInvalidHtypeOverwriteKey",
    "TensorMetaInvalidHtypeOverwriteValue",
    "TensorMetaMutuallyExclusiveKeysError",
    "UnsupportedCompressionError",
    "InvalidOperationError",
    "PathNotEmptyException",
    "GroupInfoNotSupportedError",
    "InfoError",
    "InvalidShapeIntervalError",
    "RenameError",
    "InvalidViewException",
    "UnsupportedParameterException",
    "MemoryDatasetCanNotBePickledError",
    "TensorTooLargeToDelete",
    "DatasetTooLargeToDelete",
    "SampleReadError",
    "SampleDecompressionError",
    "GetChunkError",
    "ReadSampleFromChunkError",
    "ModuleNotInstalledException",
    "BadLinkError",
    "MissingCredsError",
    "ManagedCredentialsNotFoundError",
    "EmptyPolygonError",
    "SampleHtypeMismatchError",
    "IncompatibleHtypeError",
    "SampleCompressionError",
    "MeshTensorMetaMissingRequiredValue",
    "UnableToReadFromUrlError",
    "GetDataFromLinkError",
    "CorruptedSampleError",
    "TransformError",
    "AllSamplesSkippedError",
    "HubComposeEmptyListError",
    "HubComposeIncompatibleFunction",
    "InvalidInputDataError",
    "InvalidOutputDatasetError",
    "InvalidTransformDataset",
    "TensorMismatchError",
    "UnsupportedSchedulerError",
]


def drawn() -> dict[str, tuple[str, bool, list[str]]]:
    """{class: (parent, whether a 3.x name, builtins)} as the docstring draws them."""
    tree: dict[str, tuple[str, bool, list[str]]] = {}
    above = ["LakebedError"]
    for line in str(errors.__doc__).splitlines():
        found = re.match(r"    ((?:│   |    )*)[├└]── (.*)", line)
        if not found:
            continue
        depth = len(found[1]) // 4 + 1
        text = re.split(r"  +", found[2])[0]
        names = re.findall(r"([A-Z]\w+)(\*?)(?: \(([^)]*)\))?", text)
        for name, star, bases in names:
            tree[name] = (above[depth - 1], bool(star), bases.split(", ") if bases else [])
        above[depth:] = [names[-1][0]]
    return tree


def test_docstring_draws_the_tree() -> None:
    """Every class stands below its parent, with its builtins and its 3.x mark."""
    tree = drawn()
    assert set(tree) | {"LakebedError", "CompressionError"} == set(CLASSES)
    for name, (parent, is_old, bases) in tree.items():
        assert CLASSES[parent] in CLASSES[name].__mro__, name
        assert is_old == (name in DEEP_LAKE_3 or name == "MetaError"), name
        for base in bases:
            assert issubclass(CLASSES[name], getattr(builtins, base)), (name, base)


def test_names_of_deep_lake_3_are_in_the_tree() -> None:
    """A script that catches a 3.x name finds it."""
    for name in DEEP_LAKE_3:
        assert issubclass(CLASSES[name], LakebedError), name


def test_message_survives_printing_and_pickling() -> None:
    """No builtin base adds quotes or numbers to the text, and workers can send errors back."""
    for name, kind in CLASSES.items():
        error = kind("what, where, what to do")
        assert str(error) == "what, where, what to do", name
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind, name
        assert str(again) == str(error), name
        assert str(kind()) == "", name


def test_details_survive_pickling() -> None:
    """The place of damage and the operating system's number travel with the error."""
    damaged = errors.ChecksumError("m", dataset="d", tensor="t", row=3)
    again = pickle.loads(pickle.dumps(damaged))
    assert (again.dataset, again.tensor, again.row) == ("d", "t", 3)
    assert pickle.loads(pickle.dumps(errors.StorageFullError("m", errno=28))).errno == 28


def test_tensor_error_is_what_each_way_of_asking_raises() -> None:
    """`ds["x"]` users catch KeyError, `ds.x` users AttributeError."""
    assert issubclass(errors.TensorDoesNotExistError, KeyError)
    assert issubclass(errors.TensorDoesNotExistError, AttributeError)
