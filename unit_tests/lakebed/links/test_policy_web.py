"""Links that others chose make no connection that the policy does not allow, however they try."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from lakebed import config, limits
from lakebed.errors import (
    InvalidInputError,
    LakebedError,
    LimitError,
    UnableToReadFromUrlError,
    UnsafePathError,
)
from lakebed.links.fetch import fetch, fetch_part
from lakebed.links.http import HTTP
from lakebed.links.policy import Policy, allow_links, remember
from unit_tests.lakebed.links.payloads import (
    INSIDE,
    LOOPBACK,
    ODD,
    PORTS,
    PRIVATE,
    PUBLIC,
    REDIRECTS,
    SCHEMES,
)
from unit_tests.lakebed.links.server import Web, serving

SECRET = b"hush hush"
REMOTE = Policy("s3://bucket/dataset")
pytestmark = pytest.mark.usefixtures("nothing_allowed")


# -- hosts -------------------------------------------------------------------------------------------------------


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Iterator[Net]:
    """A world without network: names are those of the test, connections are noted and refused."""
    found = Net()
    monkeypatch.setattr(socket, "getaddrinfo", found.getaddrinfo)
    monkeypatch.setattr(socket.socket, "connect", lambda sock, address: found.connect(sock, address))
    yield found
    HTTP.close()


class Net:
    """Names and what they stand for, the next answer first; where somebody wanted to connect to."""

    def __init__(self) -> None:
        self.names: dict[str, list[list[str]]] = {
            "good.example": [[PUBLIC]],
            "localhost": [["127.0.0.1", "::1"]],
        }
        self.asked: list[str] = []
        self.connected: list[str] = []
        self._getaddrinfo, self._connect = socket.getaddrinfo, socket.socket.connect
        self.passing: set[str] = set()

    def getaddrinfo(self, host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        self.asked.append(host)
        answers = self.names.get(host)
        if answers is None:
            return self._getaddrinfo(host, port, *args, **{**kwargs, "flags": socket.AI_NUMERICHOST})
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        families = [socket.AF_INET6 if ":" in text else socket.AF_INET for text in addresses]
        return [(f, socket.SOCK_STREAM, 6, "", (a, port)) for f, a in zip(families, addresses, strict=True)]

    def connect(self, sock: socket.socket, address: tuple[str, int]) -> None:
        self.connected.append(address[0])
        if address[0] in self.passing:
            return self._connect(sock, address)
        raise ConnectionRefusedError(f"no network in tests: {address}")

    @property
    def forbidden(self) -> list[str]:
        """Connections to anything but the internet, by another judge than the one under test."""
        return [text for text in self.connected if not ipaddress.ip_address(text).is_global]


@pytest.mark.parametrize("place", LOOPBACK + PRIVATE + ODD + PORTS)
def test_no_connection_to_a_private_place(place: str, net: Net) -> None:
    """However it is spelled, with whatever port, whole or in part: nobody is connected to."""
    for url in (
        (f"http://{place}/x", f"https://{place}/x")
        if place in PORTS
        else (f"http://{place}/x", f"http://{place}:8080/x")
    ):
        for read in (
            lambda url=url: fetch(url, policy=REMOTE),
            lambda url=url: fetch_part(url, 0, 9, policy=REMOTE),
        ):
            with pytest.raises((OSError, LakebedError, ValueError)):
                read()
    assert net.forbidden == []


@pytest.mark.parametrize("address", INSIDE)
def test_names_of_private_places(address: str, net: Net) -> None:
    """A public name that stands for a private address, alone or among public ones."""
    for answer in ([address], [PUBLIC, address], [address, PUBLIC]):
        net.names = {"evil.example": [answer]}
        with pytest.raises(UnsafePathError, match="not a public address"):
            fetch("http://evil.example/x", policy=REMOTE)
    assert net.connected == []


@pytest.mark.parametrize("url", SCHEMES)
def test_other_schemes(url: str, net: Net) -> None:
    """Nothing but what is listed, in the process that links them too."""
    remember([url])
    with pytest.raises((UnsafePathError, InvalidInputError)):
        fetch(url, policy=REMOTE)
    with pytest.raises(UnsafePathError, match="LINK_SCHEMES"):
        REMOTE.scheme(url)
    assert net.connected == []


def test_public_places_are_asked(net: Net) -> None:
    """A policy that refuses everything would be none."""
    net.names["six.example"] = [["2606:2800:220:1:248:1893:25c8:1946"]]
    net.names["nat.example"] = [["64:ff9b::5db8:d822"]]
    for host in (
        "good.example",
        "GOOD.example.",
        "six.example:8443",
        "nat.example",
        f"{PUBLIC}:8080",
        "user:word@good.example",
    ):
        with pytest.raises(UnableToReadFromUrlError, match="no network in tests"):
            fetch(f"http://{host}/x y?z", policy=REMOTE)
    assert len(net.connected) == 6
    assert net.forbidden == []


def test_a_name_server_that_changes_its_mind(net: Net) -> None:
    """What was checked is what is connected to: the name is resolved once for each connection."""
    net.names["evil.example"] = [[PUBLIC], ["127.0.0.1"]]
    with pytest.raises(UnableToReadFromUrlError, match="no network"):
        fetch("http://evil.example/x", policy=REMOTE)
    assert (net.connected, net.asked) == ([PUBLIC], ["evil.example"])
    net.names["evil.example"] = [[PUBLIC], ["127.0.0.1"]]
    with pytest.raises(UnableToReadFromUrlError, match="no network"):
        fetch("https://evil.example/x", policy=REMOTE)
    with pytest.raises(UnsafePathError):
        fetch("http://evil.example/x", policy=REMOTE)
    assert net.forbidden == []


# -- servers that lead astray ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with serving({"/a": b"content", "/secret": SECRET}) as found:
        yield found


@pytest.fixture
def known(web: Web, net: Net) -> str:
    """Address of the server under a name that the user has allowed."""
    port = int(web.url.rpartition(":")[2])
    net.names |= {name: [["127.0.0.1"]] for name in ("known.example", "other.example")}
    net.passing = {"127.0.0.1"}
    allow_links(f"known.example:{port}")
    web.requests.clear()
    web.headers.clear()
    return f"http://known.example:{port}"


@pytest.mark.parametrize("where", REDIRECTS)
def test_redirects_are_checked(where: str, known: str, web: Web) -> None:
    """Each on its own, as if it was the link: an allowed server gives nothing away."""
    there = quote(where.replace("{port}", known.rpartition(":")[2]), safe="")
    for read in (fetch, lambda url, **how: fetch_part(url, 0, 4, **how)):
        with pytest.raises((UnsafePathError, UnableToReadFromUrlError)):
            read(f"{known}/to/{there}", policy=REMOTE)
    assert [path for path in web.requests if not path.startswith("/to/")] == []


def test_redirects_that_are_allowed(known: str, web: Web) -> None:
    """On the same server, and by a chain that is short enough; beyond that there is an end."""
    assert fetch(f"{known}/to/{quote('/a', safe='')}", policy=REMOTE) == b"content"
    assert fetch(f"{known}/redirect/5", policy=REMOTE) == b"arrived"
    with pytest.raises(UnableToReadFromUrlError, match="more than 5 times"):
        fetch(f"{known}/redirect/6", policy=REMOTE)
    # After steps that are fine, too.
    port = known.rpartition(":")[2]
    last = quote(f"http://127.0.0.1:{port}/secret", safe="")
    web.requests.clear()
    with pytest.raises(UnsafePathError):
        fetch(f"{known}/to/{quote(f'/to/{last}', safe='')}", policy=REMOTE)
    assert len(web.requests) == 2


def test_redirects_of_own_links(known: str, web: Web) -> None:
    """The user has linked a server, not what it redirects to; on itself it may."""
    port = known.rpartition(":")[2]
    own = f"http://127.0.0.1:{port}/redirect/2"
    astray = f"http://127.0.0.1:{port}/to/{quote(f'http://localhost:{port}/secret', safe='')}"
    remember([own, astray])
    assert fetch(own, policy=REMOTE) == b"arrived"
    with pytest.raises(UnsafePathError):
        fetch(astray, policy=REMOTE)
    with pytest.raises(UnsafePathError):
        fetch(f"http://127.0.0.1:{port}/secret", policy=REMOTE)
    assert "/secret" not in web.requests


def test_what_is_encrypted_stays_so() -> None:
    with pytest.raises(UnsafePathError, match="not encrypted"):
        REMOTE.check_downgrade("https://good.example/a", "http://good.example/a")
    REMOTE.check_downgrade("http://good.example/a", "https://good.example/a")


def test_connections_of_others_are_not_used(known: str, web: Web) -> None:
    """What the user reads himself leaves an idle connection behind, which no link may use."""
    port = known.rpartition(":")[2]
    url = f"http://127.0.0.1:{port}/a"
    assert fetch(url) == b"content"
    before = len(web.requests)
    with pytest.raises(UnsafePathError):
        fetch(url, policy=REMOTE)
    assert fetch(f"http://other.example:{port}/a") == b"content"
    with pytest.raises(UnsafePathError):
        fetch(f"http://other.example:{port}/a", policy=REMOTE)
    assert len(web.requests) == before + 1


def test_the_headers_of_a_user_go_where_he_says(known: str, web: Web) -> None:
    """A dataset chooses the address: the headers go there only if the credentials, or the settings, name its host."""
    port = known.rpartition(":")[2]
    creds: dict[str, Any] = {"headers": {"Authorization": "Bearer hush"}}
    assert fetch(f"{known}/a", policy=REMOTE, creds=creds) == b"content"
    assert web.headers[-1]["Authorization"] == "Bearer hush"
    config.LINK_HOSTS = (f"127.0.0.0/8:{port}",)
    for named in ([], ["good.example"], [f"other.example:{int(port) + 1}"]):
        with pytest.raises(UnsafePathError, match="hosts") as caught:
            fetch(f"http://other.example:{port}/a", policy=REMOTE, creds={**creds, "hosts": named})
        assert "hush" not in str(caught.value)
    assert len(web.requests) == 1
    fetch(f"http://other.example:{port}/a", policy=REMOTE, creds={**creds, "hosts": ["*.example"]})
    assert web.headers[-1]["Authorization"] == "Bearer hush"
    # Nor do they follow a redirect to another server.
    there = quote(f"http://known.example:{port}/a", safe="")
    fetch(f"http://other.example:{port}/to/{there}", policy=REMOTE, creds={**creds, "hosts": ["*.example"]})
    assert "Authorization" in web.headers[-2]
    assert "Authorization" not in web.headers[-1]


# -- proxies -----------------------------------------------------------------------------------------------------


def test_a_proxy_is_no_way_around(known: str, web: Web, net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy resolves names itself: what is private, or cannot be told, is not handed to it."""
    monkeypatch.setenv("http_proxy", web.url)
    config.LINK_HOSTS = ()
    net.names["inside.example"] = [["10.0.0.1"]]
    for host in (
        "127.0.0.1",
        "inside.example",
        "localhost",
        "0x7f.1",
        "only-the-proxy-knows.example",
        "169.254.169.254",
    ):
        with pytest.raises(UnsafePathError):
            fetch(f"http://{host}/secret", policy=REMOTE)
    assert web.requests == []
    net.names["good.example"] = [[PUBLIC]]
    assert fetch("http://good.example/a", policy=REMOTE) == b"content"
    assert web.requests == ["http://good.example/a"]
    allow_links("only-the-proxy-knows.example")
    assert fetch("http://only-the-proxy-knows.example/a", policy=REMOTE) == b"content"
    # The proxy sends us elsewhere: that is checked as well.
    with pytest.raises(UnsafePathError):
        fetch(f"http://good.example/to/{quote('http://10.0.0.1/secret', safe='')}", policy=REMOTE)
    assert "http://10.0.0.1/secret" not in web.requests


# -- limits ------------------------------------------------------------------------------------------------------


def test_limits_on_links(known: str, monkeypatch: pytest.MonkeyPatch, net: Net) -> None:
    """Size and time are bounded, the time of name servers too."""
    with pytest.raises(UnableToReadFromUrlError, match="timed out"):
        fetch(f"{known}/drip", policy=REMOTE, timeout=0.2)
    monkeypatch.setattr(limits, "MAX_FETCH_BYTES", 3)
    with pytest.raises(LimitError):
        fetch(f"{known}/a", policy=REMOTE)
    with pytest.raises(LimitError):
        fetch_part(f"{known}/a", 0, 9, policy=REMOTE)
    done = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: done.wait(20) and [])
    with pytest.raises(UnableToReadFromUrlError, match="not found in time"):
        fetch("http://slow.example/x", policy=REMOTE, timeout=0.1)
    done.set()
