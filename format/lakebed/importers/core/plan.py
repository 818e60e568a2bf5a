"""The plan of an import: tensors, items and known problems, made before anything is written.

An importer is a module with these functions::

    recognise(source) -> str | None       describes the source, or returns None if it is of another format
    plan(source, *, ...) -> Plan          its keyword arguments are the options of the format; help comes from its
                                          docstring
    rows(item, context) -> rows           turns an item of the plan into rows {tensor: value}, with Skipped in place of
                                          rows that cannot be made; an error leaves the item out; workers call it in
                                          any thread or process
    describe(plan) -> dict                optional: facts for the info of the dataset; ``plan.about`` if it is missing

Optional names of the module:

``BATCHED = True``
    ``rows`` returns columns {tensor: values}, or an iterator of them.
``BATCH = n``
    Each item becomes one row or none, and the rows of up to n items are written together.
``many(items, context)``
    Called with these items, instead of ``rows`` with each of them. It yields Skipped, and pairs (positions of items in
    the batch, columns of their rows).
``SCHEDULER``
    ``"processed"`` if Python code makes the rows; the default is ``"threaded"``.
``plan_splits(source, only, *, ...)``
    Called instead of ``plan`` with the requested splits, so that other splits are not read.
``address(src)``
    Returns the :class:`Elsewhere` that the text of a source names; None for files.
``resumed(source, options, records)``
    Returns the options of an import into a dataset whose earlier imports left `records` in its info.
``ended(plan) -> dict``
    Facts for the info that are known once all rows are made.
``copied(source, dest, *, overwrite, creds, progressbar, **options)``
    Copies a source that is a dataset, with its history; returns None for sources that need a plan. If `dest` is None,
    it only counts the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Annotated, Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa

from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source
from lakebed.links.link import link as link_to

_MOST_DEPTH = 32


@dataclass(frozen=True)
class TensorPlan:
    """A tensor that the import creates: arguments of ``create_tensor``, and its info."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def htype(self) -> str:
        """Htype, ``generic`` by default."""
        return str(self.arguments.get("htype") or "generic")


def tensor(
    name: str,
    htype: str | None = None,
    *,
    info: Mapping[str, Any] | None = None,
    is_list: bool = False,
    **arguments: Any,
) -> TensorPlan:
    """Return the plan of a tensor.

    Parameters
    ----------
    name, htype, arguments
        As for ``create_tensor``; arguments that are None are left out.
    info
        Info of the tensor.
    is_list
        True if samples are lists of numbers. Then an empty list stays a list and does not become null, even if no list
        has more than one number.
    """
    told = dict(info or {})
    if is_list:
        # Class labels are uint32 by default.
        number = pa.from_numpy_dtype(np.dtype(arguments.get("dtype") or "uint32"))
        told["logical_type"] = str(pa.list_(number))
    given = {key: value for key, value in {"htype": htype, **arguments}.items() if value is not None}
    return TensorPlan(name, given, told)


@dataclass(frozen=True)
class Problem:
    """A defect of the source that is known before the import.

    Parameters
    ----------
    where
        File, line or annotation.
    reason
        The defect.
    rows
        Number of rows that are left out because of it; 0 if rows are imported with something missing.
    """

    where: str
    reason: str
    rows: int = 1


class Stretch(NamedTuple):
    """An item of a plan: the part of a file or dataset from `start` to `stop`, or to the end if `stop` is None."""

    name: str
    start: int
    stop: int | None
    unit: str = "bytes"

    def __str__(self) -> str:
        if self.stop is None:
            return self.name
        return f"{self.name}, {self.unit} {self.start:,} to {self.stop:,}"


@dataclass(frozen=True)
class Copied:
    """A dataset that was copied with its history.

    Parameters
    ----------
    rows
        Number of rows of its last version.
    dataset
        The copy; None if no destination was given.
    problems
        Parts of the source that the copy lacks.
    """

    rows: int
    dataset: Any = None
    problems: Sequence[Problem] = ()


@dataclass(frozen=True)
class Upsert:
    """Import of rows by key: a newer row replaces the older row of its key.

    Parameters
    ----------
    key
        Tensors that identify a row.
    cursor
        Tensor whose greater value marks the newer row; None if the later row is the newer one.
    """

    key: tuple[str, ...]
    cursor: str | None = None


