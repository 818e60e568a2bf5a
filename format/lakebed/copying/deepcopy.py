"""Copy of a dataset with all its history: in parallel, verified, and continued after a kill.

The version tree is written last: until then the copy is not a dataset, and a journal beside the arrived objects lets
the next attempt continue.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lakebed.copying.transfer import Item, Sums, Transfer, recorded_sums, transfer_rest
from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.indexes.chunk_ids import STUB
from lakebed.documents.indexes.pages import FOLDER as PAGES
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import ChecksumError, CorruptError, DatasetExistsError, KeyNotFound
from lakebed.session.copy_journal import FOLDER, Journal, Origin
from lakebed.storage.base import Data, Stat, Storage, traits_of
from lakebed.storage.concurrently import concurrently
from lakebed.versions.add_digests import add_digests, renew_digests
from lakebed.versions.chunk_table import INDEX, ChunkTable, folder_of
from lakebed.versions.locks.marker import released_file
from lakebed.versions.manifests import digests_of
from lakebed.versions.opening import TREE_KEY, manifest_key, open_version
from lakebed.versions.paged import PagedTable, readable, table_of_stub
from lakebed.versions.publish import chunk_set
from lakebed.versions.state import Snapshot
from lakebed.versions.swap import read_tree_at
from lakebed.writing.names import normalize
from lakebed.writing.structure import companions_of, is_inside, without

# Maximum number of versions in memory while checksums are collected.
_AT_ONCE = 16
# Number of attempts: a writer may remove objects of the source after they were listed.
_ROUNDS = 5
_SHOWN = 5

_FOLDER = re.compile(r"^versions/[^/]*/")

_log = logging.getLogger(__name__)


def deepcopy(
    source: Storage,
    target: Storage,
    tensors: Sequence[str] | None,
    *,
    deeplake3: bool = False,
    progressbar: bool,
) -> None:
    """Copy a dataset to an empty place, or to an unfinished copy of it.

    Parameters
    ----------
    tensors
        Names of the tensors or groups to keep, in every version; None keeps all.
    deeplake3
        Write the chunk index of tensors of any size as Deep Lake 3.9.52 reads it.

    Raises
    ------
    ChecksumError
        If chunks of the source are damaged or missing. Everything else has been copied; once they are repaired, a
        second call continues.
    DatasetExistsError
        If the copy was finished before, and has been written since.
    """
    journal = Journal(target, Origin.of(source, tensors))
    tree, plan, sums = _copy_objects(source, target, tensors, journal, progressbar=progressbar)
    replaced = _without_stubs(target, VersionTree.from_bytes(tree)) if deeplake3 else []
    if target.stat(TREE_KEY) is None:
        target.put(TREE_KEY, tree)
    at = read_tree_at(target)
    if replaced:
        renew_digests(target, at, replaced, sums)
        at = read_tree_at(target)
    # A manifest names all tensors of its version: if some tensors are not copied, write all manifests anew, also that
    # of the root, which users cannot open.
    had = digests_of(at.tree) if tensors is None else {}
    digests = digests_of(
        add_digests(target, at, sums)
        if tensors is None
        else renew_digests(target, at, list(dict.fromkeys((*_visible(at.tree), *digests_of(at.tree)))), sums)
    )
    if not traits_of(target).system_locks:
        # Without system locks, readers trust the manifest of a head only if its lock file names it.
        heads = set(at.tree.branches.values())
        confirmed = [i for i in heads if i in digests and (i in plan.trusted or i not in had)]
        target.put_many([released_file(head, digests[head]) for head in confirmed])
    journal.end()


def _without_stubs(target: Storage, tree: VersionTree) -> list[str]:
    """Write the chunk indexes and sets in place of all stubs, without manifests; return their versions.

    Folders of versions that no branch has, garbage of the source, stay as they are: their pages may be gone.
    """
    visible = set(_visible(tree))
    found: dict[str, list[tuple[str, Data]]] = {}
    for key in [k for k, stat in target.list("") if k.endswith(f"/{INDEX}") and stat.size > len(STUB)]:
        version = key.split("/")[1] if _FOLDER.match(key) else FIRST
        if version in visible and target.get_range(key, 0, len(STUB)) == STUB:
            tensor = _FOLDER.sub("", key)[: -len(f"/{INDEX}")]
            table = table_of_stub(target, version, tensor, target.get(key)).owned()
            names = chunk_set(version, tensor, table).to_bytes()
            items = found.setdefault(version, [])
            items += [(key, table.whole_index()), (f"{folder_of(version)}{tensor}/chunk_set", names)]
    for version, items in found.items():
        target.delete(manifest_key(version))
        target.put_many(items)
    return list(found)


def _copy_objects(
    source: Storage,
    target: Storage,
    tensors: Sequence[str] | None,
    journal: Journal,
    *,
    progressbar: bool,
) -> tuple[bytes, _Plan, dict[str, Sums]]:
    """Copy everything but the version tree; return the tree, the plan, and the known checksums of chunks."""
    transfer = partial(Transfer, source, target)
    for _ in range(_ROUNDS):
        # Read the tree before the folders, because the versions that it names do not change afterwards.
        tree = source.get(TREE_KEY)
        parsed = VersionTree.from_bytes(tree)
        _check_unfinished(target, parsed)
        plan = _plan(source, parsed, tensors)
        here = {key: stat.size for key, stat in target.list("")}
        outcome = transfer_rest("Copying", plan.items, here, journal, transfer, progressbar=progressbar)
        if outcome.missing and source.get(TREE_KEY) != tree:
            _log.info("%s was written while it was copied: reading it again", source.url)
            continue
        target.put_many(plan.rewritten.items())
        drop_others(target, here, {*(item.key for item in plan.items), *plan.rewritten})
        lost = dict.fromkeys((key for key in outcome.missing if key in plan.sums), "it is missing")
        report(source, {**plan.damaged, **outcome.damaged, **lost})
        return tree, plan, {**plan.sums, **outcome.sums}
    raise DatasetExistsError(
        f"{source.url} is written faster than it can be copied: stop its writers, and copy it again"
    )


def _check_unfinished(target: Storage, tree: VersionTree) -> None:
    """Refuse to continue a finished copy that no longer equals its source."""
    try:
        present = VersionTree.from_bytes(target.get(TREE_KEY))
    except KeyNotFound:
        return
    if present.branches != tree.branches or set(present.commits) != set(tree.commits):
        raise DatasetExistsError(
            f"the copy at {target.url} was finished, and it or its source has been written since; choose another "
            "destination, or pass overwrite=True"
        )


# -- the plan ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    """The contents of a copy.

    Parameters
    ----------
    items
        Objects to copy unchanged.
    rewritten
        Objects that differ in the copy: dataset_meta.json without the dropped tensors.
    sums
        Recorded checksums of the chunks.
    damaged
        Damage that is known before anything is read.
    trusted
        Versions with valid manifests.
    """

    items: list[Item]
    rewritten: Mapping[str, bytes]
    sums: Mapping[str, Sums]
    damaged: Mapping[str, str]
    trusted: AbstractSet[str]


def _plan(source: Storage, tree: VersionTree, tensors: Sequence[str] | None) -> _Plan:
    listed = own_objects(source)
    chosen = _Choice.of(source, tree, tensors)
    sums: dict[str, Sums] = {}
    damaged: dict[str, str] = {}
    measured, named = _Seen(), _Seen()
    trusted: set[str] = set()
    pages: set[str] = set()
    for snapshot in _snapshots(source, tree, damaged):
        if snapshot.origin is not None:
            trusted.add(snapshot.version_id)
        _add_pages(snapshot, chosen, pages)
        tables = [s.table for key, s in snapshot.tensors.items() if chosen.has(f"{key}/")]
        parts = [part for table in tables for part in readable(table, damaged)]
        for key, size, values in _chunks(parts, measured, named):
            if chosen.has(key):
                if size or key not in sums:
                    sums[key] = (size, values)
                if key not in listed:
                    damaged[key] = "it is missing"
    items = [
        Item(key, stat, known if (known := sums.get(key)) and known[0] else None)
        for key, stat in listed.items()
        if (chosen.has(key) or key in pages) and key not in chosen.rewritten
    ]
    return _Plan(
        items, chosen.rewritten, {key: known for key, known in sums.items() if known[0]}, damaged, trusted
    )


def _add_pages(snapshot: Snapshot, chosen: _Choice, pages: set[str]) -> None:
    """Add the keys of the pages of the chosen tensors whose chunks nothing else names."""
    for key, state in snapshot.tensors.items():
        if isinstance(state.table, PagedTable) and state.table.index.is_stub and chosen.has(f"{key}/"):
            state.table.tree.keys(pages, damaged=True)


def own_objects(source: Storage) -> dict[str, Stat]:
    """Return the objects of the dataset's content by key, without other datasets in folders below it."""
    listed = {key: stat for key, stat in source.list("") if not _stays(key)}
    nested = tuple(
        key.removesuffix(name)
        for key in listed
        for name in (TREE_KEY, f"{FOLDER}source.json")
        if key.endswith(f"/{name}") and not key.startswith(".queries/")
    )
    return {key: stat for key, stat in listed.items() if not key.startswith(nested)}


