"""Conditions on many rows, cut into windows of any size, are those that NumPy computes row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.query.relations import evaluate, stored

ROWS = 700


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    generator = np.random.default_rng(38)
    found = []
    for i in range(ROWS):
        count = int(generator.integers(0, 6))
        found.append(
            {
                "i": int(generator.integers(-50, 50)),
                "f": np.float32(generator.normal()) if i % 17 else None,
                "boxes": (generator.random((count, 4)) * 200).astype(np.float32),
                "labels": generator.integers(0, 4, count).astype(np.uint32),
                "even": generator.integers(0, 9, (3, 4)).astype(np.int16),
                "text": " ".join(
                    generator.choice(["red", "green", "blue", "é"], int(generator.integers(0, 4)))
                ),
                "doc": {"n": int(generator.integers(0, 9))} if i % 3 else {"s": "x"},
            }
        )
    return found


@pytest.fixture(scope="module")
def ds(rows: list[dict[str, Any]]) -> lakebed.Dataset:
    made = lakebed.empty("mem://against-numpy", overwrite=True)
    made.create_tensor("i", dtype="int32")
    made.create_tensor("f", dtype="float32")
    made.create_tensor("boxes", htype="bbox")
    made.create_tensor("labels", htype="class_label", class_names=list("abcd"))
    made.create_tensor("even", dtype="int16", chunk_compression="lz4")
    made.create_tensor("text", htype="text")
    made.create_tensor("doc", htype="json")
    for start in range(0, ROWS, 100):
        made.extend({name: [row[name] for row in rows[start : start + 100]] for name in rows[0]})
    return made


CONDITIONS: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("i > 3", lambda r: r["i"] > 3),
    ("i % 7 == 2 OR i / 4 < -10", lambda r: r["i"] % 7 == 2 or r["i"] / 4 < -10),
    ("f > 0.5", lambda r: r["f"] is not None and r["f"] > 0.5),
    ("NOT f > 0.5", lambda r: r["f"] is None or not r["f"] > 0.5),
    ("f IS NULL", lambda r: r["f"] is None),
    ("any(boxes[:, 2] > 150)", lambda r: (r["boxes"][:, 2] > 150).any()),
    ("all(boxes[:, 2] > 50)", lambda r: (r["boxes"][:, 2] > 50).all()),
    ("boxes > 5", lambda r: r["boxes"].size and (r["boxes"] > 5).all()),
    ("any(boxes[1:3, 0] + boxes[1:3, 2] > 300)", lambda r: (r["boxes"][1:3, 0] + r["boxes"][1:3, 2] > 300).any()),
    ("boxes[-1, 3] > 100", lambda r: len(r["boxes"]) and r["boxes"][-1, 3] > 100),
    ("amax(boxes) > 180", lambda r: r["boxes"].size and r["boxes"].max() > 180),
    ("sum(boxes[:, 0]) > 300", lambda r: r["boxes"][:, 0].sum() > 300),
    ("contains(labels, 'b')", lambda r: 1 in r["labels"]),
    ("any(labels IN ('a', 3))", lambda r: np.isin(r["labels"], [0, 3]).any()),
    ("any(boxes[labels == 'c'] > 190)", lambda r: (r["boxes"][r["labels"] == 2] > 190).any()),
    ("shape(boxes)[0] == 2", lambda r: len(r["boxes"]) == 2),
    ("shape(labels)[0] * 2 > len(boxes) + 1", lambda r: len(r["labels"]) * 2 > len(r["boxes"]) + 1),
    ("any(even * ARRAY[1, 0, 0, 1] > 7, 0)[3] AND i > 0", lambda r: (r["even"][:, 3] > 7).any() and r["i"] > 0),
    ("mean(even) > 4.5", lambda r: r["even"].mean() > 4.5),
    ("even[1, ::-1][0] == even[1, 3]", lambda r: True),
    ("contains(text, 'red') AND contains(text, 'blue')", lambda r: "red" in r["text"] and "blue" in r["text"]),
    ("text < 'c'", lambda r: r["text"] < "c"),
    ("text LIKE '*é*'", lambda r: "é" in r["text"]),
    ("len(text) > 8", lambda r: len(r["text"]) > 8),
    ("doc['n'] >= 5", lambda r: r["doc"].get("n", -1) >= 5),
    (
        "i > 30 AND doc['n'] != 2 AND any(boxes > 10)",
        lambda r: r["i"] > 30 and r["doc"].get("n", 2) != 2 and (r["boxes"] > 10).any(),
    ),
]  # fmt: skip


@pytest.fixture(params=["as it is", "small"])
def windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "small":
        for name, value in (
            ("_MOST_ROWS", 64),
            ("_GOOD_ROWS", 8),
            ("_LEAST_ROWS", 2),
            ("_WINDOW_BYTES", 4000),
        ):
            monkeypatch.setattr(stored, name, value)
        monkeypatch.setattr(evaluate, "_DEAR", 0.0)
        monkeypatch.setattr(evaluate, "_NARROW_BELOW", 2.0)


@pytest.mark.parametrize(("text", "function"), CONDITIONS, ids=[text for text, _ in CONDITIONS])
def test_conditions_choose_what_numpy_chooses(
    ds: lakebed.Dataset, rows: list[dict[str, Any]], windows: None, text: str, function: Callable[..., Any]
) -> None:
    expected = [i for i, row in enumerate(rows) if function(row)]
    assert list(ds.query(f"SELECT * WHERE {text}").sample_indices) == expected
    chosen = [5, 3, 600, 3, 77, 200, 199]
    again = ds[chosen].query(f"SELECT * WHERE {text}")
    assert [int(n) for n in again.sample_indices] == [n for n in chosen if n in set(expected)]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [None, 3, 40])
def test_order_is_that_of_a_stable_sort(
    ds: lakebed.Dataset, rows: list[dict[str, Any]], windows: None, descending: bool, limit: int | None
) -> None:
    way = "DESC" if descending else "ASC"
    cut = "" if limit is None else f"LIMIT {limit}"
    by_i = sorted(range(ROWS), key=lambda n: rows[n]["i"])
    expected = by_i[::-1] if descending else by_i
    assert list(ds.query(f"SELECT * ORDER BY i {way} {cut}").sample_indices) == expected[:limit]
    two = sorted(range(ROWS), key=lambda n: (rows[n]["text"], -rows[n]["i"] if descending else rows[n]["i"]))
    found = ds.query(f"SELECT * ORDER BY text, i {way} {cut}").sample_indices
    keys = [(rows[n]["text"], rows[n]["i"]) for n in found]
    assert keys == [(rows[n]["text"], rows[n]["i"]) for n in two][:limit]
    last = list(ds.query(f"SELECT * ORDER BY f {way}").sample_indices)[
        -sum(row["f"] is None for row in rows) :
    ]
    assert all(rows[n]["f"] is None for n in last)


def test_groups_are_those_of_a_dictionary(
    ds: lakebed.Dataset, rows: list[dict[str, Any]], windows: None
) -> None:
    groups: dict[str, list[int]] = {}
    for row in rows:
        groups.setdefault(row["text"], []).append(row["i"])
    found = ds.query("SELECT text[0] AS t, count(*) AS n, sum(i) AS s, amin(i) AS least GROUP BY text")
    assert [(r["t"], int(r["n"]), int(r["s"]), int(r["least"])) for r in found.rows()] == [
        (text, len(values), sum(values), min(values)) for text, values in groups.items()
    ]
