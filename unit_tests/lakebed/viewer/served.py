"""A viewer in a process of its own, and how tests ask it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode


class Told(NamedTuple):
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        return str(self.json["error"]["kind"])


class Served:
    """A viewer that runs as its users' does: it ends with its standard input."""

    def __init__(self, path: Path | str, *arguments: str) -> None:
        self.folder = Path(path)
        command = [sys.executable, "-m", "lakebed.viewer", str(path), "--with-parent", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("{}\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        self.port, self.token, self.url = told["port"], told["token"], told["url"]
        self._numbers: dict[str, int] = {}

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def raw(self, target: str, method: str = "GET", headers: Any = (), body: bytes | None = None) -> Told:
        """Send a request as it is, without the token; headers are pairs."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        names = {name.lower() for name, _ in pairs}
        connection.putrequest(method, target, skip_host="host" in names, skip_accept_encoding=True)
        for name, value in pairs:
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        found = Told(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        connection.close()
        return found

    def get(self, *parts: Any, headers: dict[str, str] | None = None, **query: Any) -> Told:
        """Ask for an address below /v1/ with the token."""
        path = "/v1/" + "/".join(quote(str(part), safe="") for part in parts)
        asked = urlencode({name: value for name, value in query.items() if value is not None})
        return self.raw(
            f"{path}?{asked}" if asked else path, headers={**self.authorization, **(headers or {})}
        )

    def post(self, *parts: Any, **body: Any) -> Told:
        """Send JSON with the token."""
        path = "/v1/" + "/".join(map(str, parts))
        return self.raw(path, "POST", self.authorization, json.dumps(body).encode())

    def number(self, name: str) -> int:
        """Return the number of a dataset, which it keeps: the list opens all of the lake."""
        if name not in self._numbers:
            self._numbers |= {one["name"]: int(one["id"]) for one in self.get("lake").json["datasets"]}
        return self._numbers[name]

    def close(self) -> int:
        """End it as the end of its parent does; return its exit status."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        status = self.process.wait(20)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status


class Single:
    """A dataset of a viewer that others look through as well, asked for as 0: as if it were alone there."""

    def __init__(self, served: Served, name: str) -> None:
        self._served = served
        self._number = served.number(name)

    def get(self, _: int, *parts: Any, headers: dict[str, str] | None = None, **query: Any) -> Told:
        """Ask for an address below that of the dataset."""
        return self._served.get(self._number, *parts, headers=headers, **query)

    def post(self, _: int, *parts: Any, **body: Any) -> Told:
        """Send JSON to an address below that of the dataset."""
        return self._served.post(self._number, *parts, **body)
