"""Other pages of the same browser get nothing from the viewer; a page without its key says what to do."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.viewer.conftest import OTHER_SITE, Served, painted

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.viewer

Open = Callable[..., "Page"]


class Empty(http.server.BaseHTTPRequestHandler):
    """Answers each request with an empty page."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>other</title>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def other() -> Iterator[int]:
    """Return the port of another server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["127.0.0.1", "localhost", OTHER_SITE])
def elsewhere(request: pytest.FixtureRequest, other: int, open_page: Open) -> Page:
    """Return a page of the other server: of another port, of another name of this machine, of another site."""
    page = complaining(open_page)
    page.goto(f"http://{request.param}:{other}/")
    return page


def complaining(open_page: Open) -> Page:
    """Return a page that may complain of what it may not do."""
    return open_page("about:blank").context.new_page()


READ = """async ([url, options]) => {
  try {
    const answer = await fetch(url, options);
    return [answer.type, await answer.text()];
  } catch (error) { return [error.name, '']; }
}"""
LOADED = """([tag, url]) => new Promise((resolve) => {
  const one = document.createElement(tag);
  one.onload = one.onloadeddata = () => resolve('loaded');
  one.onerror = () => resolve('refused');
  one.src = url;
  document.head.append(one);
})"""


def media(served: Served) -> str:
    """Return the address of a sound with a ticket that is good."""
    import json
    import urllib.request

    dataset = served.number("moving")
    path = f"{served.base}v1/{dataset}/media/sound/0"
    asked = urllib.request.Request(f"{path}/ticket", headers={"Authorization": f"Bearer {served.token}"})
    with urllib.request.urlopen(asked) as answer:
        return f"{path}?ticket={json.load(answer)['ticket']}"


@pytest.mark.parametrize("mode", ["cors", "no-cors"])
def test_another_page_reads_nothing(served: Served, elsewhere: Page, mode: str) -> None:
    """Not even one that has learned the token, and whatever the browser is told."""
    key = {"headers": {"Authorization": f"Bearer {served.token}"}} if mode == "cors" else {}
    for path in ("", "v1/lake", "v1/0/meta", "v1/0/rows?count=1", "assets/index.js"):
        kind, text = elsewhere.evaluate(
            READ, [served.base + path, {"mode": mode, "credentials": "include", **key}]
        )
        assert (kind in ("TypeError", "opaque"), text) == (True, ""), path


def test_another_page_changes_nothing(served: Served, elsewhere: Page) -> None:
    body = '{"name": "evil", "text": "select *"}'
    for options in (
        {"mode": "no-cors", "method": "POST", "body": body},
        {
            "mode": "cors",
            "method": "POST",
            "body": body,
            "headers": {"Authorization": f"Bearer {served.token}"},
        },
    ):
        kind, text = elsewhere.evaluate(READ, [f"{served.base}v1/0/views", options])
        assert (kind in ("TypeError", "opaque"), text) == (True, "")
    with elsewhere.expect_navigation() as sent:
        elsewhere.evaluate(
            """([url, body]) => {
              const form = document.createElement('form');
              Object.assign(form, {method: 'POST', action: url, enctype: 'text/plain'});
              const field = document.createElement('input');
              [field.name, field.value] = [body, ''];
              form.append(field);
              document.documentElement.append(form);
              form.submit();
            }""",
            [f"{served.base}v1/0/views", body],
        )
    assert sent.value is not None
    assert sent.value.status in (401, 403)


def test_another_page_opens_no_media(served: Served, elsewhere: Page, open_page: Open) -> None:
    """A good ticket opens it from the viewer's own page only."""
    url = media(served)
    for tag in ("audio", "video", "img", "script"):
        assert elsewhere.evaluate(LOADED, [tag, url]) == "refused", tag
    own = open_page(served.url)
    own.get_by_text("5 streams").wait_for()
    assert own.evaluate(LOADED, ["audio", url]) == "loaded"


def test_another_page_gets_no_hold_of_the_window(served: Served, elsewhere: Page) -> None:
    with elsewhere.context.expect_page() as coming:
        elsewhere.evaluate("(url) => { window.found = window.open(url); }", served.url)
    opened = coming.value
    opened.get_by_text("5 streams").wait_for()
    assert opened.evaluate("window.opener") is None
    assert elsewhere.evaluate("window.found.closed || window.found.length === 0")


def test_only_this_machine_s_pages_may_frame_it(served: Served, elsewhere: Page) -> None:
    """A notebook does, by whatever name it has here; its pages see the frame, and nothing in it."""
    elsewhere.evaluate(
        "(url) => { const frame = document.createElement('iframe'); frame.src = url; "
        "document.documentElement.append(frame); return new Promise((go) => { frame.onload = go; }); }",
        served.url,
    )
    frame = elsewhere.frames[1]
    if OTHER_SITE in elsewhere.url:
        assert "5 streams" not in frame.evaluate("document.body?.innerText ?? ''")
        assert not frame.url.startswith(served.base)
    else:
        frame.get_by_text("5 streams").wait_for()
        assert elsewhere.evaluate(
            "(() => { try { return frames[0].document; } catch (e) { return e.name; } })()"
        ) == ("SecurityError")


def test_a_name_that_leads_here_is_not_ours(served: Served, open_page: Open) -> None:
    """A page of another site whose name is changed to this machine's address is told nothing."""
    port = served.base.rstrip("/").rpartition(":")[2]
    page = complaining(open_page)
    answer = page.goto(f"http://{OTHER_SITE}:{port}/")
    assert answer is not None
    assert answer.status == 403
    options = {"headers": {"Authorization": f"Bearer {served.token}"}}
    for path in ("v1/lake", "v1/0/meta"):
        kind, text = page.evaluate(READ, [f"http://{OTHER_SITE}:{port}/{path}", options])
        assert kind == "basic"
        assert "Host" in text
        assert "street" not in text


@pytest.mark.parametrize("fragment", ["", "#token=wrong", "#token=", "#v1={}"])
def test_a_page_without_its_key_says_what_to_do(served: Served, open_page: Open, fragment: str) -> None:
    page = open_page(served.base + fragment, refused=True)
    page.get_by_role("heading", name="This page needs its key").wait_for()
    assert "lakebed view PATH" in page.locator("main").inner_text()
    assert "5 streams" not in page.locator("body").inner_text()


def test_the_key_leaves_the_address(served: Served, open_page: Open) -> None:
    """It is kept for this page: a reload, and another window of the same browser, still open it."""
    page = open_page(served.at(dataset=served.number("street")))
    painted(page)
    assert served.token not in page.url
    page.reload()
    painted(page)
    assert served.token not in page.evaluate("document.documentElement.outerHTML")
