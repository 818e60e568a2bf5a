"""Who has gone away, and what a browser sends along."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lakebed.viewer import pictures
from lakebed.viewer.access import Access
from lakebed.viewer.app import app
from lakebed.viewer.lake import Lake
from unit_tests.lakebed.viewer.conftest import birds


@pytest.mark.parametrize("is_there", [True, False])
def test_who_has_gone_away_is_not_worked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """As after a fast fling over many pictures."""
    birds(tmp_path / "birds")
    made: list[Any] = []
    picture = pictures.picture
    monkeypatch.setattr(pictures, "picture", lambda *args: (made.append(args), picture(*args))[1])
    access = Access("token", "127.0.0.1", 80)
    application = access.guarding(app(Lake(str(tmp_path / "birds"), {}), access))
    sent: list[Any] = []
    asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Any:
        message = next(asked, None)
        if message is None and is_there:
            await asyncio.sleep(60)
        return message or {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    path = "/v1/0/image/photo/0"
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"w=64",
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", b"Bearer token")], "http_version": "1.1",
    }  # fmt: skip
    asyncio.run(application(scope, receive, send))  # type: ignore[arg-type]
    assert len(made) == is_there
    assert sent[0]["status"] == (200 if is_there else 499)
