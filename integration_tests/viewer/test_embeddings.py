"""The map of vectors, and similar rows: asked of the server, and computed by the page without one."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from integration_tests.viewer.bucket import serving
from integration_tests.viewer.conftest import Served, rows_said, state, until
from integration_tests.viewer.test_static import write
from lakebed.viewer.points import plane

pytestmark = pytest.mark.viewer
ROWS = 600
GROUPS = ["a", "b", "c"]
SEEN = (
    "document.querySelector('.map canvas').getContext('2d').getImageData(0, 0, 9999, 9999).data.some(Boolean)"
)


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three groups in a space of 20 axes, and on a plane: a in the lower left, b in the upper right, c between them."""
    path = tmp_path_factory.mktemp("vectors") / "vectors"
    draws = np.random.default_rng(5)
    group = np.arange(ROWS) % 3
    centres = draws.standard_normal((3, 20)) * 6
    spread = np.linspace(0.1, 1.0, 20)
    ds = lakebed.empty(path)
    ds.create_tensor("wide", htype="embedding", dtype="float32")
    ds.create_tensor("flat", htype="embedding", dtype="float64")
    ds.create_tensor("solid", dtype="float32")
    ds.create_tensor("group", htype="class_label", class_names=GROUPS)
    ds.create_tensor("score", dtype="float32")
    ds.create_tensor("caption", htype="text")
    flat = np.array([[0, 0], [10, 10], [5, 5]])[group] + draws.uniform(-1, 1, (ROWS, 2))
    ds.extend(
        {
            "wide": (centres[group] + spread * draws.standard_normal((ROWS, 20))).astype(np.float32),
            "flat": flat,
            "solid": draws.standard_normal((ROWS, 3)).astype(np.float32),
            "group": group.astype(np.uint32),
            "score": [None if row == 7 else np.float32(row) for row in range(ROWS)],
            "caption": [f"row {row}" for row in range(ROWS)],
        }
    )
    ds.commit()
    return path


@pytest.fixture(scope="module")
def server(vectors: Path) -> Iterator[Served]:
    served = Served(vectors)
    yield served
    served.close()


