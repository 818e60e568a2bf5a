"""Boxes, key points and masks over films and sequences: those of the frame that is seen, wherever it is.

A bright ball moves over dark photos. Where it is in the frame that the browser shows, what is drawn over it has to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import lakebed
from integration_tests.viewer import lakes
from integration_tests.viewer.conftest import Served, state, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.viewer

Open = Callable[..., "Page"]
FRAMES, LONG, RATE = 60, 900, 12
ALL = ["boxes", "labels", "pose", "disc"]
STEP = (lakes.FILM[0] - 80) / (FRAMES - 1)  # pixels that the ball moves from frame to frame

# Places are in pixels of the film: the middle of its ball, and of the lower edge of what is drawn.
WATCH = """() => {
  const [width, height] = [320, 240];
  const room = new OffscreenCanvas(width, height).getContext('2d', {willReadFrequently: true});
  const middle = (is) => {
    const {data} = room.getImageData(0, 0, width, height);
    let [count, x, left, right, bottom] = [0, 0, width, 0, 0];
    for (let at = data.length - 4; at >= 0; at -= 4) {
      if (!is(data, at)) continue;
      const [column, row] = [(at / 4) % width, Math.floor(at / 4 / width)];
      count += 1; x += column;
      bottom = Math.max(bottom, row);
      if (row >= bottom - 2) [left, right] = [Math.min(left, column), Math.max(right, column)]; // names are above
    }
    return count ? {x: x / count + 0.5, edges: (left + right + 1) / 2} : null;
  };
  window.look = () => {
    const video = document.querySelector('video');
    const canvas = document.querySelector('.detail canvas');
    room.clearRect(0, 0, width, height);
    if (video) room.drawImage(video, 0, 0, width, height);
    const ball = video ? middle((data, at) => data[at] + data[at + 1] + data[at + 2] > 600) : null;
    const scale = Math.min(canvas.width / width, canvas.height / height);
    const [left, top] = [(canvas.width - width * scale) / 2, (canvas.height - height * scale) / 2];
    room.clearRect(0, 0, width, height);
    room.drawImage(canvas, left, top, width * scale, height * scale, 0, 0, width, height);
    const drawn = middle((data, at) => video ? data[at + 3] > 90 : data[at] > data[at + 2] + 60);
    return {ball: ball?.x ?? null, drawn: drawn?.edges ?? null};
  };
}"""
PLAYED = """async (seconds) => {
  const found = [];
  const until = performance.now() + 1000 * seconds;
  while (performance.now() < until) {
    await new Promise(requestAnimationFrame);
    const {ball, drawn} = window.look();
    found.push([ball, drawn]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return the viewer of a film, of the same as a sequence of pictures, and of a long film."""
    root = tmp_path_factory.mktemp("films")
    lakes.films(root / "film", frames=FRAMES)
    lakes.films(root / "clip", frames=FRAMES, is_film=False)
    lakes.films(root / "long", rows=1, frames=LONG)
    server = Served(root)
    yield server
    server.close()


def opened(films: Served, open_page: Open, name: str, only: str, **parts: Any) -> Page:
    """Open the first row with one of the tensors drawn."""
    hidden = [one for one in ALL if one != only]
    page = open_page(films.at(dataset=films.number(name), row=0, hidden=hidden, **parts))
    page.locator(".detail canvas").first.wait_for()
    page.evaluate(WATCH)
    if name != "clip":
        until(page, "document.querySelector('video').readyState >= 2")
    return page


def is_at(page: Page, frame: int, frames: int = FRAMES) -> None:
    """Wait until the ball of a frame is seen, and what is drawn stands over it."""
    x = lakes.ball(frame, frames)[0]
    for _ in range(100):
        found = page.evaluate("look()")
        if found["drawn"] is not None and abs(found["drawn"] - x) <= 1.5:
            break
        page.wait_for_timeout(100)
    assert found["drawn"] == pytest.approx(x, abs=1.5)
    if found["ball"] is not None:
        assert found["ball"] == pytest.approx(x, abs=2)


@pytest.mark.parametrize("only", ["boxes", "pose", "disc"])
def test_annotations_follow_a_film_that_is_scrubbed(films: Served, open_page: Open, only: str) -> None:
    page = opened(films, open_page, "film", only)
    is_at(page, 0)
    for seconds in (2.5, 0.7, 4.999, 3.05, 0, 99):  # beyond the end is the end
        page.evaluate("(to) => { document.querySelector('video').currentTime = to; }", seconds)
        is_at(page, min(int(seconds * RATE + 0.01), FRAMES - 1))


def test_the_frame_of_a_film_is_in_the_link(films: Served, open_page: Open) -> None:
    page = opened(films, open_page, "film", "boxes", frame=41)
    is_at(page, 41)
    page.evaluate("() => { document.querySelector('video').currentTime = 1.3; }")
    is_at(page, 15)
    until(page, "decodeURIComponent(location.hash).includes('\"frame\":15')")
    page.keyboard.press(".")  # a second
    is_at(page, 27)
    page.keyboard.press("1")  # the boxes away: the film stays where it is
    until(page, "look().drawn === null")
    page.keyboard.press("1")
    is_at(page, 27)
    assert state(page)["frame"] == 27


@pytest.mark.parametrize("only", ["boxes", "disc"])
def test_annotations_follow_a_film_that_plays(films: Served, open_page: Open, only: str) -> None:
    """To its end; what is drawn is of the frame that is seen, or of the one before while it changes."""
    page = opened(films, open_page, "film", only)
    is_at(page, 0)
    # At half of its speed: a busy machine shows and draws fewer frames in a second.
    page.evaluate("() => { document.querySelector('video').playbackRate = 0.5; }")
    page.keyboard.press(" ")
    seen = [one for one in page.evaluate(PLAYED, 2 * FRAMES / RATE - 0.5) if one[0] is not None]
    places = {round(ball) for ball, _ in seen}
    assert len(places) > FRAMES / 3  # it did play
    drawn = [(ball, over) for ball, over in seen if over is not None]
    assert len(drawn) > 0.6 * len(seen)  # masks may come late where the machine is busy
    apart = np.array([abs(ball - over) for ball, over in drawn])
    assert (apart <= 2).mean() > 0.7
    assert apart.max() <= 2 * STEP + 2
    until(page, "document.querySelector('video').ended")
    is_at(page, FRAMES - 1)


def test_a_long_film_has_its_boxes_to_the_end(films: Served, open_page: Open) -> None:
    """Of a row among many a film's boxes are cut; of an open one none is missing."""
    page = opened(films, open_page, "long", "boxes", frame=LONG - 1)
    is_at(page, LONG - 1, LONG)
    page.evaluate("() => { document.querySelector('video').currentTime = 60; }")
    is_at(page, 60 * RATE, LONG)
    left = lakes.ball(60 * RATE, LONG)[0] - lakes.SIDE
    values = page.get_by_role("complementary", name="Values")
    values.get_by_role("cell", name=str(left), exact=True).wait_for()
    assert "only the first" not in values.inner_text()


def test_a_film_whose_sound_is_longer_has_its_frames_by_their_rate(
    tmp_path: Path, serve: Callable[..., Served], open_page: Open
) -> None:
    """The length of a film is that of its longest part."""
    av = pytest.importorskip("av")
    path = tmp_path / "film.mp4"
    container = av.open(str(path), "w", options={"movflags": "faststart"})
    picture = container.add_stream("libx264", rate=RATE, options={"g": "12"})
    picture.width, picture.height, picture.pix_fmt = *lakes.FILM, "yuv420p"
    sound = container.add_stream("aac", rate=16000, layout="mono")
    boxes = []
    for at in range(FRAMES):
        x, y = lakes.ball(at, FRAMES)
        pixels = np.full((lakes.FILM[1], lakes.FILM[0], 3), 20, np.uint8)
        pixels[y - 20 : y + 20, x - 20 : x + 20] = 250
        boxes.append(np.array([[x - 20, y - 20, 40, 40]], np.float32))
        container.mux(picture.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
    container.mux(picture.encode())
    silence = av.AudioFrame.from_ndarray(np.zeros((1, 16000 * 8), np.float32), format="fltp", layout="mono")
    silence.sample_rate = 16000
    container.mux(sound.encode(silence))
    container.mux(sound.encode())
    container.close()
    ds = lakebed.empty(str(tmp_path / "ds"))
    with ds:
        ds.create_tensor("film", htype="video", sample_compression="mp4")
        ds.create_tensor("boxes", htype="sequence[bbox]", coords={"type": "pixel", "mode": "LTWH"})
        ds.append({"film": lakebed.read(path.read_bytes()), "boxes": boxes})
    page = open_page(serve(tmp_path / "ds").at(row=0, frame=50))
    page.locator(".detail canvas").wait_for()
    page.evaluate(WATCH)
    until(page, "document.querySelector('video').duration > 7")
    is_at(page, 50)
    page.evaluate("() => { document.querySelector('video').currentTime = 2.5; }")
    is_at(page, 30)


def test_a_sequence_has_its_boxes_and_masks(films: Served, open_page: Open) -> None:
    """Each frame with its own, and none asked for twice while it plays."""
    for only in ("boxes", "disc"):
        page = opened(
            films,
            open_page,
            "clip",
            only,
            frame=20,
            opacity=1,
            colours={"ball": "#ff0000", "late ball": "#ff0000"},
        )
        is_at(page, 20)
        slider = page.get_by_role("slider", name="Frame")
        for frame in (59, 3, 33):
            slider.fill(str(frame))
            is_at(page, frame)
    asked: Counter[str] = Counter()
    page.on("request", lambda request: asked.update([request.url]))
    slider.fill("0")
    is_at(page, 0)
    page.get_by_role("combobox", name="Frames per second").select_option("30")
    page.get_by_role("button", name="Play").click()
    page.locator("output").filter(has_text=f"{FRAMES} / {FRAMES}").wait_for()
    is_at(page, FRAMES - 1)
    pictures = {url: many for url, many in asked.items() if "/image/" in url}
    assert len(pictures) >= FRAMES
    assert max(pictures.values()) == 1


def test_labels_of_a_sequence_are_told_once_in_the_grid(films: Served, open_page: Open) -> None:
    page = open_page(films.at(dataset=films.number("clip")))
    page.get_by_role(
        "gridcell", name=f"row 0: ball \u00d7 {FRAMES // 2}, late ball \u00d7 {FRAMES // 2}"
    ).wait_for()
