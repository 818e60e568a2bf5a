"""`lakebed creds`: what it stores, what it shows and what it never shows."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main
from lakebed.credentials.base import plain
from lakebed.credentials.named import forget, look_up, named
from lakebed.storage.credentials import Given
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.no_credentials import InMemory, keeping, nobody_knows

CANARY = "c4n4ry"
KEYS = {"aws_access_key_id": "id", "aws_secret_access_key": CANARY}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the file goes."""
    with nobody_knows(tmp_path / "config" / "credentials.toml", monkeypatch) as found:
        yield found


def run(*arguments: str, given: Any = None, status: int = 0) -> Result:
    """Run a command with JSON on its standard input; no output of it shows a secret."""
    text = given if isinstance(given, str) else "" if given is None else json.dumps(given)
    result = CliRunner().invoke(main, ["creds", *arguments], input=text)
    assert result.exit_code == status, result.output
    assert CANARY not in result.output
    forget()
    return result


def held(name: str) -> dict[str, Any]:
    found = look_up(name).found
    assert isinstance(found, Given)
    return plain(found)


def test_credentials_are_stored_and_listed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no credentials" in run("list").output
    done = run(
        "set",
        "lab",
        "-o",
        "endpoint_url=http://lab:9000",
        "-o",
        "urls=s3://a/,s3://b/",
        "-o",
        "ttl=5",
        given=KEYS,
    )
    assert done.output == f"stored 'lab' in the file {place}\n"
    assert held("lab") == {
        "endpoint_url": "http://lab:9000",
        "urls": ["s3://a/", "s3://b/"],
        "ttl": 5.0,
        **KEYS,
    }
    assert place.stat().st_mode & 0o777 == 0o600
    run("set", "prod", "-o", "provider=aws-default", "-o", "profile_name=p")
    run("set", "bad", "-o", "provider=aws-secretsmanager")
    monkeypatch.setenv("LAKEBED_CREDS_LAB", json.dumps(KEYS))
    rows = json.loads(run("list", "--json").output)
    assert [(row["name"], row["provider"]) for row in rows] == [
        ("LAB", "environment"),
        ("bad", "file"),
        ("lab", "file"),
        ("prod", "file"),
    ]
    assert [row["state"].partition(":")[0] for row in rows] == ["ok", "InvalidInputError", "ok", "ok"]
    assert "warning: the environment has 'lab' too" in run("set", "lab", given=KEYS).output
    run("remove", "prod")
    assert "nothing is stored under 'prod'" in run("remove", "prod", status=1).output


def test_the_keyring_keeps_credentials_too(place: Path) -> None:
    ring = InMemory()
    with keeping(ring):
        assert run("set", "lab", "--keyring", given=KEYS).output == "stored 'lab' in the keyring\n"
        assert (held("lab"), place.exists()) == (KEYS, False)
        rows = json.loads(run("list", "--json").output)
        assert rows == [{"name": "lab", "provider": "keyring", "state": "ok"}]
        run("rotate", "lab", given={**KEYS, "aws_access_key_id": "other"})
        assert held("lab")["aws_access_key_id"] == "other"
        run("rotate", "lab", "--back")
        assert (held("lab"), place.exists()) == (KEYS, False)
        run("remove", "lab", "--keyring")
        assert "no credentials" in run("list").output
    assert "StorageUnavailableError" not in run("set", "lab", "--keyring", given=KEYS, status=1).output


@pytest.mark.parametrize(
    ("arguments", "given", "status"),
    [
        (("set", "lab"), None, 2),
        (("set", "lab"), CANARY, 1),
        (("set", "lab"), [CANARY], 1),
        (("set", "lab"), {"a": [{"b": CANARY}]}, 1),
        (("set", "lab", "-o", f"aws_secret_access_key={CANARY}"), KEYS, 2),
        (("set", "lab", "-o", f"endpoint_url=http://me:{CANARY}@lab"), KEYS, 2),
        (("set", "lab", "-o", "endpoint_url"), KEYS, 2),
        (("set", "lab", "-o", "provider=none"), KEYS, 2),
        (("set", "lab", "-o", "ttl=x"), KEYS, 2),
        (("set", ""), KEYS, 1),
        (("rotate", "lab"), KEYS, 1),
        (("test", "lab", "s3://bucket"), None, 1),
    ],
)
def test_what_makes_no_sense_is_refused(
    place: Path, arguments: tuple[str, ...], given: Any, status: int
) -> None:
    run(*arguments, given=given, status=status)
    assert not place.exists()


