"""Folders as discs, tools and people leave them: every file is a row, or is named with what to do about it."""

from __future__ import annotations

import struct
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lakebed import limits
from lakebed.errors import IngestionError
from lakebed.importers.folders import folder as folders
from unit_tests.lakebed.importers.sources import imported


def brought(path: Path, **options: Any) -> Any:
    return imported("auto", path, **options)


def told(report: Any) -> dict[str, str]:
    """File -> what is said of it, left out or not."""
    return {one.where: one.reason for one in report.problems} | {
        one["where"]: one["reason"] for one in report.left_out
    }


def scan(path: Path, frames: int = 1) -> None:
    pydicom = pytest.importorskip("pydicom")
    meta = pydicom.dataset.FileMetaDataset()
    meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    made = pydicom.dataset.FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    made.Rows, made.Columns, made.SamplesPerPixel, made.PixelRepresentation = 4, 5, 1, 0
    made.BitsAllocated, made.BitsStored, made.HighBit = 16, 16, 15
    made.PhotometricInterpretation = "MONOCHROME2"
    if frames > 1:
        made.NumberOfFrames = frames
    made.PixelData = np.arange(20 * frames, dtype="<u2").tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    made.save_as(path, enforce_file_format=True)


def test_files_of_one_stem_share_a_row_unless_they_are_of_one_htype(tmp_path: Path) -> None:
    for name in ("a.png", "a.jpg", "b.png"):
        Image.new("RGB", (4, 5)).save(tmp_path / name)
    (tmp_path / "a.txt").write_text("first")
    ds = brought(tmp_path).dataset
    assert ds.file.text() == ["a.jpg", "a.png", "b.png"]
    assert ds.text.text() == ["first", "", ""]


def test_the_damaged_file_of_a_row_is_named(tmp_path: Path) -> None:
    """A row is left out for one of its files: the report names this one, not the first one of the row."""
    for name in ("a.png", "b.png"):
        Image.new("RGB", (4, 5)).save(tmp_path / name)
    (tmp_path / "a.txt").write_bytes(b"\xff")
    (tmp_path / "b.txt").write_text("second")
    report = brought(tmp_path)
    assert report.dataset.file.text() == ["b.png"]
    assert [one["where"] for one in report.left_out] == ["a.txt"]


def test_scans_of_a_disc_have_no_suffix(tmp_path: Path) -> None:
    names = ["S1/IM0001", "S1/IM0002", "S2/1.2.840.113619.2.55", "S2/a.ima"]
    for name in names:
        scan(tmp_path / name)
    scan(tmp_path / "DICOMDIR")
    (tmp_path / "VERSION").write_text("1")
    (tmp_path / "S1/IM0003").write_bytes(bytes(200))
    report = brought(tmp_path)
    assert report.dataset.file.text() == names
    assert report.dataset.scans[0].numpy().ravel()[:3].tolist() == [0, 1, 2]
    assert report.dataset.labels[0].data()["text"] == ["S1"]
    [(where, reason)] = told(report).items()
    assert (where, reason.partition(",")[0]) == ("files without a suffix", "3 files of an unknown kind")


@pytest.mark.parametrize("odd", [["0.dcm"], ["9.dcm"], ["0.dcm", "1.dcm"]])
@pytest.mark.parametrize("frames", [1, 3])
def test_scans_of_other_frames_are_named_whichever_comes_first(
    odd: list[str], frames: int, tmp_path: Path
) -> None:
    for name in [*odd, "2.dcm", "3.dcm", "4.dcm"]:
        scan(tmp_path / name, frames if name not in odd else 4 - frames)
    report = brought(tmp_path)
    assert report.dataset.file.text() == ["2.dcm", "3.dcm", "4.dcm"]
    assert report.skipped == len(odd)
    assert set(told(report)) == set(odd)
    assert "frame" in told(report)[odd[0]]


