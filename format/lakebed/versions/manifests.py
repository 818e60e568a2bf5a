"""Manifests in storage, their digests in the version tree, and the times of the digests of heads.

Manifests of small versions are complete; manifests of large versions hold the difference from an older manifest.

Deep Lake 3.9.52 drops keys that it does not know when it rewrites ``version_control_info.json``: at a commit, at a new
branch, at the first ``ds.append``. So a digest in the tree confirms the manifest of a committed version. But 3.9.52
changes an uncommitted head in place without rewriting the tree (append, pop, update, info through a tensor): there, the
files must also be no younger than the digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from lakebed.documents.commits import Commits
from lakebed.documents.frozen import OnDemand
from lakebed.documents.manifest import PAGED, Manifest, digest_of
from lakebed.documents.manifest_delta import Read, Whole, delta_bytes, read_manifest
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import FormatError
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import INDEX
from lakebed.versions.state import Origin

if TYPE_CHECKING:
    from lakebed.versions.paged import PagedTable

# Key of the tables of tensors in pages in ``Read.made``.
_TABLES = "tables"
# Manifests below this size in bytes are written as a whole; opening such a version saves one read.
_SMALL = 65_536
# Estimated size in bytes of the header entry of a file or of a tensor.
_NAME_BYTES = 100


def manifest_key(version_id: str) -> str:
    """Storage key of a version's manifest."""
    return f".lakebed/manifest-{version_id}"


def base_reader(storage: Storage) -> Callable[[str], bytes]:
    """Return a function that reads the manifest of a version that is the base of another."""
    return lambda version: storage.get(manifest_key(version))


def load_manifest(storage: Storage, version_id: str, sealed: str | None = None) -> Read:
    """Read a version's manifest, and its base if it has one.

    Parameters
    ----------
    sealed
        Digest of the manifest in the version tree. Chunk places of a manifest with this digest are parsed on access;
        chunk places of other manifests are checked at once.

    Raises
    ------
    KeyNotFound
        If the version has no manifest.
    FormatError
        If the manifest or its base is damaged, or its base is missing.
    """
    found = parse_manifest(storage, storage.get(manifest_key(version_id)))
    if found.digest != sealed:
        dict(found.manifest.chunks)
    return found


def parse_manifest(storage: Storage, data: bytes) -> Read:
    """Parse a manifest of any kind; errors as in :func:`load_manifest`.

    Files and chunk places of tensors in pages are read on access; `tables_of` returns their tables.
    """
    if data[:8] != PAGED:
        return read_manifest(data, base_reader(storage))
    from lakebed.documents.indexes import pages
    from lakebed.versions.paged import opened

    rest, described = pages.read_manifest(data)
    found = read_manifest(rest, base_reader(storage))
    manifest = found.manifest
    tables = opened(storage, manifest.version_id, described)
    files = {f"{key}/{INDEX}": table for key, table in tables.items()}
    if not (manifest.files.keys().isdisjoint(files) and manifest.chunks.keys().isdisjoint(tables)):
        raise FormatError("the manifest is damaged: it describes a tensor twice")
    whole = Manifest(
        manifest.version_id,
        OnDemand(
            [*manifest.files, *files],
            lambda name: files[name].index_bytes() if name in files else manifest.files[name],
        ),
        OnDemand(
            [*manifest.chunks, *tables],
            lambda key: tables[key].places if key in tables else manifest.chunks[key],
        ),
    )
    return Read(whole, digest_of(data), found.base, found.spent, {_TABLES: tables})


def tables_of(found: Read) -> Mapping[str, PagedTable]:
    """Return the tables of tensors in pages by key."""
    tables: Mapping[str, PagedTable] = found.made.get(_TABLES, {})
    return tables


def origin_of(found: Read) -> Origin:
    """Return the origin for new versions that are made from the version whose manifest was read."""
    trees = {key: table.tree for key, table in tables_of(found).items()}
    return Origin(found.manifest.version_id, found.manifest.files, (found.base,), found.spent, trees)


def write_manifest(
    manifest: Manifest, origin: Origin | None, tree: VersionTree, *, is_changed: bool
) -> tuple[bytes, Origin]:
    """Serialise a manifest: whole, or as the difference from a permanent manifest in this version's history.

    Only manifests of commits and checkpoints serve as a base, because they stay as long as their descendants. Once the
    differences since the last whole manifest are as large as that manifest, a version with changes gets a whole
    manifest again; in the long run, this doubles the written bytes.

    Parameters
    ----------
    origin
        The origin of this version.
    tree
        The history with the new version.
    is_changed
        Whether the version differs from its parent.

    Returns
    -------
    bytes, Origin
        The bytes to store, and the origin of versions made from this one.
    """
    base = next((whole for whole in origin.wholes if _is_commit(tree, whole)), None) if origin else None
    size = _size(manifest)
    if origin is not None and base is not None and size > _SMALL:
        spent = origin.spent if base is origin.wholes[-1] else 0
        data = delta_bytes(manifest, base, spent)
        if 2 * len(data) <= size and (spent + len(data) <= base.size or not is_changed):
            return data, Origin(manifest.version_id, manifest.files, (base,), spent + len(data))
    data = manifest.to_bytes()
    whole = Whole(manifest, digest_of(data), len(data))
    return data, Origin(manifest.version_id, manifest.files, (whole,) if base is None else (whole, base))


def _is_commit(tree: VersionTree, whole: Whole) -> bool:
    commits, version = Commits.of(tree.commits), whole.manifest.version_id
    node = commits.hot.get(version)
    return commits.cold.has(version) if node is None else bool(node.children) or node.is_committed


def _size(manifest: Manifest) -> int:
    """Return the approximate size of the whole manifest in bytes."""
    files = sum(map(len, manifest.files.values()))
    rows = 0
    for places in manifest.chunks.values():
        layouts = places.known_layouts
        words = 0 if layouts is None else len(layouts.words)
        rows += 13 * len(places.sizes) + 8 * len(places.sums) + 4 * words
    return files + rows + _NAME_BYTES * (len(manifest.files) + len(manifest.chunks))


# -- digests ----------------------------------------------------------------------------------------------------------


class Digests(Mapping[str, str]):
    """The checksums of confirmed manifests by version, looked up on access."""

    def __init__(self, tree: VersionTree) -> None:
        self._tree = tree

    def __getitem__(self, version: str) -> str:
        digest = self._tree.commits[version].digest
        if digest is None:
            raise KeyError(version)
        return digest

    def __iter__(self) -> Iterator[str]:
        return (version for version, node in self._tree.commits.items() if node.digest is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def digests_of(tree: VersionTree) -> Mapping[str, str]:
    """Return {version id: checksum of its manifest}; empty when 3.9.52 was the last writer."""
    return Digests(tree)


def digest_time(tree: VersionTree, version: str) -> int:
    """Return the time of a head's digest in nanoseconds since 1970; 0 if unknown."""
    times = tree.own("times")
    found = times.get(version) if isinstance(times, dict) else None
    return found if isinstance(found, int) else 0


def with_digests(tree: VersionTree, digests: Mapping[str, str], now: int) -> VersionTree:
    """Return the tree with digests made at a time in nanoseconds; digests of versions that it lacks are dropped."""
    times = {
        head: now if head in digests else digest_time(tree, head)
        for head in sorted(set(tree.branches.values()))
        if head in digests or tree.commits[head].digest is not None
    }
    return tree.with_digests(digests).with_own("times", times)
