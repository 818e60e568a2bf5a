"""Configuration: values are checked, and messages say what to change."""

import json
from pathlib import Path

import pytest

from destination_deeplake.config import DestinationConfig, read_config, specification
from destination_deeplake.failures import ConfigError


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("/local/lake", "/local/lake"),
        (" /local/lake ", "/local/lake"),
        ("file:///data/my%20lake", "/data/my lake"),
        ("FILE:///data", "/data"),
        ("file://localhost/data", "/data"),
        ("/data/a@b", "/data/a@b"),
    ],
)
def test_local_folders_are_taken(value: str, path: str) -> None:
    assert DestinationConfig.from_mapping({"destination_path": value, "other": 1}).destination_path == Path(
        path
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "no destination_path"),
        ({"destination_path": None}, "must be a string, not null"),
        ({"destination_path": 3}, "must be a string, not a number"),
        ({"destination_path": True}, "must be a string, not a boolean"),
        ({"destination_path": "  "}, "is empty"),
        ({"destination_path": "lake"}, "absolute path"),
        ({"destination_path": "./lake"}, "absolute path"),
        ({"destination_path": "s3://bucket/lake"}, "object stores come later"),
        ({"destination_path": "file://host/lake"}, "names the host 'host'"),
        ({"destination_path": "/a\0b"}, "NUL"),
    ],
)
def test_wrong_values_are_refused_with_the_field_and_a_cure(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match="destination_path") as caught:
        DestinationConfig.from_mapping(values)
    assert words in str(caught.value)


def test_a_file_that_is_no_json_is_refused_without_quoting_it(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"destination_path": "secret', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_config(str(file))
    assert "not valid JSON (line 1" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_missing_or_holds_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_config(str(tmp_path / "none.json"))
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match="must hold a JSON object, not an array"):
        read_config(str(tmp_path / "list.json"))


def test_the_specification_describes_every_field_that_the_configuration_reads() -> None:
    spec = specification()
    assert spec["supported_destination_sync_modes"] == ["overwrite", "append"]
    properties = spec["connectionSpecification"]["properties"]
    assert list(properties) == list(DestinationConfig.__dataclass_fields__)
    assert all({"title", "description", "type", "order"} <= set(entry) for entry in properties.values())
    assert spec["connectionSpecification"]["required"] == ["destination_path"]
    json.dumps(spec)
