"""`ingest_classification`, `ingest_dataframe` and `ingest_kaggle`: as Deep Lake 3.x calls them and what it makes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import lakebed
from lakebed.errors import (
    DatasetExistsError,
    ExternalCommandError,
    IngestionError,
    InvalidFileExtension,
    InvalidPandasDataframeError,
    InvalidPathException,
    KaggleDatasetAlreadyDownloadedError,
    KaggleMissingCredentialsError,
    SamePathException,
)


def picture(path: Path, value: int = 0) -> None:
    """Write a small image, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((4, 5, 3), value, np.uint8)).save(path)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Three images of two classes."""
    for number in range(3):
        for name in ("cat", "dog"):
            picture(tmp_path / "pets" / name / f"{number}.png", number)
    return tmp_path / "pets"


def labels_of(ds: lakebed.Dataset, name: str = "labels") -> list[str]:
    """Return the names of the labels."""
    names = ds[name].info["class_names"]
    return [names[int(number)] for number in ds[name].numpy().ravel()]


def test_a_folder_of_classes(pets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Images and labels in the order of the names, byte for byte; a summary at the end."""
    ds = lakebed.ingest_classification(pets, tmp_path / "d", shuffle=False, progressbar=False)
    assert labels_of(ds) == ["cat"] * 3 + ["dog"] * 3
    assert [int(image[0, 0, 0]) for image in ds.images.numpy()] == [0, 1, 2, 0, 1, 2]
    assert bytes(ds.images[4].tobytes()) == (pets / "dog" / "1.png").read_bytes()
    assert (ds.images.htype, ds.labels.htype, ds.images.meta.sample_compression) == (
        "image",
        "class_label",
        "png",
    )
    assert "images" in capsys.readouterr().out
    shuffled = lakebed.ingest_classification(
        pets, tmp_path / "e", {"name": "p"}, {"name": "c"}, summary=False, progressbar=False, num_workers=2
    )
    assert sorted(labels_of(shuffled, "c")) == labels_of(ds)
    assert list(shuffled.tensors) == ["p", "c"]
    assert "images" not in capsys.readouterr().out


def test_sets_are_groups(tmp_path: Path) -> None:
    """Folders of sets above the classes: a group each, which may differ in length."""
    for name in ("train/cat/1", "train/dog/2", "train/dog/3", "test/dog/4"):
        picture(tmp_path / "s" / f"{name}.png")
    ds = lakebed.ingest_classification(
        tmp_path / "s", tmp_path / "d", shuffle=False, summary=False, progressbar=False
    )
    assert (len(ds["train/images"]), len(ds["test/images"])) == (3, 1)
    assert labels_of(ds, "train/labels") == ["cat", "dog", "dog"]
    assert labels_of(ds, "test/labels") == ["dog"]


def test_links(pets: Path, tmp_path: Path) -> None:
    """Links in place of the files."""
    lakebed.allow_links(pets)
    ds = lakebed.ingest_classification(
        pets, tmp_path / "d", {"htype": "link[image]"}, summary=False, progressbar=False
    )
    assert ds.images.htype == "link[image]"
    assert ds.images[0].numpy().shape == (4, 5, 3)


def test_what_is_no_image_is_told(pets: Path, tmp_path: Path) -> None:
    """A damaged file, one without a class, and a second kind of file are warned of."""
    (pets / "cat" / "9.png").write_bytes(b"no image")
    picture(pets / "alone.png")
    (pets / "README.txt").write_text("read me")
    with pytest.warns(UserWarning, match="left out") as told:
        ds = lakebed.ingest_classification(pets, tmp_path / "d", summary=False, progressbar=False)
    assert len(ds) == 6
    text = " ".join(str(one.message) for one in told)
    assert "alone.png" in text
    assert "9.png" in text
    assert "1 files of" in text
    assert "README.txt" in text


