"""Repair of a dataset: its damage is found, and repaired versions are published as new heads.

Published versions are not changed. A damaged head is replaced by a new one, in one atomic step per branch; its folder
stays until the collector removes it. Only files whose right content is known, from a manifest that the tree confirms or
from the version tree, are restored in place.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.indexes.chunk_ids import STUB
from lakebed.documents.lock import DatasetLock
from lakebed.documents.manifest import PAGED, Manifest
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.documents.version_tree import FIRST, MAIN, CommitNode, VersionTree, new_id
from lakebed.errors import (
    CommitFailed,
    CorruptError,
    DatasetCorruptError,
    FormatError,
    KeyNotFound,
    LimitError,
    PreconditionFailed,
    ReadOnlyModeError,
)
from lakebed.maintenance.check import Damage, DocumentCheck, Findings
from lakebed.maintenance.displaced_publishes import OrphanRecovery, orphaned_publishes
from lakebed.maintenance.plan import RepairReport, VersionSteps
from lakebed.maintenance.rebuild import Rebuilt, rebuild
from lakebed.maintenance.repair_tensors import Repairer
from lakebed.maintenance.salvage import Salvage
from lakebed.maintenance.verify import Check, read_whole_tree
from lakebed.runtime import clock
from lakebed.session.session import Session
from lakebed.storage.base import Data, Storage, traits_of
from lakebed.versions.add_digests import renew_digests
from lakebed.versions.chunk_table import INDEX, folder_of
from lakebed.versions.derive import inherited
from lakebed.versions.locks.leases import Lease
from lakebed.versions.locks.marker import LOCK_NAME, lock_key, may_live, read_lock, release_lock
from lakebed.versions.manifests import digests_of, load_manifest, tables_of
from lakebed.versions.opening import TREE_KEY, open_version
from lakebed.versions.publish import publish
from lakebed.versions.refs import resolve
from lakebed.versions.state import Snapshot
from lakebed.versions.swap import TreeAt
from lakebed.versions.tree_file import is_dataset
from lakebed.versions.updates import CutBranch, DropBranch, SetTree, SwapHead, Update
from lakebed.writing.tensor_chunks import Files

_BLANK = VersionTree({}, {})


def repair(storage: Storage, *, apply: bool = False) -> RepairReport:
    """Repair a dataset, or report what a repair would do.

    Parameters
    ----------
    apply
        Repair; otherwise write nothing.

    Raises
    ------
    DatasetNotFoundError
        If neither a dataset nor remains of one exist.
    LockedException
        If another writer is active.
    """
    return _Repair(storage, apply, RepairReport(storage.url, apply)).run()


def fix_history(session: Session) -> None:
    """Repair the dataset if its version tree cannot be read; see ``Dataset.fix_vc``."""
    if session.read_only:
        raise ReadOnlyModeError(
            f"{session.storage.url} was opened read-only; open it with read_only=False to repair it"
        )
    with session.mutex:
        try:
            read_whole_tree(session.storage)
        except CorruptError:
            repair(session.storage, apply=True)
        session.refresh()


def check_integrity(storage: Storage, tree: VersionTree, version: str) -> None:
    """Check that the metadata files of a version exist, are undamaged and agree with each other.

    Raises
    ------
    DatasetCorruptError
        If metadata is missing, damaged, or contradicts other metadata.
    """
    findings = Findings(storage.url)
    DocumentCheck(storage, tree, findings).version(version)
    damage = next((damage for damage in findings.damage if damage.kind == "content"), None)
    if damage is not None:
        raise DatasetCorruptError(
            f"{storage.url}: {damage}; `lakebed repair URL --plan` shows what can be saved",
            dataset=storage.url,
        )


def recover(storage: Storage, ref: str | None) -> None:
    """Repair a dataset if a version of it does not open, or contradicts itself."""
    try:
        tree = read_whole_tree(storage).tree
        check_integrity(storage, tree, resolve(storage, tree, ref or MAIN))
    except CorruptError:
        repair(storage, apply=True)


@dataclass(slots=True)
class _Repair:
    """A repair."""

    _storage: Storage
    _apply: bool
    report: RepairReport

    def run(self) -> RepairReport:
        """Run all repairs, in the order of their dependencies."""
        tree = self._tree()
        tree = self._dangling_branches(tree)
        findings = self._checked(tree)
        self._locks()
        tree = self._files(tree, findings)
        for branch, head in list(tree.branches.items()):
            node = tree.commits[head]
            damages = [d for d in findings.get(head, ()) if d.kind == "content"]
            if damages and not node.is_committed and self._has_stub(head):
                # A new head would hold what its chunk sets and index name: nothing.
                for damage in damages:
                    self._keep(damage, "a tensor of this head has too many chunks to write the head anew")
            elif damages and not node.is_committed:
                tree = self._head(tree, node, branch)
        for version in orphaned_publishes(self._storage, tree):
            if version in tree.commits:
                tree = self._recovered(tree, version)
        for committed, damages in findings.items():
            if committed is None or committed not in tree.commits:
                continue
            if tree.commits[committed].is_committed:
                for damage in dict.fromkeys(damages):
                    if damage.kind == "content":
                        self._keep(damage, "commits are never changed")
        return self.report

    def _has_stub(self, version: str) -> bool:
        """Return whether pages name the chunks of a tensor of a version, even if its stub is damaged or gone."""
        with contextlib.suppress(KeyNotFound, FormatError, LimitError):
            tables = tables_of(load_manifest(self._storage, version))
            if any(table.index.is_stub for table in tables.values()):
                return True
        keys = (key for key, _ in self._storage.list(folder_of(version)) if key.endswith(f"/{INDEX}"))
        starts = (self._storage.get(key)[:32] for key in keys)
        return any(start.startswith(STUB) or PAGED in start for start in starts)

    def _keep(self, damage: Damage, why: str) -> None:
        rows = 0 if damage.rows is None else damage.rows[1] + 1 - damage.rows[0]
        self.report.add(
            "damage",
            f"not repaired, because {why}: {damage.message}",
            damage.branch,
            damage.version,
            damage.tensor,
            damage.rows,
            lost_rows=rows,
        )

    # -- the version tree --------------------------------------------------------------------------------------

    def _tree(self) -> VersionTree:
        """Read the version tree, or restore it."""
        try:
            return read_whole_tree(self._storage).tree
        except CorruptError:
            try:
                data: bytes | None = self._storage.get(TREE_KEY)
            except KeyNotFound:
                data = None
            stat = self._storage.stat(TREE_KEY)
        if not is_dataset(self._storage):
            self.report.add("damage", f"{TREE_KEY} is damaged, and no version exists to rebuild it from")
            return VersionTree({FIRST: CommitNode(FIRST, MAIN, None)}, {MAIN: FIRST})
        found = rebuild(self._storage, data, self.report)
        tree, heads = self._with_heads(found)
        if self._apply:
            at = TreeAt(_BLANK, None if stat is None else stat.etag)
            tree = publish(self._storage, at, [SetTree(tree)], heads).tree
            for head in heads:
                release_lock(self._storage, head.version_id)
        return tree

    def _with_heads(self, found: Rebuilt) -> tuple[VersionTree, list[Snapshot]]:
        """Add heads below the last commits of branches that have no head."""
        tree, heads = found.tree, []
        for branch in found.headless:
            base = tree.branches[branch]
            tree = replace(tree, branches={b: h for b, h in tree.branches.items() if b != branch})
            whole = replace(tree, branches={**tree.branches, branch: base})
            head = inherited(open_version(self._storage, whole, base), new_id())
            tree = tree.add_branch(branch, head.version_id, base)
            heads.append(head)
            self.report.versions[branch] = head.version_id
        return tree, heads

    def _dangling_branches(self, tree: VersionTree) -> VersionTree:
        """Reset branches whose deletion was interrupted to their last undamaged commit, or drop them."""
        for branch, head in list(tree.branches.items()):
            mine = [i for i in tree.ancestors(head) if tree.commits[i].branch == branch and i != FIRST]
            if branch == MAIN or head not in mine or not self._is_going(tree, head):
                continue  # 3.9.52 deletes the head of a branch first, so a branch with its head has lost nothing
            gone = [i for i in mine if tree.commits[i].is_committed and self._is_going(tree, i)]
            if not gone:
                continue  # the head can be rebuilt from its parent
            if any(node.parent in mine and node.branch != branch for node in tree.commits.values()):
                # Another branch begins on a lost version, so keep it; the head is repaired as far as possible.
                continue
            left = [i for i in mine if i not in gone and i != head]
            last = next((i for i in left if all(j not in gone for j in mine[mine.index(i) :])), None)
            if last is None:
                self.report.add(
                    "branch",
                    f"dropped: its deletion was interrupted, {len(gone)} of its commits are lost",
                    branch,
                )
                tree = self._changed(tree, DropBranch(branch), [])
                continue
            start = inherited(open_version(self._storage, tree, last), new_id())
            self.report.add("branch", "reset to this commit: the versions after it are lost", branch, last)
            self.report.versions[branch] = start.version_id
            tree = self._changed(tree, CutBranch(branch, last, start.version_id), [start])
        return tree

    def _is_going(self, tree: VersionTree, version: str) -> bool:
        """Tell whether files of a version are permanently lost, as after an interrupted deletion of its branch."""
        documents = DocumentCheck(self._storage, tree, Findings(self._storage.url))
        if documents.manifest(tree.commits[version]) is not None:
            return False
        folder = folder_of(version)
        try:
            meta = DatasetMeta.from_bytes(self._storage.get(f"{folder}dataset_meta.json"))
            for key in meta.tensors:
                settings = TensorMeta.from_bytes(self._storage.get(f"{folder}{key}/tensor_meta.json"))
                if settings.length:
                    self._storage.get(f"{folder}{key}/chunks_index/unsharded")
        except KeyNotFound:
            return True
        except FormatError:
            return False
        return False

    def _changed(self, tree: VersionTree, update: Update, versions: list[Snapshot]) -> VersionTree:
        """Publish a change of the tree if repairs are applied; return the changed tree."""
        if not self._apply:
            return update.apply(tree)
        at = publish(self._storage, read_whole_tree(self._storage), [update], versions)
        for version in versions:
            release_lock(self._storage, version.version_id)
        return at.tree

    # -- versions ----------------------------------------------------------------------------------------------

    def _checked(self, tree: VersionTree) -> dict[str | None, list[Damage]]:
        """Verify everything, samples included; return the damage by version."""
        findings = Findings(self._storage.url, deep=True)
        check = Check(self._storage, tree, findings)
        check.documents.shared_files()
        for version in check.documents.history():
            check.version(version)
        found: dict[str | None, list[Damage]] = {}
        for damage in findings.damage:
            found.setdefault(damage.version, []).append(damage)
        return found

    def _files(self, tree: VersionTree, findings: dict[str | None, list[Damage]]) -> VersionTree:
        """Restore the files whose content is known."""
        items: list[tuple[str, Data]] = []
        without_manifest: list[str] = []
        for version, damages in findings.items():
            for damage in damages:
                key = damage.key or ""
                if damage.kind == "shared":
                    self.report.add(
                        "damage", f"{key} is not repaired, because its content is unknown: {damage.message}"
                    )
                if version is None:
                    continue
                if damage.kind == "copy":
                    self.report.add(
                        "document", f"{key} is restored from the manifest", damage.branch, version
                    )
                    items.append((key, self._manifest_file(tree, version, key)))
                elif damage.kind == "node":
                    self.report.add(
                        "document", f"{key} is rewritten from the version tree", damage.branch, version
                    )
                    items.append((key, tree.node_bytes(version)))
                elif damage.kind == "manifest" and version not in without_manifest:
                    self.report.add("document", f"{key} is rebuilt with checksums of the present files")
                    without_manifest.append(version)
        if not self._apply or not (items or without_manifest):
            return tree
        self._storage.put_many(items, durable=True)
        sound = [v for v in without_manifest if not any(d.kind == "content" for d in findings[v])]
        return renew_digests(self._storage, read_whole_tree(self._storage), sound) if sound else tree

    def _manifest_file(self, tree: VersionTree, version: str, key: str) -> bytes:
        manifest = Check(self._storage, tree, Findings(self._storage.url)).documents.manifest(
            tree.commits[version]
        )
        if manifest is None:
            raise CommitFailed(f"another program is writing to {self._storage.url}; try again later")
        return manifest.files[key.removeprefix(folder_of(version))]

    def _head(self, tree: VersionTree, node: CommitNode, branch: str) -> VersionTree:
        """Repair the head of a branch and publish the result."""
        new = new_id()
        if not self._apply:
            self._repaired(tree, node, new)
            return tree
        lease = Lease(self._storage, branch)
        at = lease.acquire()
        try:
            if at.tree.branches.get(branch) != node.id:
                raise CommitFailed(f"{self._storage.url} was changed during the repair; repair it again")
            snapshot, files = self._repaired(at.tree, node, new)
            at = publish(self._storage, at, [SwapHead(branch, new)], [snapshot], files.items())
            lease.moved(new)
        finally:
            lease.release()
        self.report.versions[branch] = new
        return at.tree

    def _repaired(self, tree: VersionTree, node: CommitNode, new: str) -> tuple[Snapshot, Files]:
        parent = None
        if node.parent is not None and tree.commits[node.parent].is_committed:
            try:
                parent = open_version(self._storage, tree, node.parent)
            except (FormatError, LimitError):
                parent = None
        manifest = self._manifest(tree, node)
        steps = VersionSteps(self.report, node.branch, node.id)
        found = Salvage(self._storage, tree, node, parent, manifest, new, steps).read()
        return Repairer(self._storage, found, parent, old_id=node.id, new_id=new, steps=steps).repair()

    def _manifest(self, tree: VersionTree, node: CommitNode) -> Manifest | None:
        """Return the manifest of a head if it is valid, or if nothing but chunks is left of the head.

        Deep Lake 3.9.52 leaves documents with each change of a head, so a folder without any was not changed by it.
        """
        found = Check(self._storage, tree, Findings(self._storage.url)).documents.manifest(node)
        folder = folder_of(node.id)
        keys = (key for key, _ in self._storage.list(folder))
        if found is not None or any("/chunks/" not in key and key != lock_key(node.id) for key in keys):
            return found
        with contextlib.suppress(KeyNotFound, FormatError, LimitError):
            read = load_manifest(self._storage, node.id)
            if read.digest == digests_of(tree).get(node.id):
                self.report.add("document", f"{folder} is rebuilt from the manifest", node.branch, node.id)
                return read.manifest
        return None

    def _recovered(self, tree: VersionTree, version: str) -> VersionTree:
        """Recover an orphaned publish."""
        recovery = OrphanRecovery(self._storage, tree, version, self.report)
        branch = tree.commits[version].branch
        head = recovery.run(apply=self._apply)
        if head is not None:
            self.report.versions[branch] = head
        return read_whole_tree(self._storage).tree if self._apply else tree

    # -- locks -------------------------------------------------------------------------------------------------

    def _locks(self) -> None:
        """Remove locks of dead writers, because 3.9.52 fails on an incomplete lock file."""
        for key, _ in list(self._storage.list()):
            if not key.endswith(".lock") or key.startswith((".lakebed/", ".queries/")):
                continue
            folder, _, name = key.rpartition("/")
            if name == LOCK_NAME:
                self._lock(key, folder.rpartition("/")[2] or FIRST)
            elif not self._is_live(key):
                self.report.add("lock", f"{key} is removed: its writer has ended")
                if self._apply:
                    self._storage.delete(key)

    def _lock(self, key: str, version: str) -> None:
        """Remove the lock of a version's dead writer, or release it if it confirms the manifest."""
        found = read_lock(self._storage, version)
        if may_live(found.lock) or (found.lock is not None and found.lock.is_released):
            return
        keeps = found.lock is not None and found.digest and not traits_of(self._storage).system_locks
        self.report.add("lock", f"{key} is {'released' if keeps else 'removed'}: its writer has ended")
        if not self._apply:
            return
        if found.lock is None or not keeps:
            self._storage.delete(key)
            return
        with contextlib.suppress(PreconditionFailed):  # another writer has taken the lock in the meantime
            self._storage.put_if(key, found.lock.released().to_bytes(), found.etag)

    def _is_live(self, key: str) -> bool:
        try:
            return DatasetLock.from_bytes(self._storage.get(key)).expiry > clock.now()
        except (KeyNotFound, FormatError):
            return False
