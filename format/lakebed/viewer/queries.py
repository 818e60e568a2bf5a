"""Answers of queries, kept by id for a while; they find their datasets in the lake, and end in time."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.errors import InvalidInputError, LakebedError, NotFoundError, QueryError
from lakebed.query import parse, syntax
from lakebed.query.bound import Info, Input
from lakebed.query.relation import Picked, Projected, Relation, Stored
from lakebed.viewer import schema
from lakebed.viewer.cells import cell, cells
from lakebed.viewer.lake import Lake, Opened

_MOST_ANSWERS = 32
_MOST_GROUPS = 10_000
_MOST_LETTERS = 1 << 16
_MOST_ROWS = 50_000_000
_MEMORY = 1 << 30
_SECONDS = 20.0
_VIEW = "view:"
_GIVEN = "rows:"


@dataclass(slots=True)
class Answer:
    """What a query found.

    Attributes
    ----------
    opened
        The version whose rows these are.
    found
        A view of the dataset, or a result with computed columns.
    rows
        Numbers of its rows there; None of joins and groups.
    sources
        Column -> the tensor that it shows as it is.
    is_plain
        Whether each row and column can as well be asked for as one of the version that was asked.
    starts
        Where each group begins, of ARRANGE BY; None without.
    told
        `Answer` of types.ts.
    """

    opened: Opened
    found: Any
    rows: NDArray[np.int64] | None
    sources: dict[str, str]
    is_plain: bool
    starts: NDArray[np.int64] | None
    told: dict[str, Any]


class Answers:
    """The last answers, by id."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._mutex = threading.Lock()
        self._kept: OrderedDict[str, Answer] = OrderedDict()

    def answer(self, opened: Opened, text: str) -> Answer:
        """Answer a query; ``view:ID`` are the rows of a saved view, ``rows:NAME`` those of the parent process.

        Raises
        ------
        QueryError
            If it does not fit the data, or takes too long.
        """
        if len(text) > _MOST_LETTERS:
            raise QueryError("the query is too long", kind="limit")
        asked = f"{opened.number}\n{opened.version}\n{text}".encode("utf-8", "replace")
        id_ = hashlib.sha256(asked).hexdigest()[:24]
        with self._mutex:
            if id_ in self._kept:
                self._kept.move_to_end(id_)
                return self._kept[id_]
        began = time.perf_counter()
        owner, found = self._found(opened, text)
        answer = _told(opened, owner, found, text)
        answer.told |= {"q": id_, "ms": round((time.perf_counter() - began) * 1000, 3)}
        with self._mutex:
            self._kept[id_] = answer
            while len(self._kept) > _MOST_ANSWERS:
                self._kept.popitem(last=False)
        return answer

    def kept(self, number: int, id_: str) -> Answer:
        """Return an answer by its id.

        Raises
        ------
        NotFoundError
            If it was forgotten, or is of another dataset.
        """
        with self._mutex:
            found = self._kept.get(id_)
            if found is None or found.told["dataset"] != number:
                raise NotFoundError("the answer of this query is no longer there: ask again")
            self._kept.move_to_end(id_)
            return found

    def save(self, opened: Opened, name: str, text: str | None, rows: Sequence[int]) -> str:
        """Save the rows of a query, or rows, as a view; return its id.

        Raises
        ------
        DatasetViewSavingError
            If the version has changes that are not committed.
        """
        if text is not None:
            answer = self.answer(opened, text)
            if answer.rows is None or answer.opened is not opened:
                raise InvalidInputError(
                    "these are no rows of this version: they can not be saved as a view of it"
                )
            rows = answer.rows.tolist()
        ds = self._lake.writable(opened)
        found: Any = ds[list(rows)]
        if text is not None and not text.startswith((_VIEW, _GIVEN)):
            asked = ds.query(text, timeout=_SECONDS)
            found = asked if isinstance(asked, lakebed.Dataset) else found
        place: str = found.save_view(message=name, verbose=False)
        return place.rpartition("/")[2]

    def _found(self, opened: Opened, text: str) -> tuple[Opened | None, Any]:
        """Return the version that the rows are of, None of several, and a view or a result."""
        if text.startswith(_VIEW):
            name = text.removeprefix(_VIEW)
            try:
                entry = opened.ds.get_view(name)
            except KeyError as error:
                raise NotFoundError(f"there is no view {name!r:.200}") from error
            there = self._lake.open(opened.number, entry.commit_id)
            rows = entry.load(verbose=False).sample_indices
            is_here = entry.commit_id == opened.ds.commit_id and not opened.ds.has_head_changes
            owner = opened if is_here else there
            return owner, owner.ds[list(rows)]
        if text.startswith(_GIVEN):
            given = self._lake.rows.get(text.removeprefix(_GIVEN))
            if given is None:
                raise NotFoundError("these rows are no longer known: show them again")
            return opened, opened.ds[list(given)]
        named = {address: self._source(address) for address in _sources(text)}
        limits: dict[str, Any] = {"timeout": _SECONDS, "max_memory": _MEMORY, "max_rows": _MOST_ROWS}
        others = {address: one.ds for address, one in named.items()}
        found: Any = opened.ds.query(text, named=others, **limits)
        for one in (opened, *named.values()):
            origin = (one.ds.storage.url, one.version)
            if _origin(found) == origin:
                return one, found
        return None, found

    def _source(self, address: str) -> Opened:
        """Return a dataset that a query names: others than those of the lake are not opened."""
        name, _, version = address.partition("@")
        for number, known in enumerate(self._lake.names()):
            if known == name:
                return self._lake.open(number, version)
        told = f"{name!r:.200} is no dataset of this lake, and queries here ask no others"
        raise QueryError(told, kind="unknown_source")


