"""Links that others chose lead nowhere but where the policy allows: files, buckets, what may be allowed."""

from __future__ import annotations

import ipaddress
import os
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from lakebed import config
from lakebed.errors import (
    InvalidInputError,
    LakebedError,
    UnsafePathError,
)
from lakebed.links import policy as policies
from lakebed.links.fetch import fetch, fetch_part
from lakebed.links.networks import hosts, is_public, plain_host
from lakebed.links.policy import Policy, allow_links, is_remembered, remember
from unit_tests.lakebed.links.payloads import (
    NO_OBJECTS,
    OBJECTS,
    TRAVERSALS,
)

SECRET = b"hush hush"
REMOTE = Policy("s3://bucket/dataset")
pytestmark = pytest.mark.usefixtures("nothing_allowed")


# -- files -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with files and treacherous links in it, secrets around it."""
    top = tmp_path_factory.mktemp("places").resolve()
    ds = top / "ds"
    (ds / "sub").mkdir(parents=True)
    (ds / "ok.txt").write_bytes(b"fine")
    (ds / "sub" / "ok.txt").write_bytes(b"fine")
    for folder in (top, top / "ds-evil", top / "home", top / "outside"):
        folder.mkdir(exist_ok=True)
        (folder / "secret").write_bytes(SECRET)
    (ds / "to_file").symlink_to(top / "secret")
    (ds / "to_relative").symlink_to("../secret")
    (ds / "to_folder").symlink_to(top / "outside")
    (ds / "to_top").symlink_to("/")
    (ds / "to_chain").symlink_to("to_file")
    (ds / "sub" / "up").symlink_to("../..")
    (ds / "to_process").symlink_to("/proc/self/root")
    (ds / "inside").symlink_to("ok.txt")
    os.mkfifo(ds / "pipe")
    return top