@pytest.fixture(scope="module")
def bare(vectors: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page without a server."""
    write(str(vectors), "--static", str(vectors.parent / "page"))
    with serving(vectors.parent) as bucket:
        yield f"{bucket.url}/page/index.html"


def look(tensor: str = "", colour: str | None = "", view: tuple[float, ...] = ()) -> dict[str, Any]:
    return {"dataset": 0, "map": {"tensor": tensor, "colour": colour, "view": list(view)}}


def drawn(page: Any, words: str = f"{ROWS} points") -> np.ndarray[Any, Any]:
    """Return the pixels of a map once its points are there."""
    page.get_by_role("status").filter(has_text=words).wait_for()
    until(page, SEEN)
    page.wait_for_timeout(300)
    data = page.evaluate("document.querySelector('.map canvas').toDataURL()")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data.partition(",")[2]))))


def test_vectors_are_drawn_on_their_plane(
    server: Served, open_page: Callable[..., Any], vectors: Path
) -> None:
    page = open_page(server.at(**look("wide")))
    pixels = drawn(page)
    colours = {tuple(one) for one in pixels[pixels[..., 3] > 0][:, :3].tolist()}
    assert len(colours) == len(GROUPS)
    page.locator(".legend", has_text="200").wait_for()
    rows = lakebed.load(vectors, read_only=True).wide.numpy().astype(np.float64)
    share = round(100 * plane(rows)[2])
    page.get_by_role("status").filter(has_text=f"{share} % of the variance of 20 axes").wait_for()
    page.get_by_role("combobox", name="Colours").select_option("score")
    page.locator(".legend", has_text="599").wait_for()
    assert state(page)["map"]["colour"] == "score"
    shaded = drawn(page)
    assert len({tuple(one) for one in shaded[shaded[..., 3] > 0][:, :3].tolist()}) > 50


def test_the_page_without_a_server_draws_the_same(
    server: Served, bare: str, open_page: Callable[..., Any]
) -> None:
    for tensor in ("wide", "flat", "solid"):
        with_server = drawn(open_page(server.at(**look(tensor))))
        alone = drawn(open_page(f"{bare}#v1={json.dumps(look(tensor))}", refused=True))
        differing = np.any(with_server != alone, axis=2).sum() / max(1, (with_server[..., 3] > 0).sum())
        assert differing < 0.02, tensor


@pytest.mark.parametrize("has_server", [True, False])
def test_a_query_leaves_its_points_only(
    has_server: bool, server: Served, bare: str, open_page: Callable[..., Any]
) -> None:
    def opened(**more: Any) -> Any:
        shown = look("flat") | more
        address = server.at(**shown) if has_server else f"{bare}#v1={json.dumps(shown)}"
        return open_page(address, refused=not has_server)

    everything = drawn(opened(map={"tensor": "flat", "colour": "", "view": [5, 5, 30]}))
    page = opened(
        map={"tensor": "flat", "colour": "", "view": [5, 5, 30]},
        query="SELECT * WHERE contains(\"group\", 'b') AND score > 300",
    )
    some = drawn(page, "100 points")
    page.locator(".legend", has_text="100").wait_for()
    assert "all rows" not in page.locator(".map [role=status]").inner_text()
    is_drawn = some[..., 3] > 0
    assert 0 < is_drawn.sum() < 0.4 * (everything[..., 3] > 0).sum()
    assert (everything[..., 3] > 0)[is_drawn].all(), "points stay in their places"
    box = page.locator(".map canvas").bounding_box()
    ratio = some.shape[1] / box["width"]
    down, across = (float(one.mean()) / ratio for one in np.nonzero(is_drawn))
    rows, columns = np.nonzero(is_drawn)
    at = int(np.argmin((rows / ratio - down) ** 2 + (columns / ratio - across) ** 2))
    page.mouse.click(box["x"] + columns[at] / ratio, box["y"] + rows[at] / ratio)
    page.get_by_role("heading", name="Row ").wait_for()
    row = int(page.get_by_role("heading", name="Row ").inner_text().removeprefix("Row ").replace(",", ""))
    assert row % 3 == 1
    assert row > 300
    assert state(page)["query"], "the row is opened among those of the query"


def test_points_are_zoomed_moved_and_opened(server: Served, open_page: Callable[..., Any]) -> None:
    page = open_page(server.at(**look("flat", view=(10, 10, 40))))
    drawn(page)
    box = page.locator(".map canvas").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.wheel(0, -400)
    until(page, "JSON.parse(decodeURIComponent(location.hash.slice(4))).map.view[2] > 60")
    assert state(page)["map"]["view"][:2] == pytest.approx([10, 10], abs=0.01)
    page.mouse.down()
    page.mouse.move(middle[0] + 100, middle[1] + 50, steps=3)
    page.mouse.up()
    until(page, "JSON.parse(decodeURIComponent(location.hash.slice(4))).map.view[0] < 9")
    found = page.evaluate(
        """() => {
        const canvas = document.querySelector(".map canvas");
        const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const at = data.findIndex((one, i) => i % 4 === 3 && one > 0 && (i >> 2) / width > height / 4) >> 2;
        return [(at % width) / devicePixelRatio, Math.floor(at / width) / devicePixelRatio];
    }"""
    )
    page.mouse.move(box["x"] + found[0], box["y"] + found[1])
    card = page.locator(".card", has_text="row ")
    card.wait_for()
    row = int(card.locator("b").inner_text().removeprefix("Row ").replace(",", ""))
    assert row % 3 == 1, "the upper right holds group b"
    page.mouse.click(box["x"] + found[0], box["y"] + found[1])
    page.get_by_role("heading", name=f"Row {row}").wait_for()
    page.keyboard.press("Escape")
    drawn(page)
    page.keyboard.press("Escape")
    page.locator(".map").wait_for(state="detached")
    page.keyboard.press("m")
    page.locator(".map").wait_for()


def test_a_line_around_points_chooses_their_rows(server: Served, open_page: Callable[..., Any]) -> None:
    page = open_page(server.at(**look("flat", view=(5, 5, 30))))
    drawn(page)
    box = page.locator(".map canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.get_by_role("button", name="Lasso").click()
    corners = [(-210, 210), (-90, 210), (-90, 90), (-210, 90)]  # around (0, 0): y is upwards
    page.mouse.move(x + corners[0][0], y + corners[0][1])
    page.mouse.down()
    for dx, dy in corners[1:]:
        page.mouse.move(x + dx, y + dy, steps=4)
    page.mouse.up()
    page.locator("aside").get_by_text("200 rows chosen").wait_for()
    page.locator("aside").get_by_role("button", name="Show only these").click()
    rows_said(page, "200 rows of 600")
    page.get_by_text("row 597", exact=True).or_(page.get_by_text("row 3", exact=True)).first.wait_for()


@pytest.mark.parametrize(("word", "first"), [("angle", "cosine"), ("distance", "l2")])
def test_similar_rows(
    word: str, first: str, server: Served, open_page: Callable[..., Any], vectors: Path
) -> None:
    rows = lakebed.load(vectors, read_only=True).wide.numpy().astype(np.float64)
    own = rows[11]
    cosine = rows @ own / np.linalg.norm(rows, axis=1)
    order = np.argsort(-cosine if first == "cosine" else np.linalg.norm(rows - own, axis=1), kind="stable")
    page = open_page(server.at(dataset=0, row=11))
    page.locator(".value", has_text="wide").get_by_role("button", name=word).click()
    rows_said(page, "100 rows of 600")
    for place, row in enumerate(order[:6].tolist()):
        page.locator(f"[role=row][aria-rowindex='{place + 2}']", has_text=f"row {row}").wait_for()