def test_files_of_another_kind_than_most_are_named(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel")
    for name in ("a.nii.gz", "b.nii.gz", "c.nii"):
        nibabel.save(nibabel.Nifti1Image(np.zeros((3, 4, 5), np.int16), np.eye(4)), tmp_path / name)
    report = brought(tmp_path)
    assert report.dataset.file.text() == ["a.nii.gz", "b.nii.gz"]
    assert report.skipped == 1
    assert "NII.GZ" in told(report)["c.nii"]
    assert "--link" in told(report)["c.nii"]
    assert len(brought(tmp_path, link=True).dataset) == 3


def test_tables_among_images_say_how_they_are_imported(tmp_path: Path) -> None:
    Image.new("RGB", (4, 3)).save(tmp_path / "a.jpg")
    Image.new("RGB", (4, 3)).save(tmp_path / "B.JPEG")
    commands = {
        "a.csv": "csv",
        "b.PARQUET": "parquet",
        "c.npz": "numpy",
        "d.jsonl": "jsonl",
        "e.tar": "webdataset",
    }
    for name in (*commands, "notes.docx"):
        (tmp_path / name).write_bytes(b"x")
    report = brought(tmp_path)
    assert report.dataset.file.text() == ["B.JPEG", "a.jpg"]
    found = told(report)
    assert found.pop("notes.docx") == "a file of an unknown kind is not imported"
    assert set(found) == set(commands)
    for name, form in commands.items():
        assert f"by itself: lakebed import {form} {tmp_path}/{name} DEST" in found[name]


def test_many_files_that_are_passed_over_are_counted(tmp_path: Path) -> None:
    """With the command that imports all of them, or the first; of files at several places the folder of all."""
    Image.new("RGB", (4, 3)).save(tmp_path / "a.jpg")
    (tmp_path / "t/a b").mkdir(parents=True)
    (tmp_path / "t/c").mkdir()
    for name in (
        "1.xyz",
        "2.xyz",
        "t/a b/1.csv",
        "t/a b/2.tsv",
        "t/c/1.jsonl",
        "t/c/2.jsonl",
        "t/c/3.h5",
        "4.h5",
    ):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "t/c/5.csv").write_bytes(b"x")
    found = told(brought(tmp_path))
    assert found == {
        "*.xyz": "2 files of an unknown kind, first 1.xyz, are not imported",
        "*.csv": f"3 files of rows, first t/a b/1.csv, are not imported here, but together: "
        f"lakebed import csv {tmp_path}/t DEST",
        "*.jsonl": f"2 files of rows, first t/c/1.jsonl, are not imported here, but together: "
        f"lakebed import jsonl {tmp_path}/t/c DEST",
        "*.h5": f"2 files of rows, first 4.h5, are not imported here, but each by itself: "
        f"lakebed import hdf5 {tmp_path}/4.h5 DEST",
    }
    (tmp_path / "t/c/5.csv").unlink()
    assert found != (again := told(brought(tmp_path)))
    assert again["*.csv"].endswith(f"lakebed import csv '{tmp_path}/t/a b' DEST")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("usual", [3, 4])
