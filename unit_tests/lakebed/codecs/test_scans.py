"""DICOM and NIfTI files (format.md 5.3, 7)."""

from __future__ import annotations

import io
import json
from typing import Any

import nibabel
import numpy as np
import pydicom
import pytest
from numpy.typing import NDArray

from lakebed import limits
from lakebed.codecs.dicom import Dicom
from lakebed.codecs.nifti import Nifti
from lakebed.errors import FormatError, LimitError, SampleCompressionError
from unit_tests.lakebed.codecs.scans import dicom, gzipped, nifti

STEPS = np.arange(3 * 4 * 5 * 3)


@pytest.mark.parametrize(
    ("values", "frames", "shape"),
    [
        (STEPS[:20].astype("<u2").reshape(4, 5), None, (4, 5, 1)),
        (STEPS[:20].astype("<u4").reshape(4, 5), None, (4, 5, 1)),
        (STEPS[:60].astype("u1").reshape(4, 5, 3), None, (4, 5, 3)),
        (STEPS[:60].astype("<i2").reshape(3, 4, 5), 3, (3, 4, 5, 1)),
        (STEPS[:20].astype("u1").reshape(1, 4, 5), 1, (1, 4, 5, 1)),
        (STEPS.astype("u1").reshape(3, 4, 5, 3), 3, (3, 4, 5, 3)),
    ],
)
def test_dicom_pixels(values: NDArray[Any], frames: int | None, shape: tuple[int, ...]) -> None:
    """Frames first where the file counts them, samples per pixel last; the dtype of the file."""
    data = dicom(values, frames=frames)
    facts = Dicom().facts(data)
    assert (facts.shape, facts.dtype) == (shape, values.dtype.name)
    found = Dicom().decode(data)
    assert found.dtype == values.dtype
    assert np.array_equal(found, values.reshape(shape))
    assert np.array_equal(Dicom().part(data, slice(None, None, -1)), values.reshape(shape)[::-1])
    out = np.empty(shape, dtype=values.dtype)
    assert Dicom().decode(data, out) is out


def test_dicom_metadata() -> None:
    """Every element but bulks of bytes, by keyword, as 3.9.52 records it."""
    item = pydicom.Dataset()
    item.CodeValue = "x"
    data = dicom(
        STEPS[:20].astype("<u2").reshape(4, 5), PatientName="A^B", PixelSpacing=[0.5, 0.25], SliceThickness="1.5",
        ConceptNameCodeSequence=pydicom.Sequence([item]), ImageComments=None,
    )  # fmt: skip
    found = Dicom().metadata(data)
    assert found["PatientName"] == {
        "name": "Patient's Name", "tag": str(pydicom.tag.Tag(0x0010, 0x0010)), "value": [{"Alphabetic": "A^B"}],
        "vr": "PN",
    }  # fmt: skip
    assert found["Rows"]["value"] == 4
    assert found["PixelSpacing"]["value"] == [0.5, 0.25]
    assert found["SliceThickness"]["value"] == "1.5"
    assert found["ConceptNameCodeSequence"]["value"] == [{"00080100": {"vr": "SH", "Value": ["x"]}}]
    assert found["ImageComments"]["value"] in (None, "")
    assert "PixelData" not in found
    json.dumps(found)


def test_what_is_no_dicom() -> None:
    """Other bytes, files without pixels or with fewer than promised are format errors; arrays are refused."""
    data = dicom(STEPS[:20].astype("<u2").reshape(4, 5))
    for damaged in (
        b"",
        b"DICM",
        bytes(200),
        data[:200],
        data[:-10],
        data.replace(b"\x28\x00\x10\x00US", b"\x28\x00\x11\x00US"),
    ):
        with pytest.raises(FormatError):
            Dicom().decode(damaged)
    with pytest.raises(SampleCompressionError):
        Dicom().encode(np.zeros((4, 5, 1)))


NIFTI = {
    "integers": STEPS[:24].astype("<i2").reshape(2, 3, 4),
    "big-endian": STEPS[:24].astype(">i4").reshape(2, 3, 4),
    "floats": STEPS[:48].astype("<f4").reshape(2, 3, 4, 2),
    "one axis": STEPS[:5].astype("u1"),
    "complex": (STEPS[:24] * 1j).astype("<c8").reshape(2, 3, 4),
}


