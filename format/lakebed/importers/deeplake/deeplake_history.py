"""All versions of a dataset of Deep Lake 4, as commits in their order.

The package deeplake opens each version, and describes its changes:

    change                                 rows that are read
    rows were appended, and nothing else   the appended rows
    other changes                          the rows of both versions; rows that differ are written
    a column was renamed                   its tensor is renamed, and then compared like others

The descriptions decide only which rows are compared; rows, columns and types are those of each version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from lakebed.api.datasets import empty, exists, load
from lakebed.dataset.dataset import Dataset
from lakebed.errors import DatasetExistsError, InvalidInputError, TagExistsError
from lakebed.importers.arrays.stored import size_of
from lakebed.importers.core.importing import INFO, create_tensor
from lakebed.importers.core.packages import foreign
from lakebed.importers.core.plan import Problem
from lakebed.importers.core.source import Source
from lakebed.importers.deeplake.deeplake_columns import Column, columns_of, metadata_of
from lakebed.runtime.progress import rows_bar

_APPENDED = re.compile(r"Appended [\d,]+ rows? to column \d+")
_RENAMED = re.compile(r"Renamed column \d+ to '(.*)'", re.DOTALL)
# Maximum number of bytes of the rows that are read at a time.
_BYTES = 32 << 20
_MOST_ROWS = 256


def copy_versions(
    source: Source,
    theirs: Any,
    dest: Any,
    columns: Sequence[str],
    *,
    overwrite: bool,
    creds: Any,
    progressbar: bool,
) -> tuple[Dataset, list[Problem]]:
    """Write all versions of the open branch into a new dataset, or continue an interrupted import.

    Parameters
    ----------
    source, theirs
        The source, and its dataset as the package deeplake has opened it.
    dest
        Path or address of the new dataset.
    columns
        Columns to import; an interrupted import continues only with the same columns.
    overwrite, creds, progressbar
        As for :func:`lakebed.import_from`.

    Returns
    -------
    The dataset, and the parts of the source that it lacks.

    Raises
    ------
    DatasetExistsError
        If a dataset exists at ``dest`` that this import did not begin.
    IngestionError
        If rows of a version cannot be read: leaving them out would shift the rows of later versions.
    """
    identity = f"{source.identity}/{','.join(columns)}/versions"
    ds, done = _destination(dest, identity, overwrite=overwrite, creds=creds)
    versions = _versions(theirs)
    total = sum(len(version.open()) for version in versions[-1:])
    with rows_bar("Importing versions", total, shown=progressbar) as advance:
        before: _Version | None = None
        for number, version in enumerate(versions):
            opened = version.open()
            now = _Version(opened, {one.name: one for one in columns_of(opened, columns)})
            if number >= done:
                change = _Change(ds, f"{source.shown}: version {version.id}", advance)
                change.apply(before, now, version.operations)
                _remember(ds, source, identity, described(opened), versions, number)
                ds.commit(version.message or f"version {version.id}")
            before = now
    return ds, _tag(ds, theirs, versions)


def _versions(theirs: Any) -> list[Any]:
    """Return the versions, oldest first, without the empty version with which each dataset begins."""
    history = theirs.history
    found = [history[number] for number in range(len(history))]
    if found and not found[0].operations and not found[0].open().schema.columns:
        return found[1:]
    return found


def _destination(dest: Any, identity: str, *, overwrite: bool, creds: Any) -> tuple[Dataset, int]:
    """Open or make the dataset; return it and the number of versions that it already contains."""
    if overwrite or not exists(dest, creds=creds):
        ds = empty(dest, overwrite=overwrite, creds=creds)
        with ds:
            ds.info[INFO] = [{"state": "running", "identity": identity, "versions": 0}]
        return ds, 0
    ds = load(dest, read_only=False, creds=creds)
    last = (ds.info.get(INFO) or [{}])[-1]
    is_begun = last.get("identity") == identity and "versions" in last
    if not is_begun or (last["state"] == "done" and len(ds.commits) >= last["versions"]):
        raise DatasetExistsError(
            f"a dataset exists at {os.fspath(dest)} already: replace it (overwrite=True, --overwrite)"
        )
    if not ds.commits:
        return _destination(dest, identity, overwrite=True, creds=creds)
    ds.reset()
    return ds, int(ds.info[INFO][-1]["versions"])


def _remember(
    ds: Dataset,
    source: Source,
    identity: str,
    metadata: Mapping[str, Any],
    versions: Sequence[Any],
    number: int,
) -> None:
    """Record the version of a commit in the info."""
    one = versions[number]
    told = {"id": one.id, "message": one.message, "time": str(one.timestamp)}
    ds.info[INFO] = [
        {
            "format": "deeplake",
            "source": source.shown,
            "state": "running" if number + 1 < len(versions) else "done",
            "identity": identity,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "written": len(ds) if ds.tensors else 0,
            "skipped": 0,
            "versions": number + 1,
            "about": {"metadata": dict(metadata), "version": told},
        }
    ]


def _tag(ds: Dataset, theirs: Any, versions: Sequence[Any]) -> list[Problem]:
    """Tag the commits of tagged versions."""
    commits = [one["commit"] for one in reversed(ds.commits)]
    ids = {version.id: commit for version, commit in zip(versions, commits, strict=True)}
    problems: list[Problem] = []
    for name in theirs.tags.names():
        commit = ids.get(theirs.tags[name].version)
        if commit is None:
            problems.append(Problem(f"tag {name}", "its version is not on this branch", 0))
            continue
        try:
            ds.create_tag(name, commit)
        except (InvalidInputError, TagExistsError) as error:
            problems.append(Problem(f"tag {name}", str(error), 0))
    return problems


def described(ds: Any) -> dict[str, Any]:
    """Return the metadata of a version and of its columns."""
    of_columns = {column.name: metadata_of(ds[column.name]) for column in ds.schema.columns}
    return {"dataset": metadata_of(ds), **{name: found for name, found in of_columns.items() if found}}


@dataclass(frozen=True)
class _Version:
    """An open version, and its columns by name."""

    ds: Any
    columns: Mapping[str, Column]


@dataclass
class _Change:
    """Applies the changes of one version to the dataset."""

    ds: Dataset
    where: str
    advance: Callable[[int], object]

    def apply(self, before: _Version | None, now: _Version, operations: Sequence[str]) -> None:
        """Change the dataset from the previous version to this version."""
        columns = now.columns
        held = before.columns if before is not None else {}
        names = {name: name for name in columns if name in held} | _renamed(held, columns, operations)
        same = {
            name: was
            for name, was in names.items()
            if held[was].kind == columns[name].kind
            and (name != was or held[was].tensor == columns[name].tensor)
        }
        for was, one in held.items():
            if was not in same.values():
                self.ds.delete_tensor(one.tensor, large_ok=True)
        for name, was in same.items():
            if name != was:
                self.ds.rename_tensor(held[was].tensor, columns[name].tensor)
            self._rename_classes(held[was], columns[name])
        count = len(before.ds) if before is not None and held else 0
        rows = len(now.ds) if columns else 0
        if rows < count and same:
            self.ds.pop(slice(rows, count))
        shared = min(rows, count)
        is_appended = before is not None and operations and all(map(_APPENDED.fullmatch, operations))
        if before is not None and not (is_appended and len(same) == len(held) == len(columns)):
            for name, was in same.items():
                self._compare(before.ds, held[was], now.ds, columns[name], shared)
        added = [one for name, one in columns.items() if name not in same]
        for one in added:
            create_tensor(self.ds, one.plan)
        if len(added) == len(columns):
            shared = 0
        self._extend(now.ds, added, 0, shared)
        self._extend(now.ds, list(columns.values()), shared, rows)

    def _rename_classes(self, was: Column, one: Column) -> None:
        classes = one.plan.arguments.get("class_names")
        if classes is not None and classes != was.plan.arguments.get("class_names"):
            self.ds[one.tensor].info["class_names"] = classes

    def _compare(self, old: Any, was: Column, new: Any, column: Column, rows: int) -> None:
        """Write the rows that differ from the previous version."""
        tensor, start, step = self.ds[column.tensor], 0, 1
        while start < rows:
            stop = min(rows, start + step)
            found = self._read(new, column, start, stop)
            before = self._read(old, was, start, stop)
            changed = [at for at in range(stop - start) if not _same(found[at], before[at])]
            values = column.made([found[at] for at in changed])
            for at, value in zip(changed, values, strict=True):
                tensor[start + at] = value
            step = _step(found, stop - start)
            start = stop

    def _extend(self, new: Any, columns: Sequence[Column], start: int, rows: int) -> None:
        """Append rows to some tensors."""
        step = 1
        while columns and start < rows:
            stop = min(rows, start + step)
            raw = [self._read(new, one, start, stop) for one in columns]
            for one, values in zip(columns, raw, strict=True):
                self.ds[one.tensor].extend(one.made(values))
            self.advance(stop - start)
            step = _step(raw, stop - start)
            start = stop

    def _read(self, ds: Any, column: Column, start: int, stop: int) -> list[Any]:
        where = f"{self.where}: column {column.name!r}: rows {start:,} to {stop - 1:,} cannot be read"
        hint = ". One version alone comes in without the rows that cannot be read: version=ID (--version)"
        with foreign(where, hint):
            return column.raw(ds, start, stop)


def _renamed(
    held: Mapping[str, Column], columns: Mapping[str, Column], operations: Sequence[str]
) -> dict[str, str]:
    """Return {new name: old name} if exactly one column disappeared, one appeared, and a renaming is described."""
    gone = [name for name in held if name not in columns]
    came = [name for name in columns if name not in held]
    told = [found[1] for one in operations if (found := _RENAMED.fullmatch(one))]
    return {came[0]: gone[0]} if len(gone) == len(came) == 1 and came == told else {}


def _step(values: Any, rows: int) -> int:
    """Return the number of rows to read next, estimated from the size of `values`, which has `rows` rows."""
    return max(1, min(_MOST_ROWS, 2 * rows, _BYTES * rows // max(1, size_of(values))))


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal bit by bit."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        is_like = one.dtype == other.dtype and one.shape == other.shape
        return is_like and (
            one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, np.generic) and isinstance(other, np.generic):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return type(one) is type(other) and bool(one == other)
