"""What becomes of rows of another generation: of a greater one, and of a refresh that was given up."""

from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice, Decoding, StreamChoices
from destination_deeplake.failures import ConfigError
from unit_tests.destination_deeplake.stream.test_writer import (
    attempt,
    column,
    generation_of,
    lake,
    open_stream,
    plan,
    sync,
    truncate,
)

MODES = [WriteMode.APPEND, WriteMode.DEDUP]
LABEL: dict[str, Any] = {"htype": "class_label"}
LINK: dict[str, Any] = {"decoding": Decoding.URL}
IMAGE: dict[str, Any] = {"htype": "image"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

Column = tuple[str, dict[str, Any], list[Any]]
"""Type of a column, what was chosen for it, and its values."""


def retain(generation: int, mode: WriteMode) -> StreamPlan:
    return plan(mode, generation_id=generation, minimum_generation_id=0, primary_key=(("id",),))


@pytest.mark.parametrize("mode", MODES)
def test_a_truncate_takes_the_place_of_rows_of_a_greater_generation(tmp_path: Path, mode: WriteMode) -> None:
    sync(tmp_path, retain(40, mode), {"id": 1})
    begun = truncate(1, mode, primary_key=(("id",),))
    attempt(tmp_path, begun, {"id": 2})
    assert column(tmp_path / "users", "id") == [1]
    assert sync(tmp_path, begun, {"id": 3}).was_swapped
    assert sorted(column(tmp_path / "users", "id")) == [2, 3]
    assert generation_of(tmp_path / "users") == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_clear_removes_rows_of_a_greater_generation(tmp_path: Path, mode: WriteMode) -> None:
    sync(tmp_path, retain(40, mode), {"id": 1})
    sync(tmp_path, truncate(2, mode, primary_key=(("id",),)))
    assert column(tmp_path / "users", "id") == []


@pytest.mark.parametrize("mode", MODES)
def test_a_sync_that_keeps_all_keeps_rows_of_a_greater_generation(tmp_path: Path, mode: WriteMode) -> None:
    sync(tmp_path, retain(40, mode), {"id": 1})
    sync(tmp_path, retain(1, mode), {"id": 2})
    assert column(tmp_path / "users", "id") == [1, 2]


def columns_of(choice: dict[str, Any]) -> StreamChoices:
    return StreamChoices(columns={"c": ColumnChoice("c", **choice)} if choice else {})


def given_up(tmp_path: Path, mode: WriteMode, before: Column, staged: Column, after: Column) -> None:
    """A refresh is interrupted, then a sync comes that removes nothing."""
    for (kind, choice, values), generation, minimum in ((before, 1, 0), (staged, 2, 2), (after, 2, 0)):
        of = plan(
            mode,
            schema={"properties": {"id": {"type": "integer"}, "c": {"type": kind}}},
            generation_id=generation,
            minimum_generation_id=minimum,
            primary_key=(("id",),),
            choices=columns_of(choice),
        )
        rows = [{"id": 10 * generation + number, "c": value} for number, value in enumerate(values)]
        (attempt if minimum else sync)(tmp_path, of, *rows)


def ids(tmp_path: Path) -> list[int]:
    """Return the keys, of a dataset whose other columns need not be readable here."""
    found: list[int] = lakebed.load(str(tmp_path / "users"), read_only=True)["id"].numpy().ravel().tolist()
    return found


REFUSED: list[tuple[Column, Column, Column]] = [
    (("integer", {}, [1]), ("string", {}, ["x"]), ("integer", {}, [])),
    (("string", {}, ["x"]), ("boolean", {}, [True]), ("string", {}, [])),
    (("string", LABEL, ["a", "b"]), ("string", LABEL, ["b"]), ("string", LABEL, [])),
    (("string", LINK, ["s3://a/b"]), ("string", LINK, ["s3://a/c"]), ("string", LINK, [])),
    (("string", IMAGE, [None]), ("string", IMAGE, [PIXEL]), ("string", IMAGE, [])),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("before", "staged", "after"), REFUSED)
def test_staged_rows_that_would_mean_something_else_are_not_added(
    tmp_path: Path, mode: WriteMode, before: Column, staged: Column, after: Column
) -> None:
    with pytest.raises(ConfigError, match=r"staged, and they cannot be added .* 'c' is stored differently"):
        given_up(tmp_path, mode, before, staged, after)
    assert ids(tmp_path) == [10 + number for number in range(len(before[2]))]
    # A refresh throws them away.
    sync(tmp_path, truncate(3, mode, primary_key=(("id",),)), {"id": 1})
    assert ids(tmp_path) == [1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("before", "staged", "after", "found"),
    [
        (("integer", {}, [1]), ("string", {}, ["x"]), ("string", {}, []), ["1", "x"]),
        (("string", {}, ["x"]), ("integer", {}, [1]), ("string", {}, []), ["x", "1"]),
        (("number", {}, [0.5]), ("integer", {}, [1]), ("integer", {}, []), [0.5, 1.0]),
        (("string", LABEL, ["a", "b"]), ("string", LABEL, ["a"]), ("string", LABEL, []), ["a", "b", "a"]),
    ],
)
def test_staged_rows_that_mean_the_same_are_added(
    tmp_path: Path, mode: WriteMode, before: Column, staged: Column, after: Column, found: list[Any]
) -> None:
    given_up(tmp_path, mode, before, staged, after)
    assert column(tmp_path / "users", "c") == found


def test_a_refresh_that_is_refused_does_not_keep_the_next_one_out(tmp_path: Path) -> None:
    sync(tmp_path, plan(generation_id=1), {"id": 1})
    schema = {"properties": {"o": {"type": "object"}, "o.id": {"type": "integer"}}}
    with pytest.raises(ConfigError, match=r"cannot have 'o\.id'") as caught:
        open_stream(lake(tmp_path), truncate(2, WriteMode.DEDUP, schema=schema, primary_key=(("o", "id"),)))
    sync(tmp_path, truncate(2, WriteMode.DEDUP, primary_key=(("id",),)), {"id": 2})
    assert ids(tmp_path) == [2]
    del caught  # whose traceback holds all that the refused one had open
