"""Texts of a dataset are shown as they are, wherever they stand; none of them runs, and none leads elsewhere."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pytest
from click.testing import CliRunner

import lakebed
from integration_tests.viewer.bucket import serving
from integration_tests.viewer.conftest import Served, still, until
from lakebed.cli import main

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., "Page"]
HIT = "window.__hit=1"
ELSEWHERE = "//192.0.2.1/x"  # an address that is nobody's
PAYLOADS = [
    f"<script>{HIT}</script>",
    f"</script><script>{HIT}</script>",
    f"<img src=x onerror={HIT}>",
    f'"><img src=x onerror="{HIT}">',
    f"'><img src=x onerror='{HIT}'>",
    f"<img src={ELSEWHERE}>",
    f"<svg onload={HIT}>",
    f"<svg><script>{HIT}</script></svg>",
    f"<svg><animate onbegin={HIT} attributeName=x dur=1s>",
    f"<math><mtext></mtext><mglyph><style><img src=x onerror={HIT}>",
    f"<iframe srcdoc='<script>parent.{HIT}</script>'></iframe>",
    f"<iframe src=javascript:{HIT}></iframe>",
    f"javascript:{HIT}",
    f"<a href=javascript:{HIT}>go</a>",
    f"data:text/html,<script>{HIT}</script>",
    f"<link rel=stylesheet href={ELSEWHERE}>",
    f"<meta http-equiv=refresh content=0;url={ELSEWHERE}>",
    f"<base href={ELSEWHERE}>",
    f"<form action={ELSEWHERE}><button autofocus onfocus={HIT}>",
    f"<details open ontoggle={HIT}>",
    f"<video><source onerror={HIT}></video>",
    f"<style>@import '{ELSEWHERE}'</style>",
    f"{{{HIT}}}",
    f"{{{{constructor.constructor('{HIT}')()}}}}",
    f"${{{HIT}}}",
    f"{{@html '<img src=x onerror={HIT}>'}}",
    f"`;{HIT}//",
    "\u202etxt.exe\u2066\u200b",
    "__proto__",
    "constructor",
    "toString",
    "x" * 5000,
]
ROWS = len(PAYLOADS)
SHOWN = [text for text in PAYLOADS if len(text) < 1000]
NOWHERE = f"<img src=y onerror={HIT}>"  # no version has that name
PROTOTYPES = ("__proto__", "constructor", "toString")


def folder(text: str) -> str:
    """Return a name of a folder like that."""
    return text.replace("/", "\u2215").replace("@", "\uff20")[:80]


def write(path: Path, evil: str) -> None:
    """Write a dataset whose every name and text is hostile; `evil` is what stands where there is one text only."""
    ds = lakebed.empty(str(path))
    rows = range(ROWS)
    with ds:
        ds.create_tensor("image", htype="image", sample_compression="png")
        ds.create_tensor("boxes", htype="bbox", coords={"type": "pixel", "mode": "LTWH"})
        ds.create_tensor("classes", htype="class_label", class_names=PAYLOADS)
        ds.create_tensor("points", htype="keypoints_coco", keypoints=PAYLOADS[:3], connections=[[0, 1]])
        ds.create_tensor("text", htype="text")
        ds.create_tensor("json", htype="json")
        ds.create_tensor("list", htype="list")
        ds.create_tensor("tag", htype="tag")
        ds.create_tensor("linked", htype="link[image]", sample_compression="png", verify=False)
        names = named(ds, PAYLOADS)
        for row in rows:
            text = PAYLOADS[row]
            with_names = {name: np.float32(row) for name in names}
            ds.append(
                {
                    "image": np.full((48, 64, 3), 7 * row, np.uint8),
                    "boxes": np.array([[4, 4, 30, 20]], np.float32),
                    "classes": np.array([row], np.uint32),
                    "points": np.array([[3, 3, 2, 30, 30, 2, 9, 9, 2]], np.int32).T,
                    "text": text,
                    "json": {text: text, "deep": {text: [text]}},
                    "list": [text, {text: 1}],
                    "tag": [text],
                    "linked": lakebed.link("http:" + ELSEWHERE),
                    **with_names,
                }
            )
        ds.info["title"] = evil
        ds.info["airbyte"] = {"mode": evil, "stream": evil, "namespace": evil}
    for text in PAYLOADS[:10]:
        ds.commit(text, allow_empty=True)
    ds[:2].save_view(id="view", message=evil, verbose=False)
    for text in SHOWN:
        for make in (ds.create_tag, lambda name: ds.checkout(name, create=True)):
            with contextlib.suppress(lakebed.errors.LakebedError):  # few are names of tags, or of branches
                make(text)
        ds.checkout("main")
    ds.close()


def named(ds: lakebed.Dataset, names: list[str]) -> list[str]:
    """Make tensors of those names, in groups of them where a name has slashes; return the ones that can be."""
    made = []
    for name in names:
        try:
            ds.create_tensor(name, dtype="float32")
        except (lakebed.errors.LakebedError, ValueError):
            continue
        made.append(name)
    return made


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of such datasets."""
    root = tmp_path_factory.mktemp("hostile") / folder(f"<img src=x onerror={HIT}>")
    write(root / "all", f'"><img src=x onerror="{HIT}">')
    for text in SHOWN:
        lakebed.empty(str(root / folder(text))).flush()
    return root


