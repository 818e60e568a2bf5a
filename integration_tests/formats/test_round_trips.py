"""Datasets go out in formats that need a package, are what its library reads, and come back as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.errors import ExportError, IngestionError
from lakebed.storage.url import open_storage
from unit_tests.conftest import golden  # noqa: F401 - a fixture
from unit_tests.lakebed.exporters.round_trips import (
    ROWS,
    TRIPS,
    Trip,
    check,
    differences,
    everything,
    golden_datasets_come_back,
    same,
    values_of,
)

pytestmark = pytest.mark.formats

HDF5 = Trip("hdf5", suffix=".h5")
ZARR = Trip("zarr")
ZARR_2 = Trip("zarr", options={"zarr_format": "2", "compression": "gzip"})
HERE = (HDF5, Trip("hdf5", options={"compression": "none"}, suffix=".h5"), ZARR, ZARR_2)

pytest.importorskip("h5py")
pytest.importorskip("zarr")


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    """Something of everything."""
    return everything(tmp_path_factory.mktemp("everything") / "lake")


@pytest.mark.parametrize("trip", HERE, ids=str)
def test_everything_comes_back(trip: Trip, ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Values, nulls, shapes of empty arrays, htypes, dtypes, infos, files byte for byte, splits."""
    check(trip, ds, tmp_path)


