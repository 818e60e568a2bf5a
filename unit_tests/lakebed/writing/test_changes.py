"""Whatever is added, replaced and removed, in any order and with any publish between: rows are as a list would be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.dataset.dataset import Dataset
from lakebed.writing.encode.column import encode_column
from unit_tests.effort import examples

KINDS: dict[str, dict[str, Any]] = {
    "ragged": {"htype": "generic", "dtype": "int16"},
    "lz4": {"htype": "generic", "dtype": "uint8", "chunk_compression": "lz4"},
    "text": {"htype": "text"},
    "label": {"htype": "class_label"},
}


def sample(kind: str, number: int) -> Any:
    """A value of the kind, its size varying with the number."""
    if kind == "text":
        return "t" * (number % 50) + str(number)
    if kind == "label":
        return number % 7
    return np.arange(number % 60, dtype=KINDS[kind]["dtype"]).reshape(-1, 1)


def changed(ds: Dataset, name: str, action: str, rows: list[int], values: list[Any]) -> None:
    """One change through the draft."""
    with ds._session.writing() as draft:
        state = ds._session.schema().tensor(name)
        if action == "pop":
            draft.rows.pop(state.key, rows)
        elif action == "clear":
            draft.rows.clear(state.key)
        elif action == "rechunk":
            draft.rows.rechunk(state.key)
        else:
            column = encode_column(values, state.meta, state.info, name)
            if action == "update":
                draft.rows.update(state.key, rows, column)
            else:
                draft.rows.extend({state.key: column})


def check(ds: Dataset, name: str, model: list[Any]) -> None:
    """All rows, and what the companions say of them."""
    tensor = ds[name]
    assert len(tensor) == len(model)
    found = [v if isinstance(v, str) else v.tolist() for v in tensor.values()]
    expected = [v if isinstance(v, str) else np.atleast_1d(v).tolist() for v in model]
    assert found == expected
    schema = ds._session.schema()
    for kind in ("id", "shape"):
        key = schema.key_of(f"_{name}_{kind}")
        if key is not None:
            assert schema.tensors[key].meta.length == len(model)
    key = schema.key_of(f"_{name}_shape")
    if key is not None and model:
        shapes = list(ds._session.reader(key, key).values(range(len(model))))
        assert [s.tolist() for s in shapes] == [list(np.atleast_1d(v).shape) for v in model]


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "extend",
                "many",
                "run",
                "update",
                "update",
                "pop",
                "pop",
                "flush",
                "commit",
                "reopen",
                "rechunk",
            ]
        ),
        st.lists(st.integers(0, 10_000), min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=14,
)


@pytest.mark.parametrize("kind", list(KINDS))
@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(actions=ACTIONS, chunk=st.sampled_from([None, 200, 1000]))
def test_any_order_of_changes(kind: str, actions: list[tuple[str, list[int]]], chunk: int | None) -> None:
    """Small chunks make updates and removals cut, merge and drop them."""
    ds = lakebed.empty("mem://changes", overwrite=True)
    sizes = {} if chunk is None else {"max_chunk_size": chunk}
    ds.create_tensor("x", **KINDS[kind], **sizes)
    model: list[Any] = []
    changed(ds, "x", "extend", [], [sample(kind, 5)])
    model.append(sample(kind, 5))
    for action, numbers in actions:
        rows = sorted({n % len(model) for n in numbers}) if model else []
        if action == "extend":
            values = [sample(kind, n) for n in numbers]
            changed(ds, "x", action, [], values)
            model += values
        elif action == "many":
            values = [sample(kind, n + i) for n in numbers for i in range(12)]
            changed(ds, "x", "extend", [], values)
            model += values
        elif action == "run" and rows:
            run = range(rows[0], len(model))
            values = [sample(kind, numbers[0] + i) for i in run]
            changed(ds, "x", "update", list(run), values)
            model[rows[0] :] = values
        elif action == "update" and rows:
            values = [sample(kind, n) for n in numbers[: len(rows)]]
            changed(ds, "x", action, rows, values)
            for row, value in zip(rows, values, strict=True):
                model[row] = value
        elif action == "pop" and rows:
            changed(ds, "x", action, rows, [])
            model = [v for i, v in enumerate(model) if i not in rows]
        elif action == "flush":
            ds.flush()
        elif action == "commit":
            ds.commit(allow_empty=True)
        elif action == "reopen":
            ds.close()
            ds = lakebed.load("mem://changes")
        elif action == "rechunk":
            changed(ds, "x", action, [], [])
        if numbers[0] % 3 == 0:
            check(ds, "x", model)
    check(ds, "x", model)
    ds.flush()
    check(lakebed.load("mem://changes", read_only=True), "x", model)
