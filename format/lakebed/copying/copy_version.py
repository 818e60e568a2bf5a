"""Copy of one version as a separate dataset: its chunks are copied unchanged, its metadata is rewritten.

Like a copy with history it runs in parallel, is verified, and continues after a kill; it becomes a dataset in one step
at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from lakebed.copying.deepcopy import drop_others, report
from lakebed.copying.transfer import Item, Sums, Transfer, recorded_sums, transfer_rest
from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.manifest import ChunkPlaces
from lakebed.session.copy_journal import Journal, Origin
from lakebed.storage.base import Storage
from lakebed.versions.chunk_table import ArrayTable, folder_of
from lakebed.versions.create import create
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing.names import companion
from lakebed.writing.structure import companions_of


def counterparts(
    schema: Snapshot, planned: Snapshot, names: Mapping[str, str]
) -> dict[str, TensorState] | None:
    """Return {key of a new tensor: the tensor that it is a copy of}, hidden companions included.

    Parameters
    ----------
    planned
        The new dataset without samples.
    names
        New name -> name in ``schema``.

    Returns
    -------
    None if the tensors differ, so that samples must be copied one by one.
    """
    found: dict[str, TensorState] = {}
    for new, old in names.items():
        pairs = {companion(new, kind): other for kind, other in companions_of(schema.meta, old).items()}
        for name, other in {new: old, **pairs}.items():
            key = planned.key_of(name)
            if key is None:
                return None
            found[key] = schema.tensor(other)
    return found if found.keys() == planned.tensors.keys() else None


def copy_version(
    source: Storage,
    target: Storage,
    origin: Origin,
    planned: Snapshot,
    parts: Mapping[str, TensorState],
    documents: Mapping[str, bytes],
    *,
    progressbar: bool,
) -> None:
    """Copy the chunks of some tensors, then create the dataset that they belong to.

    Parameters
    ----------
    origin
        Record of the source, with the id of the copy's head.
    planned
        The new dataset without samples.
    parts
        See :func:`counterparts`.
    documents
        Files that concern the whole dataset, such as credentials.

    Raises
    ------
    ChecksumError
        If chunks are damaged or missing. All other chunks have been copied; a second call continues.
    """
    journal = Journal(target, origin)
    items, missing = _items(source, origin.head, parts)
    here = {key: stat.size for key, stat in target.list("")}
    for item in items:
        if item.sums is None:
            journal.done.pop(item.goal, None)  # copy the file again, to compute its checksums
    transfer = partial(Transfer, source, target)
    outcome = transfer_rest("Copying", items, here, journal, transfer, progressbar=progressbar)
    drop_others(target, here, {item.goal for item in items})
    report(source, {**missing, **outcome.damaged, **dict.fromkeys(outcome.missing, "it is missing")})
    target.put_many(documents.items())
    tensors = {
        key: _filled(planned.tensors[key], parts[key], origin.head, outcome.sums) for key in planned.tensors
    }
    create(target, replace(planned, version_id=origin.head, tensors=tensors, origin=None))
    journal.end()


def _items(source: Storage, head: str, parts: Mapping[str, TensorState]) -> tuple[list[Item], dict[str, str]]:
    """Return the chunk files to copy, and the damage: chunks that are missing."""
    listed = {key: stat for key, stat in source.list("") if "/chunks/" in key}
    items: dict[str, Item] = {}
    missing: dict[str, str] = {}
    for new, state in parts.items():
        table = state.table
        sums = recorded_sums(table.places)
        for row in range(len(table)):
            key = table.key(row)
            stat = listed.get(key)
            if stat is None:
                missing[key] = "it is missing"
                continue
            known = sums(row)
            goal = f"{folder_of(head)}{new}/chunks/{key.rpartition('/')[2]}"
            items[goal] = Item(key, stat, known if known[0] else None, goal)
    return list(items.values()), missing


def _filled(planned: TensorState, part: TensorState, head: str, made: Mapping[str, Sums]) -> TensorState:
    """Return the new tensor with the samples of the tensor that it copies; its chunks are in the folder of the head."""
    table = part.table
    places = table.places
    sums = recorded_sums(places)
    known = [
        sums(row) if places.sizes[row] else made.get(table.key(row), (0, [])) for row in range(len(table))
    ]
    own = ChunkPlaces(
        ((head, planned.key),) if len(table) else (),
        np.zeros(len(table), np.uint32),
        np.array([size for size, _ in known], dtype=np.uint64),
        np.array([value for _, values in known for value in values], dtype=np.uint64),
        np.ones(len(table), np.bool_),
        places.known_layouts,
    )
    return replace(
        part,
        key=planned.key,
        meta=part.meta.with_(name=planned.meta.name, links=planned.meta.links),
        info=planned.info,
        table=ArrayTable(table.ids, own),
        diff=CommitDiff(created=True, info_updated=bool(planned.info), last=part.length),
    )
