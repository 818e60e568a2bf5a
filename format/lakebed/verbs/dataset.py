"""All verbs of a dataset, as `lakebed.dataset.dataset` looks them up."""

from __future__ import annotations

from typing import Any

from lakebed.verbs.output import OutputVerbs
from lakebed.verbs.rows import RowVerbs


class DatasetVerbs(RowVerbs, OutputVerbs):
    """Verbs of a dataset, which a tensor of their name hides."""


def verb(owner: Any, verbs: type, name: str) -> Any:
    """Return a verb of a class, bound to what it is asked of; None if there is none of this name."""
    found = None if name.startswith("_") else getattr(verbs, name, None)
    return None if found is None else found.__get__(owner, type(owner))
