"""Answers of queries, cached by id; queries may name datasets of the lake, and have a timeout."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.errors import InvalidInputError, NotFoundError, QueryError
from lakebed.query import parse
from lakebed.query.language import syntax
from lakebed.query.relations.bound import Input
from lakebed.query.relations.relation import Picked, Projected, Relation, Stored
from lakebed.query.values.info import Info
from lakebed.viewer import schema
from lakebed.viewer.asked import Asked
from lakebed.viewer.cells import cell, cells, each
from lakebed.viewer.lake import Found, Lake, Opened, keep

_MOST_ANSWERS = 32
_MOST_GROUPS = 10_000
_MOST_LETTERS = 1 << 16
_MOST_ROWS = 50_000_000
_MEMORY = 1 << 30
_SECONDS = 20.0
_VIEW, _GIVEN = "view:", "rows:"
_DRAWN = {"bbox": "bbox", **dict.fromkeys(("image", "image.rgb", "image.gray"), "image")}


@dataclass(slots=True)
class Answer:
    """The result of a query.

    Attributes
    ----------
    opened
        The version to which the rows belong.
    found
        A view of the dataset, or a result with computed columns.
    rows
        Numbers of its rows in the dataset; None for joins and groups.
    sources
        Column -> the tensor that it shows unchanged.
    is_plain
        Whether each row and column is also a row and column of the queried version.
    starts
        Start of each group of ARRANGE BY; None if the result has no groups.
    told
        The result as JSON for the page (`Answer` of types.ts).
    """

    opened: Opened
    found: Any
    rows: NDArray[np.int64] | None
    sources: dict[str, str]
    is_plain: bool
    starts: NDArray[np.int64] | None
    told: dict[str, Any]


class Answers:
    """The most recent answers, by dataset and id."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._mutex = threading.Lock()
        self._kept: dict[tuple[int, str], Answer] = {}

    def answer(self, opened: Opened, text: str) -> Answer:
        """Answer a query; ``view:ID`` are the rows of a saved view, ``rows:NAME`` rows that the parent process shows.

        Raises
        ------
        QueryError
            If the query does not fit the data, or takes too long.
        """
        if len(text) > _MOST_LETTERS:
            raise QueryError("the query is too long", kind="limit")
        asked = f"{opened.number}\n{opened.version}\n{text}".encode("utf-8", "replace")
        key = opened.number, hashlib.sha256(asked).hexdigest()[:24]
        with self._mutex:
            found = self._kept.get(key)
        if found is None:
            began = time.perf_counter()
            given = self._given(opened, text)
            owner, view = self._asked(opened, text) if given is None else given
            found = _told(opened, owner, view, text if given is None else None)
            found.told |= {"q": key[1], "ms": round((time.perf_counter() - began) * 1000, 3)}
        with self._mutex:
            return keep(self._kept, key, found, _MOST_ANSWERS)

    def kept(self, asked: Asked) -> Answer:
        """Return the answer with an id.

        Raises
        ------
        NotFoundError
            If the answer was dropped, or belongs to another dataset.
        """
        with self._mutex:
            key = asked.number, asked.q
            if key not in self._kept:
                raise NotFoundError("the answer of this query is not kept any more: run the query again")
            return keep(self._kept, key, self._kept[key], _MOST_ANSWERS)

    def save(self, opened: Opened, name: str, text: str | None, rows: Sequence[int]) -> str:
        """Save rows, or the rows of a query, as a view; return the view's id.

        Raises
        ------
        DatasetViewSavingError
            If the version has changes that are not committed.
        """
        is_query = text is not None and not text.startswith((_VIEW, _GIVEN))
        if text is not None:
            answer = self.answer(opened, text)
            if answer.rows is None or answer.opened is not opened:
                told = "these are not rows of this version: they can not be saved as a view of it"
                raise InvalidInputError(told)
            rows = answer.rows.tolist()
        ds = self._lake.writable(opened)
        found: Any = self._queried(ds, str(text))[0] if is_query else ds.max_view[list(rows)]
        place: str = found.save_view(message=name, verbose=False)
        return place.rpartition("/")[2]

    def _given(self, opened: Opened, text: str) -> tuple[Opened, Any] | None:
        """Return the rows of ``view:ID`` or ``rows:NAME``, and their version; None for a query."""
        kind, name = text[: len(_VIEW)], text[len(_VIEW) :]
        if kind == _GIVEN:
            if name not in self._lake.rows:
                raise NotFoundError("these rows are not kept any more: show them again")
            return opened, opened.ds.max_view[list(self._lake.rows[name])]
        if kind != _VIEW:
            return None
        try:
            entry = opened.ds.get_view(name)
        except KeyError as error:
            raise NotFoundError(f"there is no view {name!r:.200}") from error
        is_here = entry.commit_id == opened.ds.commit_id and not opened.ds.has_head_changes
        owner = opened if is_here else self._lake.open(opened.number, entry.commit_id)
        return owner, owner.ds.max_view[list(entry.load(verbose=False).sample_indices)]

    def _asked(self, opened: Opened, text: str) -> tuple[Opened | None, Any]:
        """Return the version whose rows a query returns (None for several versions), and the view or result."""
        found, others = self._queried(opened.ds, text)
        is_view = isinstance(found, lakebed.Dataset)
        of = (found.storage.url, found.pending_commit_id) if is_view else found.relation.origin()
        sources = (opened, *others)
        return next((one for one in sources if (one.ds.storage.url, one.version) == of), None), found

    def _queried(self, ds: lakebed.Dataset, text: str) -> tuple[Any, list[Opened]]:
        """Answer a query, and return the datasets that it names; only datasets of the lake are opened."""
        others: list[Opened] = []

        def named(address: str) -> lakebed.Dataset:
            others.append(self._lake.named(*address.partition("@")[::2]))
            return others[-1].ds

        limits: dict[str, Any] = {"timeout": _SECONDS, "max_memory": _MEMORY, "max_rows": _MOST_ROWS}
        asked = _asked_of_all_rows(ds, text)
        if asked is None:
            return ds.query(text, named=named, **limits), others
        rows = ds[asked].query(text, named=named, **limits).sample_indices
        return ds.max_view[list(rows)], others


