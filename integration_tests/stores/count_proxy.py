"""A proxy on loopback that notes every HTTP request, and answers some of them itself when told to.

Run as ``count_proxy.py PORT TARGET``; orders come on standard input (see `servers.Counting`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import time
from typing import Any

_BLOCK = 256 * 1024

Head = tuple[str, dict[str, str], bytes]


class Book:
    """What was asked for, and what to answer in the server's place."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.open = 0
        self.most_open = 0

    def begin(self) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)

    def own_answer(self, line: str) -> dict[str, Any] | None:
        """Return what to answer to a request, if not the server but this proxy should."""
        for answer in self.answers:
            if answer["only"] in line and answer["times"] > 0:
                answer["times"] -= 1
                return answer
        return None


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read a head; None at the end of the stream."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = raw.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.lower()] = value.strip()
    return first, headers, raw


async def pass_body(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter | None,
    headers: dict[str, str],
    *,
    until_end: bool,
) -> int:
    """Hand a body on, or drop it, and return its length."""
    count = 0

    async def hand(data: bytes) -> None:
        if writer is not None:
            writer.write(data)
            await writer.drain()

    if "chunked" in headers.get("transfer-encoding", "").lower():
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            await hand(line + await reader.readexactly(size + 2))
            count += size
            if not size:
                return count
    left = int(headers["content-length"]) if "content-length" in headers else (1 << 62 if until_end else 0)
    while left:
        data = await reader.read(min(left, _BLOCK))
        if not data:
            if until_end and "content-length" not in headers:
                return count
            raise ConnectionResetError
        await hand(data)
        count += len(data)
        left -= len(data)
    return count


def give_own(own: dict[str, Any], writer: asyncio.StreamWriter, note: dict[str, Any]) -> None:
    """Answer in the server's place."""
    body = b"" if note["method"] == "HEAD" else own["body"].encode()
    lines = [f"HTTP/1.1 {own['status']} X", *own["headers"], f"Content-Length: {len(body)}", "", ""]
    writer.write("\r\n".join(lines).encode() + body)
    note.update(status=own["status"], bytes=len(body), ended=time.monotonic())


async def exchange(
    book: Book, head: Head, client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> bool:  # fmt: skip
    """Pass one request and its answer on; return whether the connection goes on."""
    line, headers, raw = head
    method, path, _ = line.split(" ", 2)
    note: dict[str, Any] = {
        "method": method, "path": path, "range": headers.get("range", ""), "status": 0, "bytes": 0, "sent": 0,
        "began": time.monotonic(), "ended": 0.0, "headers": headers,
    }  # fmt: skip
    note["headers"].pop("authorization", None)
    book.requests.append(note)
    if headers.pop("expect", ""):
        client[1].write(b"HTTP/1.1 100 Continue\r\n\r\n")
        kept = [text for text in raw.split(b"\r\n") if not text.lower().startswith(b"expect:")]
        raw = b"\r\n".join(kept)
    own = book.own_answer(line)
    if own is not None and not own["reaches"]:
        note["sent"] = await pass_body(client[0], None, headers, until_end=False)
        give_own(own, client[1], note)
        return True
    server[1].write(raw)
    note["sent"] = await pass_body(client[0], server[1], headers, until_end=False)
    await server[1].drain()
    while True:
        answer = await read_head(server[0])
        if answer is None:
            return False
        status = int(answer[0].split(" ")[1])
        if status >= 200:
            break
    bodiless = method == "HEAD" or status in (204, 304)
    if own is not None:
        if not bodiless:
            await pass_body(server[0], None, answer[1], until_end=True)
        own["headers"] = [*own["headers"], "Connection: close"]
        give_own(own, client[1], note)
        await client[1].drain()
        return False
    note.update(status=status, ended=time.monotonic())  # before the client can know and go on
    client[1].write(answer[2])
    if not bodiless:
        note["bytes"] = await pass_body(server[0], client[1], answer[1], until_end=True)
    await client[1].drain()
    if note["bytes"]:
        note["ended"] = time.monotonic()
    has_end = bodiless or "content-length" in answer[1] or "transfer-encoding" in answer[1]
    return has_end and answer[1].get("connection", "").lower() != "close"


async def serve(book: Book, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one client."""
    there = await asyncio.open_connection("127.0.0.1", target, limit=4 * _BLOCK)
    try:
        for each in (writer, there[1]):
            each.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        goes_on = True
        while goes_on:
            head = await read_head(reader)
            if head is None:
                return
            book.begin()
            try:
                goes_on = await exchange(book, head, (reader, writer), there)
            finally:
                book.open -= 1
    finally:
        writer.close()
        there[1].close()


async def main(port: int, target: int) -> None:
    """Serve until standard input ends."""
    book = Book()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await serve(book, target, reader, writer)

    server = await asyncio.start_server(accept, "127.0.0.1", port, limit=4 * _BLOCK)
    loop = asyncio.get_running_loop()
    async with server:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            verb, values = json.loads(line)
            said: Any = None
            if verb == "requests":
                said = book.requests
            elif verb == "clear":
                book.requests, book.answers, book.most_open = [], [], 0
            elif verb == "answer":
                book.answers.append(values)
            elif verb == "most":
                said = book.most_open
            print(json.dumps(said), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
