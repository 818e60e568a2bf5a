"""Effects of a merge on whole tensors: pairs of tensors in both versions, renames, additions, deletions. Pure.

Tensors of the common ancestor are matched by key, which a rename does not change (format.md 1.4); all other tensors
are matched by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import MergeConflictError, MergeMismatchError, MergeNotSupportedError
from lakebed.versions.state import Snapshot, TensorState


@dataclass(frozen=True, slots=True)
class Pair:
    """A tensor that both versions have: its name in the result, its key in each, and in the common ancestor or None."""

    name: str
    ours: str
    theirs: str
    base: str | None


@dataclass(slots=True)
class SchemaPlan:
    """Effects of a merge on the tensors.

    Parameters
    ----------
    pairs
        Tensors that both versions have.
    created
        (Key in their version, new name) of tensors to add, which only their version has.
    alone
        Keys of our tensors that stay unchanged.
    deleted
        Names of our tensors to delete.
    renamed
        (Present name, new name) of our tensors.
    groups
        Groups to add.
    """

    pairs: list[Pair] = field(default_factory=list)
    created: list[tuple[str, str]] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)


Changed = Callable[[str], bool]


def plan_schema(
    base: Snapshot,
    ours: Snapshot,
    theirs: Snapshot,
    *,
    is_recreated: Changed,
    delete_removed: bool,
    force: bool,
) -> SchemaPlan:
    """Return the effects of a merge on the tensors.

    Parameters
    ----------
    is_recreated
        Returns whether the tensor under a key has replaced the common ancestor's tensor under this key.
    delete_removed
        Delete tensors that their version deleted.
    force
        Continue even if names clash.

    Raises
    ------
    MergeConflictError
        If names clash; the message says which names, and what the user can do.
    """
    plan = SchemaPlan()
    names = _Names(base, ours, theirs)
    for key in _visible(theirs):
        name = names.theirs[key]
        if key in base.tensors and key in ours.tensors and not is_recreated(key):
            _pair_renamed(plan, names, key, force=force)
        elif (other := names.key_here(name)) is not None:
            same = base.key_of(name) if other != key else None
            plan.pairs.append(Pair(name, other, key, same))
        elif key not in base.tensors:
            plan.created.append((key, name))
        elif name != names.base[key]:
            if not force:
                raise MergeConflictError(
                    f"{names.base[key]} was renamed to {name} in target but is missing from current branch. Use "
                    f"`force=True` to register {name} as a new tensor on current branch."
                )
            plan.created.append((key, name))
        elif _differs(base.tensors[key], theirs.tensors[key]):
            plan.created.append((key, name))
    paired = {pair.ours for pair in plan.pairs}
    there = set(_visible(theirs))
    for key in _visible(ours):
        if key not in paired:
            if delete_removed and key in base.tensors and key not in there:
                plan.deleted.append(names.ours[key])
            else:
                plan.alone.append(key)
    plan.groups = [g for g in theirs.meta.groups if g not in base.meta.groups and g not in ours.meta.groups]
    return plan


class _Names:
    """Names of tensors by key in the three versions, and keys by name in our version."""

    def __init__(self, base: Snapshot, ours: Snapshot, theirs: Snapshot) -> None:
        self.base, self.ours, self.theirs = (
            {key: state.meta.name or key for key, state in version.tensors.items()}
            | {key: name for name, key in version.meta.tensor_names.items()}
            for version in (base, ours, theirs)
        )
        self._key_of = {name: key for key, name in self.ours.items()}
        # Keys of our tensors that the merge will rename, because only their version has renamed them.
        self.leaving = {
            key
            for key, name in self.ours.items()
            if key in self.theirs and self.base.get(key) == name != self.theirs[key]
        }

    def key_here(self, name: str) -> str | None:
        return self._key_of.get(name)


def _pair_renamed(plan: SchemaPlan, names: _Names, key: str, *, force: bool) -> None:
    """Add the pair of a tensor that all three versions have, and that either line may have renamed."""
    was, here, there = names.base[key], names.ours[key], names.theirs[key]
    if there in (here, was):
        plan.pairs.append(Pair(here, key, key, key))
        return
    other = names.key_here(there)
    if here == was and (other is None or other in names.leaving):
        plan.renamed.append((here, there))
        plan.pairs.append(Pair(there, key, key, key))
        return
    if not force and here == was:
        raise MergeConflictError(
            f"{was} was renamed to {there} in target but another {there} exists on the current branch. Rename tensors "
            f"to resolve the conflict or use `force=True` to merge {there} of target with {there} of current branch."
        )
    if not force:
        raise MergeConflictError(
            f"{was} was renamed in both branches, to {here} and {there}. Rename tensors to the same name to resolve "
            f"the conflict or use `force=True` to register {there} as a new tensor on current branch."
        )
    if other is None:
        plan.created.append((key, there))
    else:
        plan.pairs.append(Pair(there, other, key, None))


def joined(versions: Sequence[Snapshot]) -> Snapshot:
    """Combine several common ancestors, newest first; a tensor is taken from the first version that has its key."""
    first, *others = versions
    for other in others:
        names = {name: key for name, key in other.meta.tensor_names.items() if key not in first.tensors}
        new = [key for key in other.meta.tensors if key not in first.tensors]
        meta = replace(
            first.meta,
            tensors=(*first.meta.tensors, *new),
            tensor_names={**names, **first.meta.tensor_names},
            hidden_tensors=(*first.meta.hidden_tensors, *(k for k in other.meta.hidden_tensors if k in new)),
            groups=tuple(dict.fromkeys([*first.meta.groups, *other.meta.groups])),
        )
        first = replace(first, meta=meta, tensors={**other.tensors, **first.tensors})
    return first


def _visible(version: Snapshot) -> list[str]:
    hidden = set(version.meta.hidden_tensors)
    return [key for key in version.meta.tensors if key not in hidden]


def _differs(one: TensorState, other: TensorState) -> bool:
    """Return whether a tensor changed between two versions."""
    a, b = one.table, other.table
    if one.length != other.length or len(a) != len(b) or one.info != other.info:
        return True
    return any(a.key(row) != b.key(row) for row in range(len(a)))


# -- checks of tensors before a merge ----------------------------------------------------------------------------------


def check_ids(versions: Iterable[Snapshot]) -> None:
    """Refuse to merge tensors whose samples have no ids.

    Raises
    ------
    MergeNotSupportedError
        If a visible tensor has no ids, or fewer ids than samples.
    """
    without = set()
    for version in versions:
        for key in _visible(version):
            state, ids = version.tensors[key], version.id_key(key)
            if ids is None or version.tensors[ids].length != state.length:
                without.add(state.meta.name or key)
    if without:
        names = ", ".join(map(repr, sorted(without)))
        raise MergeNotSupportedError(
            "This dataset was either created before merge functionality was added or id tensor wasn't created for one "
            f"or more tensors: {names}. Create a new dataset to use merge: create_tensor makes ids, and imports and "
            "from_pandas make none for single numbers and dates. ds.extend takes tables and rows, too."
        )


_SETTINGS = ("htype", "dtype", "is_sequence", "is_link", "sample_compression", "chunk_compression")


def check_settings(name: str, ours: TensorMeta, theirs: TensorMeta) -> None:
    """Refuse tensors whose samples are stored in different ways.

    Raises
    ------
    MergeMismatchError
        If a setting differs; the message names it.
    """
    for setting in _SETTINGS:
        here, there = getattr(ours, setting), getattr(theirs, setting)
        unsettled = setting in ("htype", "dtype") and (here is None or there is None)
        if here != there and not unsettled:
            raise MergeMismatchError(
                f"Unable to merge, tensor {name} has different {setting}. Current:{here}, Target: {there}"
            )
