"""Names of compressions, and what a file is told to be."""

from __future__ import annotations

import pytest

from lakebed.codecs import registry
from lakebed.codecs.registry import COMPRESSIONS, byte_codec, file_codec, normalize, sniff
from lakebed.errors import UnsupportedCompressionError


def test_the_list_is_that_of_the_3x_api() -> None:
    """Every compression of 3.9.52, sorted, none last."""
    assert COMPRESSIONS == [
        "avi", "bmp", "dcm", "dib", "eps", "flac", "fli", "gif", "ico", "im", "jpeg", "jpeg2000", "las", "lz4", "mkv",
        "mp3", "mp4", "mpo", "msp", "nii", "nii.gz", "pcx", "ply", "png", "ppm", "sgi", "stl", "tga", "tiff", "wav",
        "webp", "wmf", "xbm", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "name"),
    [("jpg", "jpeg"), ("TIF", "tiff"), ("jp2", "jpeg2000"), ("PNG", "png"), (None, None), ("null", None)],
)
def test_aliases_become_the_names_of_the_format(given: str | None, name: str | None) -> None:
    """Aliases and capitals are accepted on input only."""
    assert normalize(given) == name


def test_unknown_names_are_refused_everywhere() -> None:
    """No name is taken for another kind of codec."""
    for call in (normalize, byte_codec, file_codec):
        with pytest.raises(UnsupportedCompressionError, match="zip"):
            call("zip")
    with pytest.raises(UnsupportedCompressionError, match="lz4"):
        byte_codec("png")


def test_every_file_kind_has_a_codec_of_its_name() -> None:
    """Byte compressions and none have no file codec; codecs know their names and whether they encode."""
    assert file_codec(None) is None
    assert file_codec("lz4") is None
    for name in sorted(registry.IMAGE_NAMES - {"dcm"}):
        codec = file_codec(name)
        assert codec is not None
        assert codec.name == name
        assert file_codec(name) is codec


@pytest.mark.parametrize(
    ("head", "path", "kind"),
    [
        (b"\xff\xd8\xff\xe0", "x.png", "jpeg"),
        (b"\x89PNG\r\n\x1a\n", None, "png"),
        (b"RIFF\0\0\0\0WEBPVP8 ", None, "webp"),
        (b"RIFF\0\0\0\0WAVE", "x.webp", "wav"),
        (b"RIFF\0\0\0\0AVI LIST", None, "avi"),
        (b"II*\0", None, "tiff"),
        (b"\0\0\0\x20ftypisom", None, "mp4"),
        (b"\0\0\0\x08wide\0\0\1\0mdat", None, "mp4"),
        (b"\0\0\0\x08free", None, "mp4"),
        (b"\0\0\x10\0skip", None, "mp4"),
        (b"\0\0\0\x14pnot", None, "mp4"),
        (b"The wide world", None, None),
        (b"are free", None, None),
        (b"\x1aE\xdf\xa3", None, "mkv"),
        (b"fLaC", None, "flac"),
        (b"ID3\4", None, "mp3"),
        (b"\xff\xfb\x90\0", None, "mp3"),
        (b"\1\0\0\0\0", "http://host/a.TGA?x=1.png", "tga"),
        (b"\0" * 128 + b"DICM", None, "dcm"),
        (b"\\\x01\0\0" + b"\0" * 340 + b"n+1\0", None, "nii"),
        (b"\x1f\x8b\x08\0", "a.nii.gz", "nii.gz"),
        (b"\x1f\x8b\x08\0", "a.tar.gz", None),
        (b"ply\nformat", None, "ply"),
        (b"solid x", None, "stl"),
        (b"\0" * 90, "a.stl", "stl"),
        (b"LASF", None, "las"),
        (b"P6 3 4 255\n", None, "ppm"),
        (b"hello world, this is no file", "x.jpg", None),
        (b"", None, None),
    ],
)
def test_content_tells_the_kind_and_the_name_helps_where_it_cannot(
    head: bytes, path: str | None, kind: str | None
) -> None:
    """Signatures win over suffixes; kinds without one are known by their suffix."""
    assert sniff(head, path) == kind


@pytest.mark.parametrize("magic", [magic for at, magic, _ in registry._MAGIC if at + len(magic) <= 128])
def test_the_mark_of_dicom_decides_over_what_stands_before_it(magic: bytes) -> None:
    """The first 128 bytes of a DICOM file may hold anything, such as the header of a TIFF file."""
    at = next(at for at, found, _ in registry._MAGIC if found == magic)
    file = bytes(at) + magic + bytes(128 - at - len(magic)) + b"DICM" + bytes(300)
    assert sniff(file) == "dcm"
    assert sniff(file, "scan.tif") == "dcm"
    assert sniff(b"\x1f\x8b" + bytes(126) + b"DICM") == "dcm"
