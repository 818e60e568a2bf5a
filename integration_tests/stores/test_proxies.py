"""The proxies do what they say: figures that were measured through them stand on that."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from integration_tests.stores import servers
from integration_tests.stores.servers import Web

SIZE = 4_000_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A large and a small file."""
    folder = tmp_path_factory.mktemp("proxies")
    (folder / "large").write_bytes(bytes(SIZE))
    (folder / "small").write_bytes(b"12345")
    with servers.web(folder) as site:
        yield site


def seconds(address: str) -> float:
    """Return how long a download takes."""
    began = time.monotonic()
    with urllib.request.urlopen(address, timeout=30) as answer:
        answer.read()
    return time.monotonic() - began


def test_latency_comes_once_however_long_the_answer_is(site: Web) -> None:
    """For the connection, and for the answer; not for each block of it."""
    with servers.faults(site.endpoint) as network:
        network.set(latency=0.2)
        for name in ("small", "large"):
            assert 0.4 <= seconds(f"{network.endpoint}/{name}") < 3.0


@pytest.mark.parametrize("rate", [4_000_000.0, 8_000_000.0])
def test_no_more_bytes_come_than_the_rate_allows(site: Web, rate: float) -> None:
    """And not many fewer: the best of a few is within five per cent, on a machine that is not too busy to show it."""
    with servers.faults(site.endpoint) as network:
        network.set(rate=rate)
        times = [seconds(f"{network.endpoint}/large") for _ in range(3)]
        while min(times) > 1.05 * SIZE / rate + 0.02 and len(times) < 30:
            times.append(seconds(f"{network.endpoint}/large"))
    assert sorted(times)[len(times) // 2] > 0.95 * SIZE / rate
    assert min(times) < 1.5 * SIZE / rate


def test_a_fault_strikes_whom_it_is_meant_for(site: Web) -> None:
    """So often as it is meant to, and only there."""
    with servers.faults(site.endpoint) as network:
        network.set(reset_after=100, only="GET /large", times=2)
        assert seconds(f"{network.endpoint}/small") < 5
        for _ in range(2):
            with pytest.raises((ConnectionError, urllib.error.URLError)):
                seconds(f"{network.endpoint}/large")
        assert seconds(f"{network.endpoint}/large") < 5
        assert network.hits == 2


def test_requests_are_noted(site: Web) -> None:
    """What was asked for, what came, and what was answered in the server's place."""
    with servers.counting(site.endpoint) as book:
        ranged = urllib.request.Request(f"{book.endpoint}/large", headers={"Range": "bytes=5-104"})
        with urllib.request.urlopen(ranged) as answer:
            assert len(answer.read()) == 100
        book.answer(503, "busy", only="/small")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            seconds(f"{book.endpoint}/small")
        seconds(f"{book.endpoint}/small")
        seen = [(r.method, r.path, r.range, r.status, r.bytes) for r in book.requests]
    assert seen == [
        ("GET", "/large", "bytes=5-104", 206, 100),
        ("GET", "/small", "", 503, 4),
        ("GET", "/small", "", 200, 5),
    ]
