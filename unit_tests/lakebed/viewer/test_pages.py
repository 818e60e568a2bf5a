"""The users' page of the viewer says what the viewer does."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/viewer.md").read_text(encoding="utf-8")
KEYS = (ROOT / "format/lakebed/viewer/web/src/keys.ts").read_text(encoding="utf-8")


def test_the_table_of_keys_is_that_of_the_page() -> None:
    keys = re.findall(r'shown: "([^"]+)", words: "([^"]+)"', KEYS)

    assert len(keys) == len(re.findall(r"^  \{ keys:", KEYS, re.MULTILINE)) > 15
    table = PAGE.split("\n## Keys")[1].split("\n## ")[0]
    assert re.findall(r"^\| (.+) \| (.+) \|$", table, re.MULTILINE)[1:] == keys


def test_the_pictures_are_small_and_all_shown() -> None:
    found = list((ROOT / "docs/assets/viewer").iterdir())

    assert sorted(re.findall(r"\]\(assets/viewer/([^)]+)\)", PAGE)) == sorted(one.name for one in found)
    assert [one.name for one in found if one.stat().st_size > 60_000] == []
