"""Every function of the language twice: what SELECT shows of a row is what WHERE asks of it.

Over numbers, texts, flags, arrays of one shape and of many, boxes, documents and labels, with values that are missing
and ones that are empty, with and without an axis.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import QueryError
from lakebed.query.functions import registry
from lakebed.query.values import reductions
from unit_tests import effort

NAMES = sorted({*registry.FUNCTIONS, *reductions.REDUCTIONS, "LEN", "SHAPE", "IOU"})
COLUMNS = ("n", "x", "t", "m", "r", "b", "f", "j", "c", "m > 1", "r > 0", "b > 1")
RESTS = ("", ", 0", ", 1", ", 'a'", ", n", ", t", ", r", ", 2, 3")
# Every candidate has its turn in some run of the soak; here are some of each function.
STEP = 1 if effort.IS_SOAK else 3


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    ds = lakebed.empty(tmp_path_factory.mktemp("query") / "ds")
    texts = ["ann bell", "", None, "x y", "Ö", "ann bell"]
    ragged = [[1.5, -2.0, 3.0], [], None, [0.0], [math.nan, 1.0], [5.0, 5.0]]
    boxes = [
        [[0, 0, 2, 2], [1, 1, 3, 3]],
        [],
        None,
        [[5, 5, 1, 1]],
        [[0, 0, 1, 1], [4, 4, 1, 1]],
        [[0, 0, 2, 2]],
    ]
    columns: dict[str, tuple[dict[str, Any], list[Any]]] = {
        "n": ({"dtype": "int64"}, [3, -1, None, 0, 7, 3]),
        "x": ({"dtype": "float64"}, [1.5, None, -2.0, 0.0, math.nan, 2.5]),
        "t": ({"htype": "text"}, texts),
        "m": (
            {"dtype": "int64"},
            list(np.array([[3, 1, 2], [5, 5, 5], [0, 0, 0], [1, 2, 3], [-1, 4, 2], [9, 9, 9]])),
        ),
        "r": ({"dtype": "float32"}, [None if v is None else np.array(v, "f4") for v in ragged]),
        "b": ({"htype": "bbox"}, [None if v is None else np.array(v, "f4").reshape(-1, 4) for v in boxes]),
        "f": ({"dtype": "bool"}, [True, False, None, False, True, True]),
        "j": ({"htype": "json"}, [{"k": 1}, {}, None, {"k": "a"}, [1, 2], {"k": None}]),
        "c": ({"htype": "class_label", "class_names": ["cat", "dog"]}, [0, 1, None, 1, 0, 0]),
    }
    with ds:
        for name, (settings, _) in columns.items():
            ds.create_tensor(name, **settings)
        ds.extend({name: values for name, (_, values) in columns.items()})
    ds.commit()
    return lakebed.load(ds.path, read_only=True)


def _value(value: Any) -> Any:
    if value is None or isinstance(value, str | dict | list):
        return value
    array = np.asarray(value)
    return array.item() if array.size == 1 and array.ndim <= 1 else array


def _literal(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, int | float) and math.isfinite(value):
        return f"({value!r})"
    return None


def _rows(ds: lakebed.Dataset, condition: str) -> list[int]:
    return [int(row) for row in ds.query(f"SELECT * WHERE {condition}").sample_indices]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_is_what_is_asked(name: str, ds: lakebed.Dataset) -> None:
    candidates = [f"{name}({column}{rest})" for column in COLUMNS for rest in RESTS] + [f"{name}()"]
    first = sum(name.encode()) % STEP
    for said in candidates[first::STEP]:
        try:
            shown = [_value(value) for value in ds.query(f"SELECT {said} AS y").y.values()]
        except QueryError:
            continue  # it has no meaning, and says so
        assert _rows(ds, f"({said}) IS NULL") == [row for row, value in enumerate(shown) if value is None], (
            said
        )
        single = all(value is None or isinstance(value, bool | int | float | str) for value in shown)
        if not single or name in ("UNIQUE", "FLATTEN"):  # which hold numbers
            continue  # of arrays, all values are asked
        for value in {repr(value): value for value in shown if _literal(value) is not None}.values():
            equal = [row for row, other in enumerate(shown) if other is not None and other == value]
            assert _rows(ds, f"({said}) = {_literal(value)}") == equal, said
        if all(value is None or isinstance(value, bool) for value in shown) and any(shown):
            assert _rows(ds, said) == [row for row, value in enumerate(shown) if value], said
