"""Hostile requests, datasets and queries: each is refused in a word, and nothing but that is told."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

import lakebed
from unit_tests.lakebed.viewer.served import Served, Told

EVIL = "<script>alert(1)</script>"


def harmless(told: Told) -> None:
    """Every answer has the headers that keep a browser from running it, and tells nothing of the inside."""
    assert told.headers["x-content-type-options"] == "nosniff"
    assert "script-src 'self'" in told.headers["content-security-policy"]
    assert "unsafe" not in told.headers["content-security-policy"]
    assert "set-cookie" not in told.headers
    assert "access-control-allow-origin" not in told.headers
    assert b"Traceback" not in told.body
    assert b'File "' not in told.body
    if told.status >= 400:
        assert told.headers["content-type"].startswith(("application/json", "text/plain"))
    assert told.status < 500 or told.status == 503


# -- who asks ------------------------------------------------------------------------------------------------------

HOSTS = [
    "evil.example",
    "evil.example:{port}",
    "127.0.0.1",
    "127.0.0.1:1",
    "localhost.evil.example:{port}",
    "127.0.0.1.evil.example:{port}",
    "evil.example#127.0.0.1:{port}",
    "user@127.0.0.1:{port}",
    "127.0.0.1:{port}/x",
    "127.0.0.1:{port}?x",
    "[::ffff:8.8.8.8]:{port}",
    "0.0.0.0:{port}",
    "169.254.169.254:{port}",
    "8.8.8.8:{port}",
    "",
    " ",
    "localhost:{port}:{port}",
    "localhost:x",
    "[::1:{port}",
    "LOCALHOST.:{port}",
    "xn--localhost-.example:{port}",
    "2130706433:{port}",
    "0x7f.1:{port}",
]


@pytest.mark.parametrize("host", HOSTS)
def test_names_of_other_servers(served: Served, host: str) -> None:
    """DNS rebinding: a name that leads here is not ours, also for the page and with the token."""
    for target in ("/v1/lake", "/"):
        told = served.raw(target, headers={**served.authorization, "Host": host.format(port=served.port)})
        assert told.status in (400, 403)
        assert b"birds" not in told.body


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LocalHost:{port}", "[::1]:{port}"])
def test_our_own_names(served: Served, host: str) -> None:
    assert (
        served.raw("/v1/lake", headers={**served.authorization, "Host": host.format(port=served.port)}).status
        == 200
    )


def test_two_names(served: Served) -> None:
    """One for us, and one for whoever looks at the other."""
    hosts = f"Host: 127.0.0.1:{served.port}\r\nHost: evil.example\r\n"
    request = (
        f"GET /v1/lake HTTP/1.1\r\n{hosts}Authorization: Bearer {served.token}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(request.encode())
        assert connection.makefile("rb").readline().split()[1] in (b"400", b"403")


ORIGINS = [
    "http://evil.example",
    "https://127.0.0.1:{port}",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "http://localhost:{port}",
    "null",
    "",
    "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}@evil.example",
    "file://",
    "chrome-extension://abc",
    "http://127.0.0.1:{port}, http://evil.example",
    "HTTP://127.0.0.1:{port}",
]


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_pages(served: Served, origin: str, method: str) -> None:
    """CSRF: another page asks, with whatever it could have."""
    headers = {**served.authorization, "Origin": origin.format(port=served.port)}
    target = "/v1/lake" if method == "GET" else "/v1/0/query"
    told = served.raw(target, method, headers, b'{"text": "SELECT *"}' if method == "POST" else None)
    assert (told.status, told.kind) == (403, "denied")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none, cross-site", "x", ""])
def test_other_sites(served: Served, site: str) -> None:
    assert served.raw("/v1/lake", headers={**served.authorization, "Sec-Fetch-Site": site}).status == 403
    assert (
        served.raw("/v1/lake", headers={**served.authorization, "Sec-Fetch-Site": "same-origin"}).status
        == 200
    )


TOKENS = [
    [],
    [("Authorization", "")],
    [("Authorization", "Bearer")],
    [("Authorization", "Bearer ")],
    [("Authorization", "Bearer x")],
    [("Authorization", "Basic {token}")],
    [("Authorization", "{token}")],
    [("Authorization", "bearer {token}")],
    [("Authorization", "Bearer {token}x")],
    [("Authorization", "Bearer {upper}")],
    [("Authorization", "Bearer {token}"), ("Authorization", "Bearer {token}")],
    [("Cookie", "token={token}")],
    [("X-Token", "{token}")],
    [("Proxy-Authorization", "Bearer {token}")],
    [("Authorization", "Bearer \xff\xfe")],
]


@pytest.mark.parametrize("at", range(len(TOKENS)))
def test_other_tokens(served: Served, at: int) -> None:
    """Everything but the page asks for it."""
    values = {"token": served.token, "upper": served.token.swapcase()}
    headers = [(name, value.format(**values)) for name, value in TOKENS[at]]
    for target in (
        "/v1/lake",
        "/v1/0/meta",
        "/v1/0/image/photo/0",
        f"/v1/lake?token={served.token}",
        "/v1",
        "/v1/nothing",
    ):
        told = served.raw(target, headers=headers)
        assert (told.status, told.kind) == (401, "denied")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_other_methods(served: Served, method: str) -> None:
    for target in ("/v1/lake", "/v1/0/query", "/"):
        told = served.raw(target, method, served.authorization)
        harmless(told)
        assert told.status in (400, 404, 405)


# -- what is asked for ---------------------------------------------------------------------------------------------

DOTS = [
    "../../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "..%252f..%252fetc%252fpasswd",
    "..\\..\\etc\\passwd",
    "..%5c..%5cetc%5cpasswd",
    "/etc/passwd",
    "//etc/passwd",
    "%2fetc%2fpasswd",
    "file:///etc/passwd",
    "....//....//etc/passwd",
    "%c0%ae%c0%ae/etc/passwd",
    "photo%00",
    "photo%00.png",
    "./photo",
    "photo/.",
    "_photo_id",
    "%u002e%u002e/etc",
    "~root",
    "$HOME",
    "photo;x",
    "versions",
    "dataset_meta.json",
    "%ff%fe",
    "%F0%9F%90%A6",
    "'",
    "photo'--",
]


@pytest.mark.parametrize("name", DOTS)
def test_names_that_lead_elsewhere(served: Served, name: str) -> None:
    """Tensors are names of the schema; what is not there is not looked for, in any part of any address."""
    number = served.number("birds")
    targets = [f"/v1/{number}/{what}/{name}/0" for what in ("image", "array", "media", "sound")]
    targets += [f"/v1/{number}/stats/{name}", f"/v1/{number}/rows?tensors={name.replace(' ', '')}"]
    targets += [f"/v1/{number}/meta?at={name}", f"/v1/{number}/diff?a={name}&b=main", f"/v1/{name}/meta"]
    targets += [f"/{name}", f"/assets/{name}", f"/v1/{number}/rows?q={name}", f"/open/{name}/x"]
    for target in targets:
        told = served.raw(target, headers=served.authorization)
        harmless(told)
        assert b"root:" not in told.body
        assert told.status in (400, 404, 503), (target, told.status)


NUMBERS = ["-1", "1.5", "1e3", "0x1", "9" * 30, "٣", "NaN", "1;drop", "%00", "+1", "²", "1_0"]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_that_are_none(served: Served, number: str) -> None:
    """Rows, counts, widths, frames and datasets."""
    dataset, wrong = served.number("birds"), quote(number, safe="%")
    targets = [f"/v1/{dataset}/image/photo/{wrong}", f"/v1/{dataset}/array/span/{wrong}", f"/v1/{wrong}/meta"]
    targets += [f"/v1/{dataset}/rows?{name}={wrong}" for name in ("start", "count")]
    targets += [f"/v1/{dataset}/image/photo/0?{name}={wrong}" for name in ("w", "frame", "box")]
    for target in targets:
        told = served.raw(target, headers=served.authorization)
        harmless(told)
        assert told.status in (400, 404), target


def test_numbers_that_are_too_large(served: Served) -> None:
    """Nothing is made as large as a request says."""
    number = served.number("birds")
    assert served.get(number, "rows", count=513).status == 400
    assert served.get(number, "rows", start=2**53).json["ids"] == []
    assert served.get(number, "image", "photo", 10**9).status == 404
    assert served.get(10**9, "meta").status == 404
    assert served.get(number, "image", "photo", 0, w=10**6).status == 400
    for box in ("0,0,0,0", "999999,0,1,1", "1,2,3", "1,2,3,4,5", "a,b,c,d", "0,0,-1,1"):
        assert served.get(number, "image", "photo", 0, box=box).status == 400
    for low in ("x", "nan", "inf", "1e999"):
        assert served.get(number, "image", "photo", 0, low=low).status == 400


BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"1",
    b'"x"',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"text": 1}',
    b'{"text": null}',
    b'{"text": ["SELECT *"]}',
    b'{"text": "SELECT *", "at": {}}',
    b'{"text": "SELECT *", "at": ["main"]}',
    b"{}",
]


@pytest.mark.parametrize("at", range(len(BODIES)))
def test_bodies_that_are_no_requests(served: Served, at: int) -> None:
    for what in ("query", "views"):
        told = served.raw(f"/v1/{served.number('birds')}/{what}", "POST", served.authorization, BODIES[at])
        harmless(told)
        assert told.status == 400


def test_a_body_without_an_end(served: Served) -> None:
    told = served.raw(
        f"/v1/{served.number('birds')}/query", "POST", served.authorization, b'"' + b"x" * (17 << 20)
    )
    assert (told.status, told.kind) == (413, "limit")


QUERIES = [
    'SELECT * FROM "/etc/passwd"',
    'SELECT * FROM "../birds"',
    'SELECT * FROM "s3://bucket/x"',
    'SELECT * FROM "file:///etc"',
    'SELECT * FROM "http://169.254.169.254/latest"',
    'SELECT * FROM "mem://x"',
    "SELECT * FROM DIFF(\"/etc\", 'a', 'b')",
    'SELECT * WHERE span IN (SELECT x FROM "/etc")',
    'WITH t AS (SELECT * FROM "/etc") SELECT * FROM t',
    'SELECT * UNION SELECT * FROM "/etc"',
    'SELECT * FROM golden JOIN "/etc" ON 1 = 1',
    "__import__('os').system('id')",
    "SELECT __import__('os')",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + "-" * 3000 + "1",
    "SELECT * WHERE " + "NOT " * 5000,
    "x" * 70_000,
    "view:../../etc",
    "view:",
    "rows:x",
    "\x00",
    "SELECT * LIMIT -1",
    "SELECT * WHERE MATCHES(note, '(a+)+$')",
]


@pytest.mark.parametrize("at", range(len(QUERIES)))
def test_hostile_queries(served: Served, at: int) -> None:
    """They name no dataset outside of the lake, run nothing, and are no deeper than the language allows."""
    told = served.post(served.number("birds"), "query", text=QUERIES[at])
    harmless(told)
    assert told.status in (400, 404) or "MATCHES" in QUERIES[at], told.body
    assert b"root:" not in told.body


@pytest.mark.parametrize("what", ["query", "views"])
def test_datasets_that_are_not_in_the_list(served: Served, tmp_path: Path, what: str) -> None:
    """Queries do not open them, however they name them, nor does what saves their rows."""
    ds = lakebed.empty(tmp_path / "other")
    ds.create_tensor("span", dtype="float32")
    ds.extend({"span": [1.0, 2.0]})
    ds.commit()
    ds.close()
    other, number = f'"{tmp_path}/other"', served.number("birds")
    for text in (
        f"SELECT * FROM {other}",
        f"SELECT * FROM {other} AS birds JOIN birds AS b ON 1 = 1",
        f"SELECT * WHERE span IN (SELECT span FROM {other})",
        f"WITH t AS (SELECT * FROM {other}) SELECT * FROM t",
        f"SELECT span UNION ALL SELECT span FROM {other}",
        f"SELECT * FROM DIFF({other}, 'main', 'main')",
        f'SELECT * FROM {other[:-1]}@main"',
    ):
        told = served.post(number, what, text=text, name="x")
        assert (told.status, "not a dataset of this lake" in told.json["error"]["message"]) == (400, True), (
            text
        )
    assert served.post(number, "query", text='SELECT span FROM "birds"').json["rows"] == 12


def test_a_query_that_does_not_end(served: Served) -> None:
    """It is stopped, and others are answered meanwhile."""
    number = served.number("birds")
    text = "SELECT a.span FROM birds AS a " + " ".join(f"CROSS JOIN birds AS b{i}" for i in range(7))
    began = time.monotonic()
    told = served.post(number, "query", text=text)
    assert (told.status, told.kind) == (400, "query")
    assert time.monotonic() - began < 60
    assert served.get(number, "rows", count=1).status == 200


# -- what a dataset holds ------------------------------------------------------------------------------------------


def bomb(width: int, height: int) -> bytes:
    """Return a PNG file of a few bytes whose header promises so many pixels."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + part(b"IHDR", header)
        + part(b"IDAT", zlib.compress(bytes(1000)))
        + part(b"IEND", b"")
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return the viewer of a dataset whose every text is a script."""
    path = tmp_path_factory.mktemp("hostile") / "ds"
    ds = lakebed.empty(path)
    with ds:
        ds.create_tensor(EVIL.replace("/", ""), htype="text")
        ds.create_tensor("kind", htype="class_label", class_names=[EVIL, "\u202eevil", "a" * 100_000])
        ds.create_tensor("json", htype="json")
        ds.create_tensor("photo", htype="image", sample_compression="png")
        ds.create_tensor("note", htype="text")
        deep: Any = 1
        for _ in range(200):
            deep = [deep]
        room = io.BytesIO()
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(room, "PNG")
        for value in (deep, {EVIL: EVIL}, list(range(100_000)), {"x": "y" * 100_000}):
            ds.append(
                {
                    EVIL.replace("/", ""): EVIL,
                    "kind": [0],
                    "json": value,
                    "photo": lakebed.read(room.getvalue()),
                    "note": "n" * 1_000_000,
                }
            )
        ds.info["title"] = EVIL
        ds.info["deep"] = deep
    ds.commit(EVIL)
    ds.close()
    for chunk in (path).rglob("photo/chunks/*"):
        content = chunk.read_bytes()
        at = content.find(room.getvalue())
        evil = bomb(60_000, 60_000)[: len(room.getvalue())].ljust(len(room.getvalue()), b"\0")
        chunk.write_bytes(content[:at] + evil + content[at + len(evil) :])
    server = Served(path)
    yield server
    server.close()


def test_texts_of_a_dataset_are_data(hostile: Served) -> None:
    """They come in JSON only, never as a type that a browser would run."""
    for told in (
        hostile.get(0, "meta"),
        hostile.get(0, "rows"),
        hostile.get(0, "stats", "kind"),
        hostile.get("lake"),
    ):
        harmless(told)
        assert told.status == 200
        assert told.headers["content-type"] == "application/json"
    names = [one["name"] for one in hostile.get(0, "meta").json["tensors"]]
    assert hostile.get(0, "stats", names[0]).json["top"][0]["label"] == EVIL


def test_values_without_an_end_are_cut(hostile: Served) -> None:
    """Depth, length and letters; and it is said."""
    cells = hostile.get(0, "rows", tensors="json,note").json["cells"]
    assert all(one["cut"] for one in (cells["json"][0], *cells["json"][2:], *cells["note"]))
    assert cells["json"][1] == {"v": {EVIL: EVIL}}
    assert all(len(json.dumps(one)) < 40_000 for column in cells.values() for one in column)


def test_a_picture_that_promises_too_much(hostile: Served) -> None:
    """It is damaged, or too large, and nothing of its size is made."""
    for width in (0, 128):
        told = hostile.get(0, "image", "photo", 0, w=width)
        harmless(told)
        assert told.status in (413, 422)


@pytest.mark.parametrize(
    "path", ["s3://key:verysecret@bucket/lake", "https://user:verysecret@127.0.0.1:9/lake?sig=verysecret"]
)
def test_credentials_of_an_address_are_told_to_nobody(path: str) -> None:
    """Neither by the page nor by the error of one that cannot be opened."""
    done = subprocess.run(
        [sys.executable, "-m", "lakebed.viewer", path, "--with-parent"],
        input="",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={
            **os.environ,
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "y",
        },
    )
    assert "verysecret" not in done.stdout + done.stderr
    assert "error" in json.loads(done.stdout)


def test_the_page_has_no_data(served: Served) -> None:
    """It is handed out without the token, to be asked for it: what it holds is the same for all."""
    told = served.raw("/")
    harmless(told)
    assert served.token.encode() not in told.body
    assert b"birds" not in told.body


def test_an_address_that_works_once(served: Served) -> None:
    """Those of programs that are started can be seen by other users; nobody can make one without the token."""
    mac = hmac.new(served.token.encode(), b"open abc", hashlib.sha256).hexdigest()
    assert served.raw(f"/open/abd/{mac}").status == 404
    told = served.raw(f'/open/abc/{mac}?v1={{"a":"%0d%0aX-Evil:1"}}')
    assert told.status == 303
    assert told.headers["location"].startswith(f"../../#token={served.token}&v1=")
    assert "x-evil" not in told.headers
    assert served.raw(f"/open/abc/{mac}").status == 404
