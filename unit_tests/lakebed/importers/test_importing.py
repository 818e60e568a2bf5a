"""Any import, by the one of folders: what lands, what is left out, what a second call does, and splits."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import lakebed
from lakebed.cli import main
from lakebed.errors import DatasetExistsError, IngestionError, UnsupportedParameterException
from lakebed.importers.core import making
from lakebed.importers.core.importing import INFO
from lakebed.importers.core.plan import columns_of_rows
from lakebed.importers.folders import folder
from unit_tests.lakebed.importers.sources import imported


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six photos of two classes in two splits, one with a text, and a file that is none."""
    root = tmp_path / "photos"
    for number, name in enumerate(
        ("train/cat/1", "train/cat/2", "train/dog/1", "train/dog/2", "val/cat/9", "val/dog/9")
    ):
        path = root / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((20 + number, 30, 3), 40 * number, np.uint8)).save(path)
    (root / "val/dog/9.txt").write_text("a dog")
    (root / "train/dog/broken.jpg").write_bytes(b"nothing")
    return root


def test_a_folder_becomes_rows_in_the_order_of_splits_and_names(photos: Path, tmp_path: Path) -> None:
    report = lakebed.import_from("auto", photos, tmp_path / "lake", progressbar=False)
    ds = lakebed.load(tmp_path / "lake")
    assert report.format == "folder"
    assert (report.written, report.skipped, report.read) == (6, 1, 7)
    assert ds.file.text() == [
        f"{name}.jpg"
        for name in ("train/cat/1", "train/cat/2", "train/dog/1", "train/dog/2", "val/cat/9", "val/dog/9")
    ]
    assert ds.labels.data()["text"] == [["cat"], ["cat"], ["dog"], ["dog"], ["cat"], ["dog"]]
    assert ds.split.data()["text"] == [["train"]] * 4 + [["val"]] * 2
    assert ds.images[5].numpy().shape == (25, 30, 3)
    assert ds.text.text() == ["", "", "", "", "", "a dog"]
    # Photos are stored byte for byte.
    assert ds.images[0].tobytes() == (photos / "train/cat/1.jpg").read_bytes()
    assert ds.commits[0]["message"].startswith("Imported 6 rows of folder")


def test_what_is_left_out_is_counted_and_remembered(photos: Path, tmp_path: Path) -> None:
    report = lakebed.import_from("folder", photos, tmp_path / "lake", progressbar=False)
    assert sum(report.reasons.values()) == 1
    assert report.left_out[0]["where"] == "train/dog/broken.jpg"
    assert "not a known kind of file" in report.left_out[0]["reason"]
    assert report.file is None  # the report says it all
    (remembered,) = lakebed.load(tmp_path / "lake").info[INFO]
    assert remembered["state"] == "done"
    assert remembered["skipped"] == 1
    assert remembered["source"] == str(photos)


@pytest.mark.parametrize("count", [10, 11])
def test_a_file_of_what_is_left_out_is_kept_where_the_report_is_too_short_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Clean imports, and those that leave out little, put nothing into the folder for temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "photos").mkdir()
    for number in range(count):
        (tmp_path / f"photos/{number:02}.jpg").write_bytes(b"no photo")
    Image.new("RGB", (8, 6)).save(tmp_path / "photos/99.jpg")
    report = imported("folder", tmp_path / "photos")
    assert (report.written, report.skipped) == (1, count)
    shown = str(report)
    if count == 10:
        assert report.file is None
        assert not list((tmp_path / "temporary").iterdir())
        assert all(f"{number:02}.jpg: " in shown for number in range(count))
    else:
        lines = Path(str(report.file)).read_text().splitlines()
        assert [json.loads(line)["item"] for line in lines] == [f"{number:02}.jpg" for number in range(count)]
        assert f"all of them: {report.file}" in shown


def test_a_source_where_the_format_belongs_is_told(photos: Path) -> None:
    with pytest.raises(IngestionError, match=r"no importer for 't\.csv'; the format comes before the source"):
        imported("t.csv", photos)


