"""Links turned into data: byte for byte, with what is known of files, going on after a stop, telling what is broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import lakebed
from lakebed.cli import main
from lakebed.copying import materialize, resolve_links
from lakebed.errors import DatasetExistsError, InvalidOperationError, LinkMissingError, SampleAppendError
from lakebed.links import fetch as fetching
from lakebed.links.link import LinkedSample
from lakebed.reading import linked

ROWS = 40


def picture(number: int) -> np.ndarray:
    return (np.arange(6 * 7 * 3).reshape(6, 7, 3) * (number + 1) % 251).astype(np.uint8)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(ROWS):
        Image.fromarray(picture(number)).save(folder / f"{number}.png")
    Image.fromarray(picture(0)[..., 0]).save(folder / "grey.png")
    Image.fromarray(picture(0)).save(folder / "photo.jpg")
    (folder / "a.txt").write_text("words")
    return folder


def links(files: Path, count: int = ROWS) -> list[LinkedSample]:
    return [lakebed.link(files / f"{number}.png") for number in range(count)]


@pytest.fixture
def ds(files: Path, tmp_path: Path) -> lakebed.Dataset:
    ds = lakebed.empty(tmp_path / "ds")
    with ds:
        ds.create_tensor("photo", htype="link[image]", sample_compression="png").extend(links(files))
        ds.create_tensor("n", dtype="int64").extend(np.arange(ROWS))
    return ds


def watched(monkeypatch: pytest.MonkeyPatch, stop: Callable[[int], bool] = lambda _: False) -> list[str]:
    """Return the list of files that are fetched from now on; at some number of them the power fails."""
    asked: list[str] = []
    fetch = fetching.fetch

    def noted(url: str, **rest: Any) -> bytes:
        if stop(len(asked)):
            raise KeyboardInterrupt
        asked.append(url)
        return fetch(url, **rest)

    monkeypatch.setattr(linked, "fetch", noted)
    return asked


def test_a_copy_holds_the_files(ds: lakebed.Dataset, files: Path, tmp_path: Path) -> None:
    """Byte for byte, with shapes and facts of the files; other tensors come along; no note stays."""
    copy = ds.copy(tmp_path / "copy", unlink=True, progressbar=False)
    assert not copy.photo.is_link
    assert copy.photo[3].tobytes() == (files / "3.png").read_bytes()
    assert np.array_equal(copy.photo.numpy(), np.stack([picture(n) for n in range(ROWS)]))
    assert copy.photo[5].sample_info["filename"] == str(files / "5.png")
    assert copy.photo[5].shape == (6, 7, 3)
    assert copy.n.numpy().reshape(-1).tolist() == list(range(ROWS))
    assert not (tmp_path / "copy" / materialize.KEY).exists()
    kept = lakebed.copy(ds, tmp_path / "kept", progressbar=False)
    assert kept.photo.is_link


def test_what_was_not_known_of_unverified_links_is_known_of_their_data(files: Path, tmp_path: Path) -> None:
    """Shapes, facts, and the dtype of the first file instead of a guess; None and grey images as when appended."""
    deep = np.arange(42, dtype=np.uint16).reshape(6, 7)
    Image.fromarray(deep).save(files / "deep.png")
    ds = lakebed.empty(tmp_path / "ds")
    settings: dict[str, Any] = {"sample_compression": "png", "verify": False}
    with ds:
        plain = ds.create_tensor("plain", htype="link[image]", **settings)
        plain.extend([lakebed.link(files / "0.png"), None, lakebed.link(files / "grey.png")])
        ds.create_tensor("deep", htype="link[image]", **settings).append(lakebed.link(files / "deep.png"))
        ds.create_tensor("words", htype="link[text]").append(lakebed.link(files / "a.txt"))
    assert ds.deep.dtype == np.uint8
    copy = ds.copy(tmp_path / "copy", unlink=True, progressbar=False)
    assert [sample.shape for sample in copy.plain.numpy(aslist=True)] == [(6, 7, 3), (0, 0, 0), (6, 7, 1)]
    assert copy.plain.shapes().tolist() == [[6, 7, 3], [0, 0, 0], [6, 7, 1]]
    assert copy.plain[2].sample_info["format"] == "png"
    assert copy.deep[0].numpy().reshape(6, 7).tolist() == deep.tolist()
    assert copy.words[0].text() == "words"


def test_files_of_another_kind_are_encoded_anew(files: Path, tmp_path: Path) -> None:
    """As if they had been appended with lakebed.read."""
    ds = lakebed.empty(tmp_path / "ds")
    with ds:
        mixed = ds.create_tensor("mixed", htype="link[image]", sample_compression="png")
        mixed.extend([lakebed.link(files / "photo.jpg"), lakebed.link(files / "1.png")])
        raw = ds.create_tensor("raw", htype="link[image]", sample_compression=None)
        raw.append(lakebed.link(files / "1.png"))
    copy = ds.copy(tmp_path / "copy", unlink=True, progressbar=False)
    assert np.array_equal(copy.mixed[0].numpy(), np.asarray(Image.open(files / "photo.jpg")))
    assert copy.mixed[0].tobytes()[:4] == b"\x89PNG"
    assert copy.raw[0].tobytes() == picture(1).tobytes()


def test_sequences_grids_and_views(files: Path, tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    first, second, third = links(files, 3)
    with ds:
        pages = ds.create_tensor("pages", htype="sequence[link[image]]", sample_compression="png")
        pages.extend([[first, second], [], [third]])
        grid = ds.create_tensor("grid", htype="link[image]", sample_compression="png")
        grid.extend([lakebed.link_tiled([[first.path, second.path]]), None, third])
    copy = ds.copy(tmp_path / "copy", unlink=True, progressbar=False)
    assert [len(row) for row in copy.pages.numpy(aslist=True)] == [2, 0, 1]
    assert np.array_equal(copy.pages[0, 1].numpy(), picture(1))
    assert np.array_equal(copy.grid[0].numpy(), np.concatenate([picture(0), picture(1)], axis=1))
    part = ds[[2, 0]].copy(tmp_path / "part", unlink=True, progressbar=False)
    assert np.array_equal(part.grid[0].numpy(), picture(2))
    assert [len(row) for row in part.pages.numpy(aslist=True)] == [1, 2]


@pytest.mark.parametrize("in_place", [False, True])
def test_after_a_kill_the_same_call_goes_on(
    ds: lakebed.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    """What is published is not fetched again; a reader sees the links, or all of the data, in place."""
    monkeypatch.setattr(resolve_links, "_BATCH_BYTES", 1000)
    monkeypatch.setattr(materialize, "_PUBLISH_BYTES", 2000)
    monkeypatch.setattr(lakebed.config, "LINK_THREADS", 1)
    dest = None if in_place else tmp_path / "copy"
    with monkeypatch.context() as patch:
        asked = watched(patch, stop=lambda count: count == 25)
        with pytest.raises(KeyboardInterrupt):
            lakebed.materialize(ds, dest, progressbar=False)
        assert len(asked) == 25
    ds._session.discard()
    if in_place:
        seen = lakebed.load(ds.path, read_only=True)
        assert seen.photo.is_link
        assert np.array_equal(seen.photo[30].numpy(), picture(30))
    asked = watched(monkeypatch)
    assert lakebed.materialize(lakebed.load(ds.path), dest, progressbar=False) == []
    assert ROWS - 25 <= len(asked) < ROWS - 15
    done = lakebed.load(ds.path if dest is None else dest)
    assert np.array_equal(done.photo.numpy(), np.stack([picture(n) for n in range(ROWS)]))
    assert sorted(done.tensors) == ["n", "photo"]


def test_in_place_the_ids_stay(ds: lakebed.Dataset) -> None:
    """Branches are merged by them; older commits keep the links."""
    ids = ds._session.reader("_photo_id", "_photo_id").stacked(range(ROWS)).tolist()
    first = ds.commit()
    assert lakebed.materialize(ds, progressbar=False) == []
    ds.flush()
    key = ds._session.schema().meta.tensor_names["_photo_id"]
    assert ds._session.reader(key, "_photo_id").stacked(range(ROWS)).tolist() == ids
    assert not ds.photo.is_link
    assert ds.photo[7].shape == (6, 7, 3)
    ds.commit()
    ds.checkout(first)
    assert ds.photo.is_link


def test_in_place_in_groups_with_sequences_and_more_rows(files: Path, tmp_path: Path) -> None:
    """Whatever was appended between two calls comes along; other tensors stay as they are."""
    ds = lakebed.empty(tmp_path / "ds")
    first, second, third = links(files, 3)
    with ds:
        ds.create_tensor("n").extend([1, 2])
        pages = ds.create_tensor("book/pages", htype="sequence[link[image]]", sample_compression="png")
        pages.extend([[first, second], []])
    assert lakebed.materialize(ds, progressbar=False) == []
    assert sorted(ds.tensors) == ["book/pages", "n"]
    ds["book/pages"].append([picture(5)])
    ds["n"].append(3)
    again = lakebed.load(ds.path)
    assert [len(row) for row in again["book/pages"].numpy(aslist=True)] == [2, 0, 1]
    assert again["book/pages"].htype == "sequence[image]"
    more = again.create_tensor("more", htype="link[image]", sample_compression="png")
    more.extend([first, second, third])
    assert lakebed.materialize(again, tensors=["more"], progressbar=False) == []
    assert np.array_equal(again.more.numpy(), np.stack([picture(n) for n in range(3)]))


def test_broken_links(ds: lakebed.Dataset, files: Path, tmp_path: Path) -> None:
    """An error that names the row, after which the call can be repeated; or empty samples and a list of them."""
    (files / "11.png").unlink()
    (files / "30.png").write_bytes(b"no picture")
    with pytest.raises(LinkMissingError, match=r"row 11") as caught:
        lakebed.materialize(ds, tmp_path / "copy", progressbar=False)
    assert "the same call continues" in caught.value.__notes__[0]
    broken = lakebed.materialize(ds, tmp_path / "copy", ignore_errors=True, progressbar=False)
    assert [(link.tensor, link.row) for link in broken] == [("photo", 11), ("photo", 30)]
    copy = lakebed.load(tmp_path / "copy")
    shapes = [sample.shape for sample in copy.photo.numpy(aslist=True)]
    assert [row for row, shape in enumerate(shapes) if shape == (0, 0, 0)] == [11, 30]
    assert np.array_equal(copy.photo[31].numpy(), picture(31))


def test_what_does_not_fit_says_which_row(ds: lakebed.Dataset, files: Path, tmp_path: Path) -> None:
    """A file that has become one of another rank."""
    Image.fromarray(picture(0)).convert("RGBA").save(files / "3.png")
    (files / "4.png").write_bytes(
        b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x44\xac\0\0\x88\x58\1\0\2\0\x10\0data\0\0\0\0"
    )
    with pytest.raises((SampleAppendError, lakebed.errors.GetDataFromLinkError), match="row 4"):
        ds.copy(tmp_path / "copy", unlink=True, progressbar=False)


def test_another_dataset_is_in_the_way(
    ds: lakebed.Dataset, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a finished one nor one that was begun from another state is gone on with."""
    dest = tmp_path / "copy"
    monkeypatch.setattr(resolve_links, "_BATCH_BYTES", 1000)
    (files / "11.png").unlink()
    with pytest.raises(LinkMissingError):
        lakebed.materialize(ds, dest, progressbar=False)
    ds.photo[11] = None
    with pytest.raises(DatasetExistsError, match="overwrite"):
        lakebed.materialize(ds, dest, progressbar=False)
    assert lakebed.materialize(ds, dest, overwrite=True, progressbar=False) == []
    with pytest.raises(DatasetExistsError):
        lakebed.materialize(ds, dest, progressbar=False)
    with pytest.raises(InvalidOperationError, match="view"):
        lakebed.materialize(ds[:3], progressbar=False)


