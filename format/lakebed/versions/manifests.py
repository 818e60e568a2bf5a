"""Manifests in storage, and their digests: what the version tree names of each, and when that of a head was made.

Manifests of small versions are whole; those of large ones hold what differs from an older one.

Deep Lake 3.9.52 drops keys that it does not know when it rewrites ``version_control_info.json``: at a commit, at a new
branch, at the first ``ds.append``. So the digest of a committed version says that its manifest is right. An uncommitted
head it changes in place, and leaves the tree as it is (append, pop, update, info through a tensor): there the files
must be no younger than the digest, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from lakebed.documents.commits import Commits
from lakebed.documents.manifest import Manifest, digest_of
from lakebed.documents.manifest_delta import Read, Whole, delta_bytes, read_manifest
from lakebed.documents.version_tree import VersionTree
from lakebed.storage.base import Storage
from lakebed.versions.state import Origin

# Manifests of fewer bytes are written whole, which saves a read when the version is opened.
_SMALL = 65_536
# Estimated size, in bytes, of the entry of a file or tensor in the header.
_NAME_BYTES = 100


def manifest_key(version_id: str) -> str:
    """Storage key of a version's manifest."""
    return f".lakebed/manifest-{version_id}"


def base_reader(storage: Storage) -> Callable[[str], bytes]:
    """Return a function that reads the manifest of a version, on which another builds."""
    return lambda version: storage.get(manifest_key(version))


def load_manifest(storage: Storage, version_id: str, sealed: str | None = None) -> Read:
    """Read a version's manifest, and its base if it has one.

    Parameters
    ----------
    sealed
        Digest that the version tree has of it: the chunk places of one that bears it are as they were written, and
        are parsed when they are asked for. Those of others are checked now.

    Raises
    ------
    KeyNotFound
        If there is none.
    FormatError
        If it, or what it builds on, is damaged or missing.
    """
    found = read_manifest(storage.get(manifest_key(version_id)), base_reader(storage))
    if found.digest != sealed:
        dict(found.manifest.chunks)
    return found


def origin_of(found: Read) -> Origin:
    """Return the origin of versions made from one that was read."""
    return Origin(found.manifest.version_id, found.manifest.files, (found.base,), found.spent)


def write_manifest(
    manifest: Manifest, origin: Origin | None, tree: VersionTree, *, is_changed: bool
) -> tuple[bytes, Origin]:
    """Serialise a manifest: whole, or as the difference from a permanent one of this version's history.

    Only manifests of commits, and of checkpoints, are built on: they stay as long as their descendants do. A version
    with changes gets a whole one again once all that was written since the last is as large: in the long run that
    doubles what is written.

    Parameters
    ----------
    origin
        The version that this one was made from.
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
    """Bytes of the whole manifest, roughly."""
    files = sum(map(len, manifest.files.values()))
    rows = 0
    for places in manifest.chunks.values():
        layouts = places.known_layouts
        words = 0 if layouts is None else len(layouts.words)
        rows += 13 * len(places.sizes) + 8 * len(places.sums) + 4 * words
    return files + rows + _NAME_BYTES * (len(manifest.files) + len(manifest.chunks))


# -- digests ----------------------------------------------------------------------------------------------------------


class Digests(Mapping[str, str]):
    """Checksum of the manifest of each version that has one to be trusted, looked up on access."""

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
    """Return when the digest of a head was made, in nanoseconds since 1970; 0 if that is not known."""
    times = tree.own("times")
    found = times.get(version) if isinstance(times, dict) else None
    return found if isinstance(found, int) else 0


def with_digests(tree: VersionTree, digests: Mapping[str, str], now: int) -> VersionTree:
    """Return the tree with digests made at a time in nanoseconds; those of versions that it lacks are dropped."""
    times = {
        head: now if head in digests else digest_time(tree, head)
        for head in sorted(set(tree.branches.values()))
        if head in digests or tree.commits[head].digest is not None
    }
    return tree.with_digests(digests).with_own("times", times)