def test_names_of_a_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them lead to credentials here; the exit status says whether all do."""
    ds = lakebed.empty(tmp_path / "ds")
    assert "no names" in run("list", ds.path).output
    monkeypatch.setenv("LAKEBED_CREDS_A", json.dumps(KEYS))
    ds.add_creds_key("A", managed=True)
    ds.link_creds.code("A")
    assert json.loads(run("list", ds.path, "--json").output) == [
        {"name": "A", "managed": True, "used": True, "state": "ok"}
    ]
    ds.add_creds_key("B")
    text = run("list", ds.path, status=1).output
    assert "ManagedCredentialsNotFoundError" in text


class Guarded(BaseHTTPRequestHandler):
    """Lets in who has the right header."""

    wanted = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_right = self.headers.get("Authorization") == type(self).wanted
        self.send_response(200 if is_right else 401)
        self.send_header("Content-Length", "1" if is_right else "0")
        self.end_headers()
        if is_right:
            self.wfile.write(b"x")

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    """Address of a server that wants the header ``new``."""
    Guarded.wanted = f"new {CANARY}"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/x"
    server.shutdown()
    thread.join()
    server.server_close()


def header(which: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"{which} {CANARY}"}}


def authorization(name: str) -> str:
    return str(json.loads(held(name)["headers"])["Authorization"]).split()[0]


def test_credentials_are_tested_by_a_request(web: str) -> None:
    host = web.split("/")[2]
    run("set", "good", "-o", f"hosts={host}", given=header("new"))
    run("set", "bad", "-o", f"hosts={host}", given=header("old"))
    run("set", "elsewhere", "-o", "urls=https://other/", given=header("new"))
    assert run("test", "good", web).output == f"{web} lets 'good' in\n"
    assert json.loads(run("test", "good", web, "--json").output)["ok"] is True
    refused = json.loads(run("test", "bad", web, "--json", status=1).output)
    assert (refused["ok"], refused["error"]["class"]) == (False, "UnableToReadFromUrlError")
    assert "LinkCredentialsError" in run("test", "elsewhere", web, status=1).output
    assert "ManagedCredentialsNotFoundError" in run("test", "unknown", web, status=1).output
    assert "UnsupportedUrlError" in run("test", "good", "/etc/hostname", status=1).output


def test_rotating_keeps_what_works(web: str) -> None:
    """What does not let in is not kept; what was before is there until the new one was tested."""
    host = web.split("/")[2]
    run("set", "k", "-o", f"hosts={host}", given=header("old"))
    assert "is what it was before" in run("rotate", "k", web, given=header("wrong"), status=1).output
    assert authorization("k") == "old"
    run("rotate", "k", given=header("new"))
    assert (authorization("k"), "previous" in held("k")) == ("new", True)
    assert "previous" not in plain(named("k").grant().values)  # type: ignore[arg-type]
    run("rotate", "k", "--back")
    assert (authorization("k"), "previous" in held("k")) == ("old", False)
    assert "no earlier credentials" in run("rotate", "k", "--back", status=1).output
    run("rotate", "k", given=header("new"))
    run("test", "k", web)
    assert (authorization("k"), "previous" in held("k")) == ("new", False)
    Guarded.wanted = f"newer {CANARY}"
    assert run("rotate", "k", web, given=header("newer")).output == f"rotated 'k': {web} lets it in\n"
    assert held("k")["hosts"] == [host]
    assert (authorization("k"), "previous" in held("k")) == ("newer", False)


def test_what_is_typed_at_a_terminal_is_not_shown(place: Path) -> None:
    """Secrets are asked for without an echo, and stored."""
    ours, theirs = pty.openpty()
    program = [sys.executable, "-c", "from lakebed.cli import main; main()", "creds", "set", "typed"]
    process = subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        for question, answer in (
            (b"aws_access_key_id: ", CANARY),
            (b"aws_secret_access_key: ", f"{CANARY}2"),
            (b"aws_session_token []: ", ""),
        ):
            while not shown.endswith(question):
                shown += os.read(ours, 1)
            os.write(ours, f"{answer}\n".encode())
        assert process.wait(PATIENCE) == 0
        shown += os.read(ours, 10_000)
    finally:
        os.close(ours)
        process.wait()
    assert CANARY.encode() not in shown
    assert held("typed") == {"aws_access_key_id": CANARY, "aws_secret_access_key": f"{CANARY}2"}
