"""Versions of a dataset: commits, branches, tags, differences, merges, and rewriting of history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lakebed.dataset.base import DatasetBase
from lakebed.documents.version_tree import FIRST, new_id
from lakebed.errors import CheckoutError
from lakebed.errors.root import strict
from lakebed.session.handle import Handle
from lakebed.session.session import Session

if TYPE_CHECKING:
    from lakebed.merging.merge import Resolution
    from lakebed.versions.refs import Tag


class VersionMethods(DatasetBase):
    """Commits, branches and checkouts."""

    @property
    def branch(self) -> str:
        """Name of the branch that is checked out."""
        return self._session.branch

    @property
    def branches(self) -> list[str]:
        """Names of all branches."""
        return list(self._session.tree.branches)

    @property
    def commit_id(self) -> str | None:
        """Id of the last commit of this branch; None before the first commit."""
        from lakebed.history.commits import last_commit

        return last_commit(self._session.tree, self._session.snapshot.version_id)

    @property
    def pending_commit_id(self) -> str:
        """Id of the next commit, chosen on first access; the id of this version if the dataset is read-only."""
        return self._session.pending_id

    @property
    def commits(self) -> list[dict[str, Any]]:
        """Commits up to this version, newest first: dictionaries ``commit, author, time, message``."""
        from lakebed.history.commits import commit_entries

        return commit_entries(self._session.tree, self._session.snapshot.version_id)

    def get_commit_details(self, commit_id: str) -> dict[str, Any]:
        """Return ``commit, author, time, message`` of a version; of an uncommitted version, only its id is known.

        Parameters
        ----------
        commit_id
            Id or other address of the version.

        Raises
        ------
        VersionNotFoundError
            If the version does not exist; this is a ``KeyError``.
        """
        from lakebed.history.commits import commit_details

        return commit_details(self._session, str(commit_id))

    @property
    def is_head_node(self) -> bool:
        """True if the tip of a branch is checked out."""
        return self._session.is_head

    @property
    def has_head_changes(self) -> bool:
        """True if the head has changes since the last commit."""
        from lakebed.session import branches

        return self._session.is_head and branches.is_changed(self._session, self._session.schema())

    def commit(self, message: str | None = None, allow_empty: bool = False) -> str:
        """Commit the present state and return the id of the commit.

        Parameters
        ----------
        message
            Text of the commit, or None.
        allow_empty
            Commit even if nothing changed.

        Returns
        -------
        The id of the commit.

        Raises
        ------
        EmptyCommitError
            If nothing changed and ``allow_empty`` is false.
        ReadOnlyModeError, LockedException, CommitFailed
            If the branch cannot be written.
        """
        from lakebed.session import branches

        self._check_changeable("commit")
        return branches.commit(self._session, message, allow_empty=allow_empty)

    def checkout(self, address: str, create: bool = False, reset: bool = False) -> str | None:
        """Check out another version, or start a branch here; return the id of the last commit there.

        Parameters
        ----------
        address
            A branch, a commit id or its first seven or more characters, a tag, or ``HEAD``, each with ``~n`` to go up
            ``n`` commits: ``HEAD~1`` is the last commit of this branch.
        create
            Create a new branch of this name. Changes since the last commit are committed first.
        reset
            Repair the dataset first if the version cannot be opened, or its lengths contradict each other; see
            :func:`lakebed.load`.

        Returns
        -------
        The id of the checked-out commit, or of the last commit below the checked-out head of a branch; None if the
        dataset has no commits.

        Raises
        ------
        CheckoutError
            If the version does not exist, or the name of the new branch is already used.
        """
        from lakebed.session import branches

        self._check_changeable("checkout")
        session = self._session
        left = session.snapshot.version_id
        commit = left if session.tree.commits[left].is_committed else None

        def repair() -> None:
            from lakebed.maintenance.repair import recover

            recover(session.storage, address)

        branches.checkout(session, address, create=create, repair=repair if reset else None)
        self._handle.leave(session.epoch, commit)
        session.epoch += 1
        return self.commit_id

    def log(self) -> None:
        """Print the commits up to this version, newest first."""
        from lakebed.dataset.display import printing

        session = self._session
        changed = self.has_head_changes
        print(printing.log_text(session.tree, session.snapshot.version_id, session.branch, changed=changed))

    # -- replacing everything (used by imports and syncs) ------------------------------------------------------

    def start_overwrite(self, name: str, resume: bool = False) -> Self:
        """Open an empty side branch on which to build new content, while readers still see this branch.

        Parameters
        ----------
        name
            Name of the side branch; if the branch exists from an earlier attempt, its rows are dropped unless
            ``resume`` is true.
        resume
            Continue an earlier attempt if the branch exists.

        Returns
        -------
        A dataset on the side branch; fill it, publish it, then call :meth:`finish_overwrite`.
        """
        from lakebed.session import branches
        from lakebed.versions.derive import empty_snapshot

        session = self._session
        session.flush()
        side = Session(session.storage, session.branch)
        if name in side.tree.branches and resume:
            side = Session(session.storage, name)
        else:
            if name in side.tree.branches:
                branches.drop_branch(side, name)
            side.start_branch(name, FIRST, empty_snapshot(new_id()))
        session.refresh()  # the session must know the new branch
        return type(self)(Handle(side, self._handle.path))

    def finish_overwrite(self, name: str) -> None:
        """Replace the content of this branch by that of the side branch and remove the side branch, in one atomic step.

        Parameters
        ----------
        name
            Name of the side branch.

        Raises
        ------
        CheckoutError
            If the branch does not exist.
        """
        from lakebed.session import branches

        if name == self.branch:
            raise CheckoutError(f"branch {name!r} can not replace itself")
        branches.adopt(self._session, name)


class MergeMethods(DatasetBase):
    """Differences, merges, tags, and rewriting of history."""

    def diff(
        self, id_1: str | None = None, id_2: str | None = None, as_dict: bool = False
    ) -> dict[str, Any] | None:
        """Print or return the differences between versions.

        Parameters
        ----------
        id_1, id_2
            Addresses of versions. Without any, compare the head with the last commit; with one, the head with that
            version; with two, each of them with their last common version.
        as_dict
            Return ``{"dataset": [...], "tensor": [...]}`` instead of printing.

        Returns
        -------
        The changes if ``as_dict`` is true, else None.

        Raises
        ------
        ValueError
            If only ``id_2`` is given.
        KeyError
            If the version does not exist.
        """
        from lakebed.history import diff

        return diff.diff(self._session, id_1, id_2, as_dict=as_dict)

    @strict
    def merge(
        self,
        target_id: str,
        conflict_resolution: Resolution = None,
        delete_removed_tensors: bool = False,
        force: bool = False,
    ) -> None:
        """Merge the changes of another branch or commit into this branch and commit them.

        Parameters
        ----------
        target_id
            Branch, commit or tag to merge.
        conflict_resolution
            Rule for samples that both branches changed, or one changed and the other deleted: None raises an error,
            ``"ours"`` and ``"theirs"`` choose a side, and a function ``(tensor name, our sample, their sample)``
            returns the value to keep. The function receives None for a deleted sample; if it then returns None, the
            sample is deleted.
        delete_removed_tensors
            Also delete tensors that the other branch deleted.
        force
            Merge even if both branches renamed a tensor differently, or another tensor here has the new name.

        Raises
        ------
        MergeConflictError, MergeMismatchError, MergeNotSupportedError
            If the branches cannot be merged; nothing is changed then.
        """
        from lakebed.merging import merge

        self._check_changeable("merge")
        merge.merge(
            self._session,
            target_id,
            conflict_resolution,
            delete_removed_tensors=delete_removed_tensors,
            force=force,
        )
        self._session.epoch += 1

    def reset(self, force: bool = False) -> None:
        """Discard all changes since the last commit, published or not.

        Parameters
        ----------
        force
            Reset even if the head cannot be opened.
        """
        from lakebed.history import reset

        self._check_changeable("reset")
        reset.reset(self._session, force=force)
        self._session.epoch += 1

    def squash(self, message: str = "Squashed commits") -> str:
        """Replace the whole history of this branch, which must be the only one, by one commit; return the commit's id.

        Parameters
        ----------
        message
            Text of the commit.

        Returns
        -------
        The id of the commit.

        Raises
        ------
        VersionControlError
            If other branches, or tags, exist.
        """
        from lakebed.history import reset

        self._check_changeable("squash")
        commit = reset.squash(self._session, message)
        self._session.epoch += 1
        return commit

    def delete_branch(self, name: str, force: bool = False) -> None:
        """Remove a branch with the versions that no other branch has.

        Parameters
        ----------
        name
            Name of the branch.
        force
            Remove it even if it was merged into another branch, which keeps the merged changes.

        Raises
        ------
        VersionControlError
            If the branch is the main branch, is checked out, or is needed by another branch, a merge or a tag.
        """
        from lakebed.session import branches

        self._check_changeable("delete_branch")
        branches.delete_branch(self._session, name, force=force)

    def fix_vc(self) -> None:
        """Rebuild the history from the files of the versions, if its own file is lost or damaged.

        Raises
        ------
        ReadOnlyModeError
            If the dataset was opened read-only.
        """
        from lakebed.maintenance.repair import fix_history

        self._check_changeable("fix_vc")
        fix_history(self._session)

    # -- tags --------------------------------------------------------------------------------------------------

    def get_tags(self) -> dict[str, Tag]:
        """Return the tags by name; ``ds.tags`` is the same unless a tensor has that name.

        Raises
        ------
        DatasetCorruptError
            If the file with the tags is damaged.
        """
        from lakebed.history import tags

        return tags.tags(self._session)

    def create_tag(self, name: str, commit: str | None = None, message: str | None = None) -> Tag:
        """Give a commit a name that can be used in place of its id.

        Parameters
        ----------
        name
            Name of the tag.
        commit
            Address of the commit; None is the checked-out branch. For a branch, its last commit is tagged.
        message
            Text that explains the tag.

        Returns
        -------
        The tag.

        Raises
        ------
        TagExistsError
            If a tag, branch or version has this name.
        InvalidInputError
            If the name cannot be part of an address.
        CheckoutError
            If the commit does not exist.
        ReadOnlyModeError
            If the dataset was opened read-only.
        """
        from lakebed.history import tags

        return tags.create_tag(self._session, name, commit, message)

    def delete_tag(self, name: str) -> None:
        """Remove a tag; the commit stays.

        Parameters
        ----------
        name
            Name of the tag.

        Raises
        ------
        CheckoutError
            If the tag does not exist.
        ReadOnlyModeError
            If the dataset was opened read-only.
        """
        from lakebed.history import tags

        tags.delete_tag(self._session, name)
