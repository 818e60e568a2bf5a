"""The Python of the README and of the pages in docs/ runs as it stands."""

from __future__ import annotations

import os
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
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "htypes").glob("*.md")),
    *sorted((ROOT / "docs" / "importing").glob("*.md")),
]
# Those with `exec` are run when the pages are built, too, and what they print stands under them.
BLOCK = re.compile(r"^```python(?: exec[^\n]*)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


BUCKET = re.compile(r"s3://([a-z0-9-]+)")
_made: set[str] = set()


@pytest.fixture(scope="module")
def bucket_store() -> Iterator[Server]:
    """A store for the pages that write to buckets."""
    with moto() as server:
        yield server


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_snippets_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, bucket_store: Server
) -> None:
    snippets = "\n".join(blocks(page))
    for bucket in set(BUCKET.findall(snippets)) - _made:
        bucket_store.make_bucket(bucket)
        _made.add(bucket)
    (tmp_path / "demo").symlink_to(ROOT / "demo")  # as in a checkout
    environment = {**os.environ, **bucket_store.environment, "HOME": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", snippets]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_there_are_snippets() -> None:
    assert sum(len(blocks(page)) for page in PAGES) >= 5
