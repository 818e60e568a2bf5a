"""A short tour in Firefox: what is drawn and asked there is what Chromium shows."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from integration_tests.viewer import lakes
from integration_tests.viewer.conftest import Served

if TYPE_CHECKING:
    from integration_tests.viewer.bidi import Firefox

pytestmark = pytest.mark.viewer

PAINTED = """[...document.querySelectorAll('.face canvas')].length > 5 && !document.querySelector('.cell .skeleton') &&
  [...document.querySelectorAll('.face canvas')].slice(0, 5).every((one) => {
    const {data} = one.getContext('2d').getImageData(0, 0, one.width, one.height);
    return new Set(data.filter((_, at) => at % 4 === 1)).size > 20;
  })"""
COLOURS = """(() => {
  const canvas = document.querySelector('.detail canvas');
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) count += data[at] > 240 && data[at + 1] < 20 && data[at + 2] > 240;
  return count;
})()"""


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """Return a Firefox of the machine."""
    pytest.importorskip("websockets", reason="no websockets here: make test-viewer installs it")
    from integration_tests.viewer import bidi

    if not bidi.FIREFOX:
        pytest.skip("no Firefox here: install it, or name it in LAKEBED_FIREFOX")
    found = bidi.Firefox(tmp_path_factory.mktemp("firefox"))
    yield found
    found.close()
    assert found.complaints == []  # of scripts, of the policy, or in the console


def greys(firefox: Firefox) -> Any:
    return np.asarray(Image.open(io.BytesIO(firefox.screenshot())).convert("L")).astype(int)


def test_pictures_are_painted(served: Served, firefox: Firefox) -> None:
    firefox.open(served.at(dataset=served.number("street")))
    firefox.until(PAINTED)
    seen = greys(firefox)
    assert seen[100:600, 20:1000].std() > 30  # not white: what is on the canvas is on the screen
    firefox.click("[data-at='2']")
    firefox.until("!!document.querySelector('[aria-label=\"Row 2\"] [role=application] canvas')")
    classes = "document.querySelectorAll('[aria-label=Values] input[type=color]').length"
    firefox.until(f"{classes} > 0")
    before = firefox.evaluate(COLOURS)
    colours = dict.fromkeys(lakes.CLASSES, "#ff00ff")
    firefox.open(served.at(dataset=served.number("street"), row=2, colours=colours))
    firefox.until(
        f"document.querySelector('.detail canvas') && {COLOURS} > 500"
    )  # outlines in a colour of ours
    assert before < 50
    firefox.press("Escape")
    firefox.until("!document.querySelector('.detail')")


def test_tables_are_sorted(served: Served, firefox: Firefox) -> None:
    firefox.open(served.at(dataset=served.number("crm/users")))
    first = "document.querySelector('[aria-rowindex=\"2\"]')?.innerText ?? ''"
    firefox.until(f"{first}.includes('Ada 0')")
    firefox.click("[title='id: sort']")
    firefox.until("location.hash.includes('ORDER') || location.hash.includes('order')")
    firefox.until(f"{first}.includes('Ada 0')")
    firefox.click("[title='id: sort']")
    firefox.until(f"{first}.includes('4,999')")


def test_an_error_of_a_query_has_its_place(served: Served, firefox: Firefox) -> None:
    firefox.open(served.at(dataset=served.number("street")))
    firefox.until(PAINTED)
    firefox.press("/", *"bogus > 1", "Enter")
    firefox.until("document.querySelector('#query-error')?.innerText.includes('bogus')")
    assert firefox.evaluate("document.querySelector('.behind .here').innerText") == "bogus"


def test_differences_are_shown(served: Served, firefox: Firefox) -> None:
    number = served.number("street")
    firefox.open(served.at(dataset=number, diff={"a": "main", "b": "review"}))
    firefox.until("document.querySelector('main').innerText.includes('Looked at again')")


def test_a_film_plays_with_its_boxes(tmp_path: Path, serve: Any, firefox: Firefox) -> None:
    lakes.films(tmp_path / "ds", rows=1)
    firefox.open(serve(tmp_path / "ds").at(row=0, frame=30))
    box = """(() => {
      const canvas = document.querySelector('.detail canvas');
      const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      let [count, sum] = [0, 0];
      for (let at = 3; at < data.length; at += 4) {
        if (data[at] > 90) [count, sum] = [count + 1, sum + ((at - 3) / 4) % canvas.width];
      }
      const scale = Math.min(canvas.width / 320, canvas.height / 240);
      return count ? (sum / count - canvas.width / 2) / scale + 160 : null;
    })()"""
    firefox.until(
        f"document.querySelector('.detail canvas') && Math.abs({box} - {lakes.ball(30, 60)[0]}) < 4"
    )
    firefox.press(" ")
    firefox.until("document.querySelector('video').ended")
    firefox.until(f"Math.abs({box} - {lakes.ball(59, 60)[0]}) < 4")