def _asked_of_all_rows(ds: lakebed.Dataset, text: str) -> list[str] | None:
    """Return the tensors to query for ``SELECT *`` over tensors of different lengths; None for other queries.

    These are the tensors that the clauses of the query read, or else the longest tensor. The query is run over these
    alone: the language shows only rows that all selected columns have, the page shows all rows.
    """
    if ds.min_len == ds.max_len:
        return None
    query = parse(text)
    select = query.body
    if not isinstance(select, syntax.Select) or select.source or select.expand or select.group:
        return None
    if select.is_distinct or select.items != (syntax.Item(None, None, None, (), select.items[0].at),):
        return None
    names = syntax.columns_of(replace(query, body=replace(select, items=()))) or ()
    asked = [name for name in ds.tensors if name in names or name.rpartition("/")[2] in names]
    return asked or [max(ds.tensors, key=lambda name: len(ds.tensors[name]))]


def _told(opened: Opened, owner: Opened | None, found: Any, text: str | None) -> Answer:
    metas = {} if owner is None else {one["name"]: one for one in schema.tensor_metas(owner)}
    is_view = isinstance(found, lakebed.Dataset)
    names = list(found.tensors if is_view else found.names)
    shown = {name: name if is_view else _source_of(found.relation, name) for name in names}
    sources = {name: source for name, source in shown.items() if source is not None and source in metas}
    columns = [
        {**metas[sources[name]], "name": name} if name in sources else _computed(name, found)
        for name in names
    ]
    try:
        rows = None if owner is None else np.asarray(found.sample_indices, np.int64)
    except InvalidInputError:
        rows = None
    is_mine = all(sources.get(name, "") == name for name in names if name in opened.tensors)
    groups, starts = _groups(found, parse(text).arrange if text is not None else (), names)
    told = {"rows": len(found) if rows is None else len(rows), "columns": columns, "groups": groups}
    is_plain = owner is opened and rows is not None and is_mine
    return Answer(owner or opened, found, rows, {} if rows is None else sources, is_plain, starts, told)


