"""The viewer's answers in this process, asked without a socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

from lakebed.viewer.access import Access
from lakebed.viewer.app import app
from lakebed.viewer.lake import Lake

Message = dict[str, Any]


class Inside:
    """The viewer of a place; who asks is not looked at."""

    def __init__(self, path: str) -> None:
        self.lake = Lake(path, {})
        self._app = app(self.lake, Access("token", "127.0.0.1", 80))

    def ask(self, path: str, body: Message | None = None, **query: Any) -> Any:
        """Return the JSON that an address below /v1/ answers; what is sent is a POST.

        Raises
        ------
        AssertionError
            If it answers an error.
        """
        sent = b"" if body is None else json.dumps(body).encode()
        status, answer = asyncio.run(self._asked(f"/v1/{path}", sent, urlencode(query)))
        assert status == 200, f"{path}: {answer.decode()}"
        return json.loads(answer)

    async def _asked(self, path: str, body: bytes, query: str) -> tuple[int, bytes]:
        messages: list[Message] = []
        waiting = [{"type": "http.request", "body": body}]

        async def receive() -> Message:
            return waiting.pop() if waiting else await asyncio.get_running_loop().create_future()

        async def send(message: Message) -> None:
            messages.append(message)

        scope = {"type": "http", "path": path, "query_string": query.encode(), "headers": []}
        await self._app(scope | {"method": "POST" if body else "GET"}, receive, send)
        return messages[0]["status"], b"".join(message.get("body", b"") for message in messages)