@pytest.mark.filterwarnings("ignore:tensor 'lab' has the names")  # a golden dataset has labels without a name
@pytest.mark.parametrize("trip", [HDF5, ZARR, *TRIPS], ids=str)
def test_golden_datasets(
    trip: Trip,
    golden: Path,  # noqa: F811 - the fixture
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each dataset of 3.9.52 ends in a report or an error of ours; what is not told comes back."""
    for package in ("av", "pydicom", "nibabel", "laspy"):
        pytest.importorskip(package)
    golden_datasets_come_back(trip, golden, tmp_path, monkeypatch)


def test_h5py_reads_it(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Arrays, lists, texts, files, enumerations, names and masks, as users of h5py expect them."""
    import h5py

    lakebed.export_to("hdf5", ds, tmp_path / "a.h5", progressbar=False)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["embedding"].shape == (ROWS, 4)
        assert np.array_equal(file["embedding"][2], ds.embedding[2].numpy())
        assert np.isnan(file["embedding"][3]).all()
        assert np.flatnonzero(file["number.null"][:]).tolist() == [3, 8, 13, 18, 23]
        assert file["text"].asstr()[1] == ds.text[1].text()
        assert file["photos"][4].tobytes() == ds.photos[4].tobytes()
        assert (file["photos"].attrs["format"], file["photos"].attrs["htype"]) == ("jpeg", "image")
        assert h5py.check_enum_dtype(file["label"].dtype) == {"cat": 0, "dög": 1}
        assert file["label"][:].tolist() == [row % 2 for row in range(ROWS)]
        assert list(file["labels"].attrs["class_names"]) == ["a", "b", "c"]
        boxes = file["box/xy"][5].reshape(file["box/xy.shape"][5])
        assert np.array_equal(boxes, ds["box/xy"][5].numpy())
        begin, end = file["sequence/text.rows"][2:4]
        assert [text.decode() for text in file["sequence/text"][begin:end]] == ["a", ""]
        assert json.loads(file["about"][0]) == {"a": [0, None], "é": {}}
        assert json.loads(file.attrs["lakebed"])["info"]["about"] == {"by": "a test"}


@pytest.mark.parametrize("version", ["2", "3"])
def test_zarr_reads_it(ds: lakebed.Dataset, tmp_path: Path, version: str) -> None:
    """Arrays, groups, attributes, texts, flat files with offsets."""
    import zarr

    lakebed.export_to("zarr", ds, tmp_path / "a", zarr_format=version, progressbar=False)
    root = zarr.open_group(tmp_path / "a", mode="r")
    assert root.metadata.zarr_format == int(version)
    assert np.array_equal(root["embedding"][2], ds.embedding[2].numpy())
    assert root["text"][1] == ds.text[1].text()
    offsets = root["photos.offsets"][:]
    assert root["photos"][offsets[4] : offsets[5]].tobytes() == ds.photos[4].tobytes()
    assert root["labels"].attrs["class_names"] == ["a", "b", "c"]
    assert root["box"]["xy"].attrs["htype"] == "bbox"
    assert root["flag.null"][:].nonzero()[0].tolist() == [3, 8, 13, 18, 23]


def test_rows_stay_in_order_and_may_be_some(tmp_path: Path) -> None:
    """Splits that lie among each other change no order; those that are named are written alone."""
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("number").extend(range(100))
    ds.save_split("odd", range(1, 100, 2))
    ds.save_split("even", range(0, 100, 2))
    for trip in (HDF5, ZARR):
        (tmp_path / trip.format).mkdir()
        _, back = trip.there_and_back(ds, tmp_path / trip.format)
        assert back.number.numpy().ravel().tolist() == list(range(100))
        assert list(back.splits["odd"].sample_indices) == list(range(1, 100, 2))
        out = tmp_path / f"some{trip.suffix}"
        assert lakebed.export_to(trip.format, ds, out, split="odd", progressbar=False).written == 50


def test_blocks_larger_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks of several threads, nulls that begin late and end early, rows that cannot be read in between."""
    from lakebed.exporters.arrays import layout

    monkeypatch.setattr(layout, "_BLOCK_BYTES", 500)
    Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(tmp_path / "a.png")
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("a", dtype="int32").extend([None if 40 < row < 60 else row for row in range(200)])
    ds.create_tensor("t", htype="text").extend(
        [None if row == 120 else "x" * (row % 7) for row in range(200)]
    )
    ds.create_tensor("r", dtype="float32").extend([np.ones((row % 3, 2), np.float32) for row in range(200)])
    make: dict[str, Any] = {"create_shape_tensor": False, "create_sample_info_tensor": False, "verify": False}
    ds.create_tensor("l", htype="link[image]", sample_compression="png", **make)
    ds.l.extend(
        [lakebed.link(str(tmp_path / ("no.png" if row % 50 == 5 else "a.png"))) for row in range(200)]
    )
    kept = [row for row in range(200) if row % 50 != 5]
    for trip in (HDF5, ZARR):
        (tmp_path / trip.format).mkdir()
        report, back = trip.there_and_back(ds, tmp_path / trip.format)
        assert [row for row, _ in report.left_out] == [5, 55, 105, 155]
        assert differences(back, ds[kept], ["a", "t", "r"]) == []
        assert back.l[0].tobytes() == (tmp_path / "a.png").read_bytes()
        out = tmp_path / f"links{trip.suffix}"
        report = lakebed.export_to(trip.format, ds, out, links=True, progressbar=False)
        assert (report.written, [where for where, _ in report.problems]) == (200, ["l"])
        again = lakebed.import_from(trip.format, out, "mem://", progressbar=False).dataset
        assert again.l[5].text() == str(tmp_path / "no.png")


def test_pixels_in_place_of_files(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Where all are of one shape; otherwise files, and the report says so. What is decoded is not encoded again."""
    for trip in (Trip("hdf5", {"decode": True}, suffix=".h5"), Trip("zarr", {"decode": True})):
        (tmp_path / trip.format).mkdir()
        report, back = trip.there_and_back(ds[["photos", "images"]], tmp_path / trip.format)
        assert [where for where, _ in report.problems] == ["images"]
        assert back.photos.meta.sample_compression is None
        assert np.array_equal(back.photos.numpy(), ds.photos.numpy())
        assert values_of(back.images) == values_of(ds.images)


def test_into_a_bucket(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """One object for HDF5, which is imported from there; a folder for Zarr, whose top comes last."""
    kept = open_storage("mem://arrays")
    lakebed.export_to("hdf5", ds, "mem://arrays/a.h5", progressbar=False)
    back = lakebed.import_from("hdf5", "mem://arrays/a.h5", tmp_path / "back", progressbar=False).dataset
    assert differences(back, ds) == []
    folder = open_storage("mem://folder")
    lakebed.export_to("zarr", ds, "mem://folder", progressbar=False)
    for key, _ in folder.list():
        path = tmp_path / "z" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(folder.get(key))
    assert list(kept.list())
    back = lakebed.import_from("zarr", tmp_path / "z", tmp_path / "back2", progressbar=False).dataset
    assert differences(back, ds) == []


def test_names_of_classes_beyond_what_an_enumeration_holds(tmp_path: Path) -> None:
    """Names that are there twice, empty, or very many are an attribute alone."""
    import h5py

    ds = lakebed.empty(tmp_path / "lake")
    names = {
        "many": [f"class nº {number}" * 3 for number in range(20_000)],
        "twice": ["a", "a"],
        "empty": ["", "b"],
    }
    for name, classes in names.items():
        ds.create_tensor(name, htype="class_label", class_names=classes).extend([0, 1])
    _, back = HDF5.there_and_back(ds, tmp_path)
    assert differences(back, ds) == []
    with h5py.File(tmp_path / "out.h5") as file:
        assert all(h5py.check_enum_dtype(file[name].dtype) is None for name in names)
        assert list(file["many"].attrs["class_names"]) == names["many"]


def test_what_hdf5_cannot_hold_is_told(tmp_path: Path) -> None:
    """A text with a NUL costs its row in HDF5; Zarr has it."""
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("text", htype="text").extend(["a", "b\0c", "d"])
    report, back = HDF5.there_and_back(ds, tmp_path)
    assert [row for row, _ in report.left_out] == [1]
    assert "NUL" in report.left_out[0][1]
    assert back.text.text() == ["a", "d"]
    (tmp_path / "z").mkdir()
    assert ZARR.there_and_back(ds, tmp_path / "z")[1].text.text() == ["a", "b\0c", "d"]


def _edited(path: Path, edit: Callable[[Any], Any]) -> Path:
    import h5py

    with h5py.File(path, "r+") as file:
        edit(file)
    return path


def test_files_that_lie_about_themselves(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Numbers that cannot be end in an error or a plain array, never in a crash or in memory that there is not."""
    few = ds[["ragged", "sequence/boxes", "photos", "even", "about", "polygons"]]
    lakebed.export_to("hdf5", few, tmp_path / "a.h5", progressbar=False)
    original = (tmp_path / "a.h5").read_bytes()

    def offsets(file: Any) -> None:
        file["sequence/boxes.rows"][3] = 1 << 60

    def descending(file: Any) -> None:
        file["polygons.rows"][2] = 0
        file["polygons.rows"][1] = 5

    def shapes(file: Any) -> None:
        file["ragged.shape"][:] = 1 << 40

    def negative(file: Any) -> None:
        file["ragged.shape"][5] = (-1, -2, -1)

    def document(file: Any) -> None:
        file["about"][0] = "[" * 200_000

    def no_file(file: Any) -> None:
        file["photos"][0] = np.arange(100, dtype=np.uint8)

    for edit in (offsets, descending, shapes, negative, document, no_file):
        (tmp_path / "b.h5").write_bytes(original)
        path = _edited(tmp_path / "b.h5", edit)
        try:
            report = lakebed.import_from("hdf5", path, "mem://", progressbar=False)
        except IngestionError:
            continue
        assert report.skipped > 0, edit

    def said(**changes: Any) -> Callable[[Any], Any]:
        def edit(file: Any) -> None:
            told = json.loads(file["even"].attrs["lakebed"])
            file["even"].attrs["lakebed"] = json.dumps({**told, **changes})

        return edit

    lies: tuple[Callable[[Any], Any], ...] = (
        said(layout="other"),
        said(layout="text", htype="text"),
        said(layout="file", htype="image", sample_compression="png"),
        said(rows=True),
        said(ndim=1 << 40),
        said(htype="no such"),
        lambda file: file["even"].attrs.__setitem__("lakebed", "[" * 100_000),
        lambda file: file["even"].attrs.__setitem__("lakebed", 7),
    )
    for lie in lies:
        (tmp_path / "b.h5").write_bytes(original)
        path = _edited(tmp_path / "b.h5", lie)
        back = lakebed.import_from("hdf5", path, "mem://", arrays=["even"], progressbar=False).dataset
        assert back.even.htype == "generic"
        assert np.array_equal(back.even[0].numpy(), ds.even[0].numpy())


def test_datasets_reads_what_is_saved(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """`load_from_disk` and `load_dataset("parquet")` give images, classes, arrays, lists, nulls."""
    datasets = pytest.importorskip("datasets")
    lakebed.export_to("huggingface", ds, tmp_path / "saved", progressbar=False)
    lakebed.export_to("parquet", ds, tmp_path / "parquet", progressbar=False)
    files = {split: str(tmp_path / f"parquet/{split}.parquet") for split in ("train", "val")}
    for both in (
        datasets.load_from_disk(str(tmp_path / "saved")),
        datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache")),
    ):
        assert {name: len(split) for name, split in both.items()} == {"train": 12, "val": 12}
        theirs = both["train"]
        features = theirs.features
        if "sound" in features:  # which they decode by torchcodec alone
            assert isinstance(features["sound"], datasets.Audio)
            both = both.remove_columns("sound")
            theirs = both["train"]
        assert isinstance(features["images"], datasets.Image)
        assert features["label"] == datasets.ClassLabel(names=["cat", "dög"])
        assert features["even"] == datasets.Array2D((2, 3), "float32")
        assert theirs[3]["images"] is None
        assert np.array_equal(np.asarray(theirs[4]["images"]), ds.images[4].numpy())
        assert theirs[1]["label"] == 1
        assert theirs[1]["labels"] == [0]
        assert np.array_equal(np.array(theirs[4]["even"], "f4"), ds.even[4].numpy())
        assert np.array_equal(np.array(theirs[4]["box/xy"], "f4"), ds["box/xy"][4].numpy())
        assert theirs[3]["even"] is None
        assert theirs["number"] == [None if row % 5 == 3 else row - 7 for row in range(12)]
        assert theirs["flag"] == [None if row % 5 == 3 else row % 2 == 0 for row in range(12)]
        assert theirs["text"][:4] == [*[ds.text[row].text() for row in range(3)], None]
        assert [len(row) for row in theirs["sequence/images"]] == [row % 3 for row in range(12)]
        assert np.array_equal(
            np.asarray(theirs[2]["sequence/images"][1]), ds["sequence/images"][2, 1].numpy()
        )
        raw = both.cast_column("images", datasets.Image(decode=False))
        assert raw["train"][0]["images"]["bytes"] == ds.images[0].tobytes()
    one = lakebed.export_to("huggingface", ds[:5], tmp_path / "one", split=None, progressbar=False)
    assert one.written == 5


def test_what_datasets_wrote_goes_out_as_it_was(tmp_path: Path) -> None:
    """Their dataset -> ours -> theirs: the same rows and features."""
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "text": datasets.Value("string"),
            "n": datasets.Value("int32"),
            "m": datasets.Array2D((2, 3), "float32"),
            "vector": datasets.List(datasets.Value("float32"), length=4),
            "ids": datasets.List(datasets.Value("int64")),
        }
    )
    rows = [
        {
            "image": None if row % 7 == 3 else np.full((5, 6 + row % 3, 3), row, np.uint8),
            "label": row % 2,
            "text": None if row % 4 == 1 else f"row {row}",
            "n": None if row % 5 == 0 else row,
            "m": np.full((2, 3), row, np.float32),
            "vector": [float(row)] * 4,
            "ids": list(range(row % 4)),
        }
        for row in range(20)
    ]
    theirs = datasets.Dataset.from_list(rows, features=features)
    theirs.save_to_disk(str(tmp_path / "a"))
    ours = lakebed.import_from("huggingface", tmp_path / "a", tmp_path / "lake", progressbar=False).dataset
    lakebed.export_to("huggingface", ours, tmp_path / "b", progressbar=False)
    again = datasets.load_from_disk(str(tmp_path / "b"))
    assert again.features == theirs.features
    decode = datasets.Image(decode=False)
    one, other = again.cast_column("image", decode), theirs.cast_column("image", decode)
    for found, wanted in zip(one, other, strict=True):
        of, was = found.pop("image"), wanted.pop("image")
        assert (of and of["bytes"]) == (was and was["bytes"])
        assert found == wanted


def test_what_h5py_wrote_goes_out_as_it_was(tmp_path: Path) -> None:
    """Their file -> ours -> theirs: the same values."""
    import h5py

    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = rng.integers(0, 255, (30, 8, 9, 3), np.uint8)
        file["g/points"] = rng.random((30, 2)).astype(">f8")
        file["g/text"] = [f"nº {row}" for row in range(30)]
        lists = file.create_dataset("lists", (30,), h5py.vlen_dtype(np.int32))
        for row in range(30):
            lists[row] = np.arange(row % 4)
        file["flags"] = rng.random(30) > 0.5
        file["waves"] = np.exp(1j * rng.random((30, 3))).astype(np.complex64)
    ours = lakebed.import_from("hdf5", tmp_path / "a.h5", tmp_path / "lake", progressbar=False).dataset
    lakebed.export_to("hdf5", ours, tmp_path / "b.h5", progressbar=False)
    with h5py.File(tmp_path / "a.h5") as one, h5py.File(tmp_path / "b.h5") as other:
        for name in ("images", "g/points", "g/text", "flags", "waves"):
            assert np.array_equal(one[name][:], other[name][:]), name
        assert all(same(a, b) for a, b in zip(one["lists"][:], other["lists"][:], strict=True))


def test_the_package_is_asked_for(
    ds: lakebed.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the error names the extra."""
    import sys

    for package, extra in (("h5py", "hdf5"), ("zarr", "zarr")):
        monkeypatch.setitem(sys.modules, package, None)
        asked = rf"pip install 'lakebed\[{extra}\]'"
        with pytest.raises(ExportError, match=asked):
            lakebed.export_to(extra, ds, tmp_path / "no", progressbar=False)


def test_a_row_that_is_larger_than_a_chunk(tmp_path: Path) -> None:
    """Large arrays are cut."""
    from lakebed.exporters.arrays.arrays import chunk_of

    assert chunk_of((20_000, 20_000), 8) == (1, 2500, 2500)
    assert chunk_of((), 1) == (65_536,)
    assert chunk_of((3, 4), 4) == (21_845, 3, 4)
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("a", dtype="float32").extend([np.ones((1000, 1000), np.float32)] * 3)
    for trip in (HDF5, ZARR):
        (tmp_path / trip.format).mkdir()
        assert differences(trip.there_and_back(ds, tmp_path / trip.format)[1], ds) == []
