"""What the image is: small, owned by nobody special, labelled, without secrets, without a shell in between."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from docker import DockerClient
from docker.models.images import Image

import lakebed
from integration_tests.connector import EXECUTABLE
from integration_tests.image.conftest import NAME, ROOT
from integration_tests.image.containers import CONFIG, LAKE, Connector

pytestmark = pytest.mark.image

MEGABYTES = 450
ENTRYPOINT = "/opt/connector/bin/destination-deeplake"
SECRET = "canary-4f1d0c"


@pytest.fixture(scope="module")
def metadata() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((ROOT / "metadata.yaml").read_text())["data"]
    return data


def environment(image: Image) -> dict[str, str]:
    return dict(entry.split("=", 1) for entry in image.attrs["Config"]["Env"])


def test_it_is_small(image: Image, record_property: Callable[[str, object], None]) -> None:
    size = image.attrs["Size"] / 1e6
    record_property("proof", f"{NAME}: {size:.0f} MB")
    assert size <= MEGABYTES


def test_labels_say_what_it_is(image: Image, metadata: dict[str, Any]) -> None:
    assert image.labels["io.airbyte.name"] == metadata["dockerRepository"]
    assert image.labels["io.airbyte.version"] == metadata["dockerImageTag"] == lakebed.__version__


def test_it_runs_the_connector_and_no_shell(image: Image) -> None:
    config = image.attrs["Config"]
    assert config["Entrypoint"] == [ENTRYPOINT]
    assert not config.get("Cmd")
    assert environment(image)["AIRBYTE_ENTRYPOINT"] == ENTRYPOINT


def test_the_user_is_1000_and_owns_nothing_of_it(image: Image, connector: Connector) -> None:
    assert image.attrs["Config"]["User"] == "1000:1000"
    look = "id -u; id -g; find /opt/connector ! -user 0 | head -3; find /opt/connector -perm /022 ! -type l | head -3"
    found = connector.run(["-c", look], entrypoint="/bin/sh").succeeded()
    assert found.output == [b"1000", b"1000"]


def test_there_are_no_secrets_in_it(image: Image) -> None:
    told = json.dumps([image.attrs, image.history()]).lower()
    for word in ("secret", "password", "token", "access_key", "api_key"):
        assert word not in told


def test_secrets_of_a_configuration_are_not_in_what_the_engine_tells(
    engine: DockerClient, connector: Connector
) -> None:
    """They come in a file; a check that fails does not say them either."""
    config = {
        "destination_path": "s3://nowhere/lake",
        "endpoint_url": "http://127.0.0.1:9",
        "credentials": {
            "method": "aws_keys",
            "aws_access_key_id": SECRET,
            "aws_secret_access_key": SECRET,
        },
    }
    with connector.started(["check", "--config", CONFIG], volumes=connector.mounted(config)) as running:
        ended = running.ended()
        inspected = json.dumps(engine.api.inspect_container(running.container.id))
    assert ended.status == 0
    assert ended.messages[-1]["connectionStatus"]["status"] == "FAILED"
    assert SECRET not in inspected + ended.errors + repr(ended.output)


def test_it_has_no_build_tools_and_no_cdk(connector: Connector) -> None:
    """What compiles stays in the first stage; the entry point does without the CDK."""
    look = (
        "command -v gcc; ls /opt/connector/bin; ls /opt/connector/lib/python3*/site-packages; ls -A /src 2>&1"
    )
    found = b" ".join(connector.run(["-c", look], entrypoint="/bin/sh").output)
    assert b"destination-deeplake" in found
    assert b"lakebed" in found
    for name in (b"gcc", b"pip", b"Cython", b"airbyte_cdk", b"pytest"):
        assert name not in found.split()


def test_what_it_says_of_itself_is_what_the_source_says(connector: Connector) -> None:
    found = connector.run(["spec"]).succeeded().messages
    here = subprocess.run([EXECUTABLE, "spec"], capture_output=True, check=True).stdout
    assert found == [json.loads(here)]
    assert not connector.lake.exists()


def test_the_platform_starts_it_by_a_variable(connector: Connector) -> None:
    """The platform evaluates $AIRBYTE_ENTRYPOINT in a shell of its own."""
    found = connector.run(["-c", 'eval "$AIRBYTE_ENTRYPOINT spec"'], entrypoint="/bin/sh").succeeded()
    assert found.messages[0]["type"] == "SPEC"


def test_the_commands_of_the_library_are_there(connector: Connector) -> None:
    """`docker run --entrypoint lakebed` looks into a lake."""
    found = connector.run(
        ["ls", LAKE],
        entrypoint="lakebed",
        volumes=connector.mounted({"destination_path": LAKE}),
    ).succeeded()
    assert found.errors == f"no datasets in {LAKE}\n"
