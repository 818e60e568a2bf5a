"""The viewer as a process: how it is started, by whom, and that it ends with them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import types
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

import lakebed
from lakebed import config
from lakebed.dataset.display import viewing
from lakebed.errors import InvalidOperationError, ModuleNotInstalledException
from lakebed.viewer.lake import Lake
from unit_tests.lakebed.viewer.conftest import birds
from unit_tests.lakebed.viewer.served import Served
from unit_tests.lakebed.viewer.test_media import tone


def until(holds: Callable[[], bool]) -> bool:
    """Wait until something holds."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return holds()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the addresses that a browser was told to open; end the viewers."""
    found: list[str] = []
    monkeypatch.setattr(webbrowser, "open", found.append)
    monkeypatch.setattr(viewing, "_running", {})
    yield found
    for viewer in viewing._running.values():
        viewer.close()
        assert viewer.wait() == 0


def state_of(address: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(unquote(address.partition("v1=")[2]))
    return found


def asked(viewer: viewing.Viewer, what: str, body: dict[str, Any] | None = None) -> Any:
    """Ask a viewer as the page does."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{viewer.port}/v1/{what}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {viewer._token}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


# -- the command ---------------------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path) -> None:
    """It prints the address, serves a folder, and ends by Ctrl-C."""
    birds(tmp_path / "birds")
    program = "from lakebed.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "view", str(tmp_path), "--no-browser"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    address = process.stdout.readline()
    base, _, token = address.strip().partition("#token=")
    request = urllib.request.Request(f"{base}v1/lake", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request) as answer:
        assert [one["name"] for one in json.load(answer)["datasets"]] == ["birds"]
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 0
    assert told == "Ctrl-C ends the viewer\n"


@pytest.mark.parametrize("path", ["{}/nothing", "s3://"])
def test_a_place_without_datasets(path: str, tmp_path: Path) -> None:
    """The library says why, in one line."""
    done = subprocess.run(
        [sys.executable, "-m", "lakebed.viewer", path.format(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert list(json.loads(done.stdout)) == ["error", "is_missing"]
    assert done.stderr == ""


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error says what to install."""
    (tmp_path / "uvicorn.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'uvicorn'\", name='uvicorn')"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    lakebed.empty(tmp_path / "ds").close()
    with pytest.raises(ModuleNotInstalledException, match=r"pip install 'lakebed\[view\]'"):
        viewing.Viewer(str(tmp_path / "ds"))


def test_it_is_as_patient_as_whoever_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]
) -> None:
    """A server that is not there is told when RETRY_SECONDS are over, not after those of a new process."""
    monkeypatch.setattr(config, "RETRY_SECONDS", 0.25)
    given = {}
    tell = viewing.Viewer.tell
    monkeypatch.setattr(viewing.Viewer, "tell", lambda self, what: given.update(what) or tell(self, what))
    lakebed.empty(tmp_path / "ds").visualize()
    assert given["patience"]["RETRY_SECONDS"] == 0.25
    monkeypatch.setattr(config, "RETRY_SECONDS", 60.0)
    for name in ("LINK_ROOTS", "LINK_HOSTS", "STALL_SECONDS", "REQUEST_SECONDS", "HTTP_TIMEOUT"):
        monkeypatch.setattr(config, name, getattr(config, name))
    with contextlib.closing(Lake(str(tmp_path / "ds"), given)):
        assert config.RETRY_SECONDS == 0.25


def test_a_port_that_is_taken(served: Served, lake: Path) -> None:
    with pytest.raises(InvalidOperationError, match="in use"):
        viewing.Viewer(str(lake), "--port", str(served.port))


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    """Also where that is killed; and what it copied for itself is removed."""
    program = """
import lakebed, os, sys, webbrowser
from lakebed.dataset.display import viewing
webbrowser.open = lambda address: True
ds = lakebed.empty("mem://killed")
ds.create_tensor("x", dtype="int64")
ds.extend({"x": [1, 2]})
ds.visualize()
(viewer,) = viewing._running.values()
print(viewer._process.pid, flush=True)
sys.stdin.read()
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert len(list(tmp_path.iterdir())) == 1
    parent.kill()
    parent.communicate()
    assert until(lambda: not is_alive(pid))
    assert list(tmp_path.iterdir()) == []


def test_the_page(served: Served) -> None:
    """Its files have types of ours; assets, whose content their names do not tell, are asked for again."""
    told = served.raw("/")
    assert (told.status, told.headers["content-type"]) == (200, "text/html; charset=utf-8")
    names = re.findall(r'(?:src|href)="\./([^"]+)"', told.body.decode())
    types = {served.raw(f"/{name}").headers["content-type"] for name in names}
    assert types >= {"text/javascript; charset=utf-8", "text/css; charset=utf-8"}
    for name in ("index.css", "assets/", "assets/nothing.js", "../server.ts", "assets/../../src/types.ts"):
        assert served.raw(f"/{name}").status == 404


# -- from a program ------------------------------------------------------------------------------------------------


def test_visualize(tmp_path: Path, opened: list[str]) -> None:
    """What was not published is; one viewer is used for the same place; selections come by their rows."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    ds.extend({"x": np.arange(10)})
    address = ds.visualize()
    assert state_of(address) == {"dataset": 0, "at": ""}
    (viewer,) = viewing._running.values()
    assert asked(viewer, "0/meta")["rows"] == 10
    for selected, rows in (
        (ds[[7, 2]], [7, 2]),
        (ds[2:8:3], [2, 5]),
        (ds.query("SELECT * WHERE x > 7"), [8, 9]),
    ):
        state = state_of(selected.visualize())
        answer = asked(viewer, "0/query", {"text": state["query"]})
        assert asked(viewer, f"0/rows?q={answer['q']}")["ids"] == rows
    assert list(viewing._running.values()) == [viewer]
    assert len(opened) == 4
    assert all(viewer._token not in one for one in opened)
    ds.commit()
    ds.checkout("side", create=True)
    assert state_of(ds.visualize())["at"] == "side"