@dataclass
class Plan:
    """The plan of an import.

    Parameters
    ----------
    found
        Description of the source.
    tensors
        Tensors that are created.
    items
        Units of work, in the order of the rows; each becomes any number of rows. Picklable and small.
    context
        Data that all workers need; picklable.
    rows
        Expected number of rows; None if it is unknown.
    nbytes
        Bytes of the source that will be read.
    splits
        Name of a split -> range of its items. Covers all items, in order; empty for sources without splits.
    problems
        Defects of the source that are known before the import.
    classes
        Names of classes by tensor, for the report.
    about
        Facts about the whole source, for the info of the dataset.
    upsert
        The key of the rows; None appends all rows.
    of
        The part of the source that is imported, such as a table of a database.
    may_be_empty
        True if a source without rows is no error; such a plan has one item, a stream.
    """

    found: str
    tensors: Sequence[TensorPlan]
    items: Sequence[Any]
    context: Any = None
    rows: int | None = None
    nbytes: int = 0
    splits: Mapping[str, range] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    upsert: Upsert | None = None
    of: str = ""
    may_be_empty: bool = False

    def only(self, splits: Sequence[str]) -> Plan:
        """Return the plan for some splits.

        Raises
        ------
        IngestionError
            If the source has no such split.
        """
        items: list[Any] = []
        ranges: dict[str, range] = {}
        for name in splits:
            if name not in self.splits:
                known = f"it has {', '.join(self.splits)}" if self.splits else "it has none"
                raise IngestionError(
                    f"the source has no split {name!r}: {known}. To make splits, give shares: train=0.8/val=0.2"
                )
            ranges[name] = range(len(items), len(items) + len(self.splits[name]))
            items.extend(self.items[at] for at in self.splits[name])
        rows = self.rows if len(items) == len(self.items) else None
        return replace(self, items=items, splits=ranges, rows=rows)


class ImageOptions(TypedDict, total=False):
    """Options of importers of images."""

    link: Annotated[bool, "Store links to the images in place of the images."]
    creds_key: Annotated[str | None, "Name of the credentials that the links need."]
    compression: Annotated[
        str | None,
        "Kind of image that is stored; left out, the kind of the files with the most bytes.",
    ]


def media(
    name: str,
    htype: str,
    *,
    compression: str | None = None,
    link: bool = False,
    info: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> TensorPlan:
    """Return the plan of a tensor of files, or of links to them.

    Parameters
    ----------
    htype
        ``image``, ``audio``, ``video``, ...
    compression
        Sample compression of the tensor; for links, compression of the linked files.
    link
        Whether to store links.
    """
    htype = f"link[{htype}]" if link else htype
    return tensor(name, htype, sample_compression=compression, info=info, **arguments)


@dataclass(frozen=True)
class Media:
    """Maker of values for files of the source: bytes, or links.

    Parameters
    ----------
    link
        Store links.
    creds_key
        Name of the credentials that the links need.
    """

    source: Source
    link: bool = False
    creds_key: str | None = None

    def value(self, name: str) -> Any:
        """Return the value of a row for a file of the source.

        Raises
        ------
        NotFoundError
            If the source has no such file.
        """
        if self.link:
            return link_to(self.source.link(name), creds_key=self.creds_key)
        return self.source.media(name)


def several(names: Sequence[str], one: str, many: str) -> str:
    """Describe files: `one` for a single file, otherwise their number and `many`."""
    return f"{len(names):,} {many}" if len(names) > 1 else one


def told_first(problems: Sequence[Problem]) -> str:
    """Describe the first problem, and count the others; return "" if there are none."""
    if not problems:
        return ""
    rest = f", and {len(problems) - 1:,} more" if len(problems) > 1 else ""
    return f". {problems[0].where}: {problems[0].reason}{rest}"


def kept(columns: Mapping[str, Any], rows: list[int]) -> dict[str, Any]:
    """Return some rows of columns."""
    return {name: _taken(values, rows) for name, values in columns.items()}


def _taken(values: Any, rows: list[int]) -> Any:
    if isinstance(values, np.ndarray):
        return values[rows]
    return values.take(rows) if hasattr(values, "take") else [values[row] for row in rows]


def columns_of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows of the same tensors as columns."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def as_json(value: Any, most: float = inf, depth: int = _MOST_DEPTH) -> Any:
    """Return a value of another library as JSON; its text if JSON cannot hold it.

    Parameters
    ----------
    most
        Bytes of an array above which its text, which NumPy shortens, is returned.
    depth
        Number of lists and objects inside of each other; deeper ones become text.
    """
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray | np.generic) and value.nbytes <= most:
        value = value.tolist()
    if depth and isinstance(value, list | tuple):
        return [as_json(one, most, depth - 1) for one in value]
    if depth and isinstance(value, Mapping):
        return {str(key): as_json(one, most, depth - 1) for key, one in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
