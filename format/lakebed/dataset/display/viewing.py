"""The viewer of datasets: ``python -m lakebed.viewer``, a process that ends when its parent process ends.

If browsers cannot reach a port of the notebook's machine, the page is shown in a frame inside a widget. The frame may
only post requests to the widget; the widget sends them to the kernel, and the kernel to the viewer. The token stays in
the kernel.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import pickle
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakebed import config
from lakebed.errors import InvalidOperationError, ModuleNotInstalledException
from lakebed.storage.base import innermost
from lakebed.storage.secret import for_own_process

if TYPE_CHECKING:
    from lakebed.reading.subscripts import Rows
    from lakebed.session.handle import Handle
    from lakebed.storage.credentials import Given

_HEIGHT = 800
_MOST_BYTES = 64 << 20
_SECONDS = 60.0
_PATIENCE = ("RETRY_SECONDS", "REQUEST_SECONDS", "STALL_SECONDS", "HTTP_TIMEOUT")
"""Settings that the viewer inherits from this process."""
_AT_ONCE = 6
_FRAME = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts allow-downloads";
  frame.style.cssText = `width: ${model.get("width")}; height: ${model.get("height")}; border: 0`;
  const address = URL.createObjectURL(new Blob([model.get("page")], { type: "text/html" }));
  frame.src = address + model.get("fragment");
  const asked = ({ source, data }) => { if (source === frame.contentWindow) model.send(data); };
  const answered = (told, [body]) => {
    const bytes = body ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice().buffer : null;
    frame.contentWindow?.postMessage({ ...told, body: bytes }, "*");
  };
  window.addEventListener("message", asked);
  model.on("msg:custom", answered);
  el.append(frame);
  return () => {
    window.removeEventListener("message", asked);
    model.off("msg:custom", answered);
    URL.revokeObjectURL(address);
  };
}
export default { render };
"""
_running: dict[tuple[int, str], Viewer] = {}