@pytest.mark.parametrize("kind", NIFTI)
@pytest.mark.parametrize("image", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize("packed", [False, True])
def test_nifti_values(kind: str, image: type[Any], packed: bool) -> None:
    """Axes and dtype are the file's, plain or gzipped, whatever its byte order."""
    values = NIFTI[kind]
    data = nifti(values, kind=image)
    codec = Nifti("nii.gz" if packed else "nii")
    data = gzipped(data) if packed else data
    facts = codec.facts(data)
    assert (facts.shape, facts.dtype) == (values.shape, values.dtype.name)
    found = codec.decode(data)
    assert found.dtype.name == values.dtype.name
    assert found.flags.c_contiguous
    assert np.array_equal(found, values)
    assert np.array_equal(codec.part(data, 1), values[1])
    assert np.array_equal(codec.part(data, slice(None, None, -2)), values[::-2])


def test_nifti_scaling() -> None:
    """Scaled values are floats: nothing is lost by rounding to the stored dtype."""
    values = STEPS[:24].reshape(2, 3, 4) / 7
    data = nifti(values, stored="i2")
    assert Nifti().facts(data).dtype == "float64"
    assert np.abs(Nifti().decode(data) - values).max() < 1e-3


def test_nifti_colours() -> None:
    """The bytes of a colour are the last axis."""
    colours = np.zeros((2, 3, 4), dtype=[("R", "u1"), ("G", "u1"), ("B", "u1")])
    colours["R"], colours["B"] = STEPS[:24].reshape(2, 3, 4), 7
    found = Nifti().decode(nifti(colours))
    assert np.array_equal(found, np.stack([colours[name] for name in "RGB"], axis=-1))


def test_nifti_metadata() -> None:
    """Every field of the header as an array, the affine and the zooms."""
    found = Nifti().metadata(nifti(NIFTI["integers"]))
    assert found["dim"].tolist() == [3, 2, 3, 4, 1, 1, 1, 1]
    assert found["dim"].dtype.str == "<i2"
    assert found["vox_offset"] == 0
    assert np.isnan(found["scl_slope"])
    assert np.array_equal(found["affine"], np.diag([2, 3, 4, 1]))
    assert found["zooms"] == (2.0, 3.0, 4.0)
    assert float(Nifti().metadata(nifti(STEPS[:24].reshape(2, 3, 4) / 7, stored="i2"))["scl_slope"]) < 1


@pytest.mark.parametrize("image", [nibabel.Nifti1Image, nibabel.Nifti2Image])
@pytest.mark.parametrize("codes", ["qform", "sform", "none"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_volumes_lie_as_nibabel_reads_them(image: type[Any], codes: str, order: str) -> None:
    """Values, the affine and the zooms, for axes in any order and direction."""
    turned = np.array([[0, -2, 0, 10], [0, 0, 3, -5], [1.5, 0, 0, 7], [0, 0, 0, 1.0]])
    for affine in (np.eye(4), turned):
        header = image.header_class(endianness=order)
        values = np.random.default_rng(0).integers(0, 100, (4, 3, 2)).astype(np.int16)
        made = image(values, None if codes == "none" else affine, header=header)
        if codes == "qform":
            made.set_sform(None, 0)
            made.set_qform(affine, 1)
        data = made.to_bytes()
        read = image.from_bytes(data)
        assert np.array_equal(Nifti().decode(data), np.asanyarray(read.dataobj))
        info = Nifti().metadata(data)
        assert np.allclose(info["affine"], read.affine)
        assert nibabel.aff2axcodes(info["affine"]) == nibabel.aff2axcodes(read.affine)
        assert np.allclose(info["zooms"], read.header.get_zooms())
        assert [int(info[name]) for name in ("qform_code", "sform_code")] == [
            int(read.header[name]) for name in ("qform_code", "sform_code")
        ]


@pytest.mark.parametrize("image", [nibabel.Nifti1Pair, nibabel.Nifti2Pair])
def test_the_header_of_a_pair_is_no_scan(image: type[Any]) -> None:
    """Its values are in another file: the header's own bytes are not read in their place."""
    files = image.make_file_map({"header": io.BytesIO(), "image": io.BytesIO()})
    made = image(np.zeros((3, 4, 5), np.int16), np.eye(4))
    for file in files.values():
        file.fileobj = io.BytesIO()
    made.to_file_map(files)
    data = files["header"].fileobj.getvalue()
    for read in (Nifti().facts, Nifti().decode, Nifti("nii.gz").decode):
        with pytest.raises(FormatError, match=r"pair \(\.hdr and \.img\)"):
            read(data)


def test_what_is_no_nifti(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other bytes, truncated values and headers that promise too much are told apart before memory is taken."""
    data = nifti(NIFTI["integers"])
    for damaged in (
        b"",
        b"\x1f\x8b",
        bytes(400),
        data[:340],
        data[:-1],
        gzipped(data)[:-20],
        gzipped(data[:-1]),
    ):
        with pytest.raises(FormatError):
            Nifti().decode(damaged)
    huge = bytearray(data)
    huge[40:56] = np.array([7] + [32767] * 7, dtype="<i2").tobytes()
    with pytest.raises(LimitError):
        Nifti().decode(bytes(huge))
    with pytest.raises(SampleCompressionError):
        Nifti().encode(np.zeros((4, 5, 1)))
    monkeypatch.setattr(limits, "MAX_SAMPLE_BYTES", 47)
    with pytest.raises(LimitError):
        Nifti("nii.gz").facts(gzipped(data))