@pytest.mark.filterwarnings("ignore:The tensors differ in length")
def test_rows_that_a_shorter_tensor_does_not_have(tmp_path: Path, opened: list[str]) -> None:
    """They are shown, with nothing where a tensor has none, as in the grid of all rows."""
    ds = lakebed.empty(tmp_path / "ds")
    for name, length in (("x", 6), ("short", 2)):
        ds.create_tensor(name, dtype="int64")
        ds[name].extend(np.arange(length))
    for selected in (ds[1:4], ds.max_view[[1, 2, 3]]):
        state = state_of(selected.visualize())
        (viewer,) = viewing._running.values()
        answer = asked(viewer, "0/query", {"text": state["query"]})
        rows = asked(viewer, f"0/rows?q={answer['q']}")
        assert (answer["rows"], rows["ids"]) == (3, [1, 2, 3])
        assert rows["cells"] == {"x": [{"v": 1}, {"v": 2}, {"v": 3}], "short": [{"v": 1}, None, None]}
    assert len(opened) == 2


def test_a_dataset_in_memory(opened: list[str]) -> None:
    """It is copied with its history, again after a change."""
    ds = lakebed.empty("mem://shown-in-the-viewer")
    ds.create_tensor("x", dtype="int64")
    ds.extend({"x": [1]})
    ds.commit("one")
    ds.visualize()
    ds.extend({"x": [2]})
    ds.visualize()
    first, second = viewing._running.values()
    assert [asked(viewer, "0/meta")["rows"] for viewer in (first, second)] == [1, 2]
    assert [one["message"] for one in asked(second, "0/meta")["commits"]] == ["one"]


def test_play(tmp_path: Path, opened: list[str]) -> None:
    """The page opens at the sample."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("sound", htype="audio", sample_compression="wav")
    ds.create_tensor("x", dtype="int64")
    for row in range(3):
        ds.append({"sound": lakebed.read(tone(0.1)), "x": row})
    assert state_of(ds.sound[2].play()) == {"dataset": 0, "at": "", "primary": "sound", "row": 2}
    for call, why in ((ds.sound.play, "one sample"), (ds.x[0].play, "video and audio")):
        with pytest.raises(InvalidOperationError, match=why):
            call()


@pytest.mark.parametrize("prefix", [None, "/user/ada/"])
def test_in_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str], prefix: str | None
) -> None:
    """A frame is shown, through the notebook's own server where there is one before it."""

    class Frame:
        def __init__(self, source: str, width: Any, height: Any) -> None:
            self.source, self.size = source, (width, height)

    shell = types.SimpleNamespace(kernel=object())
    display = types.SimpleNamespace(IFrame=Frame)
    notebook = types.SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", notebook)  # type: ignore[arg-type]
    if prefix is not None:
        monkeypatch.setenv("JUPYTERHUB_SERVICE_PREFIX", prefix)
    ds = lakebed.empty(tmp_path / "ds")
    frame = ds.visualize("90%", 300)
    (viewer,) = viewing._running.values()
    assert (frame.size, opened) == (("90%", 300), [])
    if prefix is None:
        assert frame.source.startswith(f"http://127.0.0.1:{viewer.port}/#token=")
        assert ds.visualize().size == ("100%", 800)
    else:
        assert frame.source.startswith(f"/user/ada/proxy/{viewer.port}/#token=")
        request = urllib.request.Request(
            f"http://127.0.0.1:{viewer.port}/v1/lake",
            headers={
                "Authorization": f"Bearer {viewer._token}",
                "Host": "hub.example",
                "Origin": "https://hub.example",
            },
        )
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 200