@pytest.fixture(scope="module")
def hostile(root: Path) -> Iterator[Served]:
    """Return the viewer of the folder."""
    server = Served(root)
    yield server
    server.close()


@pytest.fixture
def watched(hostile: Served, open_page: Open) -> Iterator[Page]:
    """Return the page of the folder; it must neither run anything nor ask anybody else."""
    with watching(open_page, hostile.url, hostile.base) as page:
        yield page


@contextlib.contextmanager
def watching(open_page: Open, url: str, base: str) -> Iterator[Page]:
    """Open a page, and see in the end that it ran nothing and asked nobody else."""
    page = open_page("about:blank", refused=True)
    asked: list[str] = []
    dialogs: list[str] = []

    def refuse(dialog: Any) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", refuse)
    page.context.on("page", lambda _: dialogs.append("a window"))
    page.add_init_script("""
        window.broken = [];
        addEventListener('securitypolicyviolation', (event) => window.broken.push(event.violatedDirective));
    """)
    page.goto(url)
    yield page
    still(page)
    assert page.evaluate("window.__hit") is None
    assert page.evaluate("window.broken") == []
    assert dialogs == []
    assert [one for one in asked if not one.startswith((base, f"blob:{base}", "data:,"))] == []
    found = page.evaluate(
        "document.querySelectorAll('script, iframe, base, object, embed, form, a, math, style').length"
    )
    assert found == 1  # the page's own script


def go(page: Page, **state: Any) -> str:
    """Show a state of the page; return what stands in it."""
    page.evaluate("(to) => { location.hash = to; }", "v1=" + json.dumps(state))
    until(page, "!document.querySelector('footer')?.innerText.includes('working')")
    still(page)
    return str(page.evaluate("document.body.innerText"))


def stands(page: Page, text: str, selector: str = "body") -> bool:
    """Whether a text stands there as it is, of which only white space may have been put together."""
    return bool(
        page.evaluate(
            "([where, text]) => [...document.querySelectorAll(where)].some((one) => one.textContent.includes(text))",
            [selector, text],
        )
    )


def test_names_of_datasets(hostile: Served, watched: Page) -> None:
    watched.get_by_text("streams", exact=False).last.wait_for()
    for text in SHOWN:
        assert stands(watched, folder(text), "tbody th"), text
    assert stands(watched, f'"><img src=x onerror="{HIT}">', "td.mode")
    watched.get_by_role("table").get_by_role("button", name=folder(SHOWN[2]), exact=True).click()
    watched.get_by_role("heading", name=folder(SHOWN[2]), level=1).wait_for()
    watched.get_by_role("heading", name="No tensors yet").wait_for()


def test_the_grid_and_its_overlays(hostile: Served, watched: Page) -> None:
    dataset = hostile.number("all")
    go(watched, dataset=dataset, cell=160)
    labels = watched.evaluate("[...document.querySelectorAll('[role=gridcell]')].map((one) => one.ariaLabel)")
    for row in range(10):
        assert f"row {row}: {PAYLOADS[row]}" in labels


def test_the_table(hostile: Served, watched: Page) -> None:
    dataset = hostile.number("all")
    for row in range(0, ROWS, 5):
        go(watched, dataset=dataset, layout="table", top=row)
        watched.get_by_role("gridcell").first.wait_for()
        for text in SHOWN[row : row + 5]:
            assert stands(watched, text, ".table .cell"), text


def test_an_open_row(hostile: Served, watched: Page) -> None:
    dataset = hostile.number("all")
    for row, text in enumerate(PAYLOADS):
        go(watched, dataset=dataset, row=row)
        values = watched.get_by_role("complementary", name="Values")
        for fold in values.locator("summary").all():
            if fold.evaluate("(one) => !one.parentElement.open"):
                fold.click()
        said = values.evaluate("(one) => one.textContent")
        assert said.count(text[:390]) >= 5, text  # in the text, as key and value, as class, and as tag


