"""A server of Arrow Flight over the datasets of a place, for engines in any language.

A place is a dataset, a folder, or a prefix of a bucket. A descriptor or ticket is the name of a dataset below the
place, such as ``photos@v1``, or JSON such as ``{"dataset": "photos@v1", "columns": ["label"]}`` or
``{"dataset": "photos", "query": "SELECT label WHERE score > 0.5"}``. Nothing is written, and no query reaches a
dataset outside of the place.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import flight

import lakebed
from lakebed.errors import InvalidInputError, LakebedError
from lakebed.session.places import Path

_ROOT = "."
"""Name of the dataset at the place itself."""

_LIMITS: dict[str, Any] = {"timeout": 60.0, "max_memory": 1 << 30}
"""Limits of each query."""

_MOST_BYTES = 1 << 20
"""Maximum size of a ticket in bytes."""


@dataclass(frozen=True)
class Wanted:
    """Rows that a client requests."""

    dataset: str
    columns: tuple[str, ...] | None = None
    query: str | None = None

    @classmethod
    def parse(cls, given: bytes) -> Wanted:
        """Read a ticket.

        Raises
        ------
        InvalidInputError
            If the ticket is neither a name nor JSON with the keys ``dataset``, ``columns`` and ``query``.
        """
        try:
            text = given[: _MOST_BYTES + 1].decode()
            told = json.loads(text) if text.lstrip().startswith("{") else {"dataset": text}
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"the ticket is not JSON: {error}") from error
        columns, query = told.get("columns"), told.get("query")
        is_read = (
            len(given) <= _MOST_BYTES
            and isinstance(told.get("dataset"), str)
            and (query is None or isinstance(query, str))
            and (
                columns is None
                or (isinstance(columns, list) and all(isinstance(name, str) for name in columns))
            )
            and not (columns is not None and query is not None)
            and not told.keys() - {"dataset", "columns", "query"}
        )
        if not is_read:
            raise InvalidInputError(
                'a ticket is the name of a dataset, or JSON with "dataset" and, if wanted, either "columns" or '
                f'"query"; it has at most {_MOST_BYTES:,} bytes'
            )
        return cls(told["dataset"], None if columns is None else tuple(columns), query)

    def ticket(self) -> bytes:
        """Return the ticket of these rows."""
        told = {"dataset": self.dataset, "columns": self.columns, "query": self.query}
        return json.dumps({key: value for key, value in told.items() if value is not None}).encode()


class LakeServer(flight.FlightServerBase):  # type: ignore[misc]
    """A server of the datasets at and below a place.

    Parameters
    ----------
    place
        A dataset, a folder, or a prefix of a bucket.
    location
        Address to listen at: ``grpc://127.0.0.1:0``, or ``grpc+tls://...`` with certificates.
    token
        Secret that each call must send in the header ``authorization: Bearer TOKEN``.
    creds
        Credentials of a bucket, as for ``lakebed.load``.
    certificates
        Pairs of a certificate and its private key, in PEM.
    """

    def __init__(
        self,
        place: Path,
        location: str,
        token: str,
        *,
        creds: Any = None,
        certificates: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        self._place, self._creds = str(place).rstrip("/") or "/", creds
        super().__init__(location, tls_certificates=certificates, middleware={"token": _Guard(token)})

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[flight.FlightInfo]:
        """Yield the datasets that can be opened and whose name contains the criteria."""
        del context
        with _told():
            for entry in lakebed.ls(self._place, self._creds):
                name = entry["path"] or _ROOT
                if entry["error"] is None and criteria.decode("utf-8", "replace") in name:
                    yield self._info(Wanted(name), flight.FlightDescriptor.for_path(name))

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        """Describe the rows of a descriptor: schema, number of rows, ticket."""
        del context
        with _told():
            return self._info(_wanted(descriptor), descriptor)

    def get_schema(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.SchemaResult:
        """Return the columns of a descriptor and their types."""
        del context
        with _told():
            return flight.SchemaResult(self._rows(_wanted(descriptor))[0].schema)

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.GeneratorStream:
        """Stream the rows of a ticket; rows are read only as fast as the client receives them."""
        del context
        with _told():
            reader = self._rows(Wanted.parse(ticket.ticket))[0]
        # A RecordBatchStream would send the traceback of an error, too.
        return flight.GeneratorStream(reader.schema, _streamed(reader))

    def _info(self, wanted: Wanted, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        reader, count = self._rows(wanted)
        return flight.FlightInfo(
            reader.schema, descriptor, [flight.FlightEndpoint(wanted.ticket(), [])], count, -1
        )

    def _rows(self, wanted: Wanted) -> tuple[pa.RecordBatchReader, int]:
        """Return the rows as a stream, and their number."""
        found: Any = self._open(wanted.dataset)
        if wanted.query is not None:
            found = found.query(wanted.query, named=self._open, **_LIMITS)
        if isinstance(found, lakebed.Dataset):
            scanner = found.scanner(None if wanted.columns is None else list(wanted.columns))
            return scanner.to_reader(), scanner.count_rows()
        return pa.RecordBatchReader.from_stream(found), len(found)

    def _open(self, name: str) -> lakebed.Dataset:
        """Open a dataset of the place by its name, which may end in ``@`` and a version."""
        path, _, version = name.partition("@")
        steps = {unquote(step) for step in path.split("/")}  # web servers may undo escapes
        if path != _ROOT and ("\\" in path or ":" in path or {"", ".", ".."} & steps):
            raise InvalidInputError(f"{name!r:.200} does not name a dataset below this place")
        address = self._place if path == _ROOT else f"{self._place.rstrip('/')}/{path}"
        found = lakebed.load(address, read_only=True, creds=self._creds, verbose=False)
        if version:  # not as a part of the address, where `@x/../..` would be folders
            found.checkout(version)
        return found


def _wanted(descriptor: flight.FlightDescriptor) -> Wanted:
    if descriptor.command:
        return Wanted.parse(descriptor.command)
    return Wanted("/".join(part.decode() for part in descriptor.path))


@contextmanager
def _told() -> Iterator[None]:
    """Convert errors into errors of Flight, which are sent to clients without a traceback."""
    try:
        yield
    except (LakebedError, UnicodeDecodeError) as error:
        raise flight.FlightServerError(str(error)) from None


def _streamed(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Yield the batches as tables, with which Flight sends the dictionaries of labels."""
    with _told():
        for batch in reader:
            yield pa.Table.from_batches([batch])


class _Guard(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Middleware that refuses calls without the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._wanted = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: Mapping[str, list[str | bytes]]) -> None:
        """Refuse a call whose header does not contain the token."""
        del info
        given = [
            value for name, values in headers.items() if name.lower() == "authorization" for value in values
        ]
        first = given[0] if len(given) == 1 else b""
        if not hmac.compare_digest(first.encode() if isinstance(first, str) else first, self._wanted):
            raise flight.FlightUnauthenticatedError("the call needs the header authorization: Bearer TOKEN")
