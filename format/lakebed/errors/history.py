"""Errors of versions: unknown branches and commits, empty commits, branches that do not merge."""

from __future__ import annotations

from lakebed.errors.root import AlreadyExistsError, LakebedError


class VersionControlError(LakebedError):
    """A step in the version history is not possible."""


class CheckoutError(VersionControlError, ValueError):
    """No branch or commit has this address."""


class BranchExistsError(CheckoutError, AlreadyExistsError):
    """A branch of this name already exists."""


class TagExistsError(CheckoutError, AlreadyExistsError):
    """A tag, branch or version of this name already exists."""


class CommitError(VersionControlError):
    """The present state cannot be committed."""


class EmptyCommitError(CommitError):
    """There is no change to commit."""


class TensorModifiedError(VersionControlError):
    """The changes since a version are unknown, because that version is not in this history."""


class MergeError(VersionControlError):
    """Two branches cannot be merged; nothing was changed."""


class MergeConflictError(MergeError):
    """The same samples changed on both branches.

    Attributes
    ----------
    conflicts
        Rows that changed on both branches, as ``(tensor name, row here, row there)``; None for a deleted row.
    """

    def __init__(
        self, message: str = "", *, conflicts: tuple[tuple[str, int | None, int | None], ...] = ()
    ) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class MergeMismatchError(MergeError):
    """A tensor has other settings on one branch than on the other."""


class MergeNotSupportedError(MergeError):
    """A tensor has no sample ids, which a merge needs."""
