"""Fail when a public function does not tell all its parameters and what it returns.

Public are the functions of `lakebed` and the methods of `Dataset`, `Tensor`, their verbs, conditions, groups, results
and the loaders that users get from them.
numpydoc reads the docstrings. A docstring with "see `lakebed.NAME`", or a method of the class, tells by that one's.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

from numpydoc.docscrape import FunctionDoc

import lakebed
from lakebed.dataset.dataset import Dataset
from lakebed.dataset.tensor import Tensor
from lakebed.query.result import Result, ResultVerbs
from lakebed.query.result_column import ResultColumn
from lakebed.verbs.condition import Condition
from lakebed.verbs.dataset import DatasetVerbs
from lakebed.verbs.together import Groups
from lakebed.verbs.values import ColumnVerbs

_SEE = re.compile(r"see (``lakebed\.|:meth:`)(\w+)`")
_CLASSES = (Dataset, Tensor, DatasetVerbs, ColumnVerbs, Condition, Groups, Result, ResultVerbs, ResultColumn)
_NOTHING = (None, "None", "NoReturn", "Never")


def public() -> Iterator[tuple[str, Any, Any]]:
    """Yield the names of the public functions and methods, these, and what they are of."""
    for name in lakebed.__all__:
        found = getattr(lakebed, name)
        if inspect.isfunction(found):
            yield name, found, lakebed
    for cls in _CLASSES:
        for name in sorted(dir(cls)):
            found = inspect.getattr_static(cls, name)
            if not name.startswith("_") and inspect.isfunction(found):
                yield f"{cls.__name__}.{name}", found, cls


def problems(function: Any, owner: Any) -> Iterator[str]:
    """Yield what the docstring of a function leaves out, or tells of arguments that there are not."""
    text = inspect.getdoc(function) or ""
    see = _SEE.search(text)
    other = see and getattr(owner if see[1] == ":meth:`" else lakebed, see[2])
    told = _told(text) | _told(inspect.getdoc(other) or "" if other else "")
    signature = inspect.signature(function)
    taken = {name for name in signature.parameters if not name.startswith("_")} - {"self"}
    if taken - told:
        yield f"no word of {', '.join(sorted(taken - told))}"
    if _told(text) - taken:
        yield f"there is no {', '.join(sorted(_told(text) - taken))}"
    returns = signature.return_annotation
    says = text.startswith(("Return ", "Yield ", "Tell ", "Whether ", "Read ")) or "\nReturns\n" in text
    if returns not in _NOTHING and "\nYields\n" not in text and not (says or see):
        yield f"no word of what it returns ({returns})"


def _told(text: str) -> set[str]:
    """Return the names of the parameters that a docstring tells."""
    sections = FunctionDoc(None, doc=text)
    entries = [*sections["Parameters"], *sections["Other Parameters"]]
    return {name.strip().lstrip("*") for entry in entries for name in entry.name.split(",")}


def main() -> int:
    """Print what is missing, and exit with status 1 if anything is."""
    count = missing = 0
    for name, function, owner in public():
        count += 1
        for problem in problems(function, owner):
            missing += 1
            print(f"{name}: {problem}")
    if not missing:
        print(f"{count} public functions tell their parameters and what they return")
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
