"""Pages: links lead somewhere, words are spelt right, and what has a length keeps it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

from scripts import benchmarks_page

ROOT = Path(__file__).resolve().parents[2]
NAMES = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.cff", "examples/*.py"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=False,
).stdout.split()
PAGES = [ROOT / name for name in NAMES if name.endswith(".md") and "integration_tests/data" not in name]

LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?\)")
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)

needs_git = pytest.mark.skipif(not NAMES, reason="no checkout: git does not list the pages")


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as mkdocs makes them."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        name = re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
        number = 1
        while name in found:
            name, number = f"{name.removesuffix(f'_{number - 1}')}_{number}", number + 1
        found.add(name)
    return found


@needs_git
def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", link) or link.startswith("/"):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / unquote(path)).resolve() if path else page
            found = target.exists() and (not anchor or target.suffix != ".md" or anchor in anchors(target))
            broken += [] if found else [f"{page.relative_to(ROOT)}: {link}"]
    assert broken == []


@needs_git
def test_words_are_spelt_right() -> None:
    if find_spec("codespell_lib") is None:
        pytest.skip("codespell is not installed: make env")
    names = [name for name in NAMES if "integration_tests/data" not in name]
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *names], cwd=ROOT, capture_output=True, text=True, check=False
    )
    # Slips that pages show on purpose, in code, do not count.
    told = [
        line for line in done.stdout.splitlines() if not line.startswith(("docs/cli.md:", "docs/query.md:"))
    ]
    assert told == [], done.stderr


def test_the_front_page_and_the_change_log_stay_short() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(readme) <= 150
    top = [
        number for number, line in enumerate(readme) if line.startswith(("    make demo", "    make test"))
    ]
    assert len(top) == 2
    assert max(top) < 12
    releases = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert releases
    assert all(release.count("\n") <= 120 for release in releases)


def test_fragments_of_the_change_log_have_a_kind_and_few_words() -> None:
    kinds = "added|changed|deprecated|removed|fixed|security"
    for path in (ROOT / "changes").iterdir():
        if path.name != "README.md":
            assert re.fullmatch(rf"[a-z0-9-]+\.({kinds})\.md", path.name), path.name
            text = path.read_text(encoding="utf-8").strip()
            assert text.endswith(".")
            assert len(text) <= 600, path.name


def test_the_page_of_benchmarks_has_the_measured_figures() -> None:
    text = benchmarks_page.PAGE.read_text(encoding="utf-8")
    results = (ROOT / "benchmarks/RESULTS.md").read_text(encoding="utf-8")
    assert benchmarks_page.page(text, results) == text, "run scripts/benchmarks_page.py"
