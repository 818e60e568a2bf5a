"""Bytes of files: local paths, file:// and the web."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed import limits
from lakebed.errors import LimitError, UnableToReadFromUrlError, UnsupportedUrlError
from lakebed.links.fetch import fetch, fetch_part
from lakebed.storage.address import scheme_of, shown
from unit_tests.lakebed.links.server import Web, serving


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with serving({"/a.bin": bytes(range(256)) * 1000, "/with space.bin": b"spaced"}) as found:
        yield found


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


# -- local -------------------------------------------------------------------------------------------------------------


def test_local_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absolute and relative paths, file:// addresses with escapes, names that look odd."""
    path = tmp_path / "an odd%20näme.bin"
    path.write_bytes(b"content")
    assert fetch(str(path)) == b"content"
    assert fetch(path.as_uri()) == b"content"
    assert fetch("file://localhost" + path.as_uri()[7:]) == b"content"
    monkeypatch.chdir(tmp_path)
    assert fetch(path.name) == b"content"
    monkeypatch.chdir("/")
    with pytest.raises(FileNotFoundError):
        fetch(path.name)
    with pytest.raises(OSError, match="another machine"):
        fetch("file://host/a")


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    """Folders and pipes are refused; a pipe without writer does not hang."""
    with pytest.raises(IsADirectoryError):
        fetch(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular"):
        fetch(str(tmp_path / "pipe"))
    with pytest.raises(OSError, match="regular"):
        fetch("/dev/zero")


def test_files_of_any_size_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty files are files; larger ones than allowed are refused by their size; sizes that lie do not matter."""
    (tmp_path / "empty").write_bytes(b"")
    assert fetch(str(tmp_path / "empty")) == b""
    assert fetch("/proc/self/cmdline")  # the size that the system tells is 0
    (tmp_path / "big").write_bytes(bytes(1000))
    monkeypatch.setattr(limits, "MAX_FETCH_BYTES", 999)
    with pytest.raises(LimitError) as caught:
        fetch(str(tmp_path / "big"))
    assert caught.value.limit == "MAX_FETCH_BYTES"


def test_reading_many_files_costs_little_more_than_their_bytes(tmp_path: Path) -> None:
    """Thousands of local files: one open, one read, one close each."""
    paths = [str(tmp_path / f"{number}.bin") for number in range(300)]
    for path in paths:
        Path(path).write_bytes(b"x" * 2000)

    def plain(path: str) -> bytes:
        handle = os.open(path, os.O_RDONLY)
        try:
            return os.read(handle, 1 << 20)
        finally:
            os.close(handle)

    def cost(read: object) -> float:
        assert callable(read)
        best = float("inf")
        for _ in range(5):
            started = time.process_time()
            for path in paths:
                read(path)
            best = min(best, time.process_time() - started)
        return best

    assert cost(fetch) < 4 * cost(plain) + 0.01


# -- the web -----------------------------------------------------------------------------------------------------------


def test_web_files(web: Web) -> None:
    """Content of any length; names with spaces; queries go along."""
    assert fetch(f"{web.url}/a.bin") == web.files["/a.bin"]
    assert fetch(f"{web.url}/with space.bin") == b"spaced"
    assert fetch(f"{web.url}/a.bin?token=x%20y") == web.files["/a.bin"]
    assert web.requests[-1] == "/a.bin?token=x%20y"


def test_connections_are_used_again(web: Web) -> None:
    """One connection serves many requests, until the server closes it; then there is another."""
    fetch(f"{web.url}/a.bin")
    before = web.connections
    for _ in range(10):
        fetch(f"{web.url}/a.bin")
    assert web.connections == before
    for kind in ("close", "drop"):
        assert fetch(f"{web.url}/{kind}")
        assert fetch(f"{web.url}/a.bin") == web.files["/a.bin"]


def test_redirects(web: Web) -> None:
    """Up to five are followed, within the web only."""
    assert fetch(f"{web.url}/redirect/5") == b"arrived"
    with pytest.raises(UnableToReadFromUrlError, match="more than 5 times"):
        fetch(f"{web.url}/redirect/6")
    with pytest.raises(UnableToReadFromUrlError, match="not a web address"):
        fetch(f"{web.url}/ftp")


def test_headers_of_credentials(web: Web) -> None:
    """Credentials may be headers."""
    fetch(f"{web.url}/a.bin", creds={"headers": {"Authorization": "Bearer secret"}})
    assert web.headers[-1]["Authorization"] == "Bearer secret"


def test_answers_that_are_no_file(web: Web) -> None:
    """A missing file is an error at once with its status; a server in trouble is asked again."""
    before = len(web.requests)
    with pytest.raises(UnableToReadFromUrlError, match="404") as caught:
        fetch(f"{web.url}/none")
    assert caught.value.status == 404
    assert len(web.requests) == before + 1
    web.failures = 2
    assert fetch(f"{web.url}/fail") == b"recovered"
    web.failures = 9
    with pytest.raises(UnableToReadFromUrlError, match="503"):
        fetch(f"{web.url}/fail")
    assert web.failures == 6
    web.failures = 0


def test_answers_that_end_early(web: Web) -> None:
    """Fewer bytes than promised are no file."""
    with pytest.raises(UnableToReadFromUrlError):
        fetch(f"{web.url}/short", timeout=2)


def test_time_is_bounded(web: Web) -> None:
    """The timeout is for everything together: a server that drips bytes does not hold us."""
    started = time.monotonic()
    with pytest.raises(UnableToReadFromUrlError, match="timed out"):
        fetch(f"{web.url}/drip", timeout=0.3)
    assert time.monotonic() - started < 4.5  # it drips for 5 s


def test_size_is_bounded(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """The promised length is compared before the content is read."""
    monkeypatch.setattr(limits, "MAX_FETCH_BYTES", 1000)
    with pytest.raises(LimitError):
        fetch(f"{web.url}/a.bin")


def test_nobody_answers() -> None:
    """No server, no host, no sense."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
        with pytest.raises(UnableToReadFromUrlError) as caught:
            fetch(url, timeout=5)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    for bad in ("http:///x", "http://[::1/x", "http://127.0.0.1:99999/x"):
        with pytest.raises(UnableToReadFromUrlError):
            fetch(bad)


def test_a_proxy_is_asked_where_the_environment_names_one(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request goes to the proxy, with the whole address in it."""
    monkeypatch.setenv("http_proxy", web.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert fetch("http://lakebed.invalid/a.bin") == web.files["/a.bin"]
    assert web.requests[-1] == "http://lakebed.invalid/a.bin"
    with pytest.raises(UnableToReadFromUrlError) as caught:
        fetch("http://lakebed.invalid/none")
    assert caught.value.status == 404


# -- which addresses ---------------------------------------------------------------------------------------------------


def test_schemes() -> None:
    """A path has none; what nothing reads is refused by name."""
    assert scheme_of("/a/b") == scheme_of("a:b") == scheme_of("C:/x") == scheme_of("file:///a") == "file"
    assert scheme_of("HTTPS://a/b") == "https"
    with pytest.raises(UnsupportedUrlError, match=r"ftp.*az, azure, file, gcs, gs, http, https, s3"):
        fetch("ftp://host/file")


def test_secrets_are_not_shown() -> None:
    """Messages show addresses without user, password and query."""
    assert shown("https://user:password@host/a?signature=secret#x") == "https://host/a?..."
    assert shown("/a/b?c") == "/a/b?c"
    with pytest.raises(UnableToReadFromUrlError) as caught:
        fetch("http://user:hunter2@127.0.0.1:1/x?signature=secret", timeout=2)
    assert "hunter2" not in str(caught.value)
    assert "secret" not in str(caught.value)


# -- parts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["", "/whole", "/chunked"])
def test_parts_of_web_files(web: Web, kind: str) -> None:
    """Any range of a file, fewer bytes at its end, also from servers that know no ranges or no lengths."""
    content = web.files["/a.bin"]
    for start, length in (
        (0, 10),
        (5, 70_000),
        (len(content) - 3, 10),
        (len(content), 5),
        (len(content) + 9, 5),
        (7, 0),
    ):
        part = fetch_part(f"{web.url}{kind}/a.bin", start, length)
        assert part.data == content[start : start + length]
        assert part.total in ({len(content)} if kind != "/chunked" else {None})
    assert web.headers[-1]["Range"] == "bytes=7-7"


def test_parts_use_connections_again(web: Web) -> None:
    """A part by range leaves the connection usable."""
    fetch_part(f"{web.url}/a.bin", 0, 10)
    before = web.connections
    for start in range(10):
        fetch_part(f"{web.url}/a.bin", start, 1000)
    assert web.connections == before


def test_parts_of_one_file(web: Web, tmp_path: Path) -> None:
    """The tag of one part is that of the others, until the file is replaced."""
    (tmp_path / "x").write_bytes(b"0123456789")
    web.files["/x"] = b"0123456789"
    for url, replace in (
        (f"{web.url}/x", lambda: web.files.update({"/x": b"9876543210"})),
        (str(tmp_path / "x"), lambda: (tmp_path / "x").write_bytes(b"98765")),
    ):
        first = fetch_part(url, 0, 4)
        assert (first.data, first.total) == (b"0123", 10)
        assert fetch_part(url, 4, 4, tag=first.tag).data == b"4567"
        replace()
        with pytest.raises(OSError, match="replaced"):
            fetch_part(url, 4, 4, tag=first.tag)


def test_answers_that_are_not_the_part(web: Web) -> None:
    """Another range than the one asked for, or a compressed one, is no answer."""
    for kind in ("wrong-range", "zipped"):
        with pytest.raises(UnableToReadFromUrlError, match=r"were requested|compressed"):
            fetch_part(f"{web.url}/{kind}", 5, 5)
    with pytest.raises(UnableToReadFromUrlError, match="compressed"):
        fetch(f"{web.url}/zipped")


def test_an_encrypted_server_behind_a_proxy(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy is asked for a tunnel; one that refuses is an error that says so."""
    monkeypatch.setenv("https_proxy", web.url.replace("//", "//user:word@"))
    with pytest.raises(UnableToReadFromUrlError, match="proxy answers"):
        fetch("https://lakebed.invalid/a.bin")
    assert web.requests[-1] == "lakebed.invalid:443"
    assert web.headers[-1]["Proxy-Authorization"] == "Basic dXNlcjp3b3Jk"
    monkeypatch.setenv("https_proxy", "socks5://localhost:1")
    with pytest.raises(UnableToReadFromUrlError, match="not supported"):
        fetch("https://lakebed.invalid/a.bin")
