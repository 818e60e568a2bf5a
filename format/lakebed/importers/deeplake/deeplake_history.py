"""All versions of a dataset of Deep Lake 4, as commits in their order.

Its package says of each version, in words, what was done in it, and opens each one by itself:

    what was done                          what is read
    rows were appended, and nothing else   these rows
    anything else                          what both versions have, compared in stretches; rows that differ are written
    a column was renamed                   nothing: its tensor is renamed, and then compared as the others are

The words decide only what is compared; rows, columns and types are those that each version has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

import lakebed
from lakebed.errors import DatasetExistsError, IngestionError, InvalidInputError, TagExistsError
from lakebed.importers.core.plan import Problem, TensorPlan
from lakebed.importers.core.source import Source
from lakebed.runtime.progress import rows_bar
from lakebed.writing.names import any_name

_INFO = "imports"
_APPENDED = re.compile(r"Appended [\d,]+ rows? to column \d+")
_RENAMED = re.compile(r"Renamed column \d+ to '(.*)'", re.DOTALL)
# Rows are read in stretches of about so many bytes.
_BYTES = 32 << 20
_MOST_ROWS = 256


class Held(NamedTuple):
    """A column as a version has it: its tensor, and how values get there."""

    plan: TensorPlan
    how: str

    @property
    def kind(self) -> tuple[Any, ...]:
        """What must be equal for two versions to share a tensor: all but names of classes, and the name."""
        told = {key: value for key, value in self.plan.arguments.items() if key != "class_names"}
        return self.how, told, dict(self.plan.info)


@dataclass(frozen=True)
class Reader:
    """How columns of a version are found and read; what :mod:`deeplake_datasets` has for single versions.

    Parameters
    ----------
    columns
        Dataset -> columns by name.
    raw
        Values of a column as they are compared: (column, how, start, stop).
    made
        Values as tensors take them: (raw values, how).
    metadata
        Dataset -> what it says of itself.
    """

    columns: Callable[[Any], dict[str, Held]]
    raw: Callable[[Any, str, int, int], list[Any]]
    made: Callable[[list[Any], str], list[Any]]
    metadata: Callable[[Any], dict[str, Any]]


def copy_versions(
    source: Source,
    theirs: Any,
    reader: Reader,
    dest: Any,
    *,
    overwrite: bool,
    creds: Any,
    progressbar: bool,
    columns: Sequence[str] = (),
) -> tuple[lakebed.Dataset, list[Problem]]:
    """Write all versions of the branch that is open into a new dataset, or go on where that was interrupted.

    Parameters
    ----------
    source, theirs
        The dataset, and as its package has it open.
    dest
        Path or address of the new dataset.
    overwrite, creds, progressbar
        As for :func:`lakebed.import_from`.
    columns
        Columns that are taken; they are part of what makes an interrupted import the same.

    Returns
    -------
    The dataset, and what of the source is not in it.

    Raises
    ------
    DatasetExistsError
        If a dataset is at ``dest``, and it is none that this import began.
    IngestionError
        If rows of a version cannot be read: left out, they would put those of later versions out of step.
    """
    identity = f"{source.identity}/{','.join(columns)}/versions"
    ds, done = _destination(dest, identity, overwrite=overwrite, creds=creds)
    versions = _versions(theirs)
    total = sum(len(version.open()) for version in versions[-1:])
    with rows_bar("Importing versions", total, shown=progressbar) as advance:
        before: tuple[Any, dict[str, Held]] | None = None
        for number, version in enumerate(versions):
            now = version.open()
            held = reader.columns(now)
            if number >= done:
                change = _Change(ds, reader, f"{source.shown}: version {version.id}", advance)
                change.apply(before, (now, held), version.operations)
                _remember(ds, source, identity, reader.metadata(now), versions, number)
                ds.commit(version.message or f"version {version.id}")
            before = now, held
    return ds, _tag(ds, theirs, versions)


def _versions(theirs: Any) -> list[Any]:
    """Return the versions, oldest first, without the empty one that each dataset begins with."""
    history = theirs.history
    found = [history[number] for number in range(len(history))]
    if found and not found[0].operations and not found[0].open().schema.columns:
        return found[1:]
    return found


def _destination(dest: Any, identity: str, *, overwrite: bool, creds: Any) -> tuple[lakebed.Dataset, int]:
    """Open or make the dataset; return how many versions it has already."""
    if overwrite or not lakebed.exists(dest, creds=creds):
        ds = lakebed.empty(dest, overwrite=overwrite, creds=creds)
        with ds:
            ds.info[_INFO] = [{"state": "running", "identity": identity, "versions": 0}]
        return ds, 0
    ds = lakebed.load(dest, read_only=False, creds=creds)
    last = (ds.info.get(_INFO) or [{}])[-1]
    is_begun = last.get("identity") == identity and "versions" in last
    if not is_begun or (last["state"] == "done" and len(ds.commits) >= last["versions"]):
        raise DatasetExistsError(
            f"a dataset is at {os.fspath(dest)} already: replace it (overwrite=True, --overwrite)"
        )
    if not ds.commits:
        return _destination(dest, identity, overwrite=True, creds=creds)
    ds.reset()
    return ds, int(ds.info[_INFO][-1]["versions"])


def _remember(
    ds: lakebed.Dataset,
    source: Source,
    identity: str,
    metadata: Mapping[str, Any],
    versions: Sequence[Any],
    number: int,
) -> None:
    """Note which version a commit is."""
    one = versions[number]
    told = {"id": one.id, "message": one.message, "time": str(one.timestamp)}
    ds.info[_INFO] = [
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


def _tag(ds: lakebed.Dataset, theirs: Any, versions: Sequence[Any]) -> list[Problem]:
    """Give the commits of tagged versions their names."""
    commits = [one["commit"] for one in reversed(ds.commits)]
    ids = {version.id: commit for version, commit in zip(versions, commits, strict=True)}
    problems: list[Problem] = []
    for name in theirs.tags.names():
        commit = ids.get(theirs.tags[name].version)
        if commit is None:
            problems.append(Problem(f"tag {name}", "its version is none of this branch", 0))
            continue
        try:
            ds.create_tag(name, commit)
        except (InvalidInputError, TagExistsError) as error:
            problems.append(Problem(f"tag {name}", str(error), 0))
    return problems


@dataclass
class _Change:
    """What one version does to the dataset."""

    ds: lakebed.Dataset
    reader: Reader
    where: str
    advance: Callable[[int], object]

    def apply(
        self,
        before: tuple[Any, dict[str, Held]] | None,
        now: tuple[Any, dict[str, Held]],
        operations: Sequence[str],
    ) -> None:
        """Make the dataset what a version is, from what the version before was."""
        new, columns = now
        old, held = before if before is not None else (new, {})
        names = {name: name for name in columns if name in held}
        names |= self._renamed(held, columns, operations)
        same = {
            name: was
            for name, was in names.items()
            if held[was].kind == columns[name].kind
            and (name != was or held[was].plan.name == columns[name].plan.name)
        }
        for was, one in held.items():
            if was not in same.values():
                self.ds.delete_tensor(one.plan.name, large_ok=True)
        for name, was in same.items():
            if name != was:
                self.ds.rename_tensor(held[was].plan.name, columns[name].plan.name)
            self._rename_classes(held[was], columns[name])
        count, rows = (len(old) if held else 0), (len(new) if columns else 0)
        if rows < count and same:
            self.ds.pop(slice(rows, count))
        shared = min(rows, count)
        is_longer_only = before is not None and operations and all(map(_APPENDED.fullmatch, operations))
        if not (is_longer_only and len(same) == len(held) == len(columns)):
            for name, was in same.items():
                self._compare(old[was], new[name], columns[name], shared)
        added = [name for name in columns if name not in same]
        for name in added:
            plan = columns[name].plan
            with any_name():
                made = self.ds.create_tensor(plan.name, **plan.arguments)
            for key, value in plan.info.items():
                made.info[key] = value
        if len(added) == len(columns):
            shared = 0
        self._extend(new, {name: columns[name] for name in added}, 0, shared)
        self._extend(new, columns, shared, rows)

    @staticmethod
    def _renamed(
        held: Mapping[str, Held], columns: Mapping[str, Held], operations: Sequence[str]
    ) -> dict[str, str]:
        """Return which column was which, where that is beyond doubt: of one that went and one that came."""
        gone = [name for name in held if name not in columns]
        came = [name for name in columns if name not in held]
        told = [found[1] for one in operations if (found := _RENAMED.fullmatch(one))]
        return {came[0]: gone[0]} if len(gone) == len(came) == 1 and came == told else {}

    def _rename_classes(self, was: Held, one: Held) -> None:
        classes = one.plan.arguments.get("class_names")
        if classes is not None and classes != was.plan.arguments.get("class_names"):
            self.ds[one.plan.name].info["class_names"] = classes

    def _compare(self, old: Any, new: Any, column: Held, rows: int) -> None:
        """Write the rows again that are others than before."""
        tensor, start, step = self.ds[column.plan.name], 0, 1
        while start < rows:
            stop = min(rows, start + step)
            found = self._read(new, column, start, stop)
            before = self._read(old, column, start, stop)
            changed = [at for at in range(stop - start) if not _same(found[at], before[at])]
            values = self.reader.made([found[at] for at in changed], column.how)
            for at, value in zip(changed, values, strict=True):
                tensor[start + at] = value
            step = _step(found, stop - start)
            start = stop

    def _extend(self, new: Any, columns: Mapping[str, Held], start: int, rows: int) -> None:
        """Append rows to some tensors."""
        step = 1
        while columns and start < rows:
            stop = min(rows, start + step)
            raw = {name: self._read(new[name], one, start, stop) for name, one in columns.items()}
            for name, one in columns.items():
                self.ds[one.plan.name].extend(self.reader.made(raw[name], one.how))
            self.advance(stop - start)
            step = _step(list(raw.values()), stop - start)
            start = stop

    def _read(self, column: Any, one: Held, start: int, stop: int) -> list[Any]:
        try:
            return self.reader.raw(column, one.how, start, stop)
        except Exception as error:  # whatever their package raises
            raise IngestionError(
                f"{self.where}: column {column.name!r}: rows {start:,} to {stop - 1:,} cannot be read: {error}. "
                "One version alone comes in without the rows that cannot be read: version=ID (--version)"
            ) from error


def _step(values: Any, rows: int) -> int:
    """Return how many rows the next stretch has, by the size of this one."""
    return max(1, min(_MOST_ROWS, 2 * rows, _BYTES * rows // max(1, _size(values))))


def _size(value: Any) -> int:
    """Return about how many bytes a value has."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, bytes | bytearray | memoryview | str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 8


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal to the last bit."""
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
