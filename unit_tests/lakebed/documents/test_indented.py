"""Metas and infos are laid out exactly as Python's own indented JSON, as Deep Lake 3.9.52 writes them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.documents.json_style import dump_meta
from unit_tests.effort import examples

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.dictionaries(st.integers(), inner),
    max_leaves=20,
)


@settings(max_examples=examples(200), deadline=None)
@given(values)
def test_the_layout_is_that_of_json_dumps(value: Any) -> None:
    assert dump_meta(value) == json.dumps(value, indent=4, sort_keys=True).encode()
