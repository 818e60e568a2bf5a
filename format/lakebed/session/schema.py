"""Changes to the schema of a dataset: names are checked, then the draft is changed (format.md 1.4, 11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    RenameError,
    TensorAlreadyExistsError,
    TensorDoesNotExistError,
    TensorGroupAlreadyExistsError,
    TensorGroupDoesNotExistError,
    TensorTooLargeToDelete,
)
from lakebed.htypes.registry import htype_named
from lakebed.session.places import LARGE
from lakebed.session.session import Session
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing.draft.draft import Draft
from lakebed.writing.names import check_group_name, check_tensor_name, companion, parents
from lakebed.writing.schema import NewTensor, check_new_tensor, companions_for, is_same_tensor
from lakebed.writing.structure import companions_of, is_inside

# -- new tensors -----------------------------------------------------------------------------------------------


def add_planned(session: Session, name: str, plan: NewTensor, *, exist_ok: bool = False) -> None:
    """Create a tensor and its companions as planned.

    Raises
    ------
    TensorAlreadyExistsError, TensorGroupAlreadyExistsError, InvalidTensorNameError
        If the name is already used or not allowed.
    ValueError
        If the tensor exists, ``exist_ok`` is true, and its settings are different.
    """
    with session.mutex, session.writing() as draft:
        schema = session.schema()
        if exist_ok and is_same_tensor(schema, name, plan.meta):
            return
        check_new_tensor(schema, name, plan.companions)
        draft.schema.add_tensor(name, plan.meta, plan.info, parents(name))
        for companion_name, meta in plan.companions.items():
            draft.schema.add_tensor(companion_name, meta, plan.companion_infos.get(companion_name, {}), ())
        _point_links(draft, [name, *plan.companions])


def _point_links(draft: Draft, names: Iterable[str]) -> None:
    """Store the companions' keys in new tensors; a key differs from the name if a renamed tensor has that key."""
    keys = draft.schema.meta.tensor_names
    for name in names:
        meta = draft.tensors[keys[name]].meta
        links = {keys.get(target, target): link for target, link in meta.links.items()}
        if links != meta.links:
            draft.schema.set_meta(keys[name], meta.with_(links=links))


def blank(schema: Snapshot, source: str, name: str, *, unlink: bool = False) -> NewTensor:
    """Plan a tensor with the settings of another, hidden companions included, but no samples.

    Parameters
    ----------
    source
        Full name of the other tensor.
    unlink
        Plan a tensor for the data to which the other tensor's links refer, instead of for links.
    """
    state = schema.tensor(source)
    is_link = state.meta.is_link and not unlink
    renamed = {
        schema.tensor(old).key: companion(name, kind)
        for kind, old in companions_of(schema.meta, source).items()
        if kind != "null"
    }
    companions, infos = {}, {}
    for kind, old in companions_of(schema.meta, source).items():
        if kind == "null":
            continue  # this companion is created with the first null
        new = companion(name, kind)
        companions[new] = _emptied(schema.tensor(old).meta, new, renamed)
        infos[new] = dict(schema.tensor(old).info)
    meta = _emptied(state.meta, name, renamed).with_(is_link=is_link)
    if state.meta.is_link and unlink and not meta.verify:
        # Data has companions for infos of files and for shapes, but unverified links have none; so plan them.
        links, made = companions_for(
            htype_named(meta.htype), name, with_info=True, with_shape=True, with_id=False
        )
        dtype = meta.dtype if meta.typestr is None else None
        meta = meta.with_(links={**links, **meta.links}, verify=True, dtype=dtype, typestr=None)
        companions = {**made, **companions}
    return NewTensor(meta, dict(state.info), companions, infos)


def _emptied(meta: TensorMeta, name: str, renamed: Mapping[str, str]) -> TensorMeta:
    links = {renamed.get(key, key): link for key, link in meta.links.items()}
    return meta.with_(name=name, length=0, min_shape=(), max_shape=(), links=links)


# -- names -----------------------------------------------------------------------------------------------------


def rename_tensor(session: Session, old: str, new: str) -> None:
    """Rename a tensor within its group; see ``Dataset.rename_tensor``."""
    with session.mutex, session.writing() as draft:
        schema = session.schema()
        if schema.key_of(old) is None:
            raise TensorDoesNotExistError.among(old, schema.names())
        if old.rpartition("/")[0] != new.rpartition("/")[0]:
            raise RenameError(
                f"New name of tensor cannot point to a different group: {old!r} to {new!r}; copy the samples instead"
            )
        check_tensor_name(new)
        companions = [companion(new, kind) for kind in companions_of(schema.meta, old)]
        _check_free(schema, [new, *companions])
        draft.schema.rename_tensor(old, new)


def rename_group(session: Session, old: str, new: str) -> None:
    """Rename a group within its parent; see ``Dataset.rename_group``."""
    with session.mutex, session.writing() as draft:
        schema = session.schema()
        if old not in schema.meta.groups:
            raise TensorGroupDoesNotExistError(f"Tensor group {old!r} does not exist.")
        if old.rpartition("/")[0] != new.rpartition("/")[0]:
            raise RenameError(
                f"Names does not match: group {old!r} can not move to {new!r}; only its last part changes"
            )
        check_group_name(new)
        _check_free(schema, [new])
        draft.schema.rename_group(old, new)


def _check_free(schema: Snapshot, names: Iterable[str]) -> None:
    for name in names:
        if schema.key_of(name) is not None:
            raise TensorAlreadyExistsError(f"Tensor {name!r} already exists; choose another name.")
        if name in schema.meta.groups:
            raise TensorGroupAlreadyExistsError(f"Tensor group {name!r} already exists; choose another name.")


# -- removing --------------------------------------------------------------------------------------------------


def delete_tensor(session: Session, name: str, *, large_ok: bool) -> None:
    """Drop a tensor with its companions; see ``Dataset.delete_tensor``."""
    with session.mutex, session.writing() as draft:
        schema = session.schema()
        if schema.key_of(name) is None:
            raise TensorDoesNotExistError.among(name, schema.names())
        _check_size([schema.tensor(name)], f"tensor {name!r}", large_ok=large_ok)
        draft.schema.delete_tensor(name)


def delete_group(session: Session, name: str, *, large_ok: bool) -> None:
    """Drop a group with its tensors; see ``Dataset.delete_group``."""
    with session.mutex, session.writing() as draft:
        schema = session.schema()
        if name not in schema.meta.groups:
            raise TensorGroupDoesNotExistError(f"Tensor group {name!r} does not exist.")
        inside = [schema.tensor(n) for n in schema.names() if is_inside(n, name)]
        _check_size(inside, f"group {name!r}", large_ok=large_ok)
        draft.schema.delete_group(name)


def _check_size(states: Iterable[TensorState], what: str, *, large_ok: bool) -> None:
    if not large_ok and sum(map(approximate_size, states)) > LARGE:
        raise TensorTooLargeToDelete(f"{what} is larger than 1 GB; pass large_ok=True to delete it")


def approximate_size(state: TensorState) -> int:
    """Return the number of bytes of a tensor's chunks; a chunk of unknown size counts as a full chunk."""
    sizes = state.table.places.sizes
    known = int(sizes.sum())
    return known + int((sizes == 0).sum()) * state.meta.chunk_size