def _stays(key: str) -> bool:
    """Tell whether an object is outside of the dataset's content: locks, the tree, the journal of a copy."""
    return key.endswith(".lock") or key == TREE_KEY or key.startswith(FOLDER)


def _visible(tree: VersionTree) -> list[str]:
    """Return the versions that users can open: commits and heads."""
    heads = set(tree.branches.values())
    return [i for i, node in tree.commits.items() if node.is_committed or i in heads]


def _snapshots(source: Storage, tree: VersionTree, damaged: dict[str, str]) -> Iterator[Snapshot]:
    """Open every visible version, a few at a time."""
    ids = _visible(tree)

    def opened(version_id: str) -> Snapshot | None:
        try:
            return open_version(source, tree, version_id)
        except CorruptError as error:
            damaged[f"{folder_of(version_id)}dataset_meta.json"] = f"this version does not open: {error}"
            return None

    for first in range(0, len(ids), _AT_ONCE):
        calls = [partial(opened, version_id) for version_id in ids[first : first + _AT_ONCE]]
        found = [call() for call in calls] if traits_of(source).local else concurrently(calls)
        yield from (snapshot for snapshot in found if snapshot is not None)


class _Seen:
    """Ids of known chunks by folder, sorted; needed because versions name the chunks of earlier versions again."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], NDArray[np.uint64]] = {}

    def new(self, folder: tuple[str, str], ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Tell which ids are new, and add them."""
        before = self._ids.get(folder, np.zeros(0, np.uint64))
        found = ~np.isin(ids, before)
        self._ids[folder] = np.union1d(before, ids[found])
        return found


