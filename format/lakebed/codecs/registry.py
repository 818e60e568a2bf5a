"""Compression names of the format (format.md 7) and the codecs that implement them here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from lakebed.codecs.traits import TRAITS, names_of
from lakebed.errors import ModuleNotInstalledException, UnsupportedCompressionError

if TYPE_CHECKING:
    from lakebed.codecs.base import Buffer, ByteCodec, FileCodec, PictureCodec

ALIASES = {"jpg": "jpeg", "tif": "tiff", "jp2": "jpeg2000"}

BYTE_NAMES = names_of("bytes")
IMAGE_NAMES = names_of("image", "dicom")
DICOM_NAMES = names_of("dicom")
VIDEO_NAMES = names_of("video")
AUDIO_NAMES = names_of("audio")
POINT_CLOUD_NAMES = names_of("point_cloud")
MESH_NAMES = names_of("mesh")
NIFTI_NAMES = names_of("nifti")
NAMES = frozenset(TRAITS)

COMPRESSIONS: list[str | None] = [*sorted(NAMES), None]
"""Every compression name; None comes last (API.md 9)."""

# name -> (module, class, extra that installs its packages or None if it needs none); the class is called with the
# name.
_FILE_CODECS: Mapping[str, tuple[str, str, str | None]] = {
    **dict.fromkeys(IMAGE_NAMES, ("lakebed.codecs.images", "Image", None)),
    **dict.fromkeys(("jpeg", "mpo"), ("lakebed.codecs.jpeg", "Jpeg", None)),
    **dict.fromkeys(DICOM_NAMES, ("lakebed.codecs.dicom", "Dicom", "medical")),
    **dict.fromkeys(VIDEO_NAMES, ("lakebed.codecs.video", "Video", "video")),
    **dict.fromkeys(AUDIO_NAMES, ("lakebed.codecs.audio", "Audio", "video")),
    **dict.fromkeys(NIFTI_NAMES, ("lakebed.codecs.nifti", "Nifti", "medical")),
    "las": ("lakebed.codecs.las", "Las", "point-cloud"),
    "ply": ("lakebed.codecs.ply", "Ply", None),
    "stl": ("lakebed.codecs.stl", "Stl", None),
}


def normalize(name: str | None) -> str | None:
    """Return the format's canonical name of a compression.

    Raises
    ------
    UnsupportedCompressionError
        If the format knows no such compression.
    """
    if name is None or name == "null":
        return None
    name = ALIASES.get(name.lower(), name.lower())
    _check(name)
    return name


def _check(name: str) -> None:
    if name not in NAMES:
        raise UnsupportedCompressionError(
            f"{name!r} is not a compression; choose one of {', '.join(sorted(NAMES))}"
        )


@cache
def byte_codec(name: str | None) -> ByteCodec | None:
    """Return the byte codec of that name, or None for no compression.

    Raises
    ------
    UnsupportedCompressionError
        If the compression does not work on bytes.
    """
    if name is None:
        return None
    if name not in BYTE_NAMES:
        raise UnsupportedCompressionError(f"compression {name!r} does not compress plain bytes; use lz4")
    from lakebed.codecs.lz4_block import Lz4

    return Lz4()


@cache
def file_codec(name: str | None) -> FileCodec | None:
    """Return the codec of a kind of file; None for no compression and for byte compressions.

    Raises
    ------
    UnsupportedCompressionError
        If the format knows no such compression.
    ModuleNotInstalledException
        If a package that the codec needs is not installed; the message names the extra.
    """
    if name is None or name in BYTE_NAMES:
        return None
    _check(name)
    module, cls, extra = _FILE_CODECS[name]
    try:
        codec = getattr(import_module(module), cls)(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("lakebed"):
            raise
        package = (error.name or "").partition(".")[0]
        wanted = package if extra is None else f"'lakebed[{extra}]'"
        raise ModuleNotInstalledException(
            f"compression {name!r} needs the package {package!r}: pip install {wanted}"
        ) from error
    return cast("FileCodec", codec)


def picture_codec(name: str | None) -> PictureCodec | None:
    """Return the codec of an image format; None for DICOM and for names that are not image formats.

    Raises
    ------
    ModuleNotInstalledException
        If a package that the codec needs is not installed.
    """
    if name is None or name not in IMAGE_NAMES or name in DICOM_NAMES:
        return None
    return cast("PictureCodec", file_codec(name))


_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\xff\xd8\xff", "jpeg"),
    (0, b"\x89PNG\r\n\x1a\n", "png"),
    (0, b"GIF87a", "gif"),
    (0, b"GIF89a", "gif"),
    (0, b"II*\0", "tiff"),
    (0, b"MM\0*", "tiff"),
    (0, b"II+\0", "tiff"),
    (0, b"MM\0+", "tiff"),
    (0, b"BM", "bmp"),
    (0, b"\0\0\0\x0cjP  \r\n\x87\n", "jpeg2000"),
    (0, b"\xff\x4f\xff\x51", "jpeg2000"),
    (0, b"\0\0\1\0", "ico"),
    (0, b"%!PS", "eps"),
    (0, b"\xc5\xd0\xd3\xc6", "eps"),
    (0, b"\xd7\xcd\xc6\x9a\0\0", "wmf"),
    (0, b"DanM", "msp"),
    (0, b"LinS", "msp"),
    (0, b"\x01\xda", "sgi"),
    (0, b"#define", "xbm"),
    (0, b"fLaC", "flac"),
    (0, b"ID3", "mp3"),
    (0, b"\x1a\x45\xdf\xa3", "mkv"),
    (0, b"LASF", "las"),
    (4, b"ftyp", "mp4"),
    (4, b"moov", "mp4"),
    (4, b"mdat", "mp4"),
    (344, b"n+1\0", "nii"),
    (344, b"ni1\0", "nii"),
    (4, b"n+2\0", "nii"),
    (8, b"WEBP", "webp"),
    (8, b"WAVE", "wav"),
    (8, b"AVI ", "avi"),
    (4, b"\x11\xaf", "fli"),
    (4, b"\x12\xaf", "fli"),
    (0, b"\x28\0\0\0", "dib"),
    (0, b"\x7c\0\0\0", "dib"),
)
# Kinds without a distinctive signature: the suffix of the file decides, unless the content contradicts it.
_BY_SUFFIX = {
    "tga": "tga", "icb": "tga", "vda": "tga", "vst": "tga", "im": "im", "pcx": "pcx", "dib": "dib", "mp3": "mp3",
    "mp4": "mp4", "mov": "mp4", "m4v": "mp4", "stl": "stl", "dcm": "dcm", "nii": "nii", "fli": "fli", "flc": "fli",
    "wmf": "wmf", "xbm": "xbm", "mpo": "mpo",
}  # fmt: skip


_SMALL_ATOMS = (b"wide", b"free", b"skip", b"pnot")
"""Other first atoms of QuickTime files; only the size before these words shows that a file is no text."""


def sniff(data: Buffer, path: str | None = None) -> str | None:
    """Detect the compression of a file: by its first bytes, else by its name; None if both are unknown.

    Parameters
    ----------
    data
        The file, or its first 512 bytes.
    path
        Origin of the file.
    """
    head = bytes(data[:512])
    suffix = (path or "").split("?", 1)[0].lower()
    # Check this first, because a DICOM file may begin with the header of another kind, such as TIFF.
    if head[128:132] == b"DICM":
        return "dcm"
    if head[:2] == b"\x1f\x8b":
        return "nii.gz" if path is None or suffix.endswith(".nii.gz") else None
    for at, magic, name in _MAGIC:
        if head.startswith(magic, at):
            return name
    if head[:1] == b"\0" and head[4:8] in _SMALL_ATOMS:
        return "mp4"
    if head[:1] == b"P" and head[1:2] in b"123456fFyY" and head[2:3] in b" \t\r\n#":
        return "ppm"
    if head[:1] == b"\n" and head[1:3] in (b"\0\1", b"\2\1", b"\3\1", b"\4\1", b"\5\1"):
        return "pcx"
    if head.startswith(b"Image type: "):
        return "im"
    if head[:3] == b"ply" and head[3:].lstrip(b" \t")[:1] in (b"\n", b"\r"):
        return "ply"
    by_name = _BY_SUFFIX.get(suffix.rsplit(".", 1)[-1]) if "." in suffix else None
    if by_name is None and (head[:5] == b"solid" or _is_binary_stl(data)):
        return "stl"
    if by_name is None and len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2:
        return "mp3"
    return by_name


def _is_binary_stl(data: Buffer) -> bool:
    """Tell whether the length of a file matches the number of triangles at its fixed place."""
    count = int.from_bytes(data[80:84], "little")
    return count > 0 and len(data) == 84 + 50 * count
