"""What the user chose for columns -> how they are read and stored."""

from typing import Any

import pyarrow as pa
import pytest

import lakebed
from destination_deeplake.airbyte_types import columns, unheard
from destination_deeplake.choices import ColumnChoice, Decoding, StreamChoices
from destination_deeplake.chosen import ARRAY_HTYPES, chosen
from destination_deeplake.columns import Column, Kind
from destination_deeplake.failures import ConfigError
from destination_deeplake.tensors import FORMATS, LINK, TENSOR_TYPES, TensorType

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "address": {
            "type": ["null", "object"],
            "properties": {
                "city": {"type": "string"},
                "geo": {
                    "type": "object",
                    "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                },
                "free": {"type": "object"},
            },
        },
        "name": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
    }
}


def fields(
    choices: StreamChoices, keys: tuple[tuple[str, ...], ...] = (), schema: Any = SCHEMA
) -> dict[str, str]:
    return {column.field: "/".join(column.place) for column in columns(schema, choices, keys)}


def test_objects_are_taken_apart_as_far_as_their_properties_are_declared() -> None:
    found = columns(SCHEMA, StreamChoices(flatten=True))
    assert [(column.field, "/".join(column.place), column.kind) for column in found] == [
        ("id", "id", Kind.INT64),
        ("address.city", "address/city", Kind.TEXT),
        ("address.geo.lat", "address/geo/lat", Kind.FLOAT64),
        ("address.geo.lon", "address/geo/lon", Kind.FLOAT64),
        ("address.free", "address/free", Kind.JSON),
        ("name", "name", Kind.TEXT),
        ("at", "at", Kind.TIMESTAMP_TZ),
    ]
    assert found[2].column.path == ("address", "geo", "lat")


def test_an_object_that_somebody_chose_something_for_stays_whole() -> None:
    whole = StreamChoices(flatten=True, columns={"address.geo": ColumnChoice("address.geo", htype="json")})
    assert "address.geo" in fields(whole)
    assert "address.geo.lat" not in fields(whole)


def test_objects_whose_columns_would_be_called_like_others_stay_whole() -> None:
    leaf = {"type": "string"}
    schema = {
        "properties": {
            "a": {"type": "object", "properties": {"b": leaf, "c": leaf}},
            "a.b": leaf,
            "d": {
                "type": "object",
                "properties": {"e.f": leaf, "e": {"type": "object", "properties": {"f": leaf}}},
            },
        }
    }
    assert list(fields(StreamChoices(flatten=True), schema=schema)) == ["a", "a.b", "d"]


def test_columns_are_left_out_but_keys_never() -> None:
    keys = (("id",), ("address", "city"))
    assert list(fields(StreamChoices(include=("name",)))) == ["name"]
    assert list(fields(StreamChoices(exclude=("name", "address")))) == ["id", "at"]
    assert fields(StreamChoices(include=("name",), exclude=("id",)), keys) == {
        "id": "id",
        "name": "name",
        "address.city": "address.city",
    }
    inside = StreamChoices(flatten=True, include=("address", "id"), exclude=("address.geo",))
    assert list(fields(inside)) == ["id", "address.city", "address.free"]


def test_a_nested_column_that_is_asked_for_lies_beside_its_object() -> None:
    asked = StreamChoices(columns={"address.geo.lat": ColumnChoice("address.geo.lat", dtype="float32")})
    assert fields(asked)["address.geo.lat"] == "address.geo.lat"
    assert fields(asked)["address"] == "address"
    renamed = StreamChoices(columns={"name": ColumnChoice("name", tensor="/people/name/")})
    assert fields(renamed)["name"] == "people/name"


