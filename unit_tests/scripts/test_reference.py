"""The reference has a page for all that is public, and the site leads to each page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import lakebed
from lakebed.query.result import Result
from lakebed.verbs.condition import Condition
from lakebed.verbs.dataset import DatasetVerbs
from lakebed.verbs.together import Groups
from lakebed.verbs.values import ColumnVerbs
from scripts import docstrings

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text() for path in (ROOT / "docs/reference").glob("*.md")}
SHOWN = {name for text in PAGES.values() for name in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)}


def test_every_public_function_and_class_of_verbs_is_on_a_page() -> None:
    functions = {f"lakebed.{n}" for n in lakebed.__all__ if inspect.isfunction(getattr(lakebed, n))}
    verbs = (DatasetVerbs, ColumnVerbs, Condition, Groups, Result)

    assert functions | {f"{cls.__module__}.{cls.__name__}" for cls in verbs} <= SHOWN


def test_what_has_no_entry_of_its_own_is_named_on_the_page() -> None:
    """Pages have entries of what is defined by `def`: neither second names nor what a function makes."""
    words = set(re.findall(r"\w+", PAGES["verbs.md"]))
    for cls in (DatasetVerbs, ColumnVerbs, Condition, Groups):
        for name, found in inspect.getmembers(cls):
            of = found.fget if isinstance(found, property) else found
            if not name.startswith("_") and inspect.isfunction(of):
                defined = {f"{base.__name__}.{name}" for base in cls.__mro__}
                assert of.__qualname__ in defined or name in words, name


def test_every_page_is_in_the_menu_and_in_the_overview() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()

    assert [name for name in PAGES if f"reference/{name}" not in menu] == []
    assert [name for name in PAGES if name != "index.md" and f"]({name})" not in PAGES["index.md"]] == []


def test_a_docstring_that_leaves_out_a_parameter_or_the_answer_is_told() -> None:
    class Owner:
        def whole(self, rows: int, how: str) -> int:
            """Count.

            Parameters
            ----------
            rows, how
                Both.

            Returns
            -------
            How many.
            """

        def alike(self, rows: int) -> int:
            """Count others; see :meth:`whole`."""

        def bare(self, rows: int, **_: int) -> int:
            """Count."""

    assert list(docstrings.problems(Owner.whole, Owner)) == []
    assert list(docstrings.problems(Owner.alike, Owner)) == []
    assert list(docstrings.problems(Owner.bare, Owner)) == [
        "no word of rows",
        "no word of what it returns (int)",
    ]
