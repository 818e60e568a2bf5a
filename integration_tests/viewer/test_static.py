"""The page without a server: files in a folder beside the datasets, shown by a web server that knows nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import lakebed
from integration_tests.viewer.bucket import Bucket, serving
from integration_tests.viewer.conftest import painted, rows_said, until
from lakebed.cli import main

pytestmark = pytest.mark.viewer


def write(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["view", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def bucket(lake: Path) -> Iterator[Bucket]:
    write(str(lake), "--static", str(lake / "page"))
    with serving(lake) as served:
        yield served


@pytest.fixture
def show(bucket: Bucket, open_page: Callable[..., Any]) -> Callable[..., Any]:
    def shown(**state: Any) -> Any:
        # Whether lakebed or Deep Lake wrote a head last, files tell that may be missing.
        return open_page(f"{bucket.url}/page/index.html#v1={json.dumps(state)}", refused=True)

    return shown


def number(lake: Path, name: str) -> int:
    listed = json.loads((lake / "page" / "lake.json").read_text())
    return next(at for at, one in enumerate(listed["datasets"]) if one["name"] == name)


def test_pictures_with_their_boxes_and_masks(show: Callable[..., Any], lake: Path, bucket: Bucket) -> None:
    earlier = len(bucket.asked)
    page = show(dataset=number(lake, "street"))
    rows_said(page, "119 rows")
    painted(page)
    page.locator(".cell").first.click()
    page.locator("main").filter(has_text=re.compile("car|person|dog")).first.wait_for()
    assert all(path.startswith(("/page/", "/street/")) for path, _ in bucket.asked[earlier:])


def test_a_table_with_its_statistics(show: Callable[..., Any], lake: Path) -> None:
    page = show(dataset=number(lake, "crm/users"), panel="statistics")
    rows_said(page, "5,000 rows")
    until(page, "document.querySelectorAll('aside svg, aside .bar').length > 0")
    ds = lakebed.load(lake / "crm" / "users", read_only=True)
    name = next(name for name, tensor in ds.tensors.items() if tensor.htype == "text")
    page.get_by_text(str(ds[name][0].text())).first.wait_for()


def test_what_needs_a_server_says_so(show: Callable[..., Any], lake: Path) -> None:
    page = show(dataset=number(lake, "street"), query="select * order by random()")
    page.get_by_text("needs `lakebed view`").first.wait_for()


def test_a_query_is_answered_in_the_page(show: Callable[..., Any], lake: Path, bucket: Bucket) -> None:
    ds = lakebed.load(lake / "street", read_only=True)
    text = "select * where contains(labels, 'car')"
    bucket.asked.clear()
    page = show(dataset=number(lake, "street"), query=text)
    rows_said(page, f"{len(ds.query(text))} rows of 119")
    painted(page)
    assert sum(path.endswith("/asked.worker.js") for path, _ in bucket.asked) == 1
    page.locator("textarea").fill("select labels, shape(boxes)[0] as n, scene order by n desc limit 7")
    page.keyboard.press("Enter")
    rows_said(page, "7 rows")
    most = max(len(row) for row in ds.boxes.numpy(aslist=True))
    page.locator("[role=gridcell], td, .cell").filter(
        has_text=re.compile(rf"^\s*{most}\s*$")
    ).first.wait_for()


def test_a_wrong_query_is_underlined_at_its_place(show: Callable[..., Any], lake: Path) -> None:
    page = show(dataset=number(lake, "street"), query="select * where labls == 1")
    page.get_by_text("did you mean 'labels'").first.wait_for()
    assert page.locator(".behind .here").inner_text() == "labls"


def test_a_click_on_a_value_of_the_statistics_chooses_its_rows(show: Callable[..., Any], lake: Path) -> None:
    ds = lakebed.load(lake / "street", read_only=True)
    page = show(dataset=number(lake, "street"), panel="statistics")
    page.get_by_role("button", name=re.compile(r"^car\b")).first.click()
    cars = ds.query("SELECT * WHERE contains(labels, 'car')")
    rows_said(page, f"{len(cars)} rows of 119")


def test_another_version(show: Callable[..., Any], lake: Path) -> None:
    page = show(dataset=number(lake, "street"), at="review")
    page.locator("footer").filter(has_text=" rows").wait_for()
    painted(page)


def test_a_page_of_another_origin_reads_a_bucket(
    lake: Path, tmp_path: Path, open_page: Callable[..., Any], bucket: Bucket
) -> None:
    write(str(lake / "street"), "--static", str(tmp_path), "--address", f"{bucket.url}/street")
    with serving(tmp_path) as other:
        page = open_page(f"{other.url}/index.html", refused=True)
        rows_said(page, "119 rows")
        painted(page)
        bucket.has_cors = False
        try:
            refused = open_page(f"{other.url}/index.html", refused=True)
            refused.get_by_text("CORS").first.wait_for()
        finally:
            bucket.has_cors = True


def test_addresses_of_buckets_and_their_rules(tmp_path: Path, lake: Path) -> None:
    said = write(str(lake / "street"), "--static", str(tmp_path / "a"))
    assert "put-bucket-cors" in said
    assert "gcloud storage" in said
    assert "az storage cors" in said
    # The rules let in what the reader asks of the bucket of these tests, and nothing else.
    plain = " ".join(said.split())
    (s3,) = json.loads(re.search(r"--cors-configuration '(.*?)'", plain)[1])["CORSRules"]  # type: ignore[index]
    (gcs,) = json.loads(re.search(r"FILE holds (\[.*?\}\])", plain)[1])  # type: ignore[index]
    assert s3["AllowedMethods"] == gcs["method"] == ["GET", "HEAD"]
    assert s3["AllowedHeaders"] == ["range"]
    assert s3["ExposeHeaders"] == ["Content-Range"]
    assert "Content-Range" in gcs["responseHeader"]
    assert "--allowed-headers range --exposed-headers Content-Range" in plain
    listed = json.loads((tmp_path / "a" / "lake.json").read_text())
    assert (tmp_path / "a" / listed["datasets"][0]["address"]).resolve() == lake / "street"
    refused = CliRunner().invoke(main, ["view", str(lake), "--address", "https://x"])
    assert refused.exit_code == 2