def test_strict_fails_at_the_first_and_names_it(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(IngestionError, match=r"broken\.jpg"):
        lakebed.import_from("folder", photos, tmp_path / "lake", strict=True, progressbar=False)


def test_a_dry_run_writes_nothing(photos: Path, tmp_path: Path) -> None:
    report = lakebed.import_from("folder", photos, dry_run=True)
    assert report.planned == 7
    assert report.classes == {"labels": ["cat", "dog"]}
    assert report.splits == {"train": 5, "val": 2}
    assert report.tensors["images"] == {"htype": "image", "sample_compression": "jpeg"}
    assert "would write 7 rows" in str(report)
    assert list(tmp_path.iterdir()) == [photos]


def test_a_dataset_that_is_there_is_appended_to_or_replaced_when_told(photos: Path, tmp_path: Path) -> None:
    dest = tmp_path / "lake"
    lakebed.import_from("folder", photos, dest, progressbar=False)
    with pytest.raises(DatasetExistsError, match="append"):
        lakebed.import_from("folder", photos, dest, progressbar=False)
    lakebed.import_from("folder", photos, dest, append=True, split="val", progressbar=False)
    assert len(lakebed.load(dest)) == 8
    assert len(lakebed.load(dest).info[INFO]) == 2
    lakebed.import_from("folder", photos, dest, overwrite=True, progressbar=False)
    assert len(lakebed.load(dest)) == 6


def test_appending_fills_what_either_side_lacks_with_nulls(photos: Path, tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("quality", dtype="float32")
    ds.extend({"quality": [0.5, 0.25]})
    lakebed.import_from("folder", photos, ds, split="val", progressbar=False)
    assert ds.quality.null_mask().tolist() == [False, False, True, True]
    assert ds.images.null_mask().tolist() == [True, True, False, False]


def test_splits_one_dataset_each(photos: Path, tmp_path: Path) -> None:
    report = lakebed.import_from("folder", photos, tmp_path / "lakes", separate=True, progressbar=False)
    assert report.splits == {"train": 4, "val": 2}
    assert report.skipped == 1
    assert len(lakebed.load(tmp_path / "lakes/train")) == 4
    assert "split" not in lakebed.load(tmp_path / "lakes/val").tensors


def test_splits_in_memory_leave_no_folder(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    report = lakebed.import_from("folder", photos, "mem://", separate=True, progressbar=False)
    assert (report.splits, list(Path().iterdir())) == ({"train": 4, "val": 2}, [])


def test_shares_assign_each_row_to_one_split_and_the_same_each_time(photos: Path, tmp_path: Path) -> None:
    shares = {"train": 0.5, "test": 0.5}
    one = lakebed.import_from("folder", photos, "mem://one", split=shares, progressbar=False).dataset
    two = lakebed.import_from(
        "folder", photos, "mem://two", split="train=0.5/test=0.5", progressbar=False
    ).dataset
    assert one.split.data()["text"] == two.split.data()["text"]
    lakebed.import_from("folder", photos, tmp_path / "apart", split=shares, separate=True, progressbar=False)
    apart = [lakebed.load(tmp_path / "apart" / name) for name in shares]
    assert sorted(name for ds in apart for name in ds.file.text()) == sorted(one.file.text())
    with pytest.raises(ValueError, match="add up to 1"):
        imported("folder", photos, split={"a": 0.9, "b": 0.9})


def test_unknown_options_splits_and_formats_are_told(photos: Path) -> None:
    with pytest.raises(UnsupportedParameterException, match="did you mean 'compression'"):
        imported("folder", photos, compresion="png")
    with pytest.raises(IngestionError, match="it has train, val"):
        imported("folder", photos, split="test")
    with pytest.raises(IngestionError, match="did you mean 'folder'"):
        imported("folders", photos)


def test_an_import_that_was_killed_between_checkpoints_goes_on(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same call makes the rest; what was left out before is still counted."""
    whole, calls = folder.rows, 0

    def stops(item: object, context: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return whole(item, context)  # type: ignore[arg-type]

    monkeypatch.setattr(folder, "rows", stops)
    arguments = {"checkpoint": 2, "workers": 0, "progressbar": False}
    with pytest.raises(KeyboardInterrupt):
        lakebed.import_from("folder", photos, tmp_path / "lake", **arguments)
    with pytest.raises(IngestionError, match="was interrupted"):
        lakebed.import_from("folder", photos / "train", tmp_path / "lake", **arguments)
    report = lakebed.import_from("folder", photos, tmp_path / "lake", **arguments)
    assert report.resumed
    assert (report.written, report.skipped) == (6, 1)
    assert len(lakebed.load(tmp_path / "lake")) == 6
    assert calls == 6 + 3


def test_an_import_that_was_killed_before_its_commit_is_only_committed(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lakebed.Dataset, "commit", stops)
        with pytest.raises(KeyboardInterrupt):
            lakebed.import_from("folder", photos, tmp_path / "lake", progressbar=False)
    killed = lakebed.load(tmp_path / "lake")
    assert (len(killed), killed.commit_id) == (6, None)
    report = lakebed.import_from("folder", photos, tmp_path / "lake", progressbar=False)
    assert report.resumed
    assert (report.written, report.skipped, report.splits) == (6, 1, {"train": 4, "val": 2})
    ds = lakebed.load(tmp_path / "lake")
    assert len(ds) == 6
    assert [one["message"] for one in ds.commits] == [f"Imported 6 rows of folder from {photos}"]
    with pytest.raises(DatasetExistsError):
        lakebed.import_from("folder", photos, tmp_path / "lake", progressbar=False)
    again = lakebed.import_from("folder", photos, tmp_path / "lake", append=True, progressbar=False)
    assert (again.resumed, len(lakebed.load(tmp_path / "lake"))) == (False, 12)


def test_links_in_place_of_copies(photos: Path, tmp_path: Path) -> None:
    (photos / "train/dog/broken.jpg").unlink()
    ds = lakebed.import_from("folder", photos, tmp_path / "lake", link=True, progressbar=False).dataset
    assert ds.images.htype == "link[image]"
    assert ds.images[0].numpy().shape == (20, 30, 3)
    assert sum(path.stat().st_size for path in (tmp_path / "lake").rglob("*") if path.is_file()) < 200_000


def test_symbolic_links_out_of_the_folder_are_followed_only_when_told(photos: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jpg"
    outside.write_bytes((photos / "train/cat/1.jpg").read_bytes())
    (photos / "train/cat/link.jpg").symlink_to(outside)
    (photos / "train/loop").symlink_to(photos)
    without = imported("folder", photos, dry_run=True)
    followed = imported("folder", photos, dry_run=True, follow_symlinks=True)
    assert (without.planned, followed.planned) == (7, 8)


def test_the_command_line_takes_the_options_of_the_format(photos: Path, tmp_path: Path) -> None:
    arguments = ["import", "folder", str(photos), str(tmp_path / "lake"), "--no-progress"]
    done = CliRunner().invoke(main, [*arguments, "--labels", "none", "--no-splits", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["written"], told["skipped"]) == (6, 1)
    assert "labels" not in lakebed.load(tmp_path / "lake").tensors
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 1
    assert "--append" in again.output
    helped = CliRunner().invoke(main, ["import", "--help"])
    assert "folder" in helped.output
    assert "--labels [folders|none]" in CliRunner().invoke(main, ["import", "folder", "--help"]).output
    shared = " ".join(CliRunner().invoke(main, ["import", "parquet", "--help"]).output.split())
    for option, told in (
        ("labels", "names of classes"),
        ("documents", "stored as JSON"),
        ("link", "Store links"),
    ):
        assert told in shared.partition(f"--{option} ")[2][:120]


def test_a_format_that_is_found_out_takes_its_options_behind_the_source(photos: Path, tmp_path: Path) -> None:
    arguments = ["import", "auto", str(photos), str(tmp_path / "lake"), "--no-progress", "--json"]
    done = CliRunner().invoke(main, [*arguments, "--link", "--labels=none"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["format"] == "folder"
    assert lakebed.load(tmp_path / "lake").images.htype == "link[image]"
    wrong = CliRunner().invoke(main, [*arguments, "--lnik"])
    assert wrong.exit_code == 2
    assert "--link" in wrong.output
    nothing = CliRunner().invoke(main, ["import", "auto", str(tmp_path / "nothing"), "lake", "--link"])
    assert (nothing.exit_code, "does not exist" in nothing.output) == (1, True)


def test_without_a_folder_for_temporary_files_what_is_left_out_is_told_all_the_same(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose file system is read-only; the first hundred are in the dataset."""
    for number in range(10):
        (photos / f"train/dog/broken{number}.jpg").write_bytes(b"no photo")
    monkeypatch.setattr(tempfile, "tempdir", str(photos / "nowhere"))
    report = imported("folder", photos)
    assert (report.written, report.skipped, report.file) == (6, 11, None)
    assert "a list of all of them could not be written" in str(report)
    assert len(report.dataset.info["imports"][0]["left_out"]) == 11


@pytest.mark.parametrize("most", [0, 1 << 25])
def test_rows_of_several_items_come_in_whatever_they_hold(
    photos: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(making, "_HELD_BYTES", most)
    report = imported("folder", photos)
    assert (report.written, report.skipped) == (6, 1)
    assert len(set(report.dataset.file.text())) == 6
    assert sum(report.splits.values()) == 6


@pytest.mark.parametrize("has_many", [False, True])
def test_an_error_that_an_importer_does_not_expect_costs_one_row(
    photos: Path, monkeypatch: pytest.MonkeyPatch, has_many: bool
) -> None:
    """Rows that were made before come once, and those behind it all the same."""
    rows = folder.rows

    def fails(item: Any, context: Any) -> Iterator[Any]:
        if item.files[0] == "train/dog/2.jpg":
            raise ZeroDivisionError("a bug")
        yield from rows(item, context)

    def together(items: Any, context: Any) -> Iterator[Any]:
        for at, item in enumerate(items):
            for row in fails(item, context):
                yield [at], columns_of_rows([row])

    monkeypatch.setattr(folder, "rows", fails)
    if has_many:
        monkeypatch.setattr(folder, "many", together, raising=False)
    report = imported("folder", photos)
    assert (report.written, report.skipped) == (5, 2)
    assert report.dataset.file.text() == [
        f"{name}.jpg" for name in ("train/cat/1", "train/cat/2", "train/dog/1", "val/cat/9", "val/dog/9")
    ]
    assert {
        "where": "train/dog/2.jpg",
        "reason": "unexpected ZeroDivisionError: a bug",
    } in report.left_out
    assert imported("folder", photos / "val/cat").splits == {}
