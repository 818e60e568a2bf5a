"""Bytes that are files, and bytes that are not."""

import io
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from destination_deeplake.failures import ConfigError
from destination_deeplake.stream import files
from destination_deeplake.stream.files import as_file, fit_files
from destination_deeplake.stream.transfers import kind_of
from destination_deeplake.tensors import TensorType
from lakebed.errors import LakebedError, ModuleNotInstalledException

PIXELS = np.arange(32 * 40 * 3, dtype=np.uint32).reshape(32, 40, 3).astype(np.uint8)


def image(form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, form, **options)
    return file.getvalue()


JPEG, PNG, BMP, TIFF = map(image, ("JPEG", "PNG", "BMP", "TIFF"))


def of(htype: str, compression: str | None = None) -> TensorType:
    return TensorType(htype, "unspecified", None, pa.binary(), sample_compression=compression)


def test_the_first_file_that_fits_says_what_the_tensor_is_compressed_with() -> None:
    found, compression = fit_files(pa.array([None, b"", b"nothing", PNG, JPEG]), of("image"))
    assert compression == "png"
    assert found.refused.tolist() == [1, 2]
    rows = found.array.to_pylist()
    assert rows[:4] == [None, None, None, PNG]
    assert np.array_equal(
        np.asarray(Image.open(io.BytesIO(rows[4]))), np.asarray(Image.open(io.BytesIO(JPEG)))
    )


def test_a_package_that_is_missing_is_told_instead_of_losing_every_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: object) -> Any:
        raise ModuleNotInstalledException("compression 'png' needs the package 'x'")

    monkeypatch.setattr(files, "as_file", missing)
    with pytest.raises(ConfigError, match=r"'image' cannot be stored here: .* needs the package"):
        fit_files(pa.array([PNG]), of("image"))


def test_a_column_of_files_that_all_fit_is_not_touched() -> None:
    array = pa.array([JPEG, None, JPEG])
    found, _ = fit_files(array, of("image", "jpeg"))
    assert found.array is array


def test_nothing_that_fits_leaves_the_tensor_open() -> None:
    found, compression = fit_files(pa.array([None, b"x"]), of("image"))
    assert compression is None
    assert found.array.to_pylist() == [None, None]


def test_an_image_that_has_no_form_with_the_channels_of_the_htype_does_not_fit() -> None:
    deep = io.BytesIO()
    Image.fromarray(np.full((4, 5), 40000, np.uint16)).save(deep, "PNG")
    found, _ = fit_files(pa.array([PNG, deep.getvalue(), b"x", JPEG]), of("image.rgb"))
    assert found.refused.tolist() == [1, 2]
    assert [row is None for row in found.array.to_pylist()] == [False, True, True, False]


@pytest.mark.parametrize("is_part", [False, True])
def test_null_takes_the_place_of_what_does_not_fit_and_nothing_else(is_part: bool) -> None:
    rows = [JPEG, b"x", None, JPEG]
    array = pa.array([b"before", *rows]).slice(1) if is_part else pa.array(rows)
    found, _ = fit_files(array, of("image", "jpeg"))
    found.array.validate(full=True)
    assert found.array.to_pylist() == [JPEG, None, None, JPEG]
    assert found.refused.tolist() == [1]


@pytest.mark.parametrize(
    ("content", "compression"), [(JPEG, "jpeg"), (PNG, "png"), (BMP, "bmp"), (TIFF, "tiff")]
)
def test_a_file_that_is_cut_off_anywhere_is_refused(content: bytes, compression: str) -> None:
    assert as_file(content, "image", compression) is content
    for end in (*range(0, 40, 7), len(content) // 2):
        with pytest.raises((LakebedError, ValueError)):
            as_file(content[:end], "image", compression)


def test_a_png_file_with_one_wrong_bit_is_refused() -> None:
    for at in range(8, len(PNG), 97):
        broken = bytearray(PNG)
        broken[at] ^= 4
        with pytest.raises((LakebedError, ValueError)):
            as_file(bytes(broken), "image", "png")


def test_images_are_encoded_anew_and_others_are_not() -> None:
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(as_file(BMP, "image", "png")))), PIXELS)
    wav = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\0\0\0\0"
    with pytest.raises(ValueError, match="no image"):
        as_file(wav, "image", "png")
    with pytest.raises(ValueError, match="cannot become mp3"):
        as_file(wav, "audio", "mp3")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (JPEG, ("image", "jpeg")),
        (PNG, ("image", "png")),
        (JPEG[:-30], None),
        (b"", None),
        (b"#define width 3", None),
        (b"BM is no picture", None),
        (b"%!PS-Adobe-3.0", None),
        (b"\x1f\x8b any gzip", None),
        (b"ID3 no sound", None),
        (b"\0\0\0\x18ftypmp42 no film", None),
    ],
)
def test_staged_files_are_told_by_their_content_and_doubtful_ones_are_bytes(
    content: bytes, kind: Any
) -> None:
    assert kind_of(memoryview(content)) == kind


def test_slices_of_one_memory_do_not_overlap() -> None:
    """Pairs of files back to back are told apart (offsets, not lengths, decide)."""
    array = pa.array([JPEG, PNG, JPEG])
    found, _ = fit_files(array, of("image", "jpeg"))
    assert all(first != second for first, second in pairwise(found.array.to_pylist()))