def _chunks(
    tables: Iterable[ChunkTable], measured: _Seen, named: _Seen
) -> Iterator[tuple[str, int, Sequence[int]]]:
    """Yield key, size and checksums of the new chunks of some tables; size 0 if it was not recorded."""
    for table in tables:
        places = table.places
        sums = recorded_sums(places)
        for number, folder in enumerate(places.folders):
            rows = np.flatnonzero(places.folder_of == number)
            for seen, mine in (
                (measured, rows[places.sizes[rows] > 0]),
                (named, rows[places.sizes[rows] == 0]),
            ):
                for row in mine[seen.new(folder, table.ids.ids[mine])].tolist():
                    yield table.key(row), *sums(row)


@dataclass(frozen=True)
class _Choice:
    """The objects of the tensors that are copied.

    Parameters
    ----------
    dropped
        Keys of the dropped tensors, each followed by ``/``.
    rewritten
        Documents of the versions without the dropped tensors.
    """

    dropped: tuple[str, ...] = ()
    rewritten: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Storage, tree: VersionTree, tensors: Sequence[str] | None) -> _Choice:
        """Choose tensors or groups by the names that they have in each version.

        A tensor kept in one version is kept in all versions: it may have other names in the other versions, and its
        chunks may be in the folders of these.
        """
        if tensors is None:
            return cls()
        names = [normalize(name) for name in tensors]
        metas: dict[str, DatasetMeta] = {}
        for version_id in tree.commits:
            folder = folder_of(version_id)
            with suppress(KeyNotFound):
                metas[folder] = DatasetMeta.from_bytes(source.get(f"{folder}dataset_meta.json"))
        kept = {folder: _kept_keys(meta, names) for folder, meta in metas.items()}
        somewhere = set().union(*kept.values())
        rewritten: dict[str, bytes] = {}
        for folder, meta in metas.items():
            gone = [key for key in meta.tensors if key not in kept[folder]]
            groups = tuple(g for g in meta.groups if any(is_inside(n, g) or is_inside(g, n) for n in names))
            rewritten[f"{folder}dataset_meta.json"] = replace(without(meta, gone), groups=groups).to_bytes()
        nowhere = {key for meta in metas.values() for key in meta.tensors if key not in somewhere}
        dropped = [f"{key}/" for key in nowhere if not any(is_inside(other, key) for other in somewhere)]
        # Exclude manifests and pages, too, because they name all tensors.
        return cls((manifest_key(""), PAGES, *sorted(dropped)), rewritten)

    def has(self, key: str) -> bool:
        """Tell whether an object belongs to a tensor that is kept."""
        return not _FOLDER.sub("", key).startswith(self.dropped)


def _kept_keys(meta: DatasetMeta, names: Sequence[str]) -> set[str]:
    """Return the keys of the tensors of one version that are kept, hidden companions included."""
    all_names = meta.tensor_names or {key: key for key in meta.tensors}
    kept = {name for name in all_names if any(is_inside(name, wanted) for wanted in names)}
    for name in list(kept):
        kept.update(companions_of(meta, name).values())
    return {all_names[name] for name in kept}


# -- the result --------------------------------------------------------------------------------------------------


def drop_others(target: Storage, here: Iterable[str], wanted: set[str]) -> None:
    """Remove objects of an earlier attempt that the source no longer has."""
    for key in here:
        if key not in wanted and not _stays(key):
            target.delete(key)


def report(source: Storage, damaged: Mapping[str, str]) -> None:
    """Raise an error if a part of the source could not be copied intact.

    Parameters
    ----------
    damaged
        Keys and their damage.
    """
    if not damaged:
        return
    raise ChecksumError(
        f"{source.url} is damaged and was not copied as a whole: {describe(damaged)}. Everything else has been copied: "
        "bring the damaged objects back, or repair the dataset (lakebed repair), and copy it again to continue",
        dataset=source.url,
    )


def describe(damaged: Mapping[str, str]) -> str:
    """Return the first keys and their damage."""
    lines = "; ".join(f"{key}: {why}" for key, why in sorted(damaged.items())[:_SHOWN])
    return f"{lines}; and {len(damaged) - _SHOWN:,} more" if len(damaged) > _SHOWN else lines
