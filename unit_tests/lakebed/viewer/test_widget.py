"""The viewer as a widget: what its page asks goes through the kernel."""

from __future__ import annotations

import json
import queue
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.dataset.display import viewing
from lakebed.errors import ModuleNotInstalledException
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.viewer.conftest import birds


class AnyWidget:
    """As much of anywidget as is used."""

    heard: Callable[[Any, Any, Any], Any]

    def __init__(self) -> None:
        names = ("page", "fragment", "width", "height")
        self.traits: dict[str, str] = {name: getattr(self, name) for name in names}
        self.sent: queue.Queue[tuple[dict[str, Any], bytes]] = queue.Queue()

    def on_msg(self, heard: Callable[[Any, Any, Any], Any]) -> None:
        self.heard = heard

    def send(self, told: dict[str, Any], buffers: list[bytes]) -> None:
        self.sent.put((told, buffers[0]))


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Pretend to be in a notebook whose ports are not reached."""
    shell = types.SimpleNamespace(kernel=object())
    module = types.SimpleNamespace(get_ipython=lambda: shell, display=object())
    traits = types.SimpleNamespace(Unicode=lambda text: types.SimpleNamespace(tag=lambda sync: text))
    monkeypatch.setitem(sys.modules, "IPython", module)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "anywidget", types.SimpleNamespace(AnyWidget=AnyWidget))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "traitlets", traits)  # type: ignore[arg-type]
    monkeypatch.setenv("LAKEBED_VIEWER", "widget")
    viewing._close_all()  # of tests before this one
    viewing._running.clear()
    yield monkeypatch
    viewing._close_all()
    viewing._running.clear()


def test_the_kernel_asks_and_keeps_the_token(tmp_path: Path, notebook: pytest.MonkeyPatch) -> None:
    birds(tmp_path / "birds")
    widget = lakebed.load(tmp_path / "birds", read_only=True).visualize(height=300)
    (viewer,) = viewing._running.values()

    def asked(**message: Any) -> tuple[dict[str, Any], bytes]:
        widget.heard(widget, {"id": "7", **message}, [])
        found: tuple[dict[str, Any], bytes] = widget.sent.get(timeout=PATIENCE)
        return found

    told, body = asked(path="v1/0/meta", method="GET")
    assert (told["id"], told["status"], json.loads(body)["name"]) == ("7", 200, "birds")
    told, body = asked(
        path="v1/0/query", method="POST", body=json.dumps({"at": "", "text": "select * where span > 1000"})
    )
    assert (told["status"], json.loads(body).get("rows")) == (200, 0)
    told, body = asked(path="v1/0/array/span/0", method="GET")
    assert told["headers"]["x-dtype"].endswith("f4")
    assert (widget.traits["width"], widget.traits["height"]) == ("100%", "300px")
    assert widget.traits["fragment"].startswith("#token=widget&v1=")
    assert all(viewer._token not in trait for trait in widget.traits.values())
    notebook.setattr(viewing, "_MOST_BYTES", 10)
    assert asked(path="v1/0/meta", method="GET")[0]["status"] == 413
    viewer.close()
    told, body = asked(path="v1/0/meta", method="GET")
    assert (told["status"], "run the cell again" in body.decode()) == (502, True)


def test_the_page_is_one_text_that_reaches_nothing(tmp_path: Path, notebook: pytest.MonkeyPatch) -> None:
    birds(tmp_path / "birds")
    page = lakebed.load(tmp_path / "birds", read_only=True).visualize().traits["page"]

    assert "default-src 'none'; script-src 'sha256-" in page
    assert "connect-src" not in page.partition("</head>")[0]
    assert " src=" not in page.partition("<style>")[0]
    assert page.count("</script>") == 1


def test_anywidget_may_be_missing(tmp_path: Path, notebook: pytest.MonkeyPatch) -> None:
    notebook.setitem(sys.modules, "anywidget", None)
    birds(tmp_path / "birds")

    with pytest.raises(ModuleNotInstalledException, match="pip install anywidget"):
        lakebed.load(tmp_path / "birds", read_only=True).visualize()
