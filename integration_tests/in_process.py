"""Syncs without a process for each: the connector's own write command on files in memory.

A process costs half a second before its first line; the tests of what modes do to rows run dozens of syncs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from destination_deeplake import run
from destination_deeplake.catalog import plans
from destination_deeplake.config import DestinationConfig
from destination_deeplake.failures import ConnectorError, describe
from destination_deeplake.messages import Output
from destination_deeplake.sync import Pace
from destination_deeplake.write import begin
from integration_tests.connector import Connection, Outcome, write_json
from integration_tests.messages import Json, Message, lines
from integration_tests.sockets.carrier import STDIN, Carrier, environment


def sync(
    connection: Connection,
    catalog: Message,
    messages: bytes | Iterable[Message],
    carrier: Carrier = STDIN,
    **config: Json,
) -> Outcome:
    """Run a whole sync; `config` are further fields of the configuration."""
    configured = write_json(
        connection.folder / "config.json", {"destination_path": str(connection.lake), **config}
    )
    catalog_path = write_json(connection.folder / "catalog.json", catalog)
    given, said = os.memfd_create("stdin"), os.memfd_create("stdout")
    try:
        out = Output(said)
        try:
            with contextlib.ExitStack() as stack:
                if carrier.form is not None:
                    source = stack.enter_context(carrier.source(catalog, carrier.script(messages)))
                    stack.enter_context(environment(source.environ))
                else:
                    os.write(given, messages if isinstance(messages, bytes) else lines(messages))
                    os.lseek(given, 0, os.SEEK_SET)
                status = run.write(str(configured), str(catalog_path), given, out)
        except Exception as error:  # noqa: BLE001 - as `run.main` has it
            out.send(describe(error).trace())
            status = 1
        return Outcome(status, os.pread(said, os.fstat(said).st_size, 0).splitlines(), "")
    finally:
        os.close(given)
        os.close(said)


def message_by_message(connection: Connection, catalog: Message, messages: bytes, **config: Json) -> Outcome:
    """Run a sync that publishes each message before the next one comes."""
    typed = DestinationConfig.from_mapping({"destination_path": str(connection.lake), **config})
    said = os.memfd_create("stdout")
    try:
        out, status = Output(said), 0
        try:
            running = begin(typed, plans(catalog, typed.choices), out, Pace(publish_bytes=1))
            try:
                for line in messages.splitlines(keepends=True):
                    running.feed(line)
                running.complete()
            finally:
                running.stop()
        except ConnectorError as error:
            out.send(describe(error).trace())
            status = 1
        return Outcome(status, os.pread(said, os.fstat(said).st_size, 0).splitlines(), "")
    finally:
        os.close(said)
