"""`metadata.yaml` has the registry's fields, and says what the code, the form and the documentation say."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from destination_deeplake import __version__
from destination_deeplake.channel import Format, Medium
from destination_deeplake.messages import specification

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/integrations/destinations/deeplake.md"

TEXT = {"type": "string", "minLength": 1}
ADDRESS = {"type": "string", "pattern": "^https://"}
FLAG = {"type": "boolean"}


def record(required: str = "", **fields: Any) -> dict[str, Any]:
    """Schema of an object without other fields than these."""
    return {
        "type": "object",
        "required": required.split(),
        "additionalProperties": False,
        "properties": fields,
    }


def one_of(words: str) -> dict[str, Any]:
    return {"enum": words.split()}


def many(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


AMOUNT = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(m|Ki|Mi|Gi)?$"}
RESOURCES = record(cpu_request=AMOUNT, cpu_limit=AMOUNT, memory_request=AMOUNT, memory_limit=AMOUNT)
JOB = one_of("get_spec check_connection discover_schema sync reset_connection connection_updater replicate")
DATA = record(
    "name definitionId connectorType connectorSubtype dockerRepository dockerImageTag license documentationUrl "
    "githubIssueLabel releaseStage",
    name=TEXT,
    icon={"const": "icon.svg"},
    definitionId={"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
    connectorType=one_of("destination source"),
    connectorSubtype=one_of("api database datalake file custom message_queue unknown vectorstore"),
    dockerRepository={"type": "string", "pattern": "^(airbyte/)?destination-[a-z0-9-]+$"},
    dockerImageTag={"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+(-rc\.[0-9]+)?$"},
    license=one_of("MIT ELv2"),
    documentationUrl={"type": "string", "pattern": "^https://docs.airbyte.com/integrations/destinations/"},
    externalDocumentationUrls=many(
        record(
            "title url",
            title=TEXT,
            url=ADDRESS,
            type=one_of(
                "api_deprecations api_reference api_release_history authentication_guide data_model_reference "
                "developer_community migration_guide openapi_spec other permissions_scopes rate_limits "
                "sql_reference status_page"
            ),
            requiresLogin=FLAG,
        )
    ),
    githubIssueLabel=TEXT,
    maxSecondsBetweenMessages={"type": "integer"},
    releaseDate={"type": "string", "format": "date", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
    protocolVersion=TEXT,
    releaseStage=one_of("alpha beta generally_available custom"),
    supportLevel=one_of("community certified archived"),
    supportsDbt=FLAG,
    supportsNormalization=FLAG,
    supportsRefreshes=FLAG,
    supportsFileTransfer=FLAG,
    supportsDataActivation=FLAG,
    connectorIPCOptions=record(
        "dataChannel",
        dataChannel=record(
            "version supportedSerialization supportedTransport",
            version={"const": "0.0.2"},
            supportedSerialization=many(one_of("JSONL PROTOBUF")),
            supportedTransport=many(one_of("STDIO SOCKET")),
        ),
    ),
    tags=many({"type": "string", "pattern": "^[a-z]+:[a-z0-9-]+$"}),
    allowedHosts=record("hosts", hosts=many(TEXT)),
    connectorBuildOptions=record(
        "baseImage",
        baseImage={"type": "string", "pattern": "^docker.io/airbyte/[a-z-]+:[0-9.]+@sha256:[0-9a-f]{64}$"},
    ),
    connectorTestSuitesOptions=many(
        record("suite", suite=one_of("unitTests integrationTests acceptanceTests liveTests"))
    ),
    remoteRegistries=record(pypi=record("enabled packageName", enabled=FLAG, packageName=TEXT)),
    registryOverrides=record(
        "oss cloud", oss=record("enabled", enabled=FLAG), cloud=record("enabled", enabled=FLAG)
    ),
    resourceRequirements=record(
        default=RESOURCES,
        jobSpecific=many(record("jobType resourceRequirements", jobType=JOB, resourceRequirements=RESOURCES)),
    ),
    releases=record(
        rolloutConfiguration=record(
            enableProgressiveRollout=FLAG,
            initialPercentage={"type": "integer"},
            maxPercentage={"type": "integer"},
            advanceDelayMinutes={"type": "integer", "minimum": 10},
        ),
        breakingChanges={
            "type": "object",
            "additionalProperties": record(
                "message upgradeDeadline",
                message=TEXT,
                upgradeDeadline=TEXT,
                deadlineAction=one_of("auto_upgrade disable"),
                migrationDocumentationUrl=ADDRESS,
            ),
        },
        migrationDocumentationUrl=ADDRESS,
    ),
)
SCHEMA = record("metadataSpecVersion data", metadataSpecVersion={"const": "1.0"}, data=DATA)


@pytest.fixture(scope="module")
def metadata() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((ROOT / "metadata.yaml").read_text())
    return data


@pytest.fixture(scope="module")
def data(metadata: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = metadata["data"]
    return inner


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_it_has_the_fields_of_the_registry(metadata: dict[str, Any]) -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(metadata)


@pytest.mark.parametrize("field", DATA["required"])
def test_the_schema_notices_what_is_missing(metadata: dict[str, Any], field: str) -> None:
    data = {name: value for name, value in metadata["data"].items() if name != field}
    with pytest.raises(jsonschema.ValidationError, match=field):
        jsonschema.validate({**metadata, "data": data}, SCHEMA)


def test_version_and_licence_are_those_of_the_project(data: dict[str, Any], project: dict[str, Any]) -> None:
    assert data["dockerImageTag"] == __version__
    assert data["license"] == project["license"]
    assert data["githubIssueLabel"] == project["name"] == data["dockerRepository"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert f"ARG VERSION={__version__}\n" in dockerfile


def test_the_base_image_is_that_of_the_dockerfile(data: dict[str, Any]) -> None:
    base = data["connectorBuildOptions"]["baseImage"]
    assert f"ARG BASE_IMAGE={base}\n" in (ROOT / "Dockerfile").read_text()


def test_the_documentation_is_where_it_says(data: dict[str, Any]) -> None:
    assert data["documentationUrl"] == specification()["documentationUrl"]
    assert data["documentationUrl"].endswith("/destinations/" + PAGE.stem)
    assert dt.date.fromisoformat(data["releaseDate"]).year >= 2026


def test_hosts_that_come_from_the_configuration_are_fields_of_the_form(data: dict[str, Any]) -> None:
    """`${credentials.sts_endpoint_url}` names a field, in whichever choice of the form."""
    for host in data["allowedHosts"]["hosts"]:
        for path in re.findall(r"\$\{(.+?)\}", host):
            here = [specification()["connectionSpecification"]]
            for name in path.split("."):
                options = [option for schema in here for option in [schema, *schema.get("oneOf", [])]]
                here = [
                    option["properties"][name] for option in options if name in option.get("properties", {})
                ]
            assert here, f"no field {path}"
            assert all(schema["type"] == "string" for schema in here)


def test_refreshes_are_announced_for_the_modes_that_the_form_offers(data: dict[str, Any]) -> None:
    assert data["supportsRefreshes"]
    assert data["supportsFileTransfer"]
    modes = specification()["supported_destination_sync_modes"]
    assert sorted(modes) == ["append", "append_dedup", "overwrite"]


def test_the_channels_are_those_that_the_code_reads(data: dict[str, Any]) -> None:
    channel = data["connectorIPCOptions"]["dataChannel"]
    assert sorted(channel["supportedTransport"]) == sorted(Medium)
    assert sorted(channel["supportedSerialization"]) == sorted(Format)


def test_the_icon_is_a_small_drawing(data: dict[str, Any]) -> None:
    """Square, without scripts, pictures or addresses of others."""
    text = (ROOT / data["icon"]).read_text()
    drawing = ET.fromstring(text)
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    *_, width, height = map(float, drawing.attrib["viewBox"].split())
    assert width == height
    assert len(text) < 10_000
    names = {element.tag.rpartition("}")[2] for element in drawing.iter()}
    assert names <= {"svg", "title", "g", "path", "rect", "circle", "linearGradient", "stop", "defs"}
    assert text.count("http") == 1


def test_the_page_has_the_headers_of_the_registry(data: dict[str, Any]) -> None:
    """Fixed headers, a row of the changelog for this version, and only secure addresses."""
    text = PAGE.read_text()
    headers = re.findall(r"^#+ .+$", text, re.MULTILINE)
    wanted = [
        f"# {data['name']}",
        "## Prerequisites",
        "## Setup guide",
        "## Supported sync modes",
        "## Output schema",
        "## Limitations & Troubleshooting",
        "## Changelog",
    ]
    assert [header for header in headers if header in wanted] == wanted
    assert re.search(rf"^\| {re.escape(__version__)} +\| \d{{4}}-\d\d-\d\d +\|", text, re.MULTILINE)
    assert "http://" not in re.sub(r"`[^`]*`", "", text)
    assert "Feature | Supported" in text
