"""Bytes are what the first of them are, or what the user says; nothing is converted that would lose something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lakebed.errors import IngestionError, LakebedError
from lakebed.importers.contents import Content, Looked, content_of, file_kind, is_text, tensor_of, value_of
from lakebed.importers.plan import Problem
from unit_tests.lakebed.importers.test_mds import picture

WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(28)
MP3 = b"ID3\4" + bytes(20)


def content(*values: bytes, **how: Any) -> tuple[Content, list[str]]:
    looked, problems = Looked(), list[Problem]()
    for value in values:
        looked.add([value])
    return content_of("x", looked, problems, **how), [problem.reason for problem in problems]


def test_kinds_of_files() -> None:
    """Signatures that a few random bytes may have do not count."""
    assert (file_kind(picture(0)), file_kind(picture(0, "PNG")), file_kind(picture(0, "BMP"))) == (
        "jpeg",
        "png",
        "bmp",
    )
    assert (file_kind(WAV), file_kind(MP3)) == ("wav", "mp3")
    for data in (
        b"BM" + bytes(30),
        b"\xff\xfb" + bytes(30),
        b"\x28" + bytes(30),
        b"",
        b"\xff\xd8\xff",
        bytes(100),
    ):
        assert file_kind(data) is None
    assert is_text("Größe\n".encode())
    assert not is_text(b"a\0b")
    assert not is_text(b"\xff")


def test_what_a_column_is() -> None:
    """One kind of file; texts; or bytes."""
    assert content(picture(0), picture(1)) == (Content("image", "jpeg"), [])
    assert content(b"a", b"b")[0].kind == "text"
    assert content(b"a", texts=False)[0].kind == "bytes"
    assert content(b"a", picture(0))[0].kind == "bytes"
    assert content(b"a", picture(0), wish="image")[0] == Content("image", "jpeg")
    assert content(wish="image")[0].compression == "png"
    assert content(wish="image", supposed="jpeg")[0].compression == "jpeg"
    mixed, told = content(picture(0), picture(1, "PNG"), supposed="jpeg")
    assert (mixed.compression, len(told)) == ("png", 1)
    assert content(WAV, MP3)[0] == Content()
    assert "several kinds (MP3, WAV)" in content(WAV, MP3)[1][0]
    assert content(WAV, WAV, MP3, wish="audio")[0] == Content("audio", "wav")
    with pytest.raises(IngestionError):
        content(wish="picture")


def test_values() -> None:
    """Files of another kind are converted only where nothing is lost, or as the user says."""
    jpeg, png = Content("image", "jpeg"), Content("image", "png")
    assert value_of(picture(0), png).compression == "jpeg"
    with pytest.raises(IngestionError, match="would lose"):
        value_of(picture(0, "PNG"), jpeg)
    asked = content(picture(0), compression="jpeg")[0]
    assert value_of(picture(0, "PNG"), asked).compression == "png"
    with pytest.raises(IngestionError, match="would lose"):
        value_of(MP3, Content("audio", "wav"))
    with pytest.raises(LakebedError):
        value_of(b"nothing that is known", jpeg)
    assert value_of(b"[1]", Content("json")) == [1]
    assert value_of(b"\1\2", Content()).tolist() == [1, 2]
    assert value_of(b"\1\2", Content()).dtype == np.uint8
    with pytest.raises(ValueError, match=r"deeply|recursion"):
        value_of(b"[" * 100_000, Content("json"))
    with pytest.raises(ValueError, match="utf-8"):
        value_of(b"\xff", Content("text"))
    assert tensor_of("x", Content("image", "png", many=True)).htype == "sequence[image]"
    assert tensor_of("x", Content("text", many=True)).htype == "json"
