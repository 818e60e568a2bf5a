"""Firefox by its own protocol, WebDriver BiDi: a WebSocket with commands and events as JSON, and no driver between."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

FIREFOX = os.environ.get("LAKEBED_FIREFOX") or shutil.which("firefox") or shutil.which("firefox-esr")
_KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Control": "\ue009"}
_REFUSALS = """() => addEventListener('securitypolicyviolation', (one) => {
  console.error(one.violatedDirective, one.blockedURI);
})"""
_MIDDLE = """(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2];
}"""


class Firefox:
    """A browser without a window, with one page.

    Attributes
    ----------
    complaints : list of str
        Errors of scripts, refusals of the page's policy and other errors in its console.
    close : callable
        Ends it.
    """

    def __init__(self, profile: Path, width: int = 1280, height: int = 800) -> None:
        assert FIREFOX
        command = [FIREFOX, "--headless", "--remote-debugging-port=0", "--profile", str(profile)]
        log = profile / "said"
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        with ExitStack() as stack:
            file = stack.enter_context(log.open("w"))
            process = subprocess.Popen(
                command, stdout=file, stderr=file, env=os.environ | {"HOME": str(profile)}
            )
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
            for _ in range(600):
                found = re.search(r"BiDi listening on (\S+)", log.read_text())
                if found:
                    break
                time.sleep(0.1)
            assert found, log.read_text()
            self._socket = stack.enter_context(connect(f"{found[1]}/session", max_size=1 << 26))
            self._begin(width, height)
            self.close = stack.pop_all().close

    def _begin(self, width: int, height: int) -> None:
        self.send("session.new", capabilities={})
        self.send("session.subscribe", events=["log.entryAdded"])
        self.send("script.addPreloadScript", functionDeclaration=_REFUSALS)
        self._page = {"context": self.send("browsingContext.getTree")["contexts"][0]["context"]}
        self.send("browsingContext.setViewport", **self._page, viewport={"width": width, "height": height})

    def send(self, method: str, **params: Any) -> Any:
        """Return what the browser answers to a command."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            told = json.loads(self._socket.recv(60))
            if told.get("method") == "log.entryAdded" and told["params"]["level"] == "error":
                self.complaints.append(str(told["params"]["text"]))
            if told.get("id") == number:
                assert told["type"] == "success", told
                return told["result"]

    def open(self, url: str) -> None:
        """Load a page of its own."""
        for address in ("about:blank", url):
            self.send("browsingContext.navigate", **self._page, url=address, wait="complete")

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression, by way of JSON."""
        whole = f"(async () => JSON.stringify(await ({script}) ?? null))()"
        told = self.send("script.evaluate", expression=whole, target=self._page, awaitPromise=True)
        assert told["type"] == "success", told
        return json.loads(told["result"]["value"])

    def until(self, script: str) -> None:
        """Wait until an expression is true."""
        for _ in range(300):
            if self.evaluate(script):
                return
            time.sleep(0.1)
        raise AssertionError(f"not in time: {script}")

    def click(self, selector: str) -> None:
        """Click in the middle of the first element of a selector."""
        x, y = (round(place) for place in self.evaluate(f"({_MIDDLE})({json.dumps(selector)})"))
        steps: list[dict[str, Any]] = [{"type": "pointerMove", "x": x, "y": y}]
        steps += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.send(
            "input.performActions",
            **self._page,
            actions=[{"type": "pointer", "id": "mouse", "actions": steps}],
        )

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        steps = [{"type": way, "value": _KEYS.get(key, key)} for key in keys for way in ("keyDown", "keyUp")]
        self.send(
            "input.performActions", **self._page, actions=[{"type": "key", "id": "keys", "actions": steps}]
        )

    def screenshot(self) -> bytes:
        """Return a picture of the page as PNG."""
        return base64.b64decode(self.send("browsingContext.captureScreenshot", **self._page)["data"])
