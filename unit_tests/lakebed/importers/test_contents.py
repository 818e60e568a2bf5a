"""Bytes are what the first of them are, or what the user says; nothing is converted that would lose something."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pytest

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.core.contents import (
    Content,
    Looked,
    Planning,
    document,
    is_text,
    kind_of,
    tensor_of,
    value_of,
)
from lakebed.importers.core.source import Source
from unit_tests.lakebed.importers.sources import picture

WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(28)
ID3 = b"ID3\4" + bytes(20)
# MPEG 1, layer III, 128 kbit/s, 44.1 kHz: frames of 417 bytes.
FRAMES = (b"\xff\xfb\x90\0" + bytes(413)) * 2


def content(*values: bytes, compression: str | None = None, **how: Any) -> tuple[Content, list[str]]:
    planning = Planning(Source(""), compression=compression)
    found = planning.content("x", Looked.at(values), **how)
    return found, [problem.reason for problem in planning.problems]


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_kinds_of_values() -> None:
    """Signatures that a few random bytes may have do not count."""
    for data, kind in (
        (picture(0), "JPEG"),
        (picture(0, "PNG"), "PNG"),
        (picture(0, "BMP"), "BMP"),
        (b"P5\n# made by hand\n2 1\n255\n\xfe\xff", "PPM"),
        (WAV, "WAV"),
        (ID3, "MP3"),
        (FRAMES, "MP3"),
        (bytes(128) + b"DICM" + bytes(8), "DCM"),
        (npy(np.arange(3)), "array"),
        (b' {"a": [1]}', "json"),
        ("Größe\f\n".encode(), "text"),
        (b"BMW, GIF89a and ID3 are words", "text"),
        (pickle.dumps({"a": 1}), "pickle"),
    ):
        assert str(kind_of(data)) == kind
    for data in (
        b"BM" + bytes(30),
        b"\xff\xfb" + bytes(30),
        FRAMES[:417] + bytes(417),
        b"\x28" + bytes(30),
        b"\n\5\1" + bytes(200),  # a message of Protocol Buffers
        np.arange(9, dtype=np.int16).tobytes(),
        b"P5\n\xff\0" + bytes(30),
        b"\xff\xd8\xff",
        bytes(100),
    ):
        assert str(kind_of(data)) == "bytes"
    assert not is_text(b"a\0b")
    assert not is_text(b"\xff")


def test_kinds_that_would_lose_something() -> None:
    """What would not be there again is no array and no JSON: what stands behind it, keys that are there twice."""
    for data in (npy(np.arange(3)) + b"\0", npy(np.arange(3))[:-1], npy(np.array(["a"]))):
        assert str(kind_of(data)) == "bytes"
        with pytest.raises(IngestionError):
            value_of(data, Content("array"))
    twice = b'{"a": 1, "a": 2}'
    assert str(kind_of(twice)) == "text"
    with pytest.raises(IngestionError, match="twice"):
        value_of(twice, Content("json"))
    assert document(twice) == {"a": 2}
    assert value_of(npy(np.arange(3, dtype=">i2")), Content("array")).tolist() == [0, 1, 2]


def test_what_a_column_is() -> None:
    """One kind; or bytes, and it is told if that is not the only thing that it might be."""
    assert content(picture(0), picture(1), b"") == (Content("image", "jpeg"), [])
    assert content(b"a", b"b") == (Content("text"), [])
    assert content(b"[1]", b"{}") == (Content("json"), [])
    assert content(b"[1]", b"a") == (Content("text"), [])
    assert content(npy(np.arange(2)), npy(np.eye(2))) == (Content("array"), [])
    assert content(b"\0", b"\1") == (Content(), [])
    assert content(b"") == (Content("text"), [])
    assert content() == (Content(), [])
    assert content(b"a", b"\0", texts=False) == (Content(), [])
    mixed, told = content(b"a", picture(0))
    assert mixed == Content()
    assert "several kinds (JPEG, text)" in told[0]
    assert "would run code" in content(pickle.dumps(1), b"a")[1][0]
    assert content(b"a", picture(0), wish="image") == (Content("image", "jpeg"), [])
    assert content(picture(0), wish="bytes") == (Content(), [])
    assert content(wish="image")[0].compression == "png"
    assert content(wish="image", supposed="jpeg")[0].compression == "jpeg"
    mixed, told = content(picture(0), picture(1), picture(1, "PNG"))
    assert mixed.compression == "jpeg"
    assert "1 PNG files are encoded anew as JPEG at quality 95" in told[0]
    assert content(picture(0), picture(1), picture(1, "PNG"), compression="lossless")[0].compression == "png"
    assert "at quality 95" in content(picture(1, "PNG"), compression="jpeg")[1][0]
    assert content(WAV, ID3)[0] == Content()
    assert "several kinds (MP3, WAV)" in content(WAV, ID3)[1][0]
    assert content(WAV, WAV, ID3, wish="audio")[0] == Content("audio", "wav")
    with pytest.raises(IngestionError, match="kinds are"):
        content(wish="picture")


def test_values() -> None:
    """Pictures of another kind are left to the tensor, sounds and films are not converted."""
    jpeg, png = Content("image", "jpeg"), Content("image", "png")
    assert value_of(picture(0), png).compression == "jpeg"
    assert value_of(picture(0, "PNG"), jpeg).compression == "png"
    with pytest.raises(IngestionError, match="import them as bytes"):
        value_of(ID3, Content("audio", "wav"))
    with pytest.raises(IngestionError, match="it is WAV"):
        value_of(WAV, png)
    with pytest.raises(LakebedError):
        value_of(b"nothing that is known", jpeg)
    assert value_of(b"[1]", Content("json")) == [1]
    assert value_of(b"\1\2", Content()).tolist() == [1, 2]
    assert value_of(b"\1\2", Content()).dtype == np.uint8
    with pytest.raises(IngestionError, match="deeply"):
        value_of(b"[" * 100_000, Content("json"))
    with pytest.raises(IngestionError, match="UTF-8"):
        value_of(b"\xff", Content("text"))


def test_no_bytes_are_a_null() -> None:
    """Of files, arrays and JSON, where a row has one; a text may be empty."""
    for kind in (Content("image", "png"), Content("array"), Content("json")):
        assert value_of(b"", kind) is None
    with pytest.raises(LakebedError):
        value_of(b"", Content("image", "png", many=True))
    assert value_of(b"", Content("text")) == ""
    assert value_of(b"", Content()).tolist() == []


def test_tensors() -> None:
    assert tensor_of("x", Content("image", "png", many=True)).htype == "sequence[image]"
    assert tensor_of("x", Content("image", "png"), link=True).htype == "link[image]"
    assert tensor_of("x", Content("text", many=True)).htype == "json"
    assert tensor_of("x", Content("array")).arguments == {"chunk_compression": "lz4"}


def test_columns_of_like_names_have_tensors_of_their_own() -> None:
    """The info keeps the name of a column whose tensor has another."""
    planning = Planning(Source("", None))
    assert planning.named("a.b") == ("a_b", {"column": "a.b"})
    assert planning.named("a_b", "feature") == ("a_b_", {"feature": "a_b"})
    assert planning.named("c") == ("c", {})
