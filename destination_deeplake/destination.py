"""The destination as a class of the Airbyte CDK.

For runners like `airbyte_cdk.launch`, test suites and callers in process, which expect the standard class. It calls the
same functions as `run`, so both print the same messages. It replaces:

* `parse_args`, `run_cmd`: for the same command line, and configuration errors with advice.
* `_run_write`: because the CDK's reader skips lines that orjson rejects, turns large integers into floats and drops the
  `id` that the platform needs on every STATE. The reader of this class reads the bytes, and writes states unchanged.
* Errors: the CDK's uncaught-exception hook gets them as `AirbyteTracedException`, with the connector's failure types
  and without the texts of unexpected exceptions, which may quote records.

`write` with `AirbyteMessage` objects is for callers that have parsed the input; it returns only what these objects
hold.
"""

import argparse
import io
import json
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airbyte_cdk.destinations import Destination
from airbyte_cdk.models import (
    AirbyteConnectionStatus,
    AirbyteMessage,
    AirbyteMessageSerializer,
    ConfiguredAirbyteCatalog,
    ConfiguredAirbyteCatalogSerializer,
    FailureType,
    Status,
    StreamDescriptor,
)
from airbyte_cdk.utils.traced_exception import AirbyteTracedException

from destination_deeplake import run, write
from destination_deeplake.catalog import plans, read_catalog
from destination_deeplake.config import DestinationConfig, read_json_object
from destination_deeplake.failures import ConfigError, Failure, describe
from destination_deeplake.messages import Message, Output, shown, spec_message, specification
from destination_deeplake.namespaces import read_mapping
from destination_deeplake.probe import problem_with


class DestinationDeeplake(Destination):
    """Airbyte destination that writes every stream as a versioned tensor dataset."""

    def check(
        self,
        logger: logging.Logger,  # noqa: ARG002 - the CDK passes it
        config: Mapping[str, Any],
    ) -> AirbyteConnectionStatus:
        """Write, read back and delete a test dataset at the configured place."""
        try:
            problem = problem_with(DestinationConfig.from_mapping(config))
        except ConfigError as error:
            problem = str(error)
        return AirbyteConnectionStatus(
            Status.SUCCEEDED if problem is None else Status.FAILED, problem and shown(problem)
        )

    def write(
        self,
        config: Mapping[str, Any],
        configured_catalog: ConfiguredAirbyteCatalog,
        input_messages: Iterable[AirbyteMessage],
    ) -> Iterator[AirbyteMessage]:
        """Write parsed messages; yield the states whose records are published, and log messages."""
        out = _Collected()
        catalog = ConfiguredAirbyteCatalogSerializer.dump(configured_catalog)
        typed = DestinationConfig.from_mapping(config)
        running = write.begin(typed, plans(catalog, typed.choices, read_mapping(os.environ)), out)
        try:
            for message in input_messages:
                line = json.dumps(AirbyteMessageSerializer.dump(message)).encode() + b"\n"
                running.feed(line)
                yield from out.drain()
            running.complete()
        except GeneratorExit:
            running.stop()
            raise
        except Exception:
            # The sync or the caller's iterator failed; STATE messages of earlier publishes are still sent.
            running.stop()
            yield from out.drain()
            raise
        yield from out.drain()

    def parse_args(self, args: list[str]) -> argparse.Namespace:
        """Parse the command line as `run` does."""
        return run.parse_args(args)

    def run_cmd(self, parsed_args: argparse.Namespace) -> Iterator[AirbyteMessage]:
        """Run one command; failures are raised as `AirbyteTracedException`."""
        try:
            if parsed_args.command == "spec":
                yield _as_airbyte(spec_message(specification()))
            elif parsed_args.command == "check":
                yield _as_airbyte(run.check(parsed_args.config))
            else:
                config = read_json_object(parsed_args.config, "configuration")
                with open(sys.stdin.fileno(), encoding="utf-8", closefd=False) as stdin:
                    yield from self._run_write(config, parsed_args.catalog, stdin)
        except Exception as error:  # noqa: BLE001 - this is the outermost caller: every failure gets its type here
            raise TracedFailure(describe(error)) from None

    def _run_write(
        self, config: Mapping[str, Any], configured_catalog_path: str, input_stream: io.TextIOWrapper
    ) -> Iterator[AirbyteMessage]:
        """Run a sync from the stream's file descriptor; its messages go to standard output, and none is yielded."""
        sys.stdout.flush()
        out = Output(sys.stdout.fileno())
        typed = DestinationConfig.from_mapping(config)
        plan = read_catalog(configured_catalog_path, typed.choices)
        status = write.write(typed, plan, input_stream.fileno(), out)
        if status:
            sys.exit(status)
        yield from ()


class TracedFailure(AirbyteTracedException):
    """A failure as the exception that the CDK reports."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.internal_message, failure.message, FailureType(failure.failure_type.value))
        self._failure = failure

    def as_airbyte_message(
        self,
        stream_descriptor: StreamDescriptor | None = None,  # noqa: ARG002 - the CDK may pass one
    ) -> AirbyteMessage:
        """Return the TRACE message that `run` would print."""
        return _as_airbyte(self._failure.trace())


class _Collected(Output):
    """An output that collects lines for a generator."""

    def __init__(self) -> None:
        super().__init__(-1)
        self._lines: list[bytes] = []

    def lines(self, lines: Iterable[bytes]) -> None:
        self._lines.extend(lines)

    def drain(self) -> Iterator[AirbyteMessage]:
        """Yield the messages since the last call."""
        lines, self._lines = self._lines, []
        for line in lines:
            yield _as_airbyte(json.loads(line))


def _as_airbyte(message: Message) -> AirbyteMessage:
    return AirbyteMessageSerializer.load(message)
