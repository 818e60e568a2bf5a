"""A dataset's facade: differences, merges, tags, and history that is rewritten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakebed.dataset._base import DatasetBase

if TYPE_CHECKING:
    from lakebed.merging.merge import Resolution
    from lakebed.versions.refs import Tag


class MergeMethods(DatasetBase):
    """Compares, joins and rewrites branches."""

    def diff(
        self, id_1: str | None = None, id_2: str | None = None, as_dict: bool = False
    ) -> dict[str, Any] | None:
        """Print, or return, what changed.

        Parameters
        ----------
        id_1, id_2
            Addresses of versions. None: the head and the last commit. One: the head and that version. Two: both since
            the last version that they have in common.
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
            If there is no such version.
        """
        from lakebed.history import diff

        return diff.diff(self._session, id_1, id_2, as_dict=as_dict)

    def merge(
        self,
        target_id: str,
        conflict_resolution: Resolution = None,
        delete_removed_tensors: bool = False,
        force: bool = False,
    ) -> None:
        """Bring the changes of another branch or commit into this branch and commit them.

        Parameters
        ----------
        target_id
            Branch, commit or tag to merge.
        conflict_resolution
            What to do with samples that both branches changed, or one changed and the other deleted: None refuses,
            ``"ours"`` and ``"theirs"`` choose, and a function ``(tensor name, our sample, their sample)`` returns the
            value to keep. To it a deleted sample is None; if it returns None then, the sample is deleted.
        delete_removed_tensors
            Also delete tensors that the other branch deleted.
        force
            Go on where both branches renamed a tensor differently, or the new name is that of another tensor here.

        Raises
        ------
        MergeConflictError, MergeMismatchError, MergeNotSupportedError
            If the branches cannot be joined; nothing was changed then.
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
        """Throw away everything since the last commit, published or not.

        Parameters
        ----------
        force
            Also if the head cannot be opened.
        """
        from lakebed.history import reset

        self._check_changeable("reset")
        reset.reset(self._session, force=force)
        self._session.epoch += 1

    def squash(self, message: str = "Squashed commits") -> str:
        """Replace the whole history of this branch, the only one, by one commit; return its id.

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
            If there are other branches, or tags.
        """
        from lakebed.history import reset

        self._check_changeable("squash")
        commit = reset.squash(self._session, message)
        self._session.epoch += 1
        return commit

    def delete_branch(self, name: str, force: bool = False) -> None:
        """Remove a branch with the versions that are on no other one.

        Parameters
        ----------
        name
            Name of the branch.
        force
            Also one that was merged into another: what was merged stays there.

        Raises
        ------
        VersionControlError
            If it is the main branch or checked out, or another branch, a merge or a tag needs it.
        """
        self._check_changeable("delete_branch")
        from lakebed.session import branches

        branches.delete_branch(self._session, name, force=force)

    def fix_vc(self) -> None:
        """Make the history again from what the versions say of themselves, if its file is lost or damaged.

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
        """Return the names that were given to commits; ``ds.tags`` is the same unless a tensor has that name.

        Raises
        ------
        DatasetCorruptError
            If the file that holds them is damaged.
        """
        from lakebed.history import tags

        return tags.tags(self._session)

    def create_tag(self, name: str, commit: str | None = None, message: str | None = None) -> Tag:
        """Give a commit a name that works wherever its id does.

        Parameters
        ----------
        name
            Name of the tag.
        commit
            Any address; None is the branch that is checked out. A branch stands for its last commit.
        message
            Why the commit has this name.

        Returns
        -------
        The tag.

        Raises
        ------
        TagExistsError
            If there is a tag, branch or version of this name.
        InvalidInputError
            If the name cannot stand in an address.
        CheckoutError
            If there is no such commit.
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
            If there is no such tag.
        ReadOnlyModeError
            If the dataset was opened read-only.
        """
        from lakebed.history import tags

        tags.delete_tag(self._session, name)
