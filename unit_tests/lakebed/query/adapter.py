"""Loads the data sets of the corpus, and reads what a query returns as the corpus writes it."""

from __future__ import annotations

from typing import Any

import numpy as np

import lakebed
from lakebed.errors import QueryError
from lakebed.query.functions.registry import register
from lakebed.query.values.columns import rows
from unit_tests.lakebed.query.corpus import DATASETS


def load(place: str = "mem://tql-") -> dict[str, lakebed.Dataset]:
    """Make the data sets, by default in memory, and the two functions that the corpus adds to the language."""
    register("double_it", lambda x: x * 2, arguments=1)
    register("add_em", lambda a, b: a + b, arguments=2)
    return {name: _made(place + name, data["columns"]) for name, data in DATASETS.items()}


def _made(path: str, columns: dict[str, Any]) -> lakebed.Dataset:
    ds = lakebed.empty(path, overwrite=True)
    for column, spec in columns.items():
        more: dict[str, Any] = {} if spec["htype"] in ("text", "json", "list") else {"dtype": spec["dtype"]}
        if spec["class_names"]:
            more["class_names"] = spec["class_names"]
        if spec["htype"] == "image":
            more["sample_compression"] = "png"
        ds.create_tensor(column, htype=spec["htype"], **more)
    with ds:
        for i in range(len(next(iter(columns.values()))["data"])):
            ds.append({column: spec["data"][i] for column, spec in columns.items()})
    return ds


def run(query: str) -> dict[str, Any]:
    """Answer a query; read every row of every column."""
    found = lakebed.query(query)
    is_joined = " join " in query.lower() or ' as u, "' in query.lower()
    cols: dict[str, list[Any]] = {}
    if isinstance(found, lakebed.Dataset):
        from lakebed.query.relations.relation import Stored

        relation: Any = Stored(found._table())
    else:
        relation = found.relation
    for name in relation.names:
        cols[name] = [_value(relation, name, i, is_joined) for i in range(len(relation))]
    return {"rid": cols.get("rid"), "cols": cols, "len": len(relation)}


def _value(relation: Any, name: str, i: int, is_joined: bool) -> Any:
    try:
        value = rows(relation.read(name, range(i, i + 1)))[0]
    except QueryError as error:
        return {"__error__": str(error)}
    if value is None:
        return None if is_joined or relation.infos[name].kind in ("json", "text") else []
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
