"""Rules for streams: which streams they are for, and what several of them come to."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from destination_deeplake.airbyte_types import unheard
from destination_deeplake.choices import NO_CHOICES, ColumnChoice, Compression, StreamChoices
from destination_deeplake.config import DestinationConfig
from destination_deeplake.config.streams import matches
from destination_deeplake.failures import ConfigError


def config(*streams: Any) -> DestinationConfig:
    return DestinationConfig.from_mapping({"destination_path": "/lake", "streams": list(streams)})


def refused(*streams: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        config(*streams)
    return str(caught.value)


def test_a_stream_that_nobody_speaks_of_has_no_choices() -> None:
    assert config().choices(None, "users") is NO_CHOICES
    assert config({"name": "user"}).choices(None, "users") is NO_CHOICES


def test_every_setting_arrives() -> None:
    found = config(
        {
            "name": "users",
            "include": ["id", "address"],
            "exclude": ["secret"],
            "flatten": True,
            "exact_numbers": True,
            "chunk_size_mb": 8,
            "chunk_compression": "lz4",
            "columns": [{"column": "address.city", "tensor": "city"}],
        }
    ).choices("public", "users")
    assert found == StreamChoices(
        include=("id", "address"),
        exclude=("secret",),
        flatten=True,
        exact_numbers=True,
        chunk_bytes=8_000_000,
        compression=Compression.LZ4,
        columns={"address.city": ColumnChoice("address.city", tensor="city")},
    )


def test_what_is_said_for_all_streams_holds_where_no_entry_says_more() -> None:
    def compressed(*streams: Any) -> Compression:
        values = {"destination_path": "/lake", "chunk_compression": "none", "streams": list(streams)}
        return DestinationConfig.from_mapping(values).choices(None, "users").compression

    assert compressed() is Compression.NONE
    assert compressed({"name": "users", "flatten": True}) is Compression.NONE
    assert compressed({"name": "*", "chunk_compression": "lz4"}, {"name": "users"}) is Compression.LZ4
    assert config().choices(None, "users").compression is Compression.AUTO


@pytest.mark.parametrize(
    ("rule", "stream", "is_for"),
    [
        ({"name": "users"}, (None, "users"), True),
        ({"name": "users"}, ("public", "users"), True),
        ({"name": "Users"}, (None, "users"), False),
        ({"name": "*"}, (None, ""), True),
        ({"name": "public_*"}, (None, "public_a\nb_c"), True),
        ({"name": "*_c"}, (None, "a_b_c"), True),
        ({"name": "u?er*"}, (None, "users"), True),
        ({"name": "a.c"}, (None, "abc"), False),
        ({"name": "users", "namespace": "public"}, ("public", "users"), True),
        ({"name": "users", "namespace": "public"}, (None, "users"), False),
        ({"name": "users", "namespace": "p*"}, ("public", "users"), True),
        ({"name": r"a\*"}, (None, "a*"), True),
        ({"name": r"a\*"}, (None, "ab"), False),
    ],
)
def test_patterns(rule: dict[str, str], stream: tuple[str | None, str], is_for: bool) -> None:
    chosen = config({**rule, "flatten": True})
    assert chosen.choices(*stream).flatten is is_for
    assert [found.where for found in chosen.unmatched([("other", "one"), stream])] == (
        [] if is_for else ["streams[0]"]
    )


@given(st.text())
def test_a_name_with_its_wildcards_escaped_matches_itself_alone(name: str) -> None:
    escaped = re.sub(r"([*?\\])", r"\\\1", name)
    assert matches(escaped, name)
    assert not matches(escaped, name + "x")
    assert matches(escaped + "*", name + "x")


def test_later_rules_override_earlier_ones_setting_by_setting() -> None:
    found = config(
        {"name": "*", "include": ["id"], "exclude": ["a"], "flatten": True, "chunk_size_mb": 4},
        {
            "name": "users",
            "exclude": ["b", "a"],
            "columns": [{"column": "x"}, {"column": "y", "dtype": "int8"}],
        },
        {"name": "user?", "flatten": False, "columns": [{"column": "y", "dtype": "int16"}]},
        {"name": "other", "flatten": True},
    ).choices(None, "users")
    assert found == StreamChoices(
        include=("id",),
        exclude=("a", "b"),
        flatten=False,
        chunk_bytes=4_000_000,
        columns={"x": ColumnChoice("x"), "y": ColumnChoice("y", dtype="int16")},
        loose=frozenset(("id",)),
    )


def test_columns_that_an_entry_for_several_streams_speaks_of_need_not_be_there() -> None:
    schema = {"properties": {"id": {"type": "integer"}}}
    rules = [{"name": "*", "exclude": ["a", "b"]}, {"name": r"us\*", "exclude": ["b"], "include": ["c"]}]
    for stream, missing in (("users", []), ("us*", ["c", "b"])):
        choices = config(*rules).choices(None, stream)
        assert unheard(schema, choices) == missing
        assert choices.leaves_out


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ([{}], "streams[0].name: is missing; write the name of a stream"),
        ([{"name": "a"}, {"name": 1}], "streams[1].name: must be a string, not a number."),
        (["users"], "streams[0]: must be an object, not a string."),
        ([{"name": "a", "include": [1]}], "streams[0].include[0]: must be a string"),
        ([{"name": "a", "exclude": ["x", "x"]}], "streams[0].exclude[1]: 'x' is there twice"),
        (
            [{"name": "a", "include": ["x"], "exclude": ["x"]}],
            "streams[0].exclude[0]: 'x' is in include, too",
        ),
        ([{"name": "a", "flatten": 1}], "streams[0].flatten: must be true or false"),
        (
            [{"name": "a", "chunk_size_mb": 0}],
            "streams[0].chunk_size_mb: 0 is out of range; write a number from 1",
        ),
        (
            [{"name": "a", "chunk_size_mb": 0.5}],
            "streams[0].chunk_size_mb: must be a whole number, not a fraction",
        ),
        ([{"name": "a", "columns": [{}]}], "streams[0].columns[0].column: is missing"),
        (
            [{"name": "a", "columns": {}, "include": {"x": 1}}],
            "streams[0].include: must be an array, not an object",
        ),
        ([{"name": "a", "columns": [None]}], "streams[0].columns[0]: must be an object, not null"),
        (
            [{"name": "a", "columns": [{"column": "x"}, {"column": "x"}]}],
            "streams[0].columns[1].column: 'x' is there twice",
        ),
        (
            [{"name": "a", "include": ["y"], "columns": [{"column": "x"}]}],
            "streams[0].columns[0].column: 'x' is not among include",
        ),
        (
            [{"name": "a", "exclude": ["x"], "columns": [{"column": "x.y"}]}],
            "streams[0].columns[0].column: 'x.y' is among exclude",
        ),
        (
            [{"name": "a", "columns": [{"column": "x", "tensor": "T"}, {"column": "y", "tensor": "t"}]}],
            "streams[0].columns[1].tensor: 't' clashes with the tensor of column 'x'",
        ),
        (
            [{"name": "a", "columns": [{"column": "x", "tensor": "t/u"}, {"column": "y", "tensor": "t"}]}],
            "streams[0].columns[1].tensor: 't' clashes with the tensor of column 'x'",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_field(streams: list[Any], message: str) -> None:
    assert refused(*streams).startswith(message)


def test_streams_must_be_a_list() -> None:
    with pytest.raises(ConfigError, match=r"^streams: must be an array, not an object"):
        DestinationConfig.from_mapping({"destination_path": "/lake", "streams": {"name": "x"}})


def test_a_column_of_an_object_may_be_chosen_where_the_object_is_kept() -> None:
    config({"name": "a", "include": ["address"], "columns": [{"column": "address.city"}]})
    config({"name": "a", "include": ["address.city"], "columns": [{"column": "address"}]})
