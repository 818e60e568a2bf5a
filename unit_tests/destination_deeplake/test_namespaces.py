"""Namespace mapping: datasets are renamed, messages are not."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode, plans, read_catalog
from destination_deeplake.choices import NO_CHOICES, StreamChoices
from destination_deeplake.config import DestinationConfig
from destination_deeplake.failures import ConfigError
from destination_deeplake.messages import Output
from destination_deeplake.namespaces import NamespaceMapping, read_mapping
from destination_deeplake.write import begin

VARIABLE = "NAMESPACE_MAPPING_CONFIG_PATH"


def mapping(folder: Path, **values: object) -> NamespaceMapping:
    path = folder / "mapping.json"
    path.write_text(json.dumps(values))
    return read_mapping({VARIABLE: str(path)})


@pytest.mark.parametrize(
    ("values", "namespace", "expected"),
    [
        ({"namespaceDefinitionType": "source"}, "public", ("public", "users")),
        ({"namespaceDefinitionType": "SOURCE", "future": 1}, None, (None, "users")),
        ({"namespaceDefinitionType": "Destination"}, "public", (None, "users")),
        (
            {"namespaceDefinitionType": "customformat", "namespaceFormat": "${SOURCE_NAMESPACE}"},
            "public",
            ("public", "users"),
        ),
        (
            {"namespaceDefinitionType": "CUSTOM_FORMAT", "namespaceFormat": "a_${SOURCE_NAMESPACE}_b"},
            "public",
            ("a_public_b", "users"),
        ),
        (
            {"namespaceDefinitionType": "customformat", "namespaceFormat": "a_${SOURCE_NAMESPACE}"},
            None,
            ("a_", "users"),
        ),
        ({"namespaceDefinitionType": "customformat", "namespaceFormat": "  "}, "public", (None, "users")),
        ({"namespaceDefinitionType": "customformat"}, "public", (None, "users")),
        (
            {"namespaceDefinitionType": "customformat", "namespaceFormat": "${SOURCE_NAMESPACE}"},
            None,
            (None, "users"),
        ),
        ({"namespaceDefinitionType": "source", "streamPrefix": "shop_"}, "public", ("public", "shop_users")),
        ({"namespaceDefinitionType": "source", "streamPrefix": " "}, "public", ("public", "users")),
        ({"namespaceDefinitionType": "source", "streamPrefix": None}, "public", ("public", "users")),
    ],
)
def test_a_stream_is_renamed_as_the_connection_says(
    tmp_path: Path, values: Mapping[str, Any], namespace: str | None, expected: tuple[str | None, str]
) -> None:
    assert mapping(tmp_path, **values).map(namespace, "users") == expected


@pytest.mark.parametrize("environ", [{}, {VARIABLE: ""}])
def test_without_the_variable_nothing_changes(environ: dict[str, str]) -> None:
    assert read_mapping(environ).map("public", "users") == ("public", "users")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "must hold a JSON object"),
        ("{", "is not valid JSON"),
        ("{}", "has the namespaceDefinitionType None; write source, destination, customformat"),
        ('{"namespaceDefinitionType": "mine"}', "has the namespaceDefinitionType 'mine'"),
        ('{"namespaceDefinitionType": "source", "streamPrefix": 3}', "has a streamPrefix that is not text"),
        (
            '{"namespaceDefinitionType": "source", "namespaceFormat": {}}',
            "has a namespaceFormat that is not text",
        ),
    ],
)
def test_a_broken_file_is_named_with_its_variable(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "mapping.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_mapping({VARIABLE: str(path)})
    assert words in str(caught.value)
    assert VARIABLE in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named_with_its_variable(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{VARIABLE} file {tmp_path}/none: No such file"):
        read_mapping({VARIABLE: str(tmp_path / "none")})


def catalog(*names: tuple[str | None, str]) -> dict[str, Any]:
    return {
        "streams": [
            {
                "stream": {"name": name, "namespace": namespace, "json_schema": {"properties": PROPERTIES}},
                "destination_sync_mode": "append",
            }
            for namespace, name in names
        ]
    }


PROPERTIES = {"id": {"type": "integer"}}


def test_a_plan_has_the_name_of_the_dataset_and_the_key_of_the_messages(tmp_path: Path) -> None:
    asked: list[tuple[str | None, str]] = []

    def choose(namespace: str | None, name: str) -> StreamChoices:
        asked.append((namespace, name))
        return NO_CHOICES

    renames = mapping(tmp_path, namespaceDefinitionType="destination", streamPrefix="shop_")
    [plan] = plans(catalog(("public", "users")), choose, renames)
    assert (plan.namespace, plan.name) == plan.dataset_key == (None, "shop_users")
    assert str(plan) == "shop_users"
    assert plan.key == ("public", "users")
    assert asked == [(None, "shop_users")]


def test_a_plan_that_is_not_renamed_has_one_name() -> None:
    [plan] = plans(catalog(("", "users")))
    assert plan == StreamPlan(None, "users", WriteMode.APPEND, {"properties": PROPERTIES})
    assert plan.key == plan.dataset_key == (None, "users")


def test_two_streams_cannot_have_one_dataset(tmp_path: Path) -> None:
    renames = mapping(tmp_path, namespaceDefinitionType="destination")
    with pytest.raises(ConfigError, match=r"the streams 'a.users' and 'b.users' one dataset, 'users'"):
        plans(catalog(("a", "users"), ("b", "users")), mapping=renames)


class _Said(Output):
    """Output that keeps its lines."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.said: list[dict[str, Any]] = []

    def lines(self, lines: Any) -> None:
        self.said += map(json.loads, lines)