def _source_of(relation: Relation, name: str) -> str | None:
    """Return the tensor that a column shows unchanged; None if the column is computed."""
    if isinstance(relation, Projected):
        node = relation.outputs[name]
        return _source_of(relation.base, node.name) if isinstance(node, Input) else None
    if isinstance(relation, Picked):
        return _source_of(relation.base, name)
    return name if isinstance(relation, Stored) else None


def _computed(name: str, found: Any) -> dict[str, Any]:
    """Return the description of a column that a query computes."""
    info: Info = found.column(name).info
    kind = {"text": "text", "json": "json"}.get(info.kind, "scalar")
    if info.class_names is not None:
        kind = "label"
    elif info.htype in _DRAWN and not info.is_group:
        kind = _DRAWN[info.htype]
    elif info.kind == "array" and (info.rank or 0) > 1:
        kind = "array"
    return schema.NOTHING | {
        "name": name,
        "htype": info.htype or "generic",
        "kind": kind,
        "dtype": str(info.dtype or ""),
        "rows": len(found),
        "class_names": list(info.class_names or ()),
        "coords": {"type": "pixel", "mode": info.coords} if kind == "bbox" else None,
        "logical": schema.logical(info.logical),
    }


def _groups(
    found: Any, arranged: Sequence[Any], names: Sequence[str]
) -> tuple[list[dict[str, Any]] | None, NDArray[np.int64] | None]:
    """Return the groups of ARRANGE BY columns, and the start of each; (None, None) without groups."""
    keys = [key.column if isinstance(key, syntax.Name) else "" for key in arranged]
    if not keys or any(key not in names for key in keys):
        return None, None
    import pyarrow as pa

    columns = found.to_arrow(keys).columns
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
    """Return the key of a group for its heading."""
    if value is None:
        return "missing"
    return ", ".join(map(str, value[:8])) if isinstance(value, list) else str(value)[:200]


# -- rows ------------------------------------------------------------------------------------------------------------


def rows(answer: Answer, asked: Asked) -> dict[str, Any]:
    """Return rows of an answer as JSON (`Rows` of types.ts), with all columns if the request names no columns."""
    start = asked.start
    places = range(start, max(start, min(start + asked.count, answer.told["rows"])))
    kinds = {one["name"]: one["kind"] for one in answer.told["columns"]}
    numbers = [-1] * len(places)
    if answer.rows is not None:
        numbers = answer.rows[places.start : places.stop].tolist()
    found = {}
    for name in kinds if asked.tensors is None else asked.tensors:
        if name in answer.sources or (
            name not in kinds and name in answer.opened.tensors and answer.is_plain
        ):
            found[name] = cells(answer.opened.tensor(answer.sources.get(name, name)), numbers)
        elif name in kinds:
            found[name] = _computed_cells(answer, name, kinds[name], places)
        else:
            raise NotFoundError(f"the answer has no column {name!r:.200}")
    groups = None
    if answer.starts is not None:
        groups = (np.searchsorted(answer.starts, np.asarray(places), side="right") - 1).tolist()
    ids = numbers if answer.is_plain else [-1] * len(places)
    return {"start": start, "ids": ids, "cells": found, "groups": groups}


def _computed_cells(answer: Answer, name: str, kind: str, places: range) -> list[Any]:
    column = answer.found.column(name)

    def read(some: range) -> list[Any]:
        is_drawn = kind in ("image", "label", "bbox")
        values = column[some.start : some.stop].once() if is_drawn else column.shown(some)
        if kind == "image":
            return [None if value is None else {"s": list(np.shape(value))} for value in values]
        return [cell(value, kind) for value in values]

    return each(places, read)


def located(answer: Answer, name: str, place: int) -> Found:
    """Return the tensor and row behind a cell of an answer, or its computed value.

    Raises
    ------
    NotFoundError
        If the row or column does not exist.
    """
    if place >= answer.told["rows"] or all(name != one["name"] for one in answer.told["columns"]):
        raise NotFoundError(f"the answer has no row {place} with a column {name!r:.200}")
    if answer.rows is not None and name in answer.sources:
        return answer.opened, answer.sources[name], int(answer.rows[place])
    value = answer.found.column(name)[place].value()
    array = np.asarray(None if isinstance(value, list) else value)  # a list may hold values of several types
    if array.dtype.kind not in "biuf":
        raise NotFoundError(f"column {name!r:.200} holds no numbers in row {place}")
    return array
