"""Columns inside of objects: read in the same pass as the others, as if the objects were flat."""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from destination_deeplake.columns import MAX_PATH, Column, Kind, RecordTable
from destination_deeplake.wire import Rejected, Wire
from unit_tests.destination_deeplake.oracle import Cell, expected
from unit_tests.destination_deeplake.spellings import escaped, values
from unit_tests.destination_deeplake.tables import fill, record, take
from unit_tests.effort import examples

Path: TypeAlias = tuple[str, ...]
Node: TypeAlias = str | list[tuple[str, Any]]
"""A value as written, or the members of an object (name and node), keys not unique."""

LEVELS = 4


def nested(*columns: tuple[Path, Kind], **more: Any) -> RecordTable:
    return RecordTable([Column(path, kind) for path, kind in columns], sync_id=7, generation_id=3, **more)


def changed(meta: str) -> list[str]:
    return [change["field"] for change in json.loads(meta)["changes"]]


def written(node: Node, seed: int) -> str:
    if isinstance(node, str):
        return node
    return "{" + ",".join(f"{escaped(key, seed)}:{written(inner, seed)}" for key, inner in node) + "}"


class Model:
    """What a record must become, in plain Python."""

    def __init__(self, columns: dict[Path, Kind]) -> None:
        self.columns = columns
        self.groups = sorted(
            {path[:end] for path in columns for end in range(1, len(path))},
            key=lambda path: (len(path), path),
        )

    def found(self, node: Node, path: Path) -> Node | None:
        """Return the value at a path; the last of equal keys counts."""
        for key in path:
            if isinstance(node, str):
                return None
            inner = [value for name, value in node if name == key]
            if not inner:
                return None
            node = inner[-1]
        return node

    def cells(self, node: Node, seed: int) -> dict[Path, Cell]:
        cells = {}
        for path, kind in self.columns.items():
            value = self.found(node, path)
            cells[path] = Cell(None) if value is None else expected(kind, written(value, seed))
        return cells

    def broken(self, node: Node) -> list[Path]:
        """Return the groups in whose place there is something else that nothing keeps."""
        values = ((path, self.found(node, path)) for path in self.groups if path not in self.columns)
        return [
            path for path, value in values if isinstance(value, str) and value != "null" and value[0] != "{"
        ]

    def unknown(self, node: Node, path: Path = ()) -> int:
        """Count the values that no column takes, duplicates included."""
        if isinstance(node, str) or path in self.columns:
            return 0
        count = 0
        for key, inner in node:
            below = (*path, key)
            if below in self.groups:
                count += self.unknown(inner, below)
            else:
                count += below not in self.columns
        return count


names = st.sampled_from(["a", "b", "c", "long name"])
schemas = st.dictionaries(
    st.lists(names, min_size=1, max_size=LEVELS).map(tuple), st.sampled_from(Kind), max_size=6
)
scalars = values.filter(lambda text: text[0] != "{")
objects: st.SearchStrategy[Node] = st.recursive(
    scalars, lambda inner: st.lists(st.tuples(names, inner), max_size=4), max_leaves=12
)
records = st.lists(st.tuples(names, objects), max_size=5)


@settings(max_examples=examples(80))
@given(schemas, st.lists(st.tuples(records, st.integers(0, 9)), min_size=1, max_size=6))
def test_objects_of_any_shape_become_columns(
    columns: dict[Path, Kind], rows: Sequence[tuple[list[tuple[str, Node]], int]]
) -> None:
    target, model = nested(*columns.items()), Model(columns)
    fill(target, *(record(written(row, seed)) for row, seed in rows))
    taken = take(target)
    wanted = [model.cells(row, seed) for row, seed in rows]
    for path in columns:
        assert list(map(repr, taken[".".join(path)])) == [repr(cells[path].value) for cells in wanted]
    for meta, cells, (row, _) in zip(taken["_airbyte_meta"], wanted, rows, strict=True):
        refused = [path for path, cell in cells.items() if cell.refused] + model.broken(row)
        assert changed(meta) == [".".join(path) for path in refused]
    assert target.unknown_fields == sum(model.unknown(row) for row, _ in rows)


CITY, LAT = ("address", "city"), ("address", "geo", "lat")


def test_an_object_may_be_a_column_and_have_columns_inside() -> None:
    target = nested((("address",), Kind.JSON), (CITY, Kind.TEXT), (LAT, Kind.FLOAT64))
    text = '{"city": "Bonn", "geo": {"lat": 50.7, "lon": 7}, "zip": 1}'
    fill(
        target,
        record(f'{{"address":{text}}}'),
        record('{"address":"none"}'),
        record('{"address":null}'),
        record("{}"),
    )
    taken = take(target)
    assert taken["address"] == [text, '"none"', None, None]
    assert taken["address.city"] == ["Bonn", None, None, None]
    assert taken["address.geo.lat"] == [50.7, None, None, None]
    # The JSON column keeps what is no object, so nothing is lost and nothing is to be told.
    assert list(map(changed, taken["_airbyte_meta"])) == [[], [], [], []]
    assert target.unknown_fields == 0


