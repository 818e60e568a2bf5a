"""The class of the CDK: same messages as the light entry point, and usable as any other destination."""

import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import destination_deeplake
import lakebed
from unit_tests.effort import PATIENCE

RECORD = {"type": "RECORD", "record": {"stream": "users", "data": {"id": 1}, "emitted_at": 1}}
STATE = {
    "type": "STATE",
    "state": {
        "type": "STREAM",
        "stream": {"stream_descriptor": {"name": "users"}, "stream_state": {"a": 1}},
        "id": 7,
    },
}
STREAM = {
    "name": "users",
    "json_schema": {"properties": {"id": {"type": "integer"}}},
    "supported_sync_modes": ["full_refresh"],
}
CATALOG = {"streams": [{"stream": STREAM, "sync_mode": "full_refresh", "destination_sync_mode": "append"}]}


@pytest.fixture(autouse=True, scope="module")
def _cdk() -> None:
    """Import the CDK where tests run: it takes seconds, which each process that collects them would spend."""
    pytest.importorskip("airbyte_cdk")


def light(*arguments: str, stdin: bytes) -> tuple[int, bytes]:
    command = [sys.executable, "-c", "from destination_deeplake.run import run; run()", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE, check=False)
    return done.returncode, done.stdout


def heavy(*arguments: str, stdin: bytes) -> tuple[int, bytes]:
    """Run the class's own `run` in a child that has the CDK imported already."""
    destination = destination_deeplake.DestinationDeeplake()
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(stdin)
        given.seek(0)
        child = os.fork()
        if child == 0:
            os.dup2(given.fileno(), 0)
            os.dup2(said.fileno(), 1)
            run_and_exit(destination, list(arguments))
        _, ended = os.waitpid(child, 0)
        said.seek(0)
        return os.waitstatus_to_exitcode(ended), said.read()


def run_and_exit(destination: Any, arguments: list[str]) -> None:
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    status = 1
    try:
        destination.run(arguments)
        status = 0
    except Exception:  # noqa: BLE001 - what the interpreter does at the end of a process
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        os._exit(status)


def comparable(status: int, output: bytes) -> tuple[int, list[dict[str, Any]]]:
    messages = [json.loads(line) for line in output.splitlines()]
    for message in messages:
        if message["type"] == "TRACE":
            error = message["trace"]["error"]
            is_ours = error["failure_type"] == "system_error"
            assert ("destination_deeplake" in error.pop("stack_trace", "")) is is_ours
            assert message["trace"].pop("emitted_at") > 1e12
    return status, [message for message in messages if message["type"] != "LOG"]


def test_both_entry_points_say_the_same(tmp_path: Path) -> None:
    good, bad, catalog = (tmp_path / name for name in ("good.json", "bad.json", "catalog.json"))
    good.write_text(json.dumps({"destination_path": str(tmp_path / "lake")}), encoding="utf-8")
    bad.write_text("{}", encoding="utf-8")
    catalog.write_text(json.dumps(CATALOG), encoding="utf-8")
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in (RECORD, STATE))
    write = ("write", "--config", str(good), "--catalog", str(catalog))
    for arguments, stdin in (
        (("spec",), b""),
        (("check", "--config", str(good)), b""),
        (("check", "--config", str(bad)), b""),
        (("write", "--config", str(bad), "--catalog", str(catalog)), b""),
        (write, lines),
        (write, lines + b"no message\n"),
    ):
        found = comparable(*light(*arguments, stdin=stdin))
        assert found[1]
        assert comparable(*heavy(*arguments, stdin=stdin)) == found


def test_the_package_exports_the_class() -> None:
    from destination_deeplake.destination import DestinationDeeplake

    assert destination_deeplake.DestinationDeeplake is DestinationDeeplake
    with pytest.raises(AttributeError):
        _ = destination_deeplake.nothing


def test_check_and_spec_work_in_process(tmp_path: Path) -> None:
    from airbyte_cdk.models import Status

    logger = logging.getLogger("test")
    destination = destination_deeplake.DestinationDeeplake()
    assert destination.check(logger, {"destination_path": str(tmp_path)}).status == Status.SUCCEEDED
    failed = destination.check(logger, {"destination_path": "relative"})
    assert failed.status == Status.FAILED
    assert "absolute" in str(failed.message)
    assert "destination_path" in destination.spec(logger).connectionSpecification["properties"]


def test_write_gives_datasets_the_names_of_the_namespace_mapping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airbyte_cdk.models import AirbyteMessageSerializer, ConfiguredAirbyteCatalogSerializer

    mapping = tmp_path / "mapping.json"
    mapping.write_text(json.dumps({"namespaceDefinitionType": "source", "streamPrefix": "shop_"}))
    monkeypatch.setenv("NAMESPACE_MAPPING_CONFIG_PATH", str(mapping))
    catalog = ConfiguredAirbyteCatalogSerializer.load(CATALOG)
    incoming = [AirbyteMessageSerializer.load(RECORD)]
    destination = destination_deeplake.DestinationDeeplake()
    assert list(destination.write({"destination_path": str(tmp_path / "lake")}, catalog, incoming))
    assert len(lakebed.load(str(tmp_path / "lake/shop_users"), read_only=True)) == 1


def test_write_takes_parsed_messages(tmp_path: Path) -> None:
    from airbyte_cdk.models import AirbyteMessageSerializer, ConfiguredAirbyteCatalogSerializer, Type

    destination = destination_deeplake.DestinationDeeplake()
    catalog = ConfiguredAirbyteCatalogSerializer.load(CATALOG)
    incoming = [AirbyteMessageSerializer.load(message) for message in (RECORD, STATE, RECORD)]
    found = list(destination.write({"destination_path": str(tmp_path)}, catalog, incoming))
    [state] = [message.state for message in found if message.type == Type.STATE]
    assert state is not None
    assert state.destinationStats is not None
    assert state.destinationStats.recordCount == 1
    assert len(lakebed.load(str(tmp_path / "users"), read_only=True)) == 2