def test_a_tensor_like_links_without_links(ds: lakebed.Dataset) -> None:
    """It takes the data that the other links to."""
    like = ds.create_tensor_like("like", ds.photo, unlink=True)
    like.append(picture(1))
    assert not like.is_link
    assert like[0].shape == (6, 7, 3)
    assert ds.create_tensor_like("same", ds.photo).is_link


def test_the_command(ds: lakebed.Dataset, files: Path, tmp_path: Path) -> None:
    """It says what it did; status 1 for broken links."""
    dest = str(tmp_path / "copy")
    (files / "11.png").unlink()
    done = CliRunner().invoke(main, ["materialize", ds.path, dest, "--no-progress"])
    assert done.exit_code == 1
    assert "row 11" in done.output
    assert "--ignore-errors" in done.output
    done = CliRunner().invoke(main, ["materialize", ds.path, dest, "--ignore-errors", "--json"])
    assert done.exit_code == 1
    assert [link["row"] for link in json.loads(done.output)["broken"]] == [11]
    ds.photo[11] = None
    ds.flush()
    done = CliRunner().invoke(main, ["materialize", ds.path, "-t", "photo"])
    assert (done.exit_code, done.output) == (0, f"{ds.path}: what the links lead to is stored now\n")
    assert not lakebed.load(ds.path).photo.is_link


def test_creds_are_those_of_a_destination(ds: lakebed.Dataset) -> None:
    with pytest.raises(InvalidOperationError, match="creds are for the destination: name a destination"):
        ds.materialize(creds={"aws_access_key_id": "a", "aws_secret_access_key": "b"})
