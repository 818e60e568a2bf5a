"""Configured catalog: lenient where nothing depends on it, strict where data does."""

from typing import Any

import pytest

from destination_deeplake.catalog import StreamPlan, WriteMode, plans
from destination_deeplake.choices import NO_CHOICES, StreamChoices
from destination_deeplake.failures import ConfigError


def entry(name: object = "users", mode: object = "append", **more: Any) -> dict[str, Any]:
    stream = {"name": name, "json_schema": {"properties": {}}}
    if "namespace" in more:
        stream["namespace"] = more.pop("namespace")
    return {"stream": stream, "destination_sync_mode": mode, **more}


def test_a_plan_has_what_the_catalog_says() -> None:
    [plan] = plans(
        {
            "streams": [
                entry("users", "overwrite", namespace="public", generation_id=7, sync_id=3.0, future={"x": 1})
            ],
            "future": True,
        }
    )
    assert plan == StreamPlan(
        "public",
        "users",
        WriteMode.OVERWRITE,
        {"properties": {}},
        generation_id=7,
        minimum_generation_id=None,
        sync_id=3,
    )
    assert str(plan) == "public.users"


@pytest.mark.parametrize("namespace", [None, ""])
def test_an_empty_namespace_is_none(namespace: str | None) -> None:
    [plan] = plans({"streams": [entry(namespace=namespace)]})
    assert plan.key == (None, "users")


@pytest.mark.parametrize(
    ("generation", "minimum", "truncates"),
    [(None, None, False), (0, 0, False), (3, 0, False), (3, 2, False), (3, 3, True), (None, 3, False)],
)
def test_an_append_that_keeps_only_its_own_generation_truncates(
    generation: int | None, minimum: int | None, truncates: bool
) -> None:
    [plan] = plans({"streams": [entry(generation_id=generation, minimum_generation_id=minimum)]})
    assert plan.truncates is truncates


@pytest.mark.parametrize(
    ("catalog", "words"),
    [
        ({}, "no list of streams"),
        ({"streams": [3]}, "Stream 0 of the catalog has no object"),
        ({"streams": [entry(None)]}, "has no name"),
        ({"streams": [entry(namespace=3)]}, "namespace that is not a string"),
        ({"streams": [entry(mode="append_dedup")]}, "'users' is to be deduplicated but has no primary key"),
        ({"streams": [entry(mode="append_dedup", primary_key=[[]])]}, "has no primary key"),
        ({"streams": [entry(mode="append_dedup", primary_key="id")]}, "has no primary key"),
        ({"streams": [entry(mode=["append"])]}, "destination_sync_mode ['append']"),
        (
            {"streams": [entry(generation_id=2, minimum_generation_id=3)]},
            "generation_id 2 but a minimum_generation_id of 3",
        ),
        ({"streams": [entry(mode="upsert")]}, "destination_sync_mode 'upsert'"),
        ({"streams": [entry(mode=None)]}, "destination_sync_mode None"),
        ({"streams": [entry(mode="update")]}, "destination_sync_mode 'update'"),
        ({"streams": [entry(sync_mode="cdc")]}, "sync_mode 'cdc'; choose full_refresh or incremental"),
        ({"streams": [entry(sync_mode=["incremental"])]}, "sync_mode ['incremental']"),
        ({"streams": [entry(sync_id="x")]}, "sync_id that is not an integer"),
        ({"streams": [entry(sync_id=1.5)]}, "sync_id that is not an integer"),
        ({"streams": [entry(), entry(namespace="")]}, "names the stream 'users' twice"),
    ],
)
def test_what_would_change_data_is_never_guessed(catalog: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plans(catalog)
    assert words in str(caught.value)


def test_keys_and_cursors_are_paths() -> None:
    [plan] = plans(
        {
            "streams": [
                entry(
                    mode="append_dedup", primary_key=[["a", "b"], ["id"], ["id"]], cursor_field=["at", "time"]
                )
            ]
        }
    )
    assert plan.mode is WriteMode.DEDUP
    assert plan.primary_key == (("a", "b"), ("id",))
    assert plan.cursor == ("at", "time")


@pytest.mark.parametrize(
    "missing", [{}, {"primary_key": None, "cursor_field": None}, {"primary_key": [], "cursor_field": []}]
)
def test_what_is_not_configured_is_as_the_source_has_it(missing: dict[str, Any]) -> None:
    given = entry(mode="append_dedup", **missing)
    given["stream"] |= {"source_defined_primary_key": [["id"]], "default_cursor_field": ["at"]}
    [plan] = plans({"streams": [given]})
    assert (plan.primary_key, plan.cursor) == ((("id",),), ("at",))
    given |= {"primary_key": [["other"]], "cursor_field": ["newer"]}
    [plan] = plans({"streams": [given]})
    assert (plan.primary_key, plan.cursor) == ((("other",),), ("newer",))


def test_a_key_of_plain_names_is_understood() -> None:
    [plan] = plans({"streams": [entry(mode="append_dedup", primary_key=["id", "kind"], cursor_field="at")]})
    assert plan.primary_key == (("id",), ("kind",))
    assert plan.cursor == ("at",)


@pytest.mark.parametrize(("given", "wanted"), [(True, True), (False, False), (None, False), ("yes", False)])
def test_files_come_only_if_the_catalog_says_so(given: object, wanted: bool) -> None:
    [plan] = plans({"streams": [entry(include_files=given)]})
    assert plan.include_files is wanted


@pytest.mark.parametrize(
    ("generation", "minimum", "oldest"),
    [(None, 3, 0), (3, None, 0), (3, 0, 0), (3, 2, 2), (3, 3, 3), (0, 0, 0)],
)
def test_generations_below_the_minimum_are_not_wanted(
    generation: int | None, minimum: int | None, oldest: int
) -> None:
    [plan] = plans({"streams": [entry(generation_id=generation, minimum_generation_id=minimum)]})
    assert plan.oldest_wanted == oldest


def test_the_user_s_choices_come_with_the_plan() -> None:
    chosen = StreamChoices(flatten=True)
    catalog = {"streams": [entry("users", namespace="public"), entry("orders")]}
    found = plans(
        catalog, lambda namespace, name: chosen if (namespace, name) == ("public", "users") else NO_CHOICES
    )
    assert [plan.choices for plan in found] == [chosen, NO_CHOICES]
