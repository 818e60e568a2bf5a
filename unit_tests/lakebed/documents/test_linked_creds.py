"""linked_creds.json: the bytes of 3.9.52, codes that stay, and what it leaves behind."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.linked_creds import LinkedCreds
from lakebed.errors import AlreadyExistsError, FormatError, InvalidInputError, LimitError, MissingCredsError

NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=8)
GOLDEN = [
    b'{"creds_keys": ["A"], "managed_creds_keys": [], "used_creds_keys": []}',
    b'{"creds_keys": ["A", "\\u00fc \\u00e9", "B"], "managed_creds_keys": [], "used_creds_keys": ["B", "A"]}',
    b'{"creds_keys": ["B", 5, "", null, "B"], "managed_creds_keys": [], "used_creds_keys": ["B"]}',
    b'{"creds_keys": ["M", "K", "NEW"], "managed_creds_keys": ["M"], "used_creds_keys": ["M"]}',
]


@pytest.mark.parametrize("data", GOLDEN)
def test_what_deep_lake_wrote_comes_back_byte_for_byte(data: bytes) -> None:
    assert LinkedCreds.from_bytes(data).to_bytes() == data


def test_changes_make_the_bytes_that_deep_lake_makes() -> None:
    """The same calls gave these files under 3.9.52."""
    names = LinkedCreds().declared("A").declared("B").declared("C").with_used(["A"])
    assert names.to_bytes() == (
        b'{"creds_keys": ["A", "B", "C"], "managed_creds_keys": [], "used_creds_keys": ["A"]}'
    )
    names = names.renamed("A", "A2")
    assert names.to_bytes() == (
        b'{"creds_keys": ["A2", "B", "C"], "managed_creds_keys": [], "used_creds_keys": ["A2"]}'
    )
    names = names.with_used(["B"]).renamed("A2", "B")
    assert names.to_bytes() == (
        b'{"creds_keys": ["B", "B", "C"], "managed_creds_keys": [], "used_creds_keys": ["B"]}'
    )
    assert (names.names, names.codes) == (["B", "C"], {"B": 2, "C": 3})
    assert [names.name_of(code) for code in range(4)] == [None, "B", "B", "C"]


def test_env_that_is_used_but_not_declared_comes_first() -> None:
    """3.9.52 reads code 1 as ENV then, and writes it in front with the next change."""
    old = b'{"creds_keys": ["M"], "managed_creds_keys": [], "used_creds_keys": ["ENV"]}'
    names = LinkedCreds.from_bytes(old)
    assert [names.name_of(code) for code in (1, 2)] == ["ENV", "M"]
    assert names.declared("NEW").keys == ("ENV", "M", "NEW")


def test_members_of_later_writers_survive() -> None:
    names = LinkedCreds.from_bytes(b'{"creds_keys": ["A"], "more": {"x": 1}}').declared("B")
    assert json.loads(names.to_bytes()) == {
        "creds_keys": ["A", "B"],
        "managed_creds_keys": [],
        "used_creds_keys": [],
        "more": {"x": 1},
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"creds_keys": 1}',
        b'{"creds_keys": [[]]}',
        b'{"used_creds_keys": {"a": 1}}',
        b"\xff",
    ],
)
def test_damage_is_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        LinkedCreds.from_bytes(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        names = LinkedCreds.from_bytes(data)
    except (FormatError, LimitError):
        return
    assert LinkedCreds.from_bytes(names.to_bytes()) == names


@given(st.lists(NAMES, unique=True, max_size=6), st.data())
def test_codes_never_change(names: list[str], data: st.DataObject) -> None:
    """Whatever is declared, renamed, managed or used later: a code stands for its name, or what that was renamed to."""
    document, expected = LinkedCreds(), list[str]()
    for name in names:
        document, expected = document.declared(name), [*expected, name]
    for _ in range(4 if names else 0):
        old, new = data.draw(st.sampled_from(expected)), data.draw(NAMES)
        document = document.with_used([old]).with_management(old, managed=data.draw(st.booleans()))
        document, expected = document.renamed(old, new), [new if n == old else n for n in expected]
    again = LinkedCreds.from_bytes(document.to_bytes())
    assert again == document or ("ENV" in document.used and "ENV" not in document.keys)
    assert [again.name_of(code + 1) for code in range(len(expected))] == expected
    for name, code in again.codes.items():
        assert again.name_of(code) == name


def test_what_names_can_not_do() -> None:
    names = LinkedCreds.from_bytes(b'{"creds_keys": ["A", null]}')
    with pytest.raises(AlreadyExistsError, match="Creds key A already exists"):
        names.declared("A")
    for call in (
        names.check,
        lambda n: names.renamed(n, "B"),
        lambda n: names.with_management(n, managed=True),
    ):
        with pytest.raises(MissingCredsError, match="Creds key Z does not exist"):
            call("Z")
    with pytest.raises(KeyError):
        names.renamed("Z", "B")
    for bad in ("", "a\nb", 5, None):
        with pytest.raises(InvalidInputError):
            names.declared(bad)  # type: ignore[arg-type]
    for code in (2, 3, -1):
        with pytest.raises(FormatError):
            names.name_of(code)
