"""Root of the error tree, and errors of all rooms: not found, already exists, conflicts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import ParamSpec, Self, TypeVar

from lakebed.runtime.printable import printable

P = ParamSpec("P")
R = TypeVar("R")

_LISTED = 20
_COMPARED = 1000


class LakebedError(Exception):
    """Root of every error that lakebed raises on purpose."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)

    @property
    def message(self) -> str:
        """Text of the error."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        # KeyError would show the repr, and OSError "[Errno ...]". Escape control characters, because messages contain
        # names of datasets and are printed on terminals.
        return printable(self.message)


# -- not found -----------------------------------------------------------------------------------------------


class NotFoundError(LakebedError, LookupError):
    """An object with this name does not exist."""


class KeyNotFound(NotFoundError, KeyError):
    """The store holds no object under this key."""


class DatasetHandlerError(LakebedError):
    """No dataset exists where one is to be opened, or one exists where a new one is to be made."""


class DatasetNotFoundError(DatasetHandlerError, NotFoundError, FileNotFoundError):
    """No dataset exists at this address."""


class VersionNotFoundError(NotFoundError, KeyError):
    """No branch, commit or tag has this name."""


class TensorDoesNotExistError(NotFoundError, KeyError, AttributeError):
    """The dataset has no tensor of this name."""

    @classmethod
    def among(cls, name: str, names: Iterable[str]) -> Self:
        """Return the error for an unknown name of a tensor."""
        return cls(f"Tensor {name!r} does not exist{instead(name, names)}")


def instead(name: str, names: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: a similar name, and the known names."""
    known = list(names)
    if not known:
        return ": there are no tensors yet."
    from difflib import get_close_matches

    near = get_close_matches(name, known[:_COMPARED], n=1)
    guess = f"; did you mean {near[0]!r}?" if near else "."
    more = f", and {len(known) - _LISTED:,} more" if len(known) > _LISTED else ""
    return f"{guess} Tensors: {', '.join(known[:_LISTED])}{more}"


_SAME = {"column_names": "by", "random_state": "seed", "reverse": "descending", "subset": "by"}
"""Arguments of other libraries -> equivalent ones here."""

_WRITE = {
    "ascending": "write descending=True for ascending=False",
    "on": "ds.join(other, on='id') joins rows",
    "inplace": "a view is returned, and nothing is changed",
    "with_indices": "after ds['row'] = np.arange(len(ds)), the row has its number",
    **dict.fromkeys(("left_on", "right_on"), "write on={'mine': 'theirs'}"),
    **dict.fromkeys(("orient", "records"), "ds.to_list() has the rows as dictionaries"),
}
"""Arguments of other libraries -> replacements for them."""


def unexpected(method: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for an unknown argument of a method, with a similar argument or all of them."""
    from difflib import get_close_matches

    names = sorted(known)
    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names) or 'none'}"
    return TypeError(f"{method}() got an unexpected argument {name!r}; {_WRITE.get(name, hint)}")


def strict(method: Callable[P, R]) -> Callable[P, R]:
    """Let a method suggest an argument if it gets an unknown one.

    Names of equivalent arguments in pandas, polars or Hugging Face are accepted.
    """
    code = method.__code__
    count = code.co_argcount
    known = code.co_varnames[1 : count + code.co_kwonlyargcount]
    title = method.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @functools.wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if args[count:] and isinstance(args[count], str):
            raise unexpected(title, str(args[count]), known)
        for name in [name for name in kwargs if name not in known]:
            same = _SAME.get(name, "")
            if same not in known or same in kwargs:
                raise unexpected(title, name, known)
            kwargs[same] = kwargs.pop(name)
        return method(*args, **kwargs)

    return called


class TensorGroupDoesNotExistError(NotFoundError, KeyError):
    """The dataset has no group of this name."""


# -- already exists ------------------------------------------------------------------------------------------


class AlreadyExistsError(LakebedError, ValueError):
    """An object with this name already exists."""


class DatasetExistsError(DatasetHandlerError, AlreadyExistsError, FileExistsError):
    """A dataset already exists at this address."""


class PathNotEmptyException(AlreadyExistsError, FileExistsError):
    """The folder for a new dataset holds other files."""


class TensorAlreadyExistsError(AlreadyExistsError):
    """The dataset already has a tensor of this name."""


class TensorGroupAlreadyExistsError(AlreadyExistsError):
    """The dataset already has a group of this name."""


# -- conflicts and locks -------------------------------------------------------------------------------------


class ConflictError(LakebedError, RuntimeError):
    """Another process changed the same object first."""


class PreconditionFailed(ConflictError):
    """A conditional put met another object than the expected one; nothing was written."""


class VersionReplaced(ConflictError):
    """A version was replaced and removed while it was being opened; the next try sees the new one."""


class CommitFailed(ConflictError):
    """Nothing was published: reading again and retrying is safe.

    Attributes
    ----------
    updates : str
        Intended change of the version tree or of `refs.json` in one line; empty if unknown.
    """

    updates: str = ""


class LeaseLost(CommitFailed):
    """The writer was suspended for longer than its lease, and another took over the branch; nothing was published."""


class CommitStateUnknown(ConflictError):
    """The answer of the store was lost: only reading again shows whether the version is published.

    Attributes
    ----------
    updates : str
        Intended change of the version tree or of `refs.json` in one line; empty if unknown.
    """

    updates: str = ""


class LockedException(LakebedError, RuntimeError):
    """Another writer holds the lock."""


class LockedWarning(UserWarning):
    """Another process writes the branch that was opened; reading works, and changes must wait."""


class WeakStoreWarning(UserWarning):
    """The store accepts conditional writes but does not enforce them: write from one process at a time."""


class UnusualSampleWarning(UserWarning):
    """A stored sample may be a mistake: a label without a name, a box without four numbers."""


class DisplacedWarning(UserWarning):
    """A writer of Deep Lake 3.x displaced a version of lakebed from its branch; `lakebed repair` restores its rows."""


class ReadOnlyModeError(LakebedError, PermissionError):
    """The dataset was opened for reading."""


class ModuleNotInstalledException(LakebedError, ImportError):
    """A required package is not installed."""


class WorkerDied(LakebedError, RuntimeError):
    """A process that transforms samples for a loader ended; the next pass over the loader starts new processes."""