def test_volumes_of_other_axes_are_named(
    usual: int, late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that are not looked at before they are read, whichever worker reads them."""
    nibabel = pytest.importorskip("nibabel")
    if late:
        monkeypatch.setattr(folders, "_LOOKED_AT", 2)
    for at in range(6):
        shape = (3, 4, 5, 2)[: usual if at != 4 else 7 - usual]
        nibabel.save(nibabel.Nifti1Image(np.zeros(shape, np.int16), np.eye(4)), tmp_path / f"{at}.nii.gz")
    report = brought(tmp_path, workers=3)
    assert report.dataset.file.text() == [f"{at}.nii.gz" for at in (0, 1, 2, 3, 5)]
    assert told(report)["4.nii.gz"].startswith(f"it has {7 - usual} axes, and most nifti files have {usual}")


def pages(path: Path, count: int, size: tuple[int, int] = (5, 4), mode: str = "L") -> np.ndarray:
    """Write a TIFF file of pages, and return their pixels."""
    shape = (count, *size[::-1]) + ((3,) if mode == "RGB" else ())
    pixels = np.random.default_rng(count).integers(0, 255, shape, np.uint8)
    first, *others = [Image.fromarray(page) for page in pixels]
    first.save(path, save_all=True, append_images=others)
    return pixels if mode == "RGB" else pixels[..., None]


def test_pages_of_tiff_files_are_stacks(tmp_path: Path) -> None:
    """Beside images of one page; those whose pages are of several sizes are images, as their first page is."""
    wanted = {"b.tif": pages(tmp_path / "b.tif", 3), "c.tiff": pages(tmp_path / "c.tiff", 2, mode="RGB")}
    pages(tmp_path / "a.tif", 1)
    first, other = Image.new("L", (8, 6), 7), Image.new("L", (4, 3))
    first.save(tmp_path / "d.tif", save_all=True, append_images=[other])
    report = brought(tmp_path)
    ds = report.dataset
    assert ds.file.text() == ["a.tif", "b.tif", "c.tiff", "d.tif"]
    for row, name in enumerate(ds.file.text()):
        assert (
            np.array_equal(ds.stacks[row].numpy(), wanted[name])
            if name in wanted
            else not ds.stacks[row].shape[0]
        )
        assert (name in wanted) == (ds.images[row].numpy().size == 0)
    assert "--pages first" in told(report)["stacks"]
    assert "stacks" not in told(brought(tmp_path, pages="stack"))
    kept = brought(tmp_path, pages="first").dataset
    assert "stacks" not in kept.tensors
    assert kept.images[1].tobytes() == (tmp_path / "b.tif").read_bytes()
    assert "stacks" not in brought(tmp_path, link=True).dataset.tensors


def test_a_damaged_stack_costs_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.tif", "b.tif"):
        pages(tmp_path / name, 3, (50, 40))
    data = bytearray((tmp_path / "b.tif").read_bytes())
    (tmp_path / "b.tif").write_bytes(data[: len(data) - 1500])
    report = brought(tmp_path)
    assert (report.written, report.skipped) == (1, 1)
    monkeypatch.setattr(limits, "MAX_SAMPLE_BYTES", 3000)
    monkeypatch.setattr(limits, "FREE_BYTES", 0)
    with pytest.raises(IngestionError, match="stack of pages"):
        brought(tmp_path)


def test_what_lies_beside_a_yolo_set_is_counted(tmp_path: Path) -> None:
    for at in range(3):
        for folder in ("images", "labels", "audio"):
            (tmp_path / folder).mkdir(exist_ok=True)
        Image.new("RGB", (4, 3)).save(tmp_path / f"images/{at}.jpg")
        (tmp_path / f"labels/{at}.txt").write_text("0 0.5 0.5 0.2 0.2\n")
        with wave.open(str(tmp_path / f"audio/{at}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 1, "NONE", ""))
            file.writeframes(b"\0\0")
    (tmp_path / "data.yaml").write_text("names: [cat]\ntrain: images\n")
    (tmp_path / "best.pt").write_bytes(b"x")
    for about in ("README.md", "LICENSE", "classes.txt"):
        (tmp_path / about).write_text("text")
    (tmp_path / "other").mkdir()
    Image.new("RGB", (4, 3)).save(tmp_path / "other/a.jpg")
    report = brought(tmp_path)
    assert (report.format, report.written) == ("yolo", 3)
    assert {
        where: reason.partition(" are")[0].partition(":")[0] for where, reason in told(report).items()
    } == {
        "splits": "images that no split has",
        "best.pt": "a file beside the set is not imported",
        "*.wav": "3 files beside the set, first audio/0.wav,",
    }
    assert "audio/0.wav" in told(report)["*.wav"]


def tiff(bits: int, sample_format: int) -> bytes:
    """Return a TIFF file of 2 x 2 pixels in three channels."""
    data = bytes(4 * 3 * bits // 8)
    begin = 8 + 2 + 12 * 10 + 4
    short, long = ("<HHIHxx", 3), ("<HHII", 4)
    values = [
        (256, short, 1, 2), (257, short, 1, 2), (258, ("<HHII", 3), 3, begin), (259, short, 1, 1), (262, short, 1, 2),
        (273, long, 1, begin + 12), (277, short, 1, 3), (278, short, 1, 2), (279, long, 1, len(data)),
        (339, ("<HHII", 3), 3, begin + 6),
    ]  # fmt: skip
    entries = b"".join(
        struct.pack(form, tag, kind, count, value) for tag, (form, kind), count, value in values
    )
    head = b"II*\0" + struct.pack("<IH", 8, len(values)) + entries + bytes(4)
    return head + struct.pack("<6H", *[bits] * 3, *[sample_format] * 3) + data


def test_pixels_that_are_not_read_are_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "a.tif").write_bytes(tiff(8, 1))
    (tmp_path / "b.tif").write_bytes(tiff(64, 3))
    report = brought(tmp_path)
    assert report.dataset.file.text() == ["a.tif"]
    assert told(report)["b.tif"].startswith(
        "a TIFF file whose pixels are floats of 64 bits in 3 channels is not read"
    )
