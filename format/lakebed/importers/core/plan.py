"""What an import will do, before it does it: tensors, items, what is known to be missing.

An importer is a module with four functions::

    recognise(source) -> str | None       what the source is, in words; None if it is no such format
    plan(source, *, ...) -> Plan          its keyword arguments are the importer's options, told in its docstring
    rows(item, context) -> rows           what an item of the plan becomes: rows {tensor: value}, Skipped in place of
                                          those that cannot be made; called by workers in any thread or process
    describe(plan) -> dict                what the info of the dataset says of the source: licences, categories, ...

Where the source may be a dataset already, ``copied(source, dest, *, overwrite, creds, progressbar, **options)`` copies
it with its history, or returns None; without a dest it only counts the rows.

With ``BATCHED = True`` in the module, ``rows`` returns columns {tensor: values}, or an iterator over several.
With ``BATCH = n`` and a function ``many(items, context)``, that is given up to so many items, each of which becomes a
row or none: it yields Skipped, and pairs of the numbers of items among these and the columns of their rows.
A function ``plan_splits(source, only, *, ...)`` is called in place of ``plan``, and told which splits are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

import lakebed
from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source


@dataclass(frozen=True)
class TensorPlan:
    """A tensor that the import creates: arguments of ``create_tensor``, and its info."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def htype(self) -> str:
        """Htype, ``generic`` where nothing is said."""
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
        Its info.
    is_list
        Samples are lists of numbers: an empty one is no null, also where no list has two numbers yet.
    """
    told = dict(info or {})
    if is_list:
        number = pa.from_numpy_dtype(np.dtype(arguments.get("dtype") or "uint32"))  # that of class labels
        told["logical_type"] = str(pa.list_(number))
    found = {key: value for key, value in arguments.items() if value is not None}
    if htype is not None:
        found["htype"] = htype
    return TensorPlan(name, found, told)


@dataclass(frozen=True)
class Problem:
    """What is wrong with the source.

    Parameters
    ----------
    where
        File, line, annotation.
    reason
        What is wrong.
    rows
        How many rows are left out for it; 0: what is imported lacks something.
    """

    where: str
    reason: str
    rows: int = 1


@dataclass(frozen=True)
class Copied:
    """A dataset that was copied with its history.

    Parameters
    ----------
    rows
        How many rows its last version has.
    dataset
        The copy; None where there was no destination.
    problems
        What of the source is not in it.
    """

    rows: int
    dataset: Any = None
    problems: Sequence[Problem] = ()


@dataclass
class Plan:
    """What an import will do.

    Parameters
    ----------
    found
        What the source is, in words.
    tensors
        What is created.
    items
        What workers are given one of at a time: picklable, of few bytes each, in the order of the rows. Each becomes
        any number of rows.
    context
        What workers are given once; picklable.
    rows
        How many rows are expected; None if that is not known.
    nbytes
        Bytes of the source that will be read.
    splits
        Name of a split -> which items are its own; all items, in order. Empty where the source has none.
    problems
        What is known to be wrong already.
    classes
        Names of classes by tensor, for people; the tensors know theirs.
    about
        What the source says of itself as a whole, for ``describe``.
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

    def only(self, splits: Sequence[str]) -> Plan:
        """Return the plan for some splits.

        Raises
        ------
        IngestionError
            If the source has no such split.
        """
        for name in splits:
            if name not in self.splits:
                there = f"it has {', '.join(self.splits)}" if self.splits else "it has none"
                raise IngestionError(
                    f"the source has no split {name!r}: {there}. To make splits, give shares: train=0.8/val=0.2"
                )
        items: list[Any] = []
        ranges: dict[str, range] = {}
        for name in splits:
            ranges[name] = range(len(items), len(items) + len(self.splits[name]))
            items.extend(self.items[at] for at in self.splits[name])
        rows = self.rows if len(items) == len(self.items) else None
        return replace(self, items=items, splits=ranges, rows=rows)


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
        Sample compression; of links, that of the files they lead to.
    link
        Whether links are stored.
    """
    called = f"link[{htype}]" if link else htype
    return tensor(name, called, sample_compression=compression, info=info, **arguments)


@dataclass(frozen=True)
class Media:
    """How rows hold files of the source: as they are, or as links to them.

    Parameters
    ----------
    link
        Whether links are stored.
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
            return lakebed.link(self.source.link(name), creds_key=self.creds_key)
        return self.source.media(name)


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
