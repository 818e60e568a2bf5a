"""Answers of queries, kept by id for a while; they find their datasets in the lake, and end in time."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lakebed
from lakebed.errors import InvalidInputError, LakebedError, NotFoundError, QueryError
from lakebed.query import parse
from lakebed.viewer import schema
from lakebed.viewer.cells import plain
from lakebed.viewer.lake import Lake, Opened

_MOST_ANSWERS = 32
_MOST_GROUPS = 10_000
_MOST_LETTERS = 1 << 16
_MOST_ROWS = 50_000_000
_MEMORY = 1 << 30
_SECONDS = 20.0
_VIEW = "view:"
_GIVEN = "rows:"
_OF_INFO = {"text": "text", "json": "json"}


@dataclass(slots=True)
class Answer:
    """What a query found.

    Attributes
    ----------
    opened
        The version that was asked.
    found
        A view of the dataset, or a result with computed columns.
    rows
        Numbers of its rows in the version; None of joins and groups.
    starts
        Where each group begins, of ARRANGE BY; None without.
    told
        `Answer` of types.ts.
    """

    opened: Opened
    found: Any
    rows: NDArray[np.int64] | None
    starts: NDArray[np.int64] | None
    told: dict[str, Any]


class Answers:
    """The last answers, by id."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._mutex = threading.Lock()
        self._kept: OrderedDict[str, Answer] = OrderedDict()

    def answer(self, opened: Opened, text: str) -> Answer:
        """Answer a query; ``view:ID`` are the rows of a saved view, ``rows:`` those that the viewer was started with.

        Raises
        ------
        QueryError
            If it does not fit the data, or takes too long.
        """
        if len(text) > _MOST_LETTERS:
            raise QueryError("the query is too long", kind="limit")
        id_ = hashlib.sha256(f"{opened.number}\n{opened.version}\n{text}".encode("utf-8", "replace")).hexdigest()[:24]
        with self._mutex:
            if id_ in self._kept:
                self._kept.move_to_end(id_)
                return self._kept[id_]
        began = time.perf_counter()
        found = self._found(opened, text)
        spent = (time.perf_counter() - began) * 1000
        answer = _told(opened, text, found, id_, spent)
        with self._mutex:
            self._kept[id_] = answer
            while len(self._kept) > _MOST_ANSWERS:
                self._kept.popitem(last=False)
        return answer

    def kept(self, opened: Opened, id_: str) -> Answer:
        """Return an answer by its id.

        Raises
        ------
        NotFoundError
            If it was forgotten, or is of another version.
        """
        with self._mutex:
            found = self._kept.get(id_)
            if found is None or found.opened.number != opened.number:
                raise NotFoundError("the answer of this query is no longer there: ask again")
            self._kept.move_to_end(id_)
            return found

    def _found(self, opened: Opened, text: str) -> Any:
        if text.startswith(_VIEW):
            rows = opened.ds.get_view(text.removeprefix(_VIEW)).load(verbose=False).sample_indices
            return opened.ds[list(rows)]
        if text == _GIVEN and self._lake.rows is not None:
            return opened.ds[list(self._lake.rows)]
        named = {}
        for address in _sources(text):
            named[address] = self._source(address)
        return opened.ds.query(
            text, timeout=_SECONDS, max_memory=_MEMORY, max_rows=_MOST_ROWS, named=named
        )

    def _source(self, address: str) -> lakebed.Dataset:
        """Return a dataset that a query names: others than those of the lake are not opened."""
        name, _, version = address.partition("@")
        for number, known in enumerate(self._lake.names()):
            if known == name:
                return self._lake.open(number, version).ds
        raise QueryError(
            f"{name!r:.200} is no dataset of this lake, and queries here ask no others", kind="unknown_source"
        )


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
            kind = type(node).__name__
            if kind == "Path":
                version = getattr(node, "version", None)
                found.add(f"{getattr(node, 'path')}" + (f"@{version}" if version else ""))
            elif kind == "Difference" and getattr(node, "path", None):
                raise QueryError("DIFF is of the dataset that is shown: leave out its path", kind="unknown_source")
            elif kind == "Query":
                tables.update(name for name, _ in getattr(node, "tables"))
            waiting.extend(getattr(node, part.name) for part in fields(node))
    return found - tables


