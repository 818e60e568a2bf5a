"""One table replaced in a TOML text, all else kept."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.credentials.toml_text import with_table
from lakebed.storage.secret import Secret

TEXT = """# my keys
[lab]  # the lab's
aws_access_key_id = "A"
headers = { X = "1" }
# about prod
["team/prod"]
provider = "aws-secretsmanager"

[lab.more]
x = 1
[z]
note = '''
[lab]
'''
"""


def test_other_tables_and_comments_stay() -> None:
    changed = with_table(TEXT, "team/prod", {"secret_id": "x"})
    assert changed is not None
    assert changed.startswith(TEXT[: TEXT.index('["team/prod"]')])
    assert tomllib.loads(changed)["team/prod"] == {"secret_id": "x"}
    added = with_table(
        TEXT, "new", {"a": Secret("s"), "urls": ["s3://b/"], "headers": {"A b": "c"}, "n": 1.5, "t": True}
    )
    assert added is not None
    assert added.startswith(TEXT)
    assert tomllib.loads(added)["new"] == {
        "a": "s",
        "urls": ["s3://b/"],
        "headers": {"A b": "c"},
        "n": 1.5,
        "t": True,
    }
    assert with_table(added, "new", None) == TEXT + "\n"


def test_what_can_not_be_told_apart_is_refused() -> None:
    """The parts of [lab] lie around other tables, and what looks like a header may be text."""
    assert with_table(TEXT, "lab", {"a": "b"}) is None
    assert with_table("a = '''\n[lab]\n'''\n", "lab", {"a": "b"}) is None
    assert with_table("lab.a = 1\n", "lab", {"a": "b"}) is None
    assert with_table("not toml", "lab", {"a": "b"}) is None


VALUES: Any = st.recursive(
    st.text() | st.booleans() | st.integers(-(2**62), 2**62) | st.lists(st.text(), max_size=3),
    lambda inner: st.dictionaries(st.text(min_size=1), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(min_size=1), st.dictionaries(st.text(), VALUES, min_size=1), max_size=3))
def test_whatever_is_written_is_read_again(tables: dict[str, dict[str, Any]]) -> None:
    """Any names and values, one after the other, twice."""
    text = "# top\n"
    for name in (*tables, *tables):
        changed = with_table(text, name, tables[name])
        assert changed is not None
        text = changed
    assert tomllib.loads(text) == tables


@pytest.mark.parametrize("bad", ["\ud800"])
def test_text_that_is_none_is_refused(bad: str) -> None:
    assert with_table("", "a", {"b": bad}) is None
