"""Versions: no such branch or commit, nothing to commit, lines that do not merge."""

from __future__ import annotations

from lakebed.errors.root import AlreadyExistsError, LakebedError


class VersionControlError(LakebedError):
    """A step in the version history is not possible."""


class CheckoutError(VersionControlError, ValueError):
    """No branch or commit goes by this address."""


class BranchExistsError(CheckoutError, AlreadyExistsError):
    """A branch of this name is already there."""


class TagExistsError(CheckoutError, AlreadyExistsError):
    """A tag, branch or version of this name is already there."""


class CommitError(VersionControlError):
    """The present state cannot be committed."""


class EmptyCommitError(CommitError):
    """There is no change to commit."""


class TensorModifiedError(VersionControlError):
    """What was modified since a version can not be told, as it is not on this line of history."""


class MergeError(VersionControlError):
    """Two lines of history can not be merged; nothing was changed."""


class MergeConflictError(MergeError):
    """The same samples changed on both lines.

    Attributes
    ----------
    conflicts
        What changed on both: ``(tensor name, row here, row there)`` each; None for a row that was deleted.
    """

    def __init__(
        self, message: str = "", *, conflicts: tuple[tuple[str, int | None, int | None], ...] = ()
    ) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class MergeMismatchError(MergeError):
    """A tensor has other settings on one line than on the other."""


class MergeNotSupportedError(MergeError):
    """A tensor has no sample ids, by which samples are told apart."""