def test_names_of_tensors_and_statistics(hostile: Served, watched: Page) -> None:
    dataset = hostile.number("all")
    go(watched, dataset=dataset, panel="statistics")
    names = watched.locator("aside section h3 b").all_inner_texts()
    for name in PROTOTYPES:
        assert name in names
    assert any("<" in name for name in names)
    for name in ("classes", "text", *PROTOTYPES):
        card = watched.locator("aside section").filter(has=watched.get_by_text(name, exact=True))
        card.first.scroll_into_view_if_needed()
        until(watched, "!document.querySelector('aside .later')")
    for name in ("classes", "text"):
        card = watched.locator("aside section").filter(has=watched.get_by_text(name, exact=True)).first
        card.get_by_role("button", name="Show 3").click()
        buttons = card.locator("li button .cut").all_inner_texts()
        assert set(PROTOTYPES) <= set(buttons)
        assert f"<svg onload={HIT}>" in buttons
    card = watched.locator("aside section").filter(has=watched.get_by_text("classes", exact=True)).first
    for text in (PAYLOADS[4], "__proto__"):
        card.get_by_role("button", name=text, exact=False).first.click()
        watched.get_by_text("of 32").first.wait_for()
        assert watched.get_by_role("alert").count() == 0
        go(watched, dataset=dataset, panel="statistics")


def test_versions_views_and_differences(hostile: Served, watched: Page) -> None:
    dataset = hostile.number("all")
    said = go(watched, dataset=dataset, panel="versions")
    for text in PAYLOADS[:10]:
        assert text in said
    go(watched, dataset=dataset, panel="views")
    watched.get_by_role("button", name=f'"><img src=x onerror="{HIT}">').click()
    watched.get_by_text("2 rows").first.wait_for()
    commits = watched.evaluate("document.title")
    assert "all" in commits
    go(watched, dataset=dataset, panel="versions")
    watched.get_by_role("button", name="Show what changed").click()
    watched.get_by_role("heading", name="Nothing changed").wait_for()


def test_queries_and_links_that_are_hostile(hostile: Served, watched: Page) -> None:
    dataset = hostile.number("all")
    for text in SHOWN:
        go(
            watched,
            dataset=dataset,
            query=text,
            primary=text,
            hidden=[text],
            at="",
            hiddenClasses=[f"classes:{text}"],
        )
        assert watched.get_by_role("textbox", name="Query").input_value() == text
    go(watched, dataset=dataset, at=NOWHERE)
    watched.get_by_role("alert").filter(has_text=NOWHERE).wait_for()
    go(watched, dataset=dataset, diff={"a": NOWHERE, "b": PAYLOADS[4]})
    watched.get_by_role("alert").first.wait_for()
    watched.evaluate("(to) => { location.hash = to; }", 'v1={"__proto__":{"panel":"help"},"constructor":1}')
    watched.get_by_text("streams", exact=False).last.wait_for()
    assert watched.locator("aside").count() == 0


pytestmark = pytest.mark.viewer


def test_the_page_without_a_server(root: Path, open_page: Open) -> None:
    """The page that is written beside the data shows them as the server's does, and its policy lets nothing else in."""
    said = CliRunner().invoke(main, ["view", str(root), "--static", str(root / "page")])
    assert said.exit_code == 0, said.output
    names = [one["name"] for one in json.loads((root / "page" / "lake.json").read_text())["datasets"]]
    dataset = names.index("all")
    with (
        serving(root.parent) as bucket,
        watching(open_page, f"{bucket.url}/{quote(root.name)}/page/index.html", bucket.url) as page,
    ):
        policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
        assert "default-src 'none'" in policy
        assert not re.search(r"script-src[^;]*('unsafe-inline'|'unsafe-eval'|\*)", policy)
        page.get_by_text("streams", exact=False).last.wait_for()
        assert all(stands(page, folder(text), "tbody th") for text in SHOWN)
        go(page, dataset=dataset, cell=160)
        page.get_by_role("gridcell").first.wait_for()
        until(page, "document.querySelector('[role=gridcell]').ariaLabel.includes(':')")
        labels = page.evaluate(
            "[...document.querySelectorAll('[role=gridcell]')].map((one) => one.ariaLabel)"
        )
        assert f"row 3: {PAYLOADS[3]}" in labels
        for row in range(0, ROWS, 5):
            go(page, dataset=dataset, layout="table", top=row)
            page.get_by_role("gridcell").first.wait_for()
            assert all(stands(page, text, ".table .cell") for text in SHOWN[row : row + 5])
        for row, text in enumerate(PAYLOADS[:12]):
            go(page, dataset=dataset, row=row)
            page.get_by_role("complementary", name="Values").get_by_text(text[:60]).first.wait_for()
        go(page, dataset=dataset, panel="statistics")
        for text in PAYLOADS[:4]:
            name = text.replace("'", "''")
            go(
                page,
                dataset=dataset,
                query=f"SELECT '{name}' AS said, text WHERE text = '{name}'",
                layout="table",
            )
            assert stands(page, text, ".table .cell"), text
        go(page, dataset=dataset, query=f'SELECT * FROM "{ELSEWHERE}"')
        page.get_by_text("it is not on this page").first.wait_for()
