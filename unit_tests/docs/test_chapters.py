"""Comments that name a chapter of the format lead to a row of the table in docs/format.md."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"format\.md (\d+(?:\.\d+)?(?:(?:, | and | to )\d+(?:\.\d+)?)*)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def test_comments_name_chapters_that_exist() -> None:
    page = (ROOT / "docs" / "format.md").read_text()
    rows = page.split("| chapter | holds | read |")[1]
    chapters = {
        number
        for cell in re.findall(r"^\| ([\d., ]+) \|", rows, re.MULTILINE)
        for number in _NUMBER.findall(cell)
    }
    for path in re.findall(r"`([a-z_0-9]+/(?:\w+/)*(?:\w+\.py)?)`", rows):
        assert (ROOT / "format" / "lakebed" / path).exists(), path
    named: dict[str, Path] = {}
    for folder in ("format/lakebed", "format/ext", "destination_deeplake", "unit_tests"):
        for suffix in ("*.py", "*.pyx"):
            for file in (ROOT / folder).rglob(suffix):
                text = re.sub(r"\s+", " ", file.read_text())
                named |= {n: file for found in _NAMED.findall(text) for n in _NUMBER.findall(found)}
    assert len(named) > 30
    assert named.keys() <= chapters, {number: named[number] for number in named.keys() - chapters}
