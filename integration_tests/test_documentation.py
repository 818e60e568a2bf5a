"""The Python of the README and of the pages in docs/ runs as it stands, and code fits into a narrow window."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration_tests.stores.servers import Server, moto

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


# Pages run in forks of one process, which has imported what most of them import.
PAGES_PROGRAM = """
import json, os, sys
import lakebed, numpy, pandas, PIL.Image, pyarrow

for line in sys.stdin:
    page = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(page["folder"])
    os.environ.update(page["environment"])
    os.dup2(os.open(page["errors"], os.O_WRONLY | os.O_CREAT), 2)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    break
else:
    sys.exit()
exec(compile(page["snippets"], "the page", "exec"), globals())
"""

BUCKET = re.compile(r"s3://([a-z0-9-]+)")
_made: set[str] = set()


@pytest.fixture(scope="module")
def bucket_store() -> Iterator[Server]:
    """A store for the pages that write to buckets."""
    with moto() as server:
        yield server


@pytest.fixture(scope="module")
def interpreter() -> Iterator[subprocess.Popen[str]]:
    """A process that runs pages, each in a fork."""
    command = [sys.executable, "-W", "error", "-c", PAGES_PROGRAM]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        yield process


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_snippets_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, bucket_store: Server, interpreter: subprocess.Popen[str]
) -> None:
    snippets = "\n".join(blocks(page))
    for bucket in set(BUCKET.findall(snippets)) - _made:
        bucket_store.make_bucket(bucket)
        _made.add(bucket)
    (tmp_path / "demo").symlink_to(ROOT / "demo")  # as in a checkout
    asked = {
        "snippets": snippets,
        "folder": str(tmp_path),
        "errors": str(tmp_path / "errors"),
        "environment": {**bucket_store.environment, "HOME": str(tmp_path)},
    }
    assert interpreter.stdin is not None
    assert interpreter.stdout is not None
    print(json.dumps(asked), file=interpreter.stdin, flush=True)
    assert interpreter.stdout.readline() == "0\n", (tmp_path / "errors").read_text()


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
        *(page for page in (ROOT / "docs").rglob("*.md") if design not in page.parents),
    ]
    found = [(page.relative_to(ROOT), *line) for page in pages for line in lines_of_code(page)]
    assert len(found) > 1_000
    assert [line for line in found if len(line[2]) > WIDTH and line[2] not in LONG_LINES] == []
    assert {text for _, _, text in found} >= LONG_LINES