def _told(opened: Opened, text: str, found: Any, id_: str, spent: float) -> Answer:
    metas = {one["name"]: one for one in schema.tensor_metas(opened)}
    is_view = isinstance(found, lakebed.Dataset)
    names = list(found.tensors) if is_view else list(found.names)
    columns = [
        metas[name] if is_view and name in metas else _computed(name, found, metas) for name in names
    ]
    try:
        rows: NDArray[np.int64] | None = np.asarray(found.sample_indices, np.int64)
    except InvalidInputError:
        rows = None
    count = found.max_len if is_view else len(found)
    groups, starts = _groups(found, text, names)
    told = {"q": id_, "rows": count, "columns": columns, "groups": groups, "ms": round(spent, 3)}
    return Answer(opened, found, rows, starts, told)


def _computed(name: str, found: Any, metas: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what is known of a column that a query computes."""
    info = found.column(name).info
    htype = info.htype or _OF_INFO.get(info.kind, "generic")
    like = metas.get(name)
    is_same = like is not None and like["htype"] == htype and not info.is_group
    if is_same and like is not None:
        return like
    kind = {"text": "text", "json": "json"}.get(info.kind, "scalar")
    if info.class_names is not None:
        kind = "label"
    elif htype == "bbox":
        kind = "bbox"
    elif info.kind == "array" and (info.rank or 0) > 1:
        kind = "array"
    coords = {"type": "pixel", "mode": info.coords} if kind == "bbox" else None
    return {
        "name": name, "htype": htype, "kind": kind, "dtype": str(info.dtype or ""), "min_shape": [], "max_shape": [],
        "rows": len(found), "sequence": False, "link": False, "compression": None,
        "class_names": list(info.class_names or ()), "coords": coords, "skeleton": [], "keypoints": [], "over": None,
        "logical": schema.logical(info.logical), "pyramid": [],
    }  # fmt: skip


def _groups(found: Any, text: str, names: Sequence[str]) -> tuple[list[dict[str, Any]] | None, Any]:
    """Return the groups of ARRANGE BY columns, with where each begins; (None, None) without."""
    try:
        keys = [getattr(key, "column", None) for key in parse(text).arrange]
    except QueryError:  # a saved view
        return None, None
    if not keys or any(key not in names for key in keys):
        return None, None
    columns = [_words(found, str(key)) for key in keys]
    groups: list[dict[str, Any]] = []
    starts: list[int] = []
    at = 0
    for label, members in groupby(zip(*columns, strict=True)):
        count = sum(1 for _ in members)
        starts.append(at)
        if len(groups) < _MOST_GROUPS:
            groups.append({"label": ", ".join(label), "start": at, "rows": count})
        at += count
    return groups, np.asarray(starts, np.int64)


def _words(found: Any, name: str) -> list[str]:
    """Return a column as texts, labels by their names."""
    if isinstance(found, lakebed.Dataset):
        names = list(found[name].info.get("class_names") or ())
        values: Any = found[name].values()
    else:
        names = list(found.column(name).class_names or ())
        values = found.column(name).values()
    words = []
    for value in values:
        numbers = np.asarray(value).reshape(-1).tolist() if value is not None and not isinstance(value, str) else [value]
        shown = [names[one] if isinstance(one, int) and 0 <= one < len(names) else one for one in numbers]
        words.append(", ".join("missing" if one is None else str(one)[:200] for one in shown[:8]))
    return words


def cells(answer: Answer, name: str, places: range) -> list[Any]:
    """Return the cells of a computed column."""
    column = answer.found.column(name)
    try:
        return [_cell(value) for value in column.shown(places)] if len(places) else []
    except LakebedError as error:
        if len(places) == 1:
            return [{"error": str(error)}]
        return [cells(answer, name, range(at, at + 1))[0] for at in places]


def _cell(value: Any) -> Any:
    if value is None:
        return None
    shown, cut = plain(value)
    return {"v": shown, "cut": True} if cut else {"v": shown}
