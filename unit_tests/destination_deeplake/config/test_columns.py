"""One column of the form: what may be chosen, what goes with what, and that lakebed can store all of it."""

import itertools
from typing import Any

import numpy as np
import pytest

import lakebed
from destination_deeplake import chosen, tensors
from destination_deeplake.choices import ColumnChoice, Decoding
from destination_deeplake.columns import Kind
from destination_deeplake.config import DestinationConfig
from destination_deeplake.config.columns import (
    ARRAYS,
    CHUNK_COMPRESSIONS,
    DTYPES,
    FILES,
    HTYPES,
    SAMPLE_COMPRESSIONS,
)
from destination_deeplake.failures import ConfigError


def column(**fields: Any) -> ColumnChoice:
    values = {"destination_path": "/lake", "streams": [{"name": "s", "columns": [{"column": "c", **fields}]}]}
    return DestinationConfig.from_mapping(values).choices(None, "s").columns["c"]


def refused(**fields: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        column(**fields)
    return str(caught.value)


def test_the_htypes_are_those_that_columns_can_be_stored_as() -> None:
    assert set(HTYPES) <= set(lakebed.htypes)
    assert FILES == tensors.FORMATS
    assert set(ARRAYS) == set(chosen.ARRAY_HTYPES) - {"generic"}
    assert set(SAMPLE_COMPRESSIONS) | set(CHUNK_COMPRESSIONS) - {"none"} <= set(lakebed.compressions)


def test_what_is_not_said_stays_open() -> None:
    assert column() == ColumnChoice("c")
    assert column(tensor="", htype=None, class_names=[], shape=[], nulls_as_nan=None) == ColumnChoice("c")


def test_everything_that_is_said_is_kept() -> None:
    assert column(
        tensor="photos/main", htype="image", sample_compression="jpg", decoding="url", creds_key="lab"
    ) == ColumnChoice(
        "c",
        tensor="photos/main",
        htype="image",
        sample_compression="jpeg",
        decoding=Decoding.URL,
        creds_key="lab",
    )
    assert column(
        dtype="float32", shape=[2, 3.0], nulls_as_nan=True, chunk_compression="lz4"
    ) == ColumnChoice(
        "c",
        dtype="float32",
        shape=(2, 3),
        nulls_as_nan=True,
        chunk_compression="lz4",
        decoding=Decoding.NUMBERS,
    )


@pytest.mark.parametrize(
    ("fields", "htype", "decoding"),
    [
        ({"htype": "link[image]"}, "image", Decoding.URL),
        ({"htype": "link[audio]", "decoding": "url"}, "audio", Decoding.URL),
        ({"decoding": "url"}, "image", Decoding.URL),
        ({"htype": "embedding"}, "embedding", Decoding.NUMBERS),
        ({"htype": "generic", "shape": [3]}, "generic", Decoding.NUMBERS),
        ({"class_names": ["a"]}, "class_label", None),
        ({"htype": "image"}, "image", None),
        ({"decoding": "base64"}, None, Decoding.BASE64),
        ({"decoding": "exact"}, None, Decoding.EXACT),
        ({"dtype": "int8"}, None, None),
    ],
)
def test_one_choice_implies_another(
    fields: dict[str, Any], htype: str | None, decoding: Decoding | None
) -> None:
    found = column(**fields)
    assert (found.htype, found.decoding) == (htype, decoding)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"htype": "picture"}, "htype: 'picture' is not an htype of a column; write generic, text,"),
        ({"htype": 3}, "htype: must be a string, not a number."),
        ({"htype": "link[embedding]"}, "htype: embedding does not go with decoding url"),
        ({"htype": "link[image.rgb]"}, "htype: image.rgb does not go with decoding url; write image, video,"),
        ({"htype": "link[]"}, "htype: '' is not an htype"),
        ({"htype": "link[image]", "decoding": "base64"}, "decoding: base64 does not go with link[image]"),
        ({"decoding": "gzip"}, "decoding: 'gzip' is not possible; write base64, url, numbers or exact."),
        ({"dtype": "int63"}, "dtype: 'int63' is not possible; write float16"),
        ({"decoding": "url", "dtype": "int8"}, "dtype: int8 does not go with decoding url: linked files"),
        ({"decoding": "exact", "dtype": "int8"}, "dtype: int8 does not go with decoding exact: digits"),
        ({"decoding": "base64", "dtype": "int8"}, "dtype: int8 does not go with decoding base64"),
        ({"decoding": "numbers", "dtype": "bool"}, "dtype: arrays of numbers cannot be bool"),
        ({"htype": "text", "dtype": "int8"}, "dtype: int8 does not go with htype text"),
        ({"htype": "image", "dtype": "int8"}, "dtype: int8 does not go with htype image"),
        ({"htype": "text", "decoding": "numbers"}, "htype: text does not go with decoding numbers"),
        ({"htype": "json", "decoding": "exact"}, "htype: json does not go with decoding exact; write text"),
        ({"sample_compression": "zip"}, "sample_compression: 'zip' is not possible; write lz4"),
        ({"sample_compression": "jpeg"}, "sample_compression: jpeg is for files, not for htype generic"),
        (
            {"htype": "audio", "sample_compression": "png"},
            "sample_compression: png does not go with htype audio",
        ),
        ({"htype": "image", "chunk_compression": "lz4"}, "chunk_compression: does not go with htype image"),
        (
            {"sample_compression": "lz4", "chunk_compression": "lz4"},
            "chunk_compression: does not go with sample_compression",
        ),
        ({"htype": "text", "class_names": ["a"]}, "class_names: go with htype class_label, not with text"),
        ({"decoding": "url", "class_names": ["a"]}, "class_names: go with htype class_label, not with image"),
        ({"class_names": ["a", "a"]}, "class_names[1]: 'a' is there twice"),
        ({"class_names": ["a", ""]}, "class_names[1]: is empty"),
        ({"class_names": "a"}, "class_names: must be an array, not a string"),
        ({"shape": [-1]}, "shape[0]: -1 is out of range"),
        ({"shape": [0]}, "shape: must have sizes of at least 1; only the first of several sizes may be 0"),
        ({"shape": [4, 0]}, "shape: must have sizes of at least 1"),
        ({"shape": [0, 4], "nulls_as_nan": True}, "nulls_as_nan: needs values of one size"),
        ({"shape": [1.5]}, "shape[0]: must be a whole number, not a fraction"),
        ({"shape": ["3"]}, "shape[0]: must be a whole number, not a string"),
        ({"shape": [True]}, "shape[0]: must be a whole number, not a boolean"),
        ({"htype": "text", "shape": [3]}, "shape: is for arrays of numbers, not for text"),
        ({"creds_key": "lab"}, "creds_key: is for linked files"),
        (
            {"dtype": "int8", "nulls_as_nan": True},
            "nulls_as_nan: is for numbers with fractions, not for int8",
        ),
        (
            {"htype": "text", "nulls_as_nan": True},
            "nulls_as_nan: is for numbers with fractions, not for text",
        ),
        ({"nulls_as_nan": "yes"}, "nulls_as_nan: must be true or false, not a string"),
        ({"tensor": "a//b"}, "tensor: 'a//b' has an empty part"),
        ({"tensor": "/b"}, "tensor: '/b' has an empty part"),
        ({"tensor": "versions"}, "tensor: 'versions' cannot be the name of a tensor"),
        ({"tensor": "path"}, "tensor: 'path' cannot be"),
        ({"tensor": "a*"}, "tensor: 'a*' cannot be"),
        ({"tensor": "_airbyte_meta"}, "tensor: '_airbyte_meta' cannot be"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(fields: dict[str, Any], message: str) -> None:
    assert refused(**fields).startswith(f"streams[0].columns[0].{message}")


def test_every_column_that_the_form_lets_through_can_be_made() -> None:
    """All combinations of htype, decoding, dtype and compression: those that pass make a tensor in lakebed."""
    dataset = lakebed.empty("mem://choices-of-columns")
    passed = 0
    decodings = (None, *(d.value for d in Decoding))
    for htype, decoding, dtype in itertools.product((None, *HTYPES), decodings, (None, "float32", "bool")):
        for compression in (None, "lz4", "png", "mp4", "wav", "dcm", "nii", "las", "ply"):
            fields = {"htype": htype, "decoding": decoding, "dtype": dtype, "sample_compression": compression}
            try:
                choice = column(**fields)
            except ConfigError:
                continue
            if choice.htype in FILES and choice.sample_compression is None:
                continue  # made with the first file
            passed += 1
            assert any(_takes(kind, choice) for kind in (Kind.TEXT, Kind.INT64, Kind.JSON)), fields
            name = f"link[{choice.htype}]" if choice.decoding is Decoding.URL else choice.htype
            dataset.create_tensor(
                f"t{passed}", htype=name, dtype=choice.dtype, sample_compression=choice.sample_compression
            )
    assert passed > 50
    assert len(dataset.tensors) == passed


def _takes(kind: Kind, choice: ColumnChoice) -> bool:
    """Whether a column of this kind can be stored as chosen."""
    try:
        chosen.chosen(("c",), kind, choice)
    except ConfigError:
        return False
    return True


def test_every_dtype_is_one_of_lakebed() -> None:
    dataset = lakebed.empty("mem://dtypes-of-the-form")
    for dtype in DTYPES:
        dataset.create_tensor(dtype, dtype=dtype).extend(np.array([1, 0], dtype=dtype))
