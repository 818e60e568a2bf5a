"""All verbs of a dataset, as `lakebed.dataset.dataset` looks them up."""

from __future__ import annotations

from lakebed.verbs.change import ChangeVerbs
from lakebed.verbs.output import OutputVerbs
from lakebed.verbs.rows import RowVerbs


class DatasetVerbs(RowVerbs, ChangeVerbs, OutputVerbs):
    """Verbs of a dataset, which a tensor of their name hides."""
