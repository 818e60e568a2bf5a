"""Keys and cursors that are dates and times are compared to the last digit, whatever their column holds of them."""

import random
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from lakebed.upserts import store
from lakebed.upserts.store import Budget
from unit_tests.destination_deeplake.stream.test_writer import attempt, plan, sync, table

TEXT = {"type": "string"}
ZONED, PLAIN = (
    {"type": "string", "format": "date-time", "airbyte_type": f"timestamp_{zone}_timezone"}
    for zone in ("with", "without")
)
CLOCK = {"type": "string", "format": "time", "airbyte_type": "time_without_timezone"}
DATE = {"type": "string", "format": "date"}


def keyed(kind: dict[str, Any], *, cursor: dict[str, Any] | None = None, **more: Any) -> StreamPlan:
    properties = {"id": kind, "at": cursor or TEXT, "v": TEXT}
    of_cursor: dict[str, Any] = {} if cursor is None else {"cursor": ("at",)}
    return plan(
        WriteMode.DEDUP, schema={"properties": properties}, primary_key=(("id",),), **of_cursor, **more
    )


def values(root: Path) -> list[str]:
    return sorted(row["v"] for row in table(root / "users"))


@pytest.fixture(
    params=[Budget(), Budget(unlearned=0, at_once=0), Budget(at_once=0)], ids=["small", "new", "wait"]
)
def _budget(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BUDGET", request.param)


@pytest.mark.usefixtures("_budget")
@pytest.mark.parametrize(
    ("kind", "rows", "again"),
    [
        (
            ZONED,
            ["2024-01-01T10:00:00.000000001Z", "2024-01-01T10:00:00Z"],
            "2024-01-01T11:00:00.000000001+01:00",
        ),
        (
            ZONED,
            ["1969-12-31T23:59:59.9999991Z", "1969-12-31T23:59:59.999999Z"],
            "1969-12-31 23:59:59,99999910Z",
        ),
        (
            PLAIN,
            ["2024-01-01T10:00:00.1234561", "2024-01-01T10:00:00.1234569"],
            "2024-01-01 10:00:00.123456100",
        ),
        (CLOCK, ["10:00:00.1234561", "10:00:00.1234569"], "10:00:00,12345610"),
        (DATE, ["2024-01-01", "2024-01-01T10:00:00", "1950-01-01T10:00:00"], "2024-01-01T00:00:00Z"),
        (DATE, ["2024-01-01T10:00:00.0000001", "2024-01-01T10:00:00"], "2024-01-01T10:00:00.00000010"),
    ],
)
def test_keys_that_their_column_cuts_are_told_apart(
    tmp_path: Path, kind: dict[str, Any], rows: list[str], again: str
) -> None:
    sync(tmp_path, keyed(kind), *({"id": moment, "v": str(number)} for number, moment in enumerate(rows)))
    assert values(tmp_path) == [str(number) for number in range(len(rows))]
    sync(tmp_path, keyed(kind), {"id": again, "v": "new"})
    assert values(tmp_path) == [*(str(number) for number in range(1, len(rows))), "new"]


@pytest.mark.usefixtures("_budget")
@pytest.mark.parametrize("kind", [ZONED, PLAIN, DATE])
def test_the_newest_row_is_told_by_the_last_digit(tmp_path: Path, kind: dict[str, Any]) -> None:
    draw = random.Random(kind["format"])
    newest: dict[int, tuple[Fraction, str]] = {}
    of = keyed({"type": "integer"}, cursor=kind)
    for _ in range(4):
        records = []
        for _ in range(40):
            key, seconds = draw.randrange(5), draw.choice([-1, 0, 3600])
            digits = draw.choice(["", "5", "000001", "0000011", "000001000000001", "9999999"])
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
            text = f"{moment:%Y-%m-%dT%H:%M:%S}{'.' if digits else ''}{digits}Z"
            value = seconds + Fraction(int(digits or 0), 10 ** len(digits))
            label = f"{key}: {text} {draw.random()}"
            records.append({"id": key, "at": text, "v": label})
            if key not in newest or value >= newest[key][0]:
                newest[key] = value, label
        sync(tmp_path, of, *records)
    assert values(tmp_path) == sorted(label for _, label in newest.values())


def test_moments_of_microseconds_have_nothing_beside_them(tmp_path: Path) -> None:
    moments = [
        "2024-01-01T10:00:00.123456Z",
        "2024-01-01T10:00:00.12345600000Z",
        "2024-01-01T10:00:60.5000009Z",
    ]
    sync(
        tmp_path,
        keyed(ZONED, cursor=PLAIN),
        *({"id": moment, "at": moment, "v": moment} for moment in moments),
    )
    sync(tmp_path, keyed(ZONED, cursor=PLAIN), {"id": "1999-01-01", "at": "1999-01-01", "v": "old"})
    assert not [
        name for name in lakebed.load(str(tmp_path / "users"), read_only=True).tensors if "exact" in name
    ]
    assert len(values(tmp_path)) == 3


def test_what_stands_beside_is_microseconds_and_the_rest(tmp_path: Path) -> None:
    sync(
        tmp_path,
        keyed(ZONED),
        {"id": "2024-01-01T10:00:00.123456789Z"},
        {"id": "1969-12-31T23:59:59.9999991Z"},
    )
    assert [row["_airbyte_exact/id"] for row in table(tmp_path / "users")] == ["1704103200123456.789", "-0.9"]


@pytest.mark.parametrize(
    ("before", "after", "sent", "found"),
    [
        (DATE, ZONED, "2024-01-01T10:00:00.0000015Z", "2024-01-01T10:00:00.0000015Z"),
        (DATE, PLAIN, "1950-01-01T10:00:00", "1950-01-01T10:00:00"),
        (PLAIN, ZONED, "2024-01-01T10:00:00.0000015", "2024-01-01T10:00:00.0000015Z"),
        (ZONED, TEXT, "2024-01-01T10:00:00.0000015Z", "2024-01-01T10:00:00.0000015Z"),
        (ZONED, TEXT, "2024-01-01T10:00:00.0000000001Z", "2024-01-01T10:00:00.0000000001Z"),
        (PLAIN, {}, "2024-01-01T10:00:00.0000015", "2024-01-01T10:00:00.0000015"),
        (CLOCK, TEXT, "10:00:00.0000015", "10:00:00.0000015"),
        (DATE, TEXT, "2024-01-01T10:00:00.0000015", "2024-01-01T10:00:00.0000015"),
        (DATE, {}, "2024-01-01T00:00:01", "2024-01-01T00:00:01.000000"),
    ],
)
def test_a_column_that_becomes_a_wider_one_takes_its_digits_along(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], sent: str, found: str
) -> None:
    sync(
        tmp_path,
        keyed(before),
        {"id": sent, "v": "old"},
        {"id": "2023-01-01" if before is not CLOCK else "9:00"},
    )
    sync(tmp_path, keyed(after), {"id": found, "v": "new"})
    assert [row["v"] for row in table(tmp_path / "users")] == ["new", None]


def test_digits_come_with_the_rows_of_an_interrupted_refresh(tmp_path: Path) -> None:
    rows = ["2024-01-01T10:00:00.0000001Z", "2024-01-01T10:00:00.0000002Z"]
    sync(tmp_path, keyed(ZONED, generation_id=1, minimum_generation_id=0), {"id": rows[0], "v": "old"})
    attempt(
        tmp_path,
        keyed(ZONED, generation_id=2, minimum_generation_id=2),
        *({"id": row, "v": row} for row in rows),
    )
    sync(tmp_path, keyed(ZONED, generation_id=2, minimum_generation_id=0))
    assert values(tmp_path) == rows