def test_a_sync_writes_to_the_mapped_name_and_speaks_to_the_source_by_its_own(tmp_path: Path) -> None:
    """Address, label, log, commit, rules and dead letters are the user's; records, states and statuses the source's."""
    renames = mapping(
        tmp_path,
        namespaceDefinitionType="customformat",
        namespaceFormat="raw_${SOURCE_NAMESPACE}",
        streamPrefix="shop_",
    )
    config = DestinationConfig.from_mapping(
        {
            "destination_path": str(tmp_path / "lake"),
            "rejected_records": "keep",
            "streams": [
                {
                    "name": "shop_users",
                    "namespace": "raw_public",
                    "columns": [{"column": "id", "dtype": "int16"}],
                },
                {"name": "users"},
            ],
        }
    )
    out = _Said()
    asked = catalog(("public", "users"))
    asked["streams"][0] |= {"generation_id": 1, "minimum_generation_id": 1}
    sync = begin(config, plans(asked, config.choices, renames), out)
    descriptor = {"name": "users", "namespace": "public"}
    state = {"type": "STREAM", "stream": {"stream_descriptor": descriptor, "stream_state": {"id": 1}}}
    status = {"stream_descriptor": descriptor, "status": "COMPLETE"}
    for message in (
        {"type": "RECORD", "record": {"stream": "users", "namespace": "public", "data": {"id": 1}}},
        {"type": "RECORD", "record": {"stream": "users", "namespace": "public", "data": {"id": "x"}}},
        {"type": "RECORD", "record": {"stream": "users", "namespace": "public"}},
        {"type": "STATE", "state": state},
        {"type": "TRACE", "trace": {"type": "STREAM_STATUS", "stream_status": status}},
    ):
        sync.feed(json.dumps(message).encode() + b"\n")
    sync.complete()

    states = [message["state"] for message in out.said if message["type"] == "STATE"]
    [answer] = states
    assert answer["stream"] == state["stream"]
    assert answer["destinationStats"] == {"recordCount": 2.0, "rejectedRecordCount": 1.0}
    dataset = lakebed.load(str(tmp_path / "lake/raw_public/shop_users"), read_only=True)
    assert dataset["id"].dtype == "int16"
    about = dataset.info["airbyte"]
    assert (about["namespace"], about["stream"]) == ("raw_public", "shop_users")
    assert "complete: raw_public.shop_users 2 records" in dataset.commits[0]["message"]
    log = [message["log"]["message"] for message in out.said if message["type"] == "LOG"]
    assert any("'raw_public.shop_users' is complete" in line for line in log)
    assert any("streams[1] ('users') matches no stream" in line for line in log)
    assert not any("'public.users'" in line for line in log)
    letters = lakebed.load(str(tmp_path / "lake/_airbyte_dead_letters"), read_only=True)
    names = {(row["namespace"].numpy()[0], row["stream"].numpy()[0]) for row in letters}
    assert len(letters) == 2
    assert {(str(namespace), str(name)) for namespace, name in names} == {("raw_public", "shop_users")}

    again = begin(config, plans(catalog(("public", "users")), config.choices, renames), out)
    again.feed(b'{"type":"RECORD","record":{"stream":"users","namespace":"elsewhere","data":{}}}\n')
    with pytest.raises(ConfigError, match=r"'elsewhere.users' \(1 records; the catalog has 'public.users'\)"):
        again.complete()


def test_the_command_reads_the_mapping_of_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapping(tmp_path, namespaceDefinitionType="destination", streamPrefix="shop_")
    (tmp_path / "catalog.json").write_text(json.dumps(catalog(("public", "users"))))
    [plan] = read_catalog(str(tmp_path / "catalog.json"))
    assert str(plan) == "public.users"
    monkeypatch.setitem(os.environ, VARIABLE, str(tmp_path / "mapping.json"))
    [plan] = read_catalog(str(tmp_path / "catalog.json"))
    assert str(plan) == "shop_users"
