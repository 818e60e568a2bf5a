"""Write chosen sections of benchmarks/RESULTS.md, as they are, into the page docs/benchmarks.md, behind its own words.

python scripts/benchmarks_page.py
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
MARK = "<!-- What follows is written by scripts/benchmarks_page.py. -->\n"

SECTIONS = (
    "Ingest 4,000 JPEG files",
    "Ingest 1,000 arrays",
    "Decode all JPEGs",
    "2,000 random single JPEGs",
    "Write 118,000 ragged sets",
    "Read 118,000 ragged sets",
    "Open a table of 12 columns",
    "Open 1,000,000 rows",
    "Open, read 1,000,000 labels",
    "Open 200,000 vectors",
    "Start Python and import",
    "Where a bar is missed",
    "From a bucket",
    "20 ms",
    "50 ms",
    "Size on disk beside Parquet",
    "Photos of about 375 x 500",
    "The same without a crop",
    "4,000 photos from a bucket, 20 ms, 80 MB/s",
    "4,000 photos from a bucket, 20 ms, 250 MB/s",
    "Loading: where a bar is missed",
    "Imports",
    "Queries",
)
"""Beginnings of the headings of the sections, in their order."""


def chosen(results: str) -> str:
    """Return the chosen sections of the results, as Markdown.

    Raises
    ------
    ValueError
        If a section is not there.
    """
    results = re.sub(r"<!--.*?-->\n*", "", results)
    sections = re.split(r"^##+ ", results, flags=re.MULTILINE)[1:]
    found = [next((one for one in sections if one.startswith(name)), "") for name in SECTIONS]
    if not all(found):
        missing = SECTIONS[found.index("")]
        raise ValueError(f"benchmarks/RESULTS.md has no section that begins with {missing!r}")
    return "\n\n".join(f"## {section.strip()}" for section in found) + "\n"


def page(text: str, results: str) -> str:
    """Return the page with what is behind its mark made anew."""
    words, mark, _ = text.partition(MARK)
    return f"{words}{mark}\n{chosen(results)}"


if __name__ == "__main__":
    made = page(
        PAGE.read_text(encoding="utf-8"), (ROOT / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    )
    PAGE.write_text(made, encoding="utf-8")
