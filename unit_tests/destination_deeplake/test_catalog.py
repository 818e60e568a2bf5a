"""Configured catalog: lenient where nothing depends on it, strict where data does."""

from typing import Any

import pytest

from destination_deeplake.catalog import StreamPlan, WriteMode, plans
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
        ({"streams": [entry(namespace=3)]}, "namespace that is no string"),
        (
            {"streams": [entry(mode="append_dedup")]},
            "'users' asks for append_dedup, which this version does not have",
        ),
        ({"streams": [entry(mode="upsert")]}, "destination_sync_mode 'upsert'"),
        ({"streams": [entry(mode=None)]}, "destination_sync_mode None"),
        ({"streams": [entry(sync_id="x")]}, "sync_id that is no integer"),
        ({"streams": [entry(sync_id=1.5)]}, "sync_id that is no integer"),
        ({"streams": [entry(), entry(namespace="")]}, "names the stream 'users' twice"),
    ],
)
def test_what_would_change_data_is_never_guessed(catalog: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plans(catalog)
    assert words in str(caught.value)
