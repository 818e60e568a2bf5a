"""Datasets made from others: their structure, their present content, or everything with history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakebed.dataset import credentials
from lakebed.dataset.given import progress
from lakebed.dataset.handle import Handle
from lakebed.dataset.places import Path, make, remove
from lakebed.dataset.session import Session
from lakebed.dataset.structure import add_planned, blank
from lakebed.dataset.transplant import Source, columns
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import DatasetExistsError, TensorDoesNotExistError
from lakebed.reading.samples import SampleReader
from lakebed.storage.base import Storage
from lakebed.storage.url import open_storage
from lakebed.versions.opening import TREE_KEY, manifest_key
from lakebed.versions.sealing import seal
from lakebed.versions.state import Snapshot, folder_of
from lakebed.versions.swap import read_tree_at
from lakebed.writing.names import companion, companion_key, normalize
from lakebed.writing.structure import companions_of, is_inside, without

if TYPE_CHECKING:
    from lakebed.reading.select import Index


def chosen(schema: Snapshot, group: str, tensors: Sequence[str] | None) -> dict[str, str]:
    """Return {name in the group: full name} of the tensors to copy; a group's name stands for all inside.

    Raises
    ------
    TensorDoesNotExistError
        If there is neither a tensor nor a group of a name.
    """
    prefix = f"{group}/" if group else ""
    inside = {name[len(prefix) :]: name for name in schema.names() if name.startswith(prefix)}
    if tensors is None:
        return inside
    wanted = [normalize(name) for name in tensors]
    for name in wanted:
        if not any(is_inside(short, name) for short in inside) and prefix + name not in schema.meta.groups:
            raise TensorDoesNotExistError(f"Tensor {name!r} does not exist.")
    return {short: full for short, full in inside.items() if any(is_inside(short, name) for name in wanted)}


def copy_structure(schema: Snapshot, names: Mapping[str, str], target: Session) -> None:
    """Create tensors without samples in an empty dataset, with the settings and info of others.

    Parameters
    ----------
    names
        New name -> name in ``schema``.
    """
    with target.writing() as draft:
        draft.set_info(dict(schema.info))
        for new, old in names.items():
            add_planned(target, new, blank(schema, old, new))


def copy_samples(
    source: Session, names: Mapping[str, str], index: Index, target: Session, *, progressbar: bool
) -> None:
    """Append the selected rows of tensors to those that :func:`copy_structure` has made, as they are stored."""
    for new, old in progress(names.items(), shown=progressbar):
        key = source.schema().tensor(old).key
        reader = source.reader(key, old)
        rows = index.rows(reader.state.length)
        origin = Source(reader, _companions(source, old))
        with target.writing() as draft:
            state = target.schema().tensor(new)
            for column in columns(origin, rows, state):
                draft.extend({state.key: column})


def refuse_same_place(source: Session, dest: Path) -> None:
    """Refuse to make way for a copy by removing what is to be copied.

    Raises
    ------
    DatasetHandlerError
        If the destination is where the source is.
    """
    if open_storage(dest).url == source.storage.url:
        raise DatasetExistsError(
            f"{source.storage.url} can not be copied onto itself; choose another destination"
        )


def copied(
    source: Session,
    names: Mapping[str, str],
    index: Index | None,
    dest: Path,
    *,
    overwrite: bool,
    progressbar: bool = False,
) -> Handle:
    """Make a dataset from tensors of another.

    Parameters
    ----------
    names
        New name -> name in the source.
    index
        Rows to copy; None copies no samples.

    Raises
    ------
    DatasetHandlerError
        If there is a dataset at ``dest`` and ``overwrite`` is false, or ``dest`` is where the source is.
    """
    refuse_same_place(source, dest)
    handle = make(dest, overwrite=overwrite)
    target = handle.session
    try:
        target.hold()
        copy_structure(source.schema(), names, target)
        if source.storage.stat(credentials.KEY) is not None:
            target.storage.put(credentials.KEY, source.storage.get(credentials.KEY))
        if index is not None:
            copy_samples(source, names, index, target, progressbar=progressbar)
        target.release()
    except BaseException:
        target.discard()
        remove(target.storage)
        raise
    return handle


def _companions(session: Session, name: str) -> Callable[[str], SampleReader | None]:
    def find(kind: str) -> SampleReader | None:
        key = companion_key(session.schema().meta, name, kind)
        return None if key is None else session.reader(key, companion(name, kind))

    return find


def copy_everything(
    source: Session, target: Storage, tensors: Sequence[str] | None, *, progressbar: bool
) -> None:
    """Copy a whole dataset, history and all; it appears with the last file, and versions without checksums get them.

    Parameters
    ----------
    tensors
        Names of the tensors or groups to keep; None keeps all.
    """
    tree = source.storage.get(TREE_KEY)  # first: the folders that it names do not change any more
    commits = VersionTree.from_bytes(tree).commits
    keys = [key for key, _ in source.storage.list("") if not key.endswith(".lock") and key != TREE_KEY]
    try:
        for key in progress(keys, shown=progressbar):
            target.put(key, source.storage.get(key))
        if tensors is not None:
            target.delete_prefix(manifest_key(""))  # they name all tensors
            keep_tensors(target, [folder_of(commit) for commit in commits], [normalize(t) for t in tensors])
        target.put(TREE_KEY, tree)
        seal(target, read_tree_at(target))
    except BaseException:
        target.delete_prefix("")
        raise


def keep_tensors(storage: Storage, folders: Iterable[str], names: Sequence[str]) -> None:
    """Drop all tensors but some from every version of a dataset that nobody can open yet.

    Parameters
    ----------
    folders
        Key prefixes of the versions.
    names
        Tensors to keep, or groups of them.
    """
    for folder in folders:
        key = f"{folder}dataset_meta.json"
        if storage.stat(key) is None:
            continue
        meta = DatasetMeta.from_bytes(storage.get(key))
        kept = _kept(meta, names)
        gone = [k for k in meta.tensors if k not in kept]
        for tensor in gone:
            if not any(is_inside(other, tensor) for other in kept):
                storage.delete_prefix(f"{folder}{tensor}/")
        groups = tuple(g for g in meta.groups if any(is_inside(n, g) or is_inside(g, n) for n in names))
        storage.put(key, replace(without(meta, gone), groups=groups).to_bytes())


def _kept(meta: DatasetMeta, names: Sequence[str]) -> set[str]:
    all_names = meta.tensor_names or {key: key for key in meta.tensors}
    kept = {name for name in all_names if any(is_inside(name, wanted) for wanted in names)}
    for name in list(kept):
        kept.update(companions_of(meta, name).values())
    return {all_names[name] for name in kept}