@pytest.mark.parametrize("value", ['"x"', "1", "true", "[]", '[{"city":"x"}]'])
def test_what_is_no_object_is_named_once_and_its_columns_are_null(value: str) -> None:
    target = nested((CITY, Kind.TEXT), (("address", "zip"), Kind.TEXT), (LAT, Kind.FLOAT64))
    fill(target, record(f'{{"address":{value}}}'), record(f'{{"address":{{"geo":{value},"city":"y"}}}}'))
    taken = take(target)
    assert taken["address.city"] == [None, "y"]
    assert list(map(changed, taken["_airbyte_meta"])) == [["address"], ["address.geo"]]
    assert target.nulled == 2


def test_equal_names_in_different_objects_are_told_apart() -> None:
    paths: list[Path] = [("id",), ("a", "id"), ("a", "b", "id"), ("b", "id")]
    target = nested(*((path, Kind.INT64) for path in paths))
    rows = [
        '{"id":1,"a":{"id":2,"b":{"id":3}},"b":{"id":4}}',
        '{"b":{"id":4},"a":{"b":{"id":3},"id":2},"id":1}',
        '{"a":{"b":{"id":3}, "id":2 } ,"id":1, "b":{ "id" : 4 } }',
    ]
    fill(target, *(record(row) for row in rows * 3))
    taken = take(target)
    assert [taken[".".join(path)] for path in paths] == [[n] * 9 for n in (1, 2, 3, 4)]


def test_the_last_of_duplicate_objects_counts_as_a_whole() -> None:
    target = nested((("a", "x"), Kind.INT64), (("a", "b", "y"), Kind.INT64), (("a", "n"), Kind.INT64))
    rows = [
        '{"a":{"x":1,"b":{"y":2},"n":"bad"},"a":{"x":3}}',
        '{"a":{"x":1},"a":7,"a":{"n":4}}',
        '{"a":{"x":1},"a":7}',
        '{"a":{"b":{"y":1},"b":{},"x":5}}',
        '{"a":{"b":7,"b":{"y":6}}}',
    ]
    fill(target, *map(record, rows))
    taken = take(target)
    assert taken["a.x"] == [3, None, None, 5, None]
    assert taken["a.b.y"] == [None, None, None, None, 6]
    assert taken["a.n"] == [None, 4, None, None, None]
    assert list(map(changed, taken["_airbyte_meta"])) == [[], [], ["a"], [], []]


def test_paths_have_a_longest() -> None:
    path = tuple("p" * MAX_PATH)
    target = nested((path, Kind.INT64))
    fill(target, record('{"p":' * MAX_PATH + "1" + "}" * MAX_PATH), record('{"p":' * 900 + "1" + "}" * 900))
    taken = take(target)
    assert taken[".".join(path)] == [1, None]
    assert changed(taken["_airbyte_meta"][1]) == [".".join(path)]
    for wrong in ((), (*path, "p")):
        with pytest.raises(ValueError, match="1 to 16 properties"):
            Column(wrong, Kind.INT64)


@pytest.mark.parametrize("depth", [995, 996, 997, 998, 1100])
def test_nesting_has_the_same_limit_inside_of_groups(depth: int) -> None:
    line = record('{"a":{"b":' + "[" * depth + "]" * depth + "}}")
    results = []
    for columns in ([(("a",), Kind.JSON)], [(("a", "b"), Kind.JSON)], [(("a", "b"), Kind.FLOATS)]):
        refused: list[Rejected] = []
        assert list(Wire({(None, "s"): nested(*columns)}, refused.append).feed(line)) == []
        assert all("nested deeper" in rejected.reason for rejected in refused)
        results.append(not refused)
    assert results == [depth <= 996] * 3


@pytest.mark.parametrize(
    "broken", ['{"a":{"x":1}', '{"a":{"x":1]}', '{"a":{"x":1,}}', '{"a":{"x"}}', '{"a":{x:1}}', '{"a":nul}']
)
def test_broken_objects_leave_nothing_behind(broken: str) -> None:
    target = nested((("a", "x"), Kind.INT64), (("a", "t"), Kind.TEXT))
    good = record('{"a":{"x":1,"t":"t"}}')
    refused: list[Rejected] = []
    wire = Wire({(None, "s"): target}, refused.append)
    assert list(wire.feed(good + record(broken) + good)) == []
    assert take(target)["a.x"] == [1, 1]
    assert len(refused) == 1


def test_names_with_dots_do_not_meet_paths() -> None:
    target = nested((("a.b",), Kind.INT64), (("a", "c"), Kind.INT64))
    fill(target, record('{"a.b":1,"a":{"c":2,"b":3},"a.c":4}'))
    taken = take(target)
    assert (taken["a.b"], taken["a.c"], target.unknown_fields) == ([1], [2], 2)
    with pytest.raises(ValueError, match="same name"):
        nested((("a.b",), Kind.INT64), (("a", "b"), Kind.INT64))
