"""The rest of the form, and the form itself: it lets through what the code takes, and describes all of it."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from destination_deeplake.choices import Decoding
from destination_deeplake.config import (
    Deletes,
    DestinationConfig,
    Place,
    Rejected,
    WithoutStatus,
)
from destination_deeplake.config import columns as columns_of_form
from destination_deeplake.config.configuration import REPLACED
from destination_deeplake.config.credentials import ENCRYPTIONS, METHODS, SECRETS
from destination_deeplake.failures import ConfigError
from destination_deeplake.messages import specification
from unit_tests.effort import examples

FORM = specification()["connectionSpecification"]
PROPERTIES = FORM["properties"]
STREAM = PROPERTIES["streams"]["items"]["properties"]
COLUMN = STREAM["columns"]["items"]["properties"]


def config(**values: Any) -> DestinationConfig:
    return DestinationConfig.from_mapping({"destination_path": "/lake", **values})


def fields(schema: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of the form with its full name."""
    for name, entry in schema.get("properties", {}).items():
        yield f"{where}{name}", entry
        yield from fields(entry, f"{where}{name}.")
        yield from fields(entry.get("items", {}), f"{where}{name}[].")
        for option in entry.get("oneOf", ()):
            yield from fields(option, f"{where}{name}({option['properties']['method']['const']}).")


def test_what_is_not_said_has_its_default() -> None:
    found = config(cdc_deletes="", rejected_records=None, branch=" ", connection_name="", streams=None)
    assert found == DestinationConfig(Place("/lake"), Deletes.HARD, Rejected.FAIL, None, None, ())
    assert found.without_status is WithoutStatus.WITH_STATE
    assert found.deletion_days == PROPERTIES["cdc_deletes_days"]["default"]


def test_everything_that_is_said_arrives() -> None:
    found = config(
        cdc_deletes="soft",
        cdc_deletes_days=7,
        rejected_records="keep",
        complete_without_status="never",
        branch="staging-1",
        connection_name="shop to lake",
    )
    assert (found.deletes, found.deletion_days, found.rejected) == (Deletes.SOFT, 7, Rejected.KEEP)
    assert found.without_status is WithoutStatus.NEVER
    assert (found.branch, found.connection) == ("staging-1", "shop to lake")
    assert config(branch="main").branch is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cdc_deletes": "no"}, "cdc_deletes: 'no' is not possible; write hard or soft."),
        ({"cdc_deletes_days": -1}, "cdc_deletes_days: -1 is out of range; write a number from 0 to 3650."),
        ({"rejected_records": True}, "rejected_records: must be a string, not a boolean."),
        (
            {"complete_without_status": "sometimes"},
            "complete_without_status: 'sometimes' is not possible; write never, with_state or always.",
        ),
        ({"branch": "a/b"}, "branch: 'a/b' is not possible"),
        ({"branch": "-x"}, "branch: '-x' is not possible"),
        ({"branch": "0" * 40}, f"branch: '{'0' * 40}' is not possible"),
        ({"branch": "airbyte-overwrite"}, "branch: 'airbyte-overwrite' is not possible: branches that begin"),
        ({"connection_name": "a\nb"}, "connection_name: must be one line"),
        *(
            ({key: "hunter2"}, f"{key}: is a field of the connector of 2022; remove it, and ")
            for key in REPLACED
        ),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**values)
    assert str(caught.value).startswith(message)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "field", "meant"),
    [
        ({"cdc_delete": "soft"}, "cdc_delete", "cdc_deletes"),
        ({"Streams": [{"name": "users"}]}, "Streams", "streams"),
        ({"rejectedRecords": "keep"}, "rejectedRecords", "rejected_records"),
        ({"streams": [{"name": "users", "excludes": ["email"]}]}, "streams[0].excludes", "exclude"),
        ({"streams": [{"name": "a"}, {"name": "b", "colums": [1]}]}, "streams[1].colums", "columns"),
        (
            {"streams": [{"name": "users", "columns": [{"column": "a", "d_type": "int8"}]}]},
            "streams[0].columns[0].d_type",
            "dtype",
        ),
        (
            {"credentials": {"method": "environment", "aws_acces_key_id": "hunter2"}},
            "credentials.aws_acces_key_id",
            "aws_access_key_id",
        ),
    ],
)
def test_a_misspelt_field_is_refused_wherever_it_stands(
    values: dict[str, Any], field: str, meant: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**values)
    assert str(caught.value).startswith(
        f"{field}: is not a field of the configuration; did you mean {meant}?"
    )
    assert "hunter2" not in str(caught.value)