def test_refusals(pets: Path, tmp_path: Path) -> None:
    """The errors of 3.x."""
    quiet = {"summary": False, "progressbar": False}
    with pytest.raises(SamePathException):
        lakebed.ingest_classification(pets, f"{pets}/", **quiet)
    with pytest.raises(InvalidPathException):
        lakebed.ingest_classification(tmp_path / "none", tmp_path / "d", **quiet)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InvalidFileExtension):
        lakebed.ingest_classification(tmp_path / "a.txt", tmp_path / "d", **quiet)
    with pytest.raises(IngestionError, match="beside each other"):
        lakebed.ingest_classification(pets / "cat", tmp_path / "d", **quiet)
    lakebed.ingest_classification(pets, tmp_path / "d", **quiet)
    with pytest.raises(DatasetExistsError):
        lakebed.ingest_classification(pets, tmp_path / "d", **quiet)
    assert len(lakebed.ingest_classification(pets, tmp_path / "d", overwrite=True, **quiet)) == 6


def test_a_table(tmp_path: Path) -> None:
    """A CSV file has a tensor for each column."""
    (tmp_path / "a.csv").write_text("name,n\nx,1\ny,2\n")
    ds = lakebed.ingest_classification(
        tmp_path / "a.csv", tmp_path / "d", shuffle=False, summary=False, progressbar=False
    )
    assert ds.name.data()["value"] == ["x", "y"]
    assert ds.n.numpy().ravel().tolist() == [1, 2]


def test_a_data_frame(tmp_path: Path) -> None:
    """Types as in 3.x: dates as text, NaN as such, arrays as arrays, and names without spaces."""
    frame = pd.DataFrame(
        {
            "a b": [1, 2, 3],
            "f": [0.5, np.nan, 2],
            "s": ["x", None, "z"],
            "o": [[1, 2], [3], []],
            "d": pd.to_datetime(["2020-01-01", None, "2020-01-02"]),
            "arr": [np.ones((2, 2)), np.zeros((1, 3)), np.ones((2, 2))],
            "dic": [{"a": 1}, {"a": 2}, {"a": 3}],
            "i8": np.array([1, 2, 3], "int8"),
        }
    )
    ds = lakebed.ingest_dataframe(frame, tmp_path / "d", progressbar=False)
    assert list(ds.tensors) == ["a_b", "f", "s", "o", "d", "arr", "dic", "i8"]
    assert np.array_equal(ds.f.numpy().ravel(), [0.5, np.nan, 2], equal_nan=True)
    assert ds.d[0].text() == "2020-01-01"
    assert [value.tolist() for value in ds.o.numpy(aslist=True)] == [[1, 2], [3], []]
    assert [value.tolist() for value in ds.arr.numpy(aslist=True)] == [v.tolist() for v in frame["arr"]]
    assert ds.dic[1].data()["value"] == {"a": 2}
    assert ds.i8.dtype == np.int8
    more = lakebed.ingest_dataframe(frame, ds, progressbar=False)
    assert len(more) == 6


def test_arrays_stay_with_their_rows(pets: Path, tmp_path: Path) -> None:
    """A row that is left out takes its array along."""
    frame = pd.DataFrame(
        {
            "file": [str(pets / "cat" / "0.png"), str(pets / "none.png"), str(pets / "dog" / "2.png")],
            "arr": [np.full((2, 2), number) for number in range(3)],
        }
    )
    with pytest.warns(UserWarning, match="left out"):
        ds = lakebed.ingest_dataframe(
            frame,
            tmp_path / "d",
            {"file": {"name": "images", "htype": "image", "sample_compression": "png"}},
            progressbar=False,
        )
    assert [int(value[0, 0]) for value in ds.arr.numpy()] == [0, 2]
    assert [int(value[0, 0, 0]) for value in ds.images.numpy()] == [0, 2]
    only = lakebed.ingest_dataframe(frame[["arr"]], tmp_path / "e", progressbar=False)
    assert len(only.arr) == 3


