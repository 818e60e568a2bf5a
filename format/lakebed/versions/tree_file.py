"""Reading of the version tree from storage (format.md 9.1)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from weakref import WeakValueDictionary

from lakebed.documents.commits import ColdNodes, Commits
from lakebed.documents.version_tree import VersionTree, tail_begins
from lakebed.errors import (
    DatasetCorruptError,
    DatasetNotFoundError,
    FormatError,
    HistoryMissingError,
    KeyNotFound,
    LimitError,
    StorageError,
)
from lakebed.storage.base import Storage, place_of, traits_of

TREE_KEY = "version_control_info.json"

_META_KEY = "dataset_meta.json"
_COMMIT_KEY = "commit_info.json"

ADVICE = "`lakebed repair URL --plan` shows what can be saved"

# Number of bytes that are read from the end of the tree. It is enough for about forty branches locally. Over a network,
# where a longer read takes no more time, it is enough for about four hundred versions.
_TAIL_BYTES = 16_384
_TAIL_BYTES_REMOTE = 131_072

_older: WeakValueDictionary[str, ColdNodes] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class TreeAt:
    """The version tree, and the identity of the stored object from which it was read."""

    tree: VersionTree
    etag: str | None
    text: bytes = field(default=b"", compare=False, repr=False)
    """The whole object if it is short, so that the same bytes need not be parsed again."""


def read_tree(storage: Storage) -> VersionTree:
    """Read the version tree; see :func:`read_tree_at`."""
    return read_tree_at(storage).tree


def read_tree_at(storage: Storage, known: TreeAt | None = None) -> TreeAt:
    """Read the version tree, and the identity of the stored object.

    The end of the file has everything that opening and publishing need, however long the history; earlier parts are
    read when an older version is needed.

    Parameters
    ----------
    known
        An earlier result, which may still be current.

    Raises
    ------
    DatasetNotFoundError
        If the storage contains no dataset.
    DatasetCorruptError
        If the file cannot be parsed.
    """
    with _reading(storage):
        part = storage.get_tail(TREE_KEY, _TAIL_BYTES if traits_of(storage).local else _TAIL_BYTES_REMOTE)
        text = part.data if len(part.data) == part.stat.size else b""
        if known is not None and text and text == known.text:
            return TreeAt(remembered(storage, known.tree), part.stat.etag, text)
        begins = tail_begins(part.data)
        while len(part.data) < part.stat.size - (begins or 0):
            part = storage.get_tail(TREE_KEY, part.stat.size - (begins or 0))
            begins = tail_begins(part.data)
        tree = VersionTree.from_tail(part.data, part.stat.size, lambda: _get_tree(storage))
        if tree is None:
            tree = VersionTree.from_bytes(part.data)
    older = _older.get(place_of(storage))
    if older is not None:
        tree = replace(tree, commits=Commits.of(tree.commits).sharing(older))
    return TreeAt(remembered(storage, tree), part.stat.etag, text)


def remembered(storage: Storage, tree: VersionTree) -> VersionTree:
    """Keep the older versions of a dataset for the lifetime of this tree, and return the tree."""
    _older[place_of(storage)] = Commits.of(tree.commits).cold
    return tree


def _get_tree(storage: Storage) -> bytes:
    with _reading(storage):
        return storage.get(TREE_KEY)


def is_dataset(storage: Storage) -> bool:
    """Return whether a storage holds a dataset with tensors, even if its version tree is missing.

    Files that a failed creation left contain no tensors, so they do not count as a dataset.
    """
    if storage.stat(_META_KEY) is None and storage.stat(_COMMIT_KEY) is None:
        return False
    return any(key.endswith("/tensor_meta.json") for key, _ in storage.list())


def error_if_deleted(storage: Storage) -> DatasetNotFoundError | None:
    """Return the error for a dataset that was deleted after it was opened; None if it still exists."""
    if storage.stat(TREE_KEY) is not None or is_dataset(storage):
        return None
    return DatasetNotFoundError(
        f"A dataset does not exist at {storage.url} any more: it was deleted after it was opened here."
    )


def _instead(storage: Storage) -> str:
    """Return advice for a place without a dataset, depending on the files found there."""
    if Path(storage.url).is_file():
        return "It is a file: lakebed.read(path) reads one, lakebed.import_from('auto', path, dest) imports a table."
    with suppress(StorageError):
        if next(iter(storage.list()), None) is not None:
            return "Other files are there: lakebed.import_from('auto', path, dest) makes a dataset of them."
    return "Check the path, or create one with lakebed.empty()."


@contextmanager
def _reading(storage: Storage) -> Iterator[None]:
    """Add the address of the dataset to errors about a missing or damaged version tree."""
    try:
        yield
    except KeyNotFound:
        if is_dataset(storage):
            raise HistoryMissingError(
                f"{TREE_KEY} of {storage.url} is missing, though versions of a dataset exist; {ADVICE}",
                dataset=storage.url,
            ) from None
        raise DatasetNotFoundError(
            f"A dataset does not exist at {storage.url}. {_instead(storage)}"
        ) from None
    except FormatError as error:
        raise DatasetCorruptError(
            f"{TREE_KEY} of {storage.url} is damaged: {error}; {ADVICE}", dataset=storage.url
        ) from error
    except LimitError as error:
        raise located(error, f"{TREE_KEY} of {storage.url}", storage.url) from error


def located(error: LimitError, where: str, url: str) -> LimitError:
    """Return the error about a limit with the place where the limit was exceeded."""
    return LimitError(f"{where} can not be opened: {error}", limit=error.limit, dataset=url)