def test_a_field_that_resembles_none_is_refused_with_those_that_exist() -> None:
    with pytest.raises(
        ConfigError, match=r"^exclude: is not a field of the configuration; remove it, or write "
    ):
        config(exclude=["email"])


def test_fields_that_mean_nothing_are_left_alone() -> None:
    """Those that the platform puts in, those that hold nothing, those of a method that is not chosen."""
    found = config(
        __injected_declarative_manifest={"a": 1},
        destinationType="deeplake",
        gone=None,
        cdc_delete="",
        credentials={"method": "environment", "account_key": "x"},
    )
    assert found == config()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["url", "s3://x", "image"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def filled(schema: Any) -> st.SearchStrategy[Any]:
    """Values for a field of the form: now and then of its type, else anything."""
    if "properties" in schema:
        known = {name: filled(field) for name, field in schema["properties"].items()}
        return st.fixed_dictionaries({}, optional=known)
    if "oneOf" in schema:
        return st.one_of(*(filled(option) for option in schema["oneOf"]))
    if "const" in schema:
        return st.just(schema["const"])
    if schema["type"] == "array":
        return st.lists(filled(schema["items"]), max_size=3) | JSON
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | JSON
    return st.sampled_from(schema.get("examples", [True])) | JSON


PATHS = st.sampled_from(["/lake", "s3://lake", "gs://lake/x", "az://box"])
ONE_FIELD = st.one_of(
    *(
        st.fixed_dictionaries({"destination_path": PATHS, name: filled(field)})
        for name, field in PROPERTIES.items()
        for _ in range(4 if name in ("streams", "credentials") else 1)
    )
)


@settings(max_examples=examples(80), suppress_health_check=[HealthCheck.too_slow])
@given(ONE_FIELD)
def test_whatever_comes_is_a_configuration_or_an_error_that_names_a_field(values: dict[str, Any]) -> None:
    try:
        found = DestinationConfig.from_mapping(values)
    except ConfigError as error:
        field = str(error).partition(":")[0]
        names = (
            set() if "is not a field" in str(error) else {name.rpartition(".")[2] for name, _ in fields(FORM)}
        )
        assert field.rpartition(".")[2].partition("[")[0] in names
    else:
        found.choices(None, "users")
        repr(found)


def test_the_specification_says_what_the_connector_can() -> None:
    spec = specification()
    assert spec["supported_destination_sync_modes"] == ["overwrite", "append", "append_dedup"]
    assert spec["supportsIncremental"] is True
    assert spec["protocol_version"].startswith("0.")
    assert FORM["required"] == ["destination_path"]
    assert FORM["additionalProperties"] is True
    jsonschema.Draft7Validator.check_schema(FORM)
    json.dumps(spec)


def test_every_field_has_title_description_and_a_place_of_its_own() -> None:
    for name, entry in fields(FORM):
        if "const" in entry:
            continue
        assert {"title", "type", "order"} <= set(entry), name
        assert len(entry["description"]) > 15, name
        assert not {"<", ">"} & set(entry["description"]), f"{name}: the form shows descriptions as HTML"
        assert entry.get("pattern") is None or entry["pattern_descriptor"], name
        if entry["type"] == "string" and not {"enum", "airbyte_secret"} & set(entry):
            assert entry["examples"], name
    for properties in (PROPERTIES, STREAM, COLUMN, *(option["properties"] for option in _methods())):
        assert [entry["order"] for entry in properties.values()] == list(range(len(properties)))
    assert {entry["group"] for entry in PROPERTIES.values()} == {group["id"] for group in FORM["groups"]}


def _methods() -> list[dict[str, Any]]:
    options: list[dict[str, Any]] = PROPERTIES["credentials"]["oneOf"]
    return options


def test_methods_have_the_fields_that_the_code_reads() -> None:
    assert [option["properties"]["method"]["const"] for option in _methods()] != []
    found = {option["properties"]["method"]["const"]: option for option in _methods()}
    assert set(found) == set(METHODS)
    for name, option in found.items():
        assert option["type"] == "object"
        assert option["title"]
        assert option["properties"]["method"] == {
            "type": "string",
            "const": name,
            "default": name,
            "order": 0,
        }
        rule = METHODS[name]
        assert option["required"] == ["method", *rule.required], name
        assert set(option["properties"]) == {"method", *rule.required, *rule.optional}, name


def test_secrets_are_marked_and_nothing_else_is() -> None:
    marked = {name.rpartition(".")[2] for name, entry in fields(FORM) if entry.get("airbyte_secret")}
    assert marked == SECRETS
    for name, entry in fields(FORM):
        if name.rpartition(".")[2] in SECRETS:
            assert entry["airbyte_secret"] is True, name


def test_lists_of_possible_values_are_those_of_the_code() -> None:
    assert COLUMN["htype"]["enum"] == list(columns_of_form.HTYPES)
    assert COLUMN["dtype"]["enum"] == list(columns_of_form.DTYPES)
    assert COLUMN["sample_compression"]["enum"] == list(columns_of_form.SAMPLE_COMPRESSIONS)
    assert COLUMN["chunk_compression"]["enum"] == list(columns_of_form.CHUNK_COMPRESSIONS)
    assert COLUMN["decoding"]["enum"] == [decoding.value for decoding in Decoding]
    assert PROPERTIES["cdc_deletes"]["enum"] == [deletes.value for deletes in Deletes]
    assert PROPERTIES["rejected_records"]["enum"] == [rejected.value for rejected in Rejected]
    assert PROPERTIES["encryption"]["enum"] == list(ENCRYPTIONS)


def test_every_example_passes_the_form_and_the_code() -> None:
    for name in ("destination_path", "branch", "connection_name"):
        for example in PROPERTIES[name]["examples"]:
            values = {"destination_path": "/lake", name: example}
            jsonschema.validate(values, FORM)
            DestinationConfig.from_mapping(values)


@pytest.mark.parametrize(
    "path",
    [
        "/local/lake",
        " /local/lake ",
        "file:///data",
        "FILE:///data",
        "file://localhost/d",
        "S3://b",
        "gcs://b/x y",
    ],
)
def test_the_form_lets_through_every_path_that_the_code_takes(path: str) -> None:
    jsonschema.validate({"destination_path": path}, FORM)
    DestinationConfig.from_mapping({"destination_path": path})


@pytest.mark.parametrize("path", ["lake", "ftp://host/x", "s3://", "s3://key:secret@bucket/x"])
def test_the_form_stops_what_the_code_refuses(path: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"destination_path": path}, FORM)
    with pytest.raises(ConfigError):
        DestinationConfig.from_mapping({"destination_path": path})


def test_each_way_in_is_one_option_of_the_form() -> None:
    values = {
        "destination_path": "s3://lake",
        "credentials": {"method": "aws_keys", "aws_access_key_id": "a", "aws_secret_access_key": "b"},
        "streams": [{"name": "*", "columns": [{"column": "c", "htype": "image", "decoding": "url"}]}],
    }
    jsonschema.validate(values, FORM)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**values, "credentials": {"method": "aws_keys"}}, FORM)
