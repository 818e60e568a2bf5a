"""The Python of the README and of the pages in docs/ runs as it stands, and code fits into a narrow window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration_tests.stores.servers import Server
from unit_tests.forks import Forks

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "format/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "htypes").glob("*.md")),
    *sorted((ROOT / "docs" / "importing").glob("*.md")),
]
# Those with `exec` are run when the pages are built, too, and what they print stands under them.
BLOCK = re.compile(r"^```python(?: exec[^\n]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^ *```")

WIDTH = 78
"""Columns of a code block that a laptop shows beside the navigation without a scroll bar."""

# Printed by lakebed on one line that cannot be shorter.
LONG_LINES = {
    "Stream 'public.users': 120,000 records (43.1 MB) received, 100,000 written; 12,345 records/s, 4.4 MB/s.",
    (
        "Wrote 203,400 records of 2 streams from 97.2 MB of input in 20.9 s: 9,732 records/s, 4.7 MB/s. "
        "By stream: public.users 200,000, public.orders 3,400."
    ),
    "Dataset(path='mem://album', rows=1, tensors=3, branch='main', version=None with changes)",
}


# What lakebed imports when it is first used, too.
IMPORTED = """
import lakebed, lz4, numpy, pandas, PIL.Image, pyarrow.compute, simplejpeg
import lakebed.api.copies, lakebed.codecs.jpeg, lakebed.codecs.lz4_block, lakebed.dataset.described
import lakebed.dataset.display.drawing, lakebed.dataset.info, lakebed.dataset.queries, lakebed.history.commits
import lakebed.exporters.core.exporting, lakebed.importers.arrays.numpy_files, lakebed.importers.core.importing
import lakebed.importers.deeplake.deeplake_datasets, lakebed.importers.detection.coco
import lakebed.importers.detection.yolo, lakebed.importers.tables.huggingface, lakebed.links.span, lakebed.query.run
import lakebed.session.branches, lakebed.session.changes.append, lakebed.session.changes.regions
import lakebed.session.columns, lakebed.session.process.publisher, lakebed.session.schema, lakebed.session.table
import lakebed.storage.files.new_files, lakebed.storage.memory, lakebed.transforms.run, lakebed.upserts.at_once
import lakebed.verbs.output, lakebed.versions.create, lakebed.versions.derive, lakebed.versions.paged
import lakebed.versions.publish
"""

BUCKET = re.compile(r"s3://([a-z0-9-]+)")
_made: set[str] = set()


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Forks]:
    """A process that runs pages, each in a fork."""
    with Forks(IMPORTED, "-W", "error") as forks:
        yield forks


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_snippets_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, moto: Server, interpreter: Forks
) -> None:
    snippets = "\n".join(blocks(page))
    for bucket in set(BUCKET.findall(snippets)) - _made:
        moto.make_bucket(bucket)
        _made.add(bucket)
    (tmp_path / "demo").symlink_to(ROOT / "demo")  # as in a checkout
    environment = {**moto.environment, "HOME": str(tmp_path)}
    failure = interpreter.run(snippets, tmp_path, environment)
    assert failure is None, failure


def test_there_are_snippets() -> None:
    assert sum(len(blocks(page)) for page in PAGES) >= 5


def lines_of_code(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of the lines between fences."""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if FENCE.match(line):
            inside = not inside
        elif inside:
            yield number, line
    assert not inside, f"{page} has a fence that is not closed"


def test_code_fits_into_a_narrow_window() -> None:
    design = ROOT / "docs" / "design"  # for developers, who read them in an editor
    pages = [
        ROOT / "README.md",
        ROOT / "format/README.md",
        ROOT / "destination_deeplake/README.md",
        *(page for page in (ROOT / "docs").rglob("*.md") if design not in page.parents),
    ]
    found = [(page.relative_to(ROOT), *line) for page in pages for line in lines_of_code(page)]
    assert len(found) > 1_000
    assert [line for line in found if len(line[2]) > WIDTH and line[2] not in LONG_LINES] == []
    assert {text for _, _, text in found} >= LONG_LINES