class Viewer:
    """A running viewer, which ends with this process because its standard input is a pipe from it.

    Parameters
    ----------
    path
        A dataset, or a folder of datasets.
    arguments
        Further arguments of ``python -m lakebed.viewer``.
    creds
        Credentials of the object store; they are sent through the pipe.
    temporary
        A folder that the viewer removes when it ends.

    Raises
    ------
    ModuleNotInstalledException
        If the packages of the extra ``view`` are missing.
    InvalidOperationError
        If the viewer does not start; the message gives the reason.
    """

    def __init__(
        self, path: str, *arguments: str, creds: Given | None = None, temporary: str | None = None
    ) -> None:
        command = [sys.executable, "-m", "lakebed.viewer", path, "--with-parent", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
        settings: dict[str, Any] = {"link_roots": config.LINK_ROOTS, "link_hosts": config.LINK_HOSTS}
        settings["patience"] = {name: getattr(config, name) for name in _PATIENCE}
        if creds is not None:
            with for_own_process():
                settings["creds"] = base64.b64encode(pickle.dumps(creds)).decode()
        told = self.tell(settings | ({} if temporary is None else {"temporary": temporary}))
        if "error" in told:
            self.close()
            kind = ModuleNotInstalledException if told.get("is_missing") else InvalidOperationError
            raise kind(told["error"])
        self.url = str(told["url"])
        self.port = int(told["port"])
        self._token: str = told["token"]

    @property
    def is_running(self) -> bool:
        """True if the viewer has not ended."""
        return self._process.poll() is None

    def tell(self, what: Mapping[str, Any]) -> dict[str, Any]:
        """Send a line of JSON and return the answer; the first line has settings, later lines name rows to show."""
        line = b""
        if self._process.stdin is not None and self._process.stdout is not None:
            with contextlib.suppress(BrokenPipeError):  # the viewer has ended and sends no answer
                self._process.stdin.write(json.dumps(what).encode() + b"\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        found: dict[str, Any] = json.loads(line) if line else {"error": "the viewer ended"}
        return found

    def address(self, state: Mapping[str, Any]) -> str:
        """Return the address of a state of the page, including the token."""
        return f"{self.url}&v1={quote(json.dumps(state))}" if state else self.url

    def address_once(self, state: Mapping[str, Any]) -> str:
        """Return an address that works only once, because other users can see it among the arguments of the browser."""
        nonce = secrets.token_urlsafe(16)
        mac = hmac.new(self._token.encode(), f"open {nonce}".encode(), hashlib.sha256).hexdigest()
        shown = f"?v1={quote(json.dumps(state))}" if state else ""
        return f"{self.url.partition('#')[0]}open/{nonce}/{mac}{shown}"

    def ask(
        self, path: str, method: str = "GET", body: str | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Request an address; return status, the headers that the page reads, and at most 64 MiB of content."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_SECONDS)
        try:
            connection.request(method, f"/{path}", body, headers)
            answer = connection.getresponse()
            content = answer.read(_MOST_BYTES + 1)
            names = ("content-type", "x-shape", "x-dtype")
            kept = {name: value for name in names if (value := answer.getheader(name)) is not None}
        finally:
            connection.close()
        if len(content) > _MOST_BYTES:
            told = {
                "kind": "limit",
                "message": f"an answer of more than {_MOST_BYTES >> 20} MiB cannot be sent through a notebook",
            }
            return 413, {}, json.dumps({"error": told}).encode()
        return answer.status, kept, content

    def wait(self) -> int:
        """Wait until the viewer ends; return its exit status."""
        return self._process.wait()

    def close(self) -> None:
        """End the viewer, and wait until it has ended."""
        self._process.communicate()


def visualize(
    handle: Handle,
    state: Mapping[str, Any],
    rows: Rows | None = None,
    width: int | str | None = None,
    height: int | str | None = None,
) -> Any:
    """Show a dataset, or some of its rows; see ``Dataset.visualize``.

    Parameters
    ----------
    state
        Parts of the page's state that differ from the initial one.
    rows
        Rows to show; None shows all.
    width, height
        Size of the frame in a notebook.
    """
    session = handle.session
    if not session.read_only:
        session.flush()
    version = session.snapshot.version_id
    at = (session.branch if session.branch != "main" else "") if session.is_head else version
    shown = {"dataset": 0, "at": at, **state}
    notebook = _notebook()
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX") if notebook else None
    viewer = _viewer(handle, version, () if prefix is None else ("--proxied",))
    if rows is not None:
        span = [rows.start, rows.stop, rows.step] if isinstance(rows, range) else None
        told = {"range": span, "rows": None if isinstance(rows, range) else rows.tolist()}
        name = hashlib.sha256(json.dumps([version, told]).encode()).hexdigest()[:16]
        if "error" in viewer.tell({"name": name, **told}):
            raise InvalidOperationError("the viewer ended just now: call visualize() again")
        shown["query"] = f"rows:{name}"
    address = viewer.address(shown)
    if notebook is not None and _is_out_of_reach():
        return _widget(viewer, shown, width or "100%", height or _HEIGHT)
    if notebook is not None:
        source = address if prefix is None else f"{prefix}proxy/{viewer.port}/#{address.partition('#')[2]}"
        return notebook.IFrame(source, width or "100%", height or _HEIGHT)
    import webbrowser

    webbrowser.open(viewer.address_once(shown))
    return address


def _is_out_of_reach() -> bool:
    """Return True if browsers cannot reach the viewer, neither by a port of this machine nor by a proxy."""
    return os.environ.get("LAKEBED_VIEWER") == "widget" or "google.colab" in sys.modules


def _notebook() -> Any:
    """Return IPython's module ``display`` if this is a notebook; else None."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython import display

    return display


def _viewer(handle: Handle, version: str, arguments: tuple[str, ...]) -> Viewer:
    """Return the viewer for a dataset's address; start it if it is not running."""
    storage = handle.session.storage
    is_here = storage.url.startswith("mem://")
    key = os.getpid(), f"{storage.url} {version if is_here else ''} {arguments}"
    found = _running.get(key)
    if found is None or not found.is_running:
        if is_here:
            found = _of_memory(storage, arguments)
        else:
            creds: Given | None = getattr(innermost(storage), "creds", None)
            found = Viewer(handle.path, *arguments, creds=creds)
        if not _running:
            atexit.register(_close_all)
        _running[key] = found
    return found


def _close_all() -> None:
    for (process, _), viewer in _running.items():
        if process == os.getpid():
            viewer.close()


def _of_memory(storage: Any, arguments: tuple[str, ...]) -> Viewer:
    """Start a viewer on a copy of a dataset in memory, in a folder that the viewer removes."""
    from lakebed.copying.deepcopy import deepcopy
    from lakebed.storage.url import open_storage, parse

    folder = tempfile.mkdtemp(prefix="lakebed-view-")
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        place = f"{folder}/{storage.url.removeprefix('mem://').rpartition('/')[2] or 'memory'}"
        deepcopy(storage, open_storage(parse(place)), None, progressbar=False)
        viewer = Viewer(place, *arguments, temporary=folder)
        undo.pop_all()
    return viewer


def _widget(viewer: Viewer, state: Mapping[str, Any], width: int | str, height: int | str) -> Any:
    """Return a widget with the viewer's page.

    Parameters
    ----------
    viewer
        The running viewer.
    state
        State of the page.
    width, height
        Size of the frame in CSS; numbers are pixels.

    Raises
    ------
    ModuleNotInstalledException
        If anywidget is missing.
    """
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as error:
        why = f"browsers reach no port of this machine, and anywidget is missing: pip install anywidget ({error})"
        raise ModuleNotInstalledException(why) from error

    def text(value: int | str) -> Any:
        return traitlets.Unicode(f"{value}px" if isinstance(value, int) else value).tag(sync=True)

    parts = {
        "_esm": _FRAME,
        "page": text(_widget_page(viewer)),
        "fragment": text(f"#token=widget&v1={quote(json.dumps(state))}"),
        "width": text(width),
        "height": text(height),
    }
    found = type("Widget", (anywidget.AnyWidget,), parts)()
    threads = ThreadPoolExecutor(_AT_ONCE)

    def answer(asked: Mapping[str, Any]) -> None:
        try:
            status, headers, body = viewer.ask(asked["path"], asked["method"], asked.get("body"))
        except (OSError, http.client.HTTPException):
            body = b'{"error": {"kind": "Gone", "message": "the viewer ended: run the cell again"}}'
            status, headers = 502, {}
        found.send({"id": asked["id"], "status": status, "headers": headers}, [body])

    found.on_msg(lambda _, asked, __: threads.submit(answer, asked))
    return found


def _widget_page(viewer: Viewer) -> str:
    """Return the page as one HTML text, whose content security policy allows only its script and no connections."""
    text, script, style = (
        viewer.ask(path)[2].decode() for path in ("", "assets/index.js", "assets/index.css")
    )
    script = script.replace("</script", "<\\/script")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src blob: data:; media-src blob:"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}"><style>{style}</style></head>'
    text = re.sub(r"<(script|link)\b[^>]*(assets/)[^>]*>(</script>)?", "", text)
    return text.replace("</head>", head).replace("</body>", f'<script type="module">{script}</script></body>')
