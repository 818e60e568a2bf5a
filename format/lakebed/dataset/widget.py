"""The viewer in a notebook whose ports cannot be reached: its requests go through the notebook's own connection.

The page is in a frame that may do nothing but post what it asks to the widget, which sends it to the kernel; the kernel
asks the viewer's server. The token stays in the kernel.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakebed.errors import ModuleNotInstalledException

if TYPE_CHECKING:
    from lakebed.dataset.viewing import Viewer

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


def widget(viewer: Viewer, state: Mapping[str, Any], width: int | str, height: int | str) -> Any:
    """Return a widget with the viewer's page.

    Parameters
    ----------
    viewer
        It runs.
    state
        Of the page.
    width, height
        Of the frame, in CSS; numbers are pixels.

    Raises
    ------
    ModuleNotInstalledException
        If anywidget is missing.
    """
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as error:
        why = f"no port is reached here, and anywidget is missing: pip install anywidget ({error})"
        raise ModuleNotInstalledException(why) from error

    def text(value: int | str) -> Any:
        return traitlets.Unicode(f"{value}px" if isinstance(value, int) else value).tag(sync=True)

    parts = {
        "_esm": _FRAME,
        "page": text(_page(viewer)),
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


def _page(viewer: Viewer) -> str:
    """Return the page as one text, with a policy that lets it run this script and reach nothing."""
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