def test_numbers_of_a_stream_are_exact_but_not_the_cursor_nor_what_was_chosen_otherwise() -> None:
    number = {"type": "number"}
    schema = {
        "properties": {
            "price": number,
            "at": {"type": "integer"},
            "small": number,
            "name": {"type": "string"},
        }
    }
    exact = StreamChoices(exact_numbers=True, columns={"small": ColumnChoice("small", dtype="float32")})
    assert {column.field: column.kind for column in columns(schema, exact, cursor=("at",))} == {
        "price": Kind.EXACT,
        "at": Kind.INT64,
        "small": Kind.FLOAT64,
        "name": Kind.TEXT,
    }
    for choice in ({"decoding": Decoding.EXACT}, {"htype": "text"}, {"htype": "json"}):
        as_text = StreamChoices(columns={"at": ColumnChoice("at", **choice)})
        with pytest.raises(ConfigError, match="cursor cannot be digits as text"):
            columns(schema, as_text, cursor=("at",))
        assert columns(schema, as_text, keys=[("at",)])


def test_choices_for_columns_that_are_not_there_are_told() -> None:
    choices = StreamChoices(
        include=("id", "nobody"),
        exclude=("address.street",),
        columns={"address.city": ColumnChoice("address.city")},
    )
    assert unheard(SCHEMA, choices) == ["nobody", "address.street"]


def choose(kind: Kind, **choice: Any) -> tuple[Column, TensorType]:
    return chosen(("c",), kind, ColumnChoice("c", **choice))


@pytest.mark.parametrize(
    ("kind", "choice", "read_as", "htype", "dtype", "arrow"),
    [
        (Kind.TEXT, {}, Kind.TEXT, "text", "unspecified", pa.string()),
        (Kind.TEXT, {"htype": "class_label"}, Kind.TEXT, "class_label", "unspecified", pa.uint32()),
        (Kind.INT64, {"htype": "class_label"}, Kind.INT64, "class_label", "unspecified", pa.uint32()),
        (Kind.BOOL, {"htype": "class_label"}, Kind.TEXT, "class_label", "unspecified", pa.uint32()),
        (Kind.FLOAT64, {"dtype": "float32"}, Kind.FLOAT64, "generic", "float32", pa.float32()),
        (Kind.FLOAT64, {"dtype": "int16"}, Kind.INT64, "generic", "int16", pa.int16()),
        (Kind.TEXT, {"dtype": "uint64"}, Kind.INT64, "generic", "uint64", pa.uint64()),
        (Kind.TEXT, {"dtype": "bool"}, Kind.BOOL, "generic", "bool", pa.bool_()),
        (Kind.INT64, {"htype": "text"}, Kind.TEXT, "text", "unspecified", pa.string()),
        (Kind.TEXT, {"htype": "json"}, Kind.JSON, "json", "unspecified", pa.json_()),
        (Kind.DATE, {"dtype": "int32"}, Kind.DATE, "generic", "int32", pa.int32()),
        (Kind.FLOAT64, {"decoding": Decoding.EXACT}, Kind.EXACT, "text", "unspecified", pa.string()),
        (Kind.TEXT, {"decoding": Decoding.BASE64}, Kind.BYTES, "generic", "uint8", pa.binary()),
        (Kind.TEXT, {"htype": "image"}, Kind.BYTES, "image", "unspecified", pa.binary()),
        (Kind.TEXT, {"htype": "link[audio]"}, Kind.TEXT, "link[audio]", "unspecified", LINK),
        (Kind.TEXT, {"decoding": Decoding.URL}, Kind.TEXT, "link[image]", "unspecified", LINK),
        (
            Kind.TEXT,
            {"htype": "video", "decoding": Decoding.URL},
            Kind.TEXT,
            "link[video]",
            "unspecified",
            LINK,
        ),
        (Kind.JSON, {"htype": "embedding"}, Kind.FLOATS, "embedding", "float32", pa.list_(pa.float32())),
        (Kind.JSON, {"dtype": "int8"}, Kind.FLOATS, "generic", "int8", pa.list_(pa.int8())),
        (
            Kind.JSON,
            {"shape": (2, 3), "dtype": "float64"},
            Kind.FLOATS,
            "generic",
            "float64",
            pa.list_(pa.list_(pa.float64(), 3)),
        ),
    ],
)
def test_a_choice_says_how_values_are_read_and_stored(
    kind: Kind, choice: dict[str, Any], read_as: Kind, htype: str, dtype: str, arrow: pa.DataType
) -> None:
    column, of_type = choose(kind, **choice)
    assert (column.kind, of_type.htype, of_type.dtype, of_type.arrow) == (read_as, htype, dtype, arrow)
    assert TensorType.recorded(of_type.record(), column.kind) == of_type
    assert of_type.nulls(3).type == arrow