@pytest.mark.parametrize("payload", TRAVERSALS)
def test_no_byte_from_outside_the_dataset(
    payload: str, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever way a path is spelled: whole or in part, nothing is read."""
    monkeypatch.chdir(places / "ds")
    monkeypatch.setenv("HOME", str(places / "home"))
    top, ds = str(places), str(places / "ds")
    url = payload.replace("{top}", top).replace("{ds}", ds).replace("{quoted}", quote(top + "/", safe=""))
    policy = Policy(ds)
    for read in (lambda: fetch(url, policy=policy), lambda: fetch_part(url, 0, 5, policy=policy).data):
        with pytest.raises((OSError, LakebedError, ValueError)):
            read()


@pytest.mark.parametrize("dataset", ["s3://bucket/ds", "mem://ds", "https://host/ds", ""])
def test_a_dataset_elsewhere_has_no_files_here(dataset: str, places: Path) -> None:
    """Not even below the working directory."""
    for url in (str(places / "ds" / "ok.txt"), "ok.txt", f"file://{places}/ds/ok.txt"):
        with pytest.raises(UnsafePathError, match="allow_links"):
            fetch(url, policy=Policy(dataset))


def test_files_of_the_dataset(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own files are read, by relative paths from the working directory too, and by links that stay inside."""
    monkeypatch.chdir(places / "ds")
    policy = Policy(str(places / "ds"))
    for url in (
        "ok.txt",
        "sub/../ok.txt",
        "inside",
        str(places / "ds/sub/ok.txt"),
        f"file://{places}/ds/ok.txt",
    ):
        assert fetch(url, policy=policy) == b"fine"
        part = fetch_part(url, 1, 9, policy=policy)
        assert (part.data, part.total) == (b"ine", 4)
    through = places / "outside" / "way in"
    through.symlink_to(places / "ds")
    assert fetch(f"{through}/ok.txt", policy=policy) == b"fine"
    through.unlink()


def test_whether_a_forbidden_file_exists_is_not_told(places: Path) -> None:
    """The same error for a file that is there and one that is not."""
    policy = Policy(str(places / "ds"))
    told = []
    for name in ("secret", "nobody"):
        with pytest.raises(UnsafePathError) as caught:
            fetch(str(places / name), policy=policy)
        told.append(str(caught.value).replace(name, ""))
    assert told[0] == told[1]
    with pytest.raises(FileNotFoundError):
        fetch(str(places / "ds" / "nobody"), policy=policy)


@pytest.mark.parametrize("swapped", ["x", "way/secret"])
def test_a_link_that_changes_while_it_is_checked(swapped: str, tmp_path: Path) -> None:
    """What is read is what was checked, however fast somebody swaps it."""
    ds, outside = tmp_path / "ds", tmp_path / "outside"
    for folder in (ds / "good", outside):
        folder.mkdir(parents=True)
    (ds / "good" / "secret").write_bytes(b"fine")
    (outside / "secret").write_bytes(SECRET)
    targets = (ds / "good/secret", outside / "secret") if swapped == "x" else (ds / "good", outside)
    victim = ds / swapped.split("/", maxsplit=1)[0]
    victim.symlink_to(targets[0])
    stop = threading.Event()

    def swap() -> None:
        for number in range(10**9):
            if stop.is_set():
                return
            (tmp_path / "next").symlink_to(targets[number % 2])
            os.replace(tmp_path / "next", victim)  # noqa: PTH105

    thread = threading.Thread(target=swap)
    thread.start()
    found = {"fine": 0, "refused": 0}
    try:
        for _ in range(1500):
            try:
                assert fetch(str(ds / swapped), policy=Policy(str(ds))) == b"fine"
                found["fine"] += 1
            except UnsafePathError:
                found["refused"] += 1
    finally:
        stop.set()
        thread.join()
    assert min(found.values()) > 0, found


def test_allowed_folders(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root opens itself and what is below, and nothing whose name only begins like it."""
    allow_links(places / "outside")
    for policy in (REMOTE, Policy(str(places / "ds"))):
        assert fetch(str(places / "outside" / "secret"), policy=policy) == SECRET
        assert fetch(str(places / "ds" / "to_folder" / "secret"), policy=policy) == SECRET
        with pytest.raises(UnsafePathError):
            fetch(str(places / "secret"), policy=policy)
    monkeypatch.setattr(config, "LINK_ROOTS", (str(places / "out"), "/"))
    assert fetch(str(places / "secret"), policy=REMOTE) == SECRET


def test_what_can_be_allowed(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders as paths, hosts as names and networks, each once; what is neither is an error that names it."""
    monkeypatch.chdir(places)
    allow_links(
        "outside", places / "ds", "10.1.0.0/16", "Nas", "*.example.org", "[fd00::1]:80", "localhost:8000"
    )
    allow_links("nas.local", "./outside")
    assert config.LINK_ROOTS[:1] == (str(places / "ds"),)
    assert "10.1.0.0/16" in config.LINK_HOSTS
    for bad in ("/no/such/folder", "", "a b", "*.*", "host:port"):
        with pytest.raises(InvalidInputError):
            allow_links(bad)


# -- links of this process ---------------------------------------------------------------------------------------


def test_own_links_are_followed(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process has appended it reads, in whatever dataset: exactly that file, and not its neighbours."""
    monkeypatch.chdir(places)
    remember([str(places / "secret"), "outside/secret", f"file://{places}/home/secret"])
    for url in (str(places / "secret"), "outside/secret", f"file://{places}/home/secret"):
        assert fetch(url, policy=REMOTE) == SECRET
    (places / "other").write_bytes(SECRET)
    for url in ("other", f"{places}/./secret", f"file://{places}/secret", f"{places}/home/secret"):
        with pytest.raises(UnsafePathError):
            fetch(url, policy=REMOTE)
    monkeypatch.chdir(places / "ds")
    with pytest.raises(UnsafePathError):
        fetch("outside/secret", policy=REMOTE)


def test_many_links_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old and new ones, until there are too many: then the oldest go."""
    monkeypatch.setattr(policies, "_REMEMBERED", 2000)
    for first in range(0, 900, 10):
        remember([f"/a/{number}" for number in range(first, first + 10)])
        assert is_remembered(f"/a/{first}")
    assert all(is_remembered(f"/a/{number}") for number in range(900))
    assert not is_remembered("/a/900")
    for _ in range(2):
        remember([f"/b/{number}" for number in range(5000)])
    remember(["/c"])
    assert is_remembered("/c")
    assert is_remembered("/b/4999")
    assert not is_remembered("/a/0")


# -- buckets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("url", "place"), OBJECTS)
def test_names_in_buckets(url: str, place: tuple[str, str, str]) -> None:
    assert REMOTE.cloud(url) == place


@pytest.mark.parametrize("url", NO_OBJECTS)
def test_names_that_could_lead_out_of_a_bucket(url: str) -> None:
    """Neither a host in the bucket's name nor another bucket in the key."""
    with pytest.raises(UnsafePathError):
        REMOTE.cloud(url)


# -- parts -------------------------------------------------------------------------------------------------------


def test_hosts_that_are_allowed() -> None:
    """Names, patterns and networks, each with a port if it says so."""
    found = hosts(
        ("nas", "*.example.org", "10.1.0.0/16", "fd00::/8", "[::1]:8000", "localhost:8000", "192.168.1.5")
    )
    assert found.names_host("nas", 80)
    assert found.names_host("a.example.org", 80)
    assert not found.names_host("example.org", 80)
    assert not found.names_host("evilexample.org", 80)
    assert found.names_host("localhost", 8000)
    assert not found.names_host("localhost", 8001)
    asked: Callable[[str, int], bool] = lambda text, port: found.has_address(ipaddress.ip_address(text), port)  # noqa: E731
    assert asked("10.1.2.3", 80)
    assert asked("::ffff:10.1.2.3", 80)
    assert not asked("10.2.0.1", 80)
    assert asked("fd12::1", 1)
    assert asked("::1", 8000)
    assert not asked("::1", 80)
    assert not asked("127.0.0.1", 8000)


def test_special_addresses_are_not_public() -> None:
    """At the edges of every range; nothing that Python calls private is public here."""
    for text in (
        "9.255.255.255",
        "11.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "223.255.255.255",
        "2600::1",
    ):
        assert is_public(ipaddress.ip_address(text))
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "192.168.0.0/16",
        "224.0.0.0/3",
        "fc00::/7",
        "fe80::/10",
    ):
        found = ipaddress.ip_network(network)
        assert not is_public(found[0])
        assert not is_public(found[-1])
    for number in range(0, 1 << 32, 104_729 * 7):
        address = ipaddress.IPv4Address(number)
        assert not is_public(address) or not address.is_private


def test_one_spelling_of_hosts() -> None:
    assert plain_host("EXAMPLE.org.") == "example.org"
    assert plain_host("bücher.example") == "xn--bcher-kva.example"
    assert plain_host("0:0:0:0:0:0:0:1") == "::1"
    for odd in ("127.1", "0x7f.0.0.1", "0177.0.0.1", "1", "a..b", "", "a b", "-a.b", "1.2.3.4.5"):
        with pytest.raises(ValueError, match=r".*"):
            plain_host(odd)
