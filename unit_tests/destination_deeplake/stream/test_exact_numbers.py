"""Keys and cursors that are numbers are compared exactly, whatever their column holds of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice, Decoding, StreamChoices
from destination_deeplake.wire import Wire
from lakebed.upserts import store
from lakebed.upserts.store import Budget
from unit_tests.destination_deeplake.stream.test_writer import lake, open_stream, table
from unit_tests.effort import examples
from unit_tests.lakebed.upserts.numbers import nearby, respelled

Line = tuple[str, str | None, str | None, str]
"""A record: two columns of a key and a cursor, numbers as they stand in the JSON, and a value."""

NUMBER, INTEGER = {"type": "number"}, {"type": "integer"}


def keyed(
    schema: Mapping[str, Any] = NUMBER,
    choice: Mapping[str, Any] | None = None,
    *,
    cursor: bool = True,
    **more: Any,
) -> StreamPlan:
    columns = {name: ColumnChoice(name, **choice) for name in "abc"} if choice else {}
    properties = {"a": schema, "b": schema, "c": schema, "v": {"type": "string"}}
    return StreamPlan(
        None,
        "s",
        WriteMode.DEDUP,
        {"properties": properties},
        primary_key=(("a",), ("b",)),
        cursor=("c",) if cursor else (),
        choices=StreamChoices(columns=columns),
        **more,
    )


def publish(writer: Any, lines: Iterable[Line]) -> None:
    wire = Wire({writer.plan.key: writer.table})
    for a, b, c, v in lines:
        fields = [f'"{name}":{text}' for name, text in (("a", a), ("b", b), ("c", c)) if text is not None]
        data = "{" + ",".join([*fields, f'"v":"{v}"']) + "}"
        record = f'{{"type":"RECORD","record":{{"stream":"s","emitted_at":1,"data":{data}}}}}\n'
        assert list(wire.feed(record.encode())) == []
    writer.publish()


def sync(root: Path, plan: StreamPlan, *publishes: list[Line], ends: bool = True) -> None:
    writer = open_stream(lake(root), plan)
    for lines in publishes:
        publish(writer, lines)
    if ends:
        writer.finish()
        writer.commit("done")
    else:
        writer.release()  # what waits for a merge waits for the next sync


def values(root: Path) -> list[str]:
    return sorted(row["v"] for row in table(root / "s"))


def spelled(text: str | None, way: int, *, in_quotes: bool = False) -> str | None:
    if text is None:
        return None
    found = respelled(text, way)
    return f'"{found}"' if in_quotes else found


lines = st.builds(
    lambda a, b, c, way, quotes: (
        spelled(a, way, in_quotes=quotes),
        spelled(b, way + 1),
        spelled(c, way + 2),
    ),
    nearby,
    st.none() | st.sampled_from(["1", "9007199254740993"]),
    st.none() | nearby,
    st.integers(0, 3),
    st.booleans(),
)
scripts = st.lists(st.tuples(st.lists(st.lists(lines, max_size=6), max_size=3), st.booleans()), max_size=4)
WAYS = [Budget(), Budget(at_once=0), Budget(at_once=0, unlearned=2.0), Budget(at_once=0, rows=1)]
TYPES: list[tuple[Mapping[str, Any], Mapping[str, Any] | None, bool]] = [
    (NUMBER, None, True),
    (INTEGER, None, True),
    (NUMBER, {"dtype": "float32"}, True),
    (INTEGER, {"dtype": "uint8"}, True),
    (NUMBER, {"decoding": Decoding.EXACT}, False),
    ({"type": ["integer", "object"]}, None, True),
]


def value(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text.strip('"'))


Script = list[tuple[list[list[tuple[str, str | None, str | None]]], bool]]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("schema", "choice", "has_cursor"), TYPES)
@settings(max_examples=examples(2, soak=4000))
@given(scripts, st.sampled_from(WAYS))
def test_rows_are_told_apart_and_ordered_by_their_numbers(
    schema: Mapping[str, Any],
    choice: Mapping[str, Any] | None,
    has_cursor: bool,
    script: Script,
    budget: Budget,
) -> None:
    follow(schema, choice, script, budget, has_cursor=has_cursor)


def follow(
    schema: Mapping[str, Any],
    choice: Mapping[str, Any] | None,
    script: Script,
    budget: Budget,
    *,
    has_cursor: bool,
) -> None:
    """Do syncs, of which some do not end, and compare what is left with the newest row of each key."""
    plan, count = keyed(schema, choice, cursor=has_cursor), 0
    newest: dict[Any, tuple[Any, str]] = {}
    is_json = isinstance(schema["type"], list)
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "BUDGET", budget)
        for publishes, ends in [*script, ([], True)]:
            numbered: list[list[Line]] = []
            for publish_lines in publishes:
                numbered.append([])
                for a, b, c in publish_lines:
                    count += 1
                    # A string in a column of any type is a string.
                    line = (a.strip('"') if is_json else a, b, c, f"{count:04d}")
                    numbered[-1].append(line)
                    order = (has_cursor and c is not None, value(c) or 0) if has_cursor else ()
                    key = value(a), value(b)
                    if key not in newest or order >= newest[key][0]:
                        newest[key] = order, line[3]
            sync(Path(root), plan, *numbered, ends=ends)
        assert values(Path(root)) == sorted(found for _, found in newest.values())


def test_a_key_that_its_column_holds_needs_no_more(tmp_path: Path) -> None:
    sync(tmp_path, keyed(), [("1", "0.1", "9007199254740992", "x"), ("1.0", "1e-1", "-0", "y")])
    assert not [name for name in lakebed.load(str(tmp_path / "s"), read_only=True).tensors if "exact" in name]
    assert values(tmp_path) == ["x"]


def test_other_digits_stand_beside_their_column(tmp_path: Path) -> None:
    sync(
        tmp_path, keyed(), [("9007199254740993", None, "0.10000000000000001", "x"), ("1", None, "1e400", "y")]
    )
    (big, one) = table(tmp_path / "s")
    assert (big["a"], big["_airbyte_exact/a"]) == (2.0**53, "9007199254740993")
    assert (big["c"], big["_airbyte_exact/c"]) == (0.1, "0.10000000000000001")
    assert (one["a"], one["_airbyte_exact/a"], one["c"], one["_airbyte_exact/c"]) == (
        1.0,
        None,
        None,
        "1e400",
    )


def test_a_dataset_from_before_goes_on(tmp_path: Path) -> None:
    # Its keys are the doubles that there are; nothing stands beside them.
    old = [(text, None, None, f"old {text}") for text in ("0.1", "9007199254740992", "1e22", "-0.0")]
    sync(tmp_path, keyed(), old)
    sync(tmp_path, keyed(), [("9007199254740993", None, None, "new")])
    sync(
        tmp_path,
        keyed(),
        [
            ("9007199254740992.0", None, None, "newer"),
            ("0", None, None, "zero"),
            ("10e21", None, None, "ten"),
        ],
    )
    assert values(tmp_path) == ["new", "newer", "old 0.1", "ten", "zero"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((INTEGER, None), (NUMBER, None)),
        ((NUMBER, {"dtype": "float32"}), (NUMBER, None)),
        ((NUMBER, None), (NUMBER, {"decoding": Decoding.EXACT})),
        ((NUMBER, None), ({"type": "string"}, None)),
        ((INTEGER, None), ({}, None)),
        ((INTEGER, {"dtype": "uint8"}), (INTEGER, None)),
    ],
)
def test_a_column_that_becomes_a_wider_one_takes_its_numbers_along(
    tmp_path: Path, before: tuple[Any, Any], after: tuple[Any, Any]
) -> None:
    numbers = ["16777217", "9007199254740993", "18446744073709551617", "1180591620717411303424", "1.5", "3"]
    sync(tmp_path, keyed(*before, cursor=False), [(text, "1", None, text) for text in numbers])
    sync(tmp_path, keyed(*after, cursor=False), [(text, "1", None, f"new {text}") for text in numbers])
    assert values(tmp_path) == sorted(f"new {text}" for text in numbers)


def test_numbers_beside_come_with_the_rows_of_an_interrupted_refresh(tmp_path: Path) -> None:
    sync(tmp_path, keyed(generation_id=1, minimum_generation_id=0), [("1", None, None, "one")])
    staged = open_stream(lake(tmp_path), keyed(generation_id=2, minimum_generation_id=2))
    publish(staged, [("9007199254740992", None, None, "even"), ("9007199254740993", None, None, "odd")])
    staged.abandon()
    staged.commit("interrupted")
    sync(
        tmp_path,
        keyed(generation_id=3, minimum_generation_id=0),
        [("9007199254740993.0", None, None, "odd 2")],
    )
    assert values(tmp_path) == ["even", "odd 2", "one"]


def test_a_lost_value_beside_a_kept_number_is_lost(tmp_path: Path) -> None:
    rows = [("1e400", '"text"', None, "a"), ("1e400", '"text"', None, "b"), ("1e400", None, None, "c")]
    sync(tmp_path, keyed(), rows)
    sync(tmp_path, keyed(), [("10e399", None, None, "d")])
    assert values(tmp_path) == ["a", "b", "d"]
