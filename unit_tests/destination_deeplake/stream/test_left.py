"""Rows that an interrupted refresh staged, added by a sync that removes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from destination_deeplake.catalog import WriteMode
from unit_tests.destination_deeplake.stream.test_writer import attempt, plan, sync, table, truncate

TEXT, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
MOMENT = {"type": "string", "format": "date-time"}
ODD = 2**53 + 1


@dataclass
class Rows:
    """Records of one sync and the types of their columns."""

    of: Mapping[str, Any]
    records: Sequence[Mapping[str, Any]] = field(default=())


def given_up(
    root: Path, before: Rows, staged: Rows, after: Rows, mode: WriteMode = WriteMode.DEDUP, **more: Any
) -> list[dict[str, Any]]:
    """Let a refresh be interrupted and a sync follow that removes nothing; return what is there then."""
    for rows, generation, minimum in ((before, 1, 0), (staged, 2, 2), (after, 2, 0)):
        of = plan(
            mode,
            schema={"properties": {**rows.of, "v": TEXT}},
            generation_id=generation,
            minimum_generation_id=minimum,
            primary_key=(("id",),),
            **more,
        )
        (attempt if minimum else sync)(root, of, *rows.records)
    return table(root / "users")


@pytest.mark.parametrize(
    ("stored", "first", "staged", "found"),
    [
        (TEXT, "1", [1, 2], ["1", "2"]),
        (TEXT, str(2**64), [2**64, 2**64 + 1], [str(2**64), str(2**64 + 1)]),
        (NUMBER, 1, [1, 2], [1.0, 2.0]),
        (NUMBER, ODD, [ODD, ODD + 1], [float(ODD), float(ODD + 1)]),
    ],
)
def test_a_key_of_another_type_is_the_same_key(
    tmp_path: Path, stored: dict[str, Any], first: Any, staged: list[int], found: list[Any]
) -> None:
    rows = given_up(
        tmp_path,
        Rows({"id": stored}, [{"id": first, "v": "old"}]),
        Rows({"id": INTEGER}, [{"id": number, "v": "new"} for number in staged]),
        Rows({"id": stored}),
    )
    assert [(row["id"], row["v"]) for row in rows] == [(value, "new") for value in found]


def test_keys_next_to_each_other_stay_two_when_their_column_rounds_them(tmp_path: Path) -> None:
    rows = given_up(
        tmp_path,
        Rows({"id": NUMBER}, [{"id": 0.5, "v": "half"}]),
        Rows({"id": INTEGER}, [{"id": ODD - 1, "v": "even"}, {"id": ODD, "v": "odd"}, {"v": "none"}]),
        Rows({"id": NUMBER}, [{"id": ODD, "v": "newer"}]),
    )
    assert [row["v"] for row in rows] == ["half", "even", "newer", "none"]
    assert [row["_airbyte_exact/id"] for row in rows] == [None, None, str(ODD), None]


@pytest.mark.parametrize("stored", [TEXT, NUMBER])
def test_a_cursor_of_another_type_is_compared_with_those_that_are_there(
    tmp_path: Path, stored: dict[str, Any]
) -> None:
    old = "3" if stored is TEXT else 3
    rows = given_up(
        tmp_path,
        Rows({"id": INTEGER, "at": stored}, [{"id": 1, "at": old, "v": "a"}, {"id": 2, "at": old, "v": "b"}]),
        Rows({"id": INTEGER, "at": INTEGER}, [{"id": 1, "at": 2, "v": "A"}, {"id": 2, "at": 4, "v": "B"}]),
        Rows({"id": INTEGER, "at": stored}),
        cursor=("at",),
    )
    assert [row["v"] for row in rows] == ["a", "B"]


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.DEDUP])
def test_columns_that_only_the_refresh_had_are_kept(tmp_path: Path, mode: WriteMode) -> None:
    rows = given_up(
        tmp_path,
        Rows({"id": INTEGER}, [{"id": 1}]),
        Rows({"id": INTEGER, "extra": TEXT, "o": {}}, [{"id": 2, "extra": "kept", "o": {"a": "1"}}]),
        Rows({"id": INTEGER}, [{"id": 3}]),
        mode,
    )
    assert [(row["id"], row["extra"], row["o"]) for row in rows] == [
        (1, None, None),
        (2, "kept", '{"a": "1"}'),
        (3, None, None),
    ]
    # It is that column if the source has it again.
    sync(
        tmp_path,
        plan(mode, schema={"properties": {"id": INTEGER, "extra": TEXT}}, primary_key=(("id",),)),
        {"id": 4, "extra": "more"},
    )
    assert [row["extra"] for row in table(tmp_path / "users")] == [None, "kept", None, "more"]


def test_values_go_to_their_column_whatever_its_tensor_is_called(tmp_path: Path) -> None:
    rows = given_up(
        tmp_path,
        Rows({"id": INTEGER, "Name": TEXT}, [{"id": 1, "Name": "upper"}]),
        Rows({"id": INTEGER, "name": TEXT}, [{"id": 2, "name": "lower"}]),
        Rows({"id": INTEGER, "name": TEXT}, [{"id": 3, "name": "lower"}]),
    )
    (other,) = rows[0].keys() - {"Name"} & {name for name in rows[0] if name.lower().startswith("name")}
    assert [(row["Name"], row[other]) for row in rows] == [("upper", None), (None, "lower"), (None, "lower")]


@pytest.mark.parametrize("key", [INTEGER, TEXT, NUMBER])
def test_a_row_that_the_refresh_deleted_is_gone(tmp_path: Path, key: dict[str, Any]) -> None:
    deleted = {"_ab_cdc_deleted_at": MOMENT}
    first, second = ("1", "2") if key is TEXT else (1, 2)
    given_up(
        tmp_path,
        Rows({"id": key} | deleted, [{"id": first, "v": "a"}, {"id": second, "v": "b"}]),
        Rows(
            {"id": INTEGER} | deleted,
            [{"id": 2, "v": "B"}, {"id": 1, "_ab_cdc_deleted_at": "2024-01-01T00:00:00Z"}],
        ),
        Rows({"id": key} | deleted),
    )
    assert [row["v"] for row in table(tmp_path / "users")] == ["B"]


def test_digits_are_kept_by_a_sync_that_only_appends(tmp_path: Path) -> None:
    keyed = {"schema": {"properties": {"id": INTEGER}}, "primary_key": (("id",),)}
    sync(tmp_path, plan(generation_id=1, minimum_generation_id=0, **keyed), {"id": 1})
    attempt(tmp_path, truncate(2, WriteMode.DEDUP, **keyed), {"id": 2**64})
    sync(tmp_path, plan(generation_id=2, minimum_generation_id=0, **keyed), {"id": 3})
    assert [(row["id"], row["_airbyte_exact/id"]) for row in table(tmp_path / "users")] == [
        (1, None),
        (None, str(2**64)),
        (3, None),
    ]