def _origin(found: Any) -> object:
    if isinstance(found, lakebed.Dataset):
        return found.storage.url, found.pending_commit_id
    return found.relation.origin()


def _sources(text: str) -> set[str]:
    """Return the addresses that a query names, besides those of its own WITH."""
    found: set[str] = set()
    tables: set[str] = set()
    waiting: list[object] = [parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting.extend(node)
        elif is_dataclass(node):
            if isinstance(node, syntax.Path):
                found.add(node.path if node.version is None else f"{node.path}@{node.version}")
            elif isinstance(node, syntax.Difference) and node.path is not None:
                told = "DIFF is of the dataset that is shown here: leave out its path"
                raise QueryError(told, kind="unknown_source")
            elif isinstance(node, syntax.Query):
                tables.update(name for name, _ in node.tables)
            waiting.extend(getattr(node, part.name) for part in fields(node))
    return found - tables


def _told(opened: Opened, owner: Opened | None, found: Any, text: str) -> Answer:
    metas = {} if owner is None else {one["name"]: one for one in schema.tensor_metas(owner)}
    if isinstance(found, lakebed.Dataset):
        names = list(found.tensors)
        sources = {name: name for name in names if name in metas}
    else:
        names = list(found.names)
        origins = {name: _source_of(found.relation, name) for name in names}
        sources = {name: source for name, source in origins.items() if source is not None and source in metas}
    columns = [
        {**metas[sources[name]], "name": name} if name in sources else _computed(name, found)
        for name in names
    ]
    try:
        rows = None if owner is None else np.asarray(found.sample_indices, np.int64)
    except InvalidInputError:
        rows = None
    mine = {*opened.tensors}
    is_plain = (
        owner is opened and rows is not None and all(sources.get(n, "") == n for n in names if n in mine)
    )
    count = len(found) if rows is None else len(rows)
    groups, starts = _groups(found, text, names)
    told = {"rows": count, "columns": columns, "groups": groups, "dataset": opened.number}
    return Answer(owner or opened, found, rows, sources if rows is not None else {}, is_plain, starts, told)


def _source_of(relation: Relation, name: str) -> str | None:
    """Return the tensor that a column shows as it is; None if it is computed."""
    if isinstance(relation, Projected):
        node = relation.outputs[name]
        return _source_of(relation.base, node.name) if isinstance(node, Input) else None
    if isinstance(relation, Picked):
        return _source_of(relation.base, name)
    return name if isinstance(relation, Stored) else None


def _computed(name: str, found: Any) -> dict[str, Any]:
    """Return what is known of a column that a query computes."""
    info: Info = found.column(name).info
    kind = {"text": "text", "json": "json"}.get(info.kind, "scalar")
    if info.class_names is not None:
        kind = "label"
    elif info.htype == "bbox" and not info.is_group:
        kind = "bbox"
    elif info.htype in ("image", "image.rgb", "image.gray") and not info.is_group:
        kind = "image"
    elif info.kind == "array" and (info.rank or 0) > 1:
        kind = "array"
    return {
        "name": name, "htype": info.htype or "generic", "kind": kind, "dtype": str(info.dtype or ""),
        "min_shape": [], "max_shape": [], "rows": len(found), "sequence": False, "link": False, "compression": None,
        "class_names": list(info.class_names or ()),
        "coords": {"type": "pixel", "mode": info.coords} if kind == "bbox" else None,
        "skeleton": [], "keypoints": [], "over": None, "logical": schema.logical(info.logical), "pyramid": [],
    }  # fmt: skip


def _groups(found: Any, text: str, names: Sequence[str]) -> tuple[list[dict[str, Any]] | None, Any]:
    """Return the groups of ARRANGE BY columns, with where each begins; (None, None) without."""
    if text.startswith((_VIEW, _GIVEN)):
        return None, None
    keys = [key.column if isinstance(key, syntax.Name) else None for key in parse(text).arrange]
    if not keys or any(key not in names for key in keys):
        return None, None
    import pyarrow as pa

    columns = found.to_arrow([str(key) for key in keys]).columns
    is_new = np.zeros(len(columns[0]), np.bool_)
    is_new[:1] = True
    for column in columns:
        values = column.combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if pa.types.is_nested(values.type):
            values = pa.array(map(repr, values.to_pylist()), pa.string())
        numbers = values.dictionary_encode(null_encoding="encode").indices.to_numpy()
        is_new[1:] |= numbers[1:] != numbers[:-1]
    starts = np.flatnonzero(is_new)
    ends = np.append(starts[1:], len(is_new)).tolist()
    labels = [column.take(pa.array(starts[:_MOST_GROUPS])).to_pylist() for column in columns]
    groups = [
        {"label": ", ".join(map(_word, label)), "start": start, "rows": end - start}
        for *label, start, end in zip(*labels, starts.tolist(), ends, strict=False)
    ]
    return groups, starts


def _word(value: Any) -> str:
    """Return the key of a group as it is headed."""
    if value is None:
        return "missing"
    return ", ".join(map(str, value[:8])) if isinstance(value, list) else str(value)[:200]


# -- rows ------------------------------------------------------------------------------------------------------------


def rows(answer: Answer, names: Sequence[str] | None, start: int, count: int) -> dict[str, Any]:
    """Return `Rows` of an answer; of all columns if none are named."""
    places = range(start, max(start, min(start + count, answer.told["rows"])))
    kinds = {one["name"]: one["kind"] for one in answer.told["columns"]}
    numbers = [-1] * len(places)
    if answer.rows is not None:
        numbers = answer.rows[places.start : places.stop].tolist()
    found = {}
    for name in kinds if names is None else names:
        if name in answer.sources:
            tensor = answer.opened.tensor(answer.sources[name])
            found[name] = cells(tensor, kinds[name], numbers)
        elif name in kinds:
            found[name] = _computed_cells(answer, name, kinds[name], places)
        elif name in answer.opened.tensors and answer.is_plain:
            tensor = answer.opened.tensor(name)
            found[name] = cells(tensor, schema.kind_of(tensor), numbers)
        else:
            raise NotFoundError(f"the answer has no column {name!r:.200}")
    groups = None
    if answer.starts is not None:
        groups = (np.searchsorted(answer.starts, np.asarray(places), side="right") - 1).tolist()
    ids = numbers if answer.is_plain else [-1] * len(places)
    return {"start": start, "ids": ids, "cells": found, "groups": groups}


def _computed_cells(answer: Answer, name: str, kind: str, places: range) -> list[Any]:
    column = answer.found.column(name)
    try:
        if kind in ("image", "label", "bbox"):
            values = column[places.start : places.stop].once() if len(places) else []
        else:
            values = column.shown(places) if len(places) else []
    except LakebedError as error:
        if len(places) == 1:
            return [{"error": str(error)}]
        return [_computed_cells(answer, name, kind, range(at, at + 1))[0] for at in places]
    if kind == "image":
        return [None if value is None else {"s": list(np.shape(value))} for value in values]
    return [cell(value, kind) for value in values]


def located(answer: Answer, name: str, place: int) -> tuple[Opened, str, int] | NDArray[Any]:
    """Return the tensor and row that a place of an answer shows, or its value where it is computed.

    Raises
    ------
    NotFoundError
        If there is no such row or column.
    """
    known: Mapping[str, Any] = {one["name"]: one for one in answer.told["columns"]}
    if not 0 <= place < answer.told["rows"] or name not in known:
        raise NotFoundError(f"the answer has no row {place} with a column {name!r:.200}")
    if name in answer.sources and answer.rows is not None:
        return answer.opened, answer.sources[name], int(answer.rows[place])
    value = answer.found.column(name)[place].value()
    array = np.asarray(value)
    if value is None or array.dtype.kind not in "biuf":
        raise NotFoundError(f"column {name!r:.200} holds no numbers in row {place}")
    return array