@pytest.mark.parametrize(
    ("dtype", "read_as"),
    [("float16", "float32"), ("int16", "float32"), ("int32", "float64"), ("float64", "float64")],
)
def test_arrays_are_read_so_that_their_dtype_loses_nothing(dtype: str, read_as: str) -> None:
    column, _ = choose(Kind.JSON, decoding=Decoding.NUMBERS, dtype=dtype)
    assert column.dtype == read_as


@pytest.mark.parametrize(
    ("kind", "choice", "says"),
    [
        (Kind.TEXT, {"htype": "segment_mask"}, "cannot be stored as 'segment_mask'"),
        (Kind.TEXT, {"htype": "image", "sample_compression": "mp3"}, "one of the compressions"),
        (Kind.TEXT, {"htype": "image", "chunk_compression": "lz4"}, "files have that of samples"),
        (Kind.TEXT, {"sample_compression": "lz4", "chunk_compression": "lz4"}, "choose one compression"),
        (Kind.TEXT, {"decoding": Decoding.BASE64, "htype": "text"}, "base64 can be stored as"),
        (Kind.TEXT, {"decoding": Decoding.BASE64, "dtype": "int8"}, "dtype uint8"),
        (Kind.TEXT, {"decoding": Decoding.URL, "htype": "text"}, "addresses can lead to"),
        (Kind.JSON, {"decoding": Decoding.NUMBERS, "htype": "image"}, "arrays of numbers can be stored as"),
        (Kind.JSON, {"decoding": Decoding.NUMBERS, "dtype": "str"}, "cannot have the dtype"),
        (Kind.JSON, {"decoding": Decoding.NUMBERS, "shape": (0,)}, "positive sizes"),
        (Kind.INT64, {"dtype": "nonsense"}, "nonsense"),
        (Kind.INT64, {"dtype": "complex64"}, "cannot have the dtype"),
        (Kind.DATE, {"dtype": "int64"}, "a date or time is stored as int32"),
        (Kind.INT64, {"nulls_as_nan": True}, "floating-point columns only"),
    ],
)
def test_choices_that_do_not_go_together_name_the_column(
    kind: Kind, choice: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=f"^Column 'c' of the configuration: .*{says}"):
        choose(kind, **choice)


def test_everything_that_can_be_chosen_can_be_made_and_filled_with_nulls() -> None:
    dataset = lakebed.empty("mem://chosen")
    made = [TENSOR_TYPES[kind] for kind in Kind]
    made += [
        choose(Kind.TEXT, htype=htype, sample_compression=min(forms))[1] for htype, forms in FORMATS.items()
    ]
    made += [choose(Kind.TEXT, htype=f"link[{htype}]")[1] for htype in FORMATS if "." not in htype]
    made += [
        choose(Kind.JSON, htype=htype, decoding=Decoding.NUMBERS, shape=(3, 3))[1] for htype in ARRAY_HTYPES
    ]
    made += [
        choose(Kind.FLOAT64, dtype=name, nulls_as_nan=True)[1] for name in ("float16", "float32", "float64")
    ]
    for number, of_type in enumerate(made):
        settings: dict[str, Any] = {} if of_type.dtype == "unspecified" else {"dtype": of_type.dtype}
        if of_type.is_link:
            settings["verify"] = False
        if of_type.sample_compression is not None:
            settings["sample_compression"] = of_type.sample_compression
        dataset.create_tensor(f"t{number}", htype=of_type.htype, **settings).extend(of_type.nulls(2))
        assert len(dataset[f"t{number}"]) == 2
    assert {htype: kinds - {"fli", "wmf"} for htype, kinds in lakebed.file_kinds.items()} == FORMATS
    assert set(FORMATS) | set(ARRAY_HTYPES) < set(lakebed.htypes)
    assert {name for forms in FORMATS.values() for name in forms} <= set(lakebed.compressions)
