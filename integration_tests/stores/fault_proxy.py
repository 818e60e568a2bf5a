"""A proxy on loopback that makes a network bad: far away, slow, torn, silent.

Run as ``fault_proxy.py PORT TARGET``; orders come on standard input (see `servers.Faults` for what they mean). Standard
library only, and a process of its own, so that what it costs is not taken for what the client costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import struct
import sys
import time
from dataclasses import dataclass, fields
from typing import Any

_BLOCK = 256 * 1024
_DEPTH = 64 * 1024 * 1024  # bytes on the way, per connection and direction
_BURST = 0.03  # seconds' worth of bytes that a bucket holds: as late as a timer may be without losing any


@dataclass
class Settings:
    """What is wrong with the network; everything off by default."""

    latency: float = 0.0
    rate: float = 0.0
    reset_after: int | None = None
    stall_after: int | None = None
    lose_answer: bool = False
    blackhole: bool = False
    refuse: bool = False
    only: str = ""
    times: int | None = None


class Bucket:
    """Bytes per second over all connections: a place in the queue is a time."""

    def __init__(self) -> None:
        self._free = 0.0

    async def take(self, count: int, rate: float) -> None:
        """Wait until so many bytes may pass."""
        now = time.monotonic()
        self._free = max(self._free, now - _BURST) + count / rate
        if self._free > now:
            await asyncio.sleep(self._free - now)


class Network:
    """Settings that can change at any time, and what all connections share."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.down, self.up = Bucket(), Bucket()
        self.hits = 0

    def set(self, **values: Any) -> None:
        """Replace all settings; what is not named is off."""
        known = {field.name for field in fields(Settings)}
        if not values.keys() <= known:
            raise ValueError(f"no such setting: {sorted(values.keys() - known)}")
        self.settings = Settings(**values)
        self.hits = 0

    def strikes(self, request: str) -> bool:
        """Whether a fault is due on a connection whose last request line is this; counts it."""
        settings = self.settings
        if not re.search(settings.only, request) or (
            settings.times is not None and self.hits >= settings.times
        ):
            return False
        self.hits += 1
        return True


class Connection:
    """One client, and the connection to the server behind it."""

    def __init__(self, network: Network, target: int) -> None:
        self._network, self._target = network, target
        self._request = ""
        self._writers: list[asyncio.StreamWriter] = []
        self._delivered = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes on, both ways, until one side ends or a fault ends both."""
        self._writers = [writer]
        if self._network.settings.refuse:
            self._reset()
            return
        await asyncio.sleep(self._network.settings.latency)  # a handshake takes a round trip too
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self._target, limit=_BLOCK)
        except OSError:
            self._reset()
            return
        self._writers.append(there)
        for each in self._writers:
            sock = each.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tasks = [
            asyncio.create_task(self._up(reader, there)),
            asyncio.create_task(self._down(there_reader, writer)),
        ]
        try:
            _, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for each in self._writers:
                each.close()

    async def _up(self, reader: asyncio.StreamReader, there: asyncio.StreamWriter) -> None:
        while data := await reader.read(_BLOCK):
            network = self._network
            line = data.partition(b"\r\n")[0]
            if line.endswith((b"HTTP/1.1", b"HTTP/1.0")):
                self._request, self._delivered = line.decode("latin-1"), 0
            while network.settings.blackhole:
                await asyncio.sleep(0.02)
            if network.settings.rate:
                await network.up.take(len(data), network.settings.rate)
            there.write(data)
            await there.drain()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Deliver answers as a long line does: each byte late, none of them slow because of it."""
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        room = asyncio.Semaphore(_DEPTH // _BLOCK)

        async def fill() -> None:
            while data := await reader.read(_BLOCK):
                await room.acquire()
                line.put_nowait((time.monotonic() + self._network.settings.latency, data))
            line.put_nowait((time.monotonic() + self._network.settings.latency, b""))

        filling = asyncio.create_task(fill())
        try:
            while True:
                due, data = await line.get()
                room.release()
                wait = due - time.monotonic()
                if wait > 0:
                    await asyncio.sleep(wait)
                if not data:
                    return
                if not await self._deliver(data, writer):
                    return
        finally:
            filling.cancel()

    async def _deliver(self, data: bytes, writer: asyncio.StreamWriter) -> bool:
        network = self._network
        settings = network.settings
        while network.settings.blackhole:
            await asyncio.sleep(0.02)
        if settings.lose_answer and not self._delivered and network.strikes(self._request):
            self._reset()
            return False
        for limit, stalls in ((settings.reset_after, False), (settings.stall_after, True)):
            if limit is not None and self._delivered + len(data) > limit and network.strikes(self._request):
                writer.write(data[: max(0, limit - self._delivered)])
                await writer.drain()
                if stalls:
                    await asyncio.sleep(3600)
                await asyncio.sleep(0.01)  # what was sent before a reset must arrive, or it never was
                self._reset()
                return False
        self._delivered += len(data)
        if not settings.rate:
            writer.write(data)
            await writer.drain()
            return True
        step = max(1024, min(len(data), int(settings.rate * 0.004)))
        for start in range(0, len(data), step):
            piece = data[start : start + step]
            await network.down.take(len(piece), settings.rate)
            writer.write(piece)
            await writer.drain()
        return True

    def _reset(self) -> None:
        for writer in self._writers:
            with contextlib.suppress(OSError):
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


async def main(port: int, target: int) -> None:
    """Serve until standard input ends."""
    network = Network()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await Connection(network, target).serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=_BLOCK)
    loop = asyncio.get_running_loop()
    async with server:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            verb, values = json.loads(line)
            if verb == "set":
                network.set(**values)
            print(json.dumps(network.hits), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