def test_columns_are_told_what_they_are(pets: Path, tmp_path: Path) -> None:
    """Classes, embeddings, JSON; columns that are not there, and half the files as links, are refused."""
    frame = pd.DataFrame(
        {"c": ["u", "v", "u"], "e": [[1.0, 2.0]] * 3, "j": [[1], [2], [3]], "file": ["x"] * 3}
    )
    given = {"c": {"htype": "class_label"}, "e": {"htype": "embedding"}, "j": {"htype": "json", "name": "k"}}
    ds = lakebed.ingest_dataframe(frame, tmp_path / "d", given, progressbar=False)
    assert (ds.c.htype, ds.e.htype, ds.k.htype) == ("class_label", "embedding", "json")
    assert labels_of(ds, "c") == ["u", "v", "u"]
    both = {"file": {"htype": "link[image]"}, "c": {"htype": "image"}}
    with pytest.raises(IngestionError, match="links, or all"):
        lakebed.ingest_dataframe(frame, tmp_path / "e", both, progressbar=False)
    with pytest.raises(IngestionError, match="no column 'z'"):
        lakebed.ingest_dataframe(frame, tmp_path / "e", {"z": {"htype": "json"}}, progressbar=False)
    for wrong in ([1, 2], "table", None):
        with pytest.raises(InvalidPandasDataframeError):
            lakebed.ingest_dataframe(wrong, tmp_path / "e", progressbar=False)


@pytest.fixture
def kaggle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command of this name, which makes a small data set: the real one needs an account and the network."""
    picture(tmp_path / "there" / "cat" / "1.png")
    command = tmp_path / "bin" / "kaggle"
    command.parent.mkdir()
    command.write_text(
        '#!/bin/sh\n[ "$KAGGLE_USERNAME" = me ] || { echo "401 - Unauthorized" >&2; exit 1; }\n'
        f'[ "$4" = owner/pets ] || exit 2\ncp -r {tmp_path}/there/. "$6"\n'
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("KAGGLE_CONFIG_DIR", str(tmp_path / "none"))
    monkeypatch.delenv("KAGGLE_USERNAME", raising=False)
    monkeypatch.delenv("KAGGLE_KEY", raising=False)
    return command


def test_kaggle(kaggle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloaded once, with credentials; what is there already is imported on demand."""
    quiet = {"summary": False, "progressbar": False}
    with pytest.raises(KaggleMissingCredentialsError, match="KAGGLE_KEY"):
        lakebed.ingest_kaggle("owner/pets", tmp_path / "k", tmp_path / "d", **quiet)
    with pytest.raises(KaggleMissingCredentialsError, match="key"):
        lakebed.ingest_kaggle(
            "owner/pets", tmp_path / "k", tmp_path / "d", kaggle_credentials={"username": "me"}, **quiet
        )
    given = {"username": "you", "key": "secret"}
    with pytest.raises(ExternalCommandError, match="401"):
        lakebed.ingest_kaggle("owner/pets", tmp_path / "k", tmp_path / "d", kaggle_credentials=given, **quiet)
    monkeypatch.setenv("KAGGLE_USERNAME", "me")
    monkeypatch.setenv("KAGGLE_KEY", "secret")
    ds = lakebed.ingest_kaggle("owner/pets", tmp_path / "k", tmp_path / "d", **quiet)
    assert labels_of(ds) == ["cat"]
    with pytest.raises(KaggleDatasetAlreadyDownloadedError):
        lakebed.ingest_kaggle("owner/pets", tmp_path / "k", tmp_path / "e", **quiet)
    assert (
        len(lakebed.ingest_kaggle("owner/pets", tmp_path / "k", tmp_path / "e", exist_ok=True, **quiet)) == 1
    )
    with pytest.raises(SamePathException):
        lakebed.ingest_kaggle("owner/pets", tmp_path / "k", tmp_path / "k", exist_ok=True, **quiet)
    kaggle.unlink()
    monkeypatch.setenv("PATH", str(kaggle.parent))
    with pytest.raises(ExternalCommandError, match="pip install kaggle"):
        lakebed.ingest_kaggle("owner/pets", tmp_path / "l", tmp_path / "f", **quiet)
