"""``lakebed serve``: clients of Arrow Flight read what the datasets of a place hold, and nothing else."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyarrow import flight

import lakebed
from lakebed.cli import main
from lakebed.errors import InvalidInputError
from lakebed.flight import LakeServer, Wanted

TOKEN = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer secret")])
ROWS = 200_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lake")
    ds = lakebed.empty(place / "in/photos")
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("kind", htype="class_label", class_names=["cat", "dog"])
    ds.extend({"x": list(range(ROWS)), "kind": [0, 1] * (ROWS // 2)})
    ds.commit()
    ds.append({"x": -1, "kind": 1})
    ds.commit()
    lakebed.empty(place / "in/others").create_tensor("y", dtype="int64").extend([1, 2, 3])
    lakebed.empty(place / "outside").create_tensor("z", dtype="int64").append(0)
    return place


@pytest.fixture(scope="module")
def client(lake: Path) -> Iterator[flight.FlightClient]:
    with (
        LakeServer(lake / "in", "grpc://127.0.0.1:0", "secret") as server,
        flight.connect(f"grpc://127.0.0.1:{server.port}") as found,
    ):
        yield found


def test_datasets_are_listed_and_read(client: flight.FlightClient, lake: Path) -> None:
    listed = {info.descriptor.path[0].decode(): info for info in client.list_flights(options=TOKEN)}
    assert {name: info.total_records for name, info in listed.items()} == {"photos": ROWS + 1, "others": 3}
    assert [i.descriptor.path for i in client.list_flights(b"oth", TOKEN)] == [[b"others"]]
    expected = lakebed.load(lake / "in/photos").to_arrow()
    assert client.do_get(listed["photos"].endpoints[0].ticket, TOKEN).read_all().equals(expected)
    for given in (flight.FlightDescriptor.for_path("photos"), flight.FlightDescriptor.for_command(b"photos")):
        assert client.get_schema(given, TOKEN).schema.equals(expected.schema)


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ({"dataset": "photos", "columns": ["kind"]}, [{"kind": "cat"}, {"kind": "dog"}]),
        ({"dataset": "photos", "query": "SELECT x WHERE kind = 'dog' LIMIT 2"}, [{"x": 1}, {"x": 3}]),
        (
            {"dataset": "photos", "query": "SELECT kind, COUNT(*) AS n GROUP BY kind"},
            [{"kind": "cat", "n": ROWS // 2}, {"kind": "dog", "n": ROWS // 2 + 1}],
        ),
        (
            {
                "dataset": "others",
                "query": 'SELECT a.x AS x FROM "photos" AS a JOIN "others" AS b ON a.x = b.y',
            },
            [{"x": 1}, {"x": 2}],
        ),
    ],
)
def test_columns_and_queries(
    client: flight.FlightClient, asked: dict[str, object], rows: list[dict[str, object]]
) -> None:
    info = client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(asked)), TOKEN)
    found = client.do_get(info.endpoints[0].ticket, TOKEN).read_all()
    assert found.slice(0, 2).to_pylist() == rows
    assert info.total_records == len(found)
    assert info.schema.equals(found.schema)


@pytest.mark.parametrize(
    ("ticket", "told"),
    [
        *(
            (bad, "does not name a dataset")
            for bad in (b"../outside", b"/in/photos", b"a//b", b"file:/x", b"a\\..\\b")
        ),
        (b'{"dataset": "photos", "query": "SELECT z FROM \\"../outside\\""}', "does not name a dataset"),
        *((bad, "does not name a dataset") for bad in (b"%2e%2e/outside", b"a/.%2e/outside")),
        *((bad, "does not exist") for bad in (b"nothing", b"x@y/../../outside", b".@x/../outside")),
        (b"photos@nothing", "not found"),
        (b'{"dataset": "photos", "columns": ["no"]}', "no column 'no'"),
        (b'{"dataset": "photos", "query": "SELECT"}', "SELECT"),
        *((bad, "a ticket is") for bad in (b"{}", b'{"dataset": 1}', b'{"dataset": "a", "more": 1}')),
        (b'{"dataset": "photos", "columns": ["x"], "query": "SELECT x"}', "a ticket is"),
        *((bad, "is not JSON") for bad in (b"{", b"\xff", b'{"a":' * 100_000)),
        (b" " * (1 << 20) + b"photos", "a ticket is"),
    ],
)
def test_tickets_that_are_refused(client: flight.FlightClient, ticket: bytes, told: str) -> None:
    with pytest.raises(flight.FlightServerError, match=told) as caught:
        client.do_get(flight.Ticket(ticket), TOKEN).read_all()
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    "headers", [[], [b"Bearer other"], [b"secret"], [b"Bearer secret", b"Bearer secret"]]
)
def test_calls_without_the_token_are_refused(client: flight.FlightClient, headers: list[bytes]) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", value) for value in headers])
    for call in (
        lambda: client.do_get(flight.Ticket(b"photos"), options).read_all(),
        lambda: list(client.list_flights(options=options)),
        lambda: client.get_schema(flight.FlightDescriptor.for_path("photos"), options),
    ):
        # get_schema of pyarrow raises OSError.
        with pytest.raises((flight.FlightUnauthenticatedError, OSError), match="needs the header"):
            call()


def test_the_dataset_itself_and_damage_while_it_is_read(tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64", max_chunk_size=1 << 16).extend(list(range(ROWS)))
    ds.commit()
    with (
        LakeServer(tmp_path / "ds", "grpc://127.0.0.1:0", "secret") as server,
        flight.connect(f"grpc://127.0.0.1:{server.port}") as client,
    ):
        assert client.do_get(flight.Ticket(b"."), TOKEN).read_all().num_rows == ROWS
        chunks = sorted((tmp_path / "ds").rglob("x/chunks/*"))
        for path in chunks[1:]:
            path.write_bytes(path.read_bytes()[:100])
        with pytest.raises(flight.FlightServerError, match="tensor 'x'") as caught:
            client.do_get(flight.Ticket(b"."), TOKEN).read_all()
        assert not re.search(r"Traceback|\.py|_told", str(caught.value))


def test_tickets_read_back() -> None:
    for wanted in (Wanted("a@b"), Wanted("a", ("x", "y")), Wanted("a", query="SELECT é"), Wanted("a", ())):
        assert Wanted.parse(wanted.ticket()) == wanted
    with pytest.raises(InvalidInputError):
        Wanted.parse(b'{"dataset": null}')


def test_the_command_serves_until_it_is_interrupted(lake: Path) -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", "from lakebed.cli import main; main()", "serve", str(lake), "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LAKEBED_SERVE_TOKEN": "secret"},
    )
    with started:
        assert started.stdout is not None
        address = json.loads(started.stdout.readline())["address"]
        with flight.connect(address) as client:
            assert client.do_get(flight.Ticket(b"in/others@main"), TOKEN).read_all()["y"].to_pylist() == [
                1,
                2,
                3,
            ]
        started.send_signal(signal.SIGINT)
        assert started.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["--host", "0.0.0.0"], "needs --certificate and --key"), (["--key", "KEY"], "go together")],
)
def test_the_network_needs_a_certificate(tmp_path: Path, arguments: list[str], told: str) -> None:
    key = tmp_path / "key"
    key.touch()
    given = [str(key) if one == "KEY" else one for one in arguments]
    found = CliRunner().invoke(main, ["serve", str(tmp_path), *given])
    assert found.exit_code == 2
    assert told in found.output
