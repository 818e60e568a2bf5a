"""Deep Lake datasets: formats 2 and 3 are copied with all versions; format 4 is opened by the package deeplake.

The rows of one version of a dataset of format 4 are imported: of the last version, or of the version with a given id or
tag; the report names earlier versions. With ``history=True`` all versions are imported as commits
(:mod:`deeplake_history`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lakebed.api.copies import deepcopy
from lakebed.api.datasets import load
from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.arrays.arrays import Block
from lakebed.importers.core.packages import foreign
from lakebed.importers.core.plan import Copied, Plan, Problem
from lakebed.importers.core.source import Source
from lakebed.importers.deeplake.deeplake_columns import Column, columns_of
from lakebed.importers.deeplake.deeplake_history import copy_versions, described
from lakebed.transforms.output import Skipped

BATCHED = True

_ITEM_ROWS = 256
_LOG_OF_4 = "_deeplake_log/"
_OF_3 = ("version_control_info.json", "dataset_meta.json")


class _Context(NamedTuple):
    source: Source
    version: str | None
    columns: Sequence[Column]


def recognise(source: Source) -> str | None:
    """Return the format of a dataset."""
    if not source.is_folder:
        return None
    if any(name in source.files for name in _OF_3):
        return "a Deep Lake 3 dataset"
    return "a Deep Lake 4 dataset" if any(name.startswith(_LOG_OF_4) for name in source.files) else None


def copied(
    source: Source,
    dest: Any,
    *,
    overwrite: bool,
    creds: Any,
    progressbar: bool,
    history: bool = False,
    columns: Sequence[str] = (),
    version: str | None = None,
) -> Copied | None:
    """Copy a dataset of format 3, or, with `history`, of format 4; return None for other datasets.

    Raises
    ------
    IngestionError
        If a part of a dataset of format 3 was requested, or one version and also `history`.
    """
    found = recognise(source)
    if history and found != "a Deep Lake 3 dataset":
        if version is not None:
            raise IngestionError(
                "history=True imports all versions, and version= a single one: pass only one of these arguments"
            )
        theirs = _opened(source)
        _check_columns(source, theirs, columns)
        if dest is None:
            return Copied(len(theirs))
        made, problems = copy_versions(
            source, theirs, dest, columns, overwrite=overwrite, creds=creds, progressbar=progressbar
        )
        return Copied(made.max_len, made, [*problems, *_branches_left(theirs)])
    if found != "a Deep Lake 3 dataset":
        return None
    if columns or version is not None:
        raise IngestionError(
            f"{found} is copied as a whole, with its versions; lakebed cp copies parts of a dataset"
        )
    ds = load(source.address, read_only=True, creds=source.creds)
    if dest is None:
        return Copied(ds.max_len)
    copy = deepcopy(ds, dest, overwrite=overwrite, progressbar=progressbar, dest_creds=creds)
    return Copied(copy.max_len, copy)


def plan(
    source: Source, *, version: str | None = None, columns: Sequence[str] = (), history: bool = False
) -> Plan:
    """Plan a tensor for each column of a dataset of Deep Lake 4.

    Parameters
    ----------
    source
        The dataset.
    version
        Id or tag of the version that is taken; by default the last one.
    columns
        Columns that are taken; by default all.
    history
        Take all versions, each as a commit, into a new dataset.
    """
    del history  # a dataset with its history is copied, without a plan
    ds = _at(source, version)
    _check_columns(source, ds, columns)
    problems: list[Problem] = []
    found = columns_of(ds, columns)
    tensors = [one.plan for one in found]
    count = len(ds)
    versions = [
        {"id": one.id, "message": one.message, "time": str(one.timestamp)} for one in _opened(source).history
    ]
    tags = {name: ds.tags[name].version for name in ds.tags.names()}
    if len(versions) > 2:  # the first version is always empty
        reason = (
            f"{len(versions) - 2:,} earlier versions are not imported: history=True (--history) brings all as "
            "commits, version=ID (--version) one by itself; they are listed in the info"
        )
        problems.append(Problem("versions", reason, 0))
    problems += _branches_left(ds)
    return Plan(
        f"a Deep Lake 4 dataset of {count:,} rows of {len(found)} columns",
        tensors,
        [Block(at, min(at + _ITEM_ROWS, count)) for at in range(0, count, _ITEM_ROWS)],
        _Context(source, version, found),
        rows=count,
        nbytes=source.nbytes,
        problems=problems,
        classes={
            one.name: one.arguments["class_names"] for one in tensors if one.arguments.get("class_names")
        },
        about={"metadata": described(ds), "versions": versions, "tags": tags, "version": version},
    )


def _check_columns(source: Source, ds: Any, columns: Sequence[str]) -> None:
    names = [column.name for column in ds.schema.columns]
    for name in columns:
        if name not in names:
            raise IngestionError(f"{source.shown} has no column {name!r}; columns: {', '.join(names)}")


def _branches_left(ds: Any) -> list[Problem]:
    """Return a report of the branches that are not imported, which are all but the open one; empty if none exist."""
    others = [name for name in ds.branches.names() if name != ds.current_branch.name]
    reason = f"branches other than {ds.current_branch.name} are not imported: {', '.join(others)}"
    return [Problem("branches", reason, 0)] if others else []


def rows(item: Block, context: _Context) -> Iterator[Any]:
    """Read some rows; one by one if they cannot be read together."""
    ds = _of_thread(context)
    try:
        with _mutex, foreign("Deep Lake 4 cannot read it"):
            raw = [one.raw(ds, item.start, item.stop) for one in context.columns]
            found = {one.tensor: one.made(values) for one, values in zip(context.columns, raw, strict=True)}
    except LakebedError as error:
        if item.stop - item.start == 1:
            yield Skipped(f"row {item.start:,}", f"{error}")
            return
        for row in range(item.start, item.stop):
            yield from rows(Block(row, row + 1), context)
    else:
        yield found


def _opened(source: Source) -> Any:
    """Open a dataset with the package of Deep Lake 4.

    Raises
    ------
    IngestionError
        If the package is missing, or cannot open the dataset.
    """
    try:
        import deeplake
    except ImportError as error:
        raise IngestionError(
            "datasets of Deep Lake 4 are opened by its own package: pip install 'deeplake>=4'"
        ) from error
    if not hasattr(deeplake, "open_read_only"):
        raise IngestionError(
            f"datasets of Deep Lake 4 are opened by version 4 of its package, but version {deeplake.__version__} is "
            "installed: pip install 'deeplake>=4'"
        )
    options = {} if source.creds is None else {"creds": source.creds}
    with foreign(f"Deep Lake 4 cannot open {source.shown}"):
        return deeplake.open_read_only(source.address, **options)


def _at(source: Source, version: str | None) -> Any:
    ds = _opened(source)
    if version is None:
        return ds
    if version in ds.tags.names():
        return ds.tags[version].open()
    history = ds.history
    for number in range(len(history)):
        if history[number].id == version:
            return history[number].open()
    raise IngestionError(f"{source.shown} has no version or tag {version!r}")


_own = threading.local()
# The package deeplake does not document reads from several threads.
_mutex = threading.Lock()


def _of_thread(context: _Context) -> Any:
    """Return the dataset that this thread has open."""
    key = (context.source.identity, context.version)
    known: tuple[Any, Any] | None = getattr(_own, "known", None)
    if known is None or known[0] != key:
        known = _own.known = (key, _at(context.source, context.version))
    return known[1]
