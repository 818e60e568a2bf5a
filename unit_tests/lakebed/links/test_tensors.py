"""Tensors of links: appended, read, updated; one sample of many files; sequences."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import lakebed
from lakebed import config
from lakebed.codecs import video
from lakebed.errors import (
    BadLinkError,
    GetDataFromLinkError,
    LinkForbiddenError,
    MissingCredsError,
    SampleAppendError,
    SampleHtypeMismatchError,
    SampleReadError,
    UnsafePathError,
)
from lakebed.links import policy
from unit_tests.lakebed.codecs.films import film, frames_of, tone, wav
from unit_tests.lakebed.codecs.scans import las, stl
from unit_tests.lakebed.links.server import serving

CORNERS = np.ones((2, 3, 3), dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number in range(3):
        PIL.Image.fromarray(picture(number)).save(tmp_path / f"t{number}.png")
    PIL.Image.fromarray(np.full((9, 8), 7, dtype=np.uint8)).save(tmp_path / "grey.png")
    (tmp_path / "film.mp4").write_bytes(film("mp4"))
    (tmp_path / "tone.wav").write_bytes(wav(tone(2)))
    (tmp_path / "cloud.las").write_bytes(las(5))
    (tmp_path / "mesh.stl").write_bytes(stl(CORNERS))
    (tmp_path / "text.txt").write_text("no picture")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def picture(number: int) -> np.ndarray:
    return (np.arange(20 * 30 * 3) * (number + 1) % 251).astype(np.uint8).reshape(20, 30, 3)


@pytest.fixture
def ds(folder: Path) -> lakebed.Dataset:
    return lakebed.empty(str(folder / "ds"))


def images(ds: lakebed.Dataset, **settings: object) -> lakebed.Tensor:
    return ds.create_tensor("photo", htype="link[image]", sample_compression="png", **settings)


def again(ds: lakebed.Dataset) -> lakebed.Tensor:
    """The tensor as another process reads it."""
    ds.flush()
    return lakebed.load(ds.path, read_only=True).photo


def test_reading_links(ds: lakebed.Dataset, folder: Path) -> None:
    """Values, shapes, paths and descriptions of the linked files; grey images get a channel axis."""
    photo = images(ds)
    photo.extend([lakebed.link("t0.png"), None, lakebed.link(folder / "t1.png"), lakebed.link("grey.png")])
    for tensor in (photo, again(ds)):
        assert np.array_equal(tensor[0].numpy(), picture(0))
        assert (tensor[1].numpy().shape, tensor[1].path()) == ((0,), "")
        assert np.array_equal(tensor[2][5:8, ::2].numpy(), picture(1)[5:8, ::2])
        assert tensor[3].numpy().shape == (9, 8, 1)
        assert tensor[0].path() == "t0.png"
        assert tensor[2].path() == str(folder / "t1.png")
        assert tensor[0].tobytes() == (folder / "t0.png").read_bytes()
        assert tensor[3].sample_info["shape"] == [9, 8]
        assert tensor[0].sample_info["filename"] == "t0.png"
        assert (tensor.htype, tensor.dtype, tensor.is_link) == ("link[image]", np.uint8, True)
        assert [value.shape for value in tensor.numpy(aslist=True)] == [
            (20, 30, 3),
            (0,),
            (20, 30, 3),
            (9, 8, 1),
        ]


def test_the_files_decide_not_the_tensor(ds: lakebed.Dataset) -> None:
    """Any kind of file decodes as what it is, in its own dtype."""
    sound = ds.create_tensor("sound", htype="link[audio]", sample_compression="mp3")
    sound.append(lakebed.link("tone.wav"))
    assert np.array_equal(sound[0].numpy(), tone(2))
    cloud = ds.create_tensor("cloud", htype="link[point_cloud]", sample_compression="las")
    cloud.append(lakebed.link("cloud.las"))
    assert cloud[0].data()["X"].tolist() == [150, 250, 350, 450, 550]
    mesh = ds.create_tensor("mesh", htype="link[mesh]", sample_compression="stl")
    mesh.extend([lakebed.link("mesh.stl")] * 2)
    assert mesh.data()["vertices"].shape == (2, 2, 3, 3)


def test_linked_videos(ds: lakebed.Dataset) -> None:
    """Whole, in part, and when."""
    films = ds.create_tensor("film", htype="link[video]", sample_compression="mp4")
    films.append(lakebed.link("film.mp4"))
    whole = frames_of(film("mp4"))
    assert np.array_equal(films[0].numpy(), whole)
    assert np.array_equal(films[0][20:10:-3].numpy(), whole[20:10:-3])
    assert films[0, 5:7].timestamps.tolist() == [1.0, np.float32(1.2)]


def test_a_part_of_a_linked_video_decodes_a_part(
    ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a stored one: one frame of thirty, not all."""
    films = ds.create_tensor("film", htype="link[video]", sample_compression="mp4")
    films.append(lakebed.link("film.mp4"))
    decoded = 0
    frames = video.FrameReader._frames

    def counted(self: video.FrameReader, start: int) -> Iterator[object]:
        nonlocal decoded
        for frame in frames(self, start):
            decoded += 1
            yield frame

    monkeypatch.setattr(video.FrameReader, "_frames", counted)
    assert films[0][12].numpy().shape == (24, 32, 3)
    assert decoded == 1


def test_appending_bad_links(ds: lakebed.Dataset) -> None:
    """Nothing is appended; the cause says what is wrong; without verification nobody looks."""
    photo = images(ds)
    for path in ("none.png", "text.txt", "http://127.0.0.1:1/x.png"):
        with pytest.raises(SampleAppendError) as caught:
            photo.append(lakebed.link(path))
        assert isinstance(caught.value.__cause__, BadLinkError)
        assert isinstance(caught.value.__cause__.__cause__, GetDataFromLinkError)
    for thing in ("t0.png", picture(0), lakebed.read("t0.png")):
        with pytest.raises(SampleAppendError, match=r"lakebed\.link") as caught:
            photo.append(thing)
        assert isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(SampleAppendError) as caught:
        photo.append(lakebed.link("t0.png", creds_key="nobody"))
    assert isinstance(caught.value.__cause__, MissingCredsError)
    assert len(photo) == 0
    bare = ds.create_tensor(
        "bare",
        htype="link[image]",
        sample_compression="png",
        create_shape_tensor=False,
        create_sample_info_tensor=False,
    )
    with pytest.raises(SampleAppendError):
        bare.append(lakebed.link("none.png"))
    grey = ds.create_tensor("grey", htype="link[image.gray]", sample_compression="png")
    with pytest.raises(SampleAppendError) as caught:
        grey.append(lakebed.link("t0.png"))
    assert isinstance(caught.value.__cause__, SampleHtypeMismatchError)
    unseen = ds.create_tensor("unseen", htype="link[image]", sample_compression="png", verify=False)
    unseen.extend([lakebed.link("none.png"), lakebed.link("t0.png")])
    assert unseen[1].numpy().shape == (20, 30, 3)
    with pytest.raises(GetDataFromLinkError):
        unseen[0].numpy()


def test_reading_links_that_broke(ds: lakebed.Dataset, folder: Path) -> None:
    """The error names dataset, tensor, row and address; it is the SampleReadError of 3.9.52, too; others still read."""
    photo = images(ds)
    photo.extend([lakebed.link("t0.png"), lakebed.link("t1.png")])
    (folder / "t1.png").unlink()
    tensor = again(ds)
    for read in (lambda: tensor[1].numpy(), lambda: tensor[1].tobytes(), lambda: tensor.numpy()):
        with pytest.raises(GetDataFromLinkError, match=r"t1\.png") as caught:
            read()
        assert (caught.value.tensor, caught.value.row, caught.value.url) == ("photo", 1, "t1.png")
        assert isinstance(caught.value, SampleReadError)
        assert isinstance(caught.value.__cause__, FileNotFoundError)
    (folder / "t1.png").write_bytes(b"not any more")
    with pytest.raises(GetDataFromLinkError):
        tensor[1].numpy()
    assert np.array_equal(tensor[0].numpy(), picture(0))
    assert tensor.shape == (2, 20, 30, 3)


def test_updates(ds: lakebed.Dataset) -> None:
    """A link replaces a link; pixels behind one cannot be assigned."""
    photo = images(ds)
    photo.extend([lakebed.link("t0.png")] * 3)
    photo[1] = lakebed.link("grey.png")
    ds.commit()
    photo[2] = None
    tensor = again(ds)
    assert [tensor[row].path() for row in range(3)] == ["t0.png", "grey.png", ""]
    assert tensor[1].numpy().shape == (9, 8, 1)
    assert tensor[1].sample_info["filename"] == "grey.png"
    photo.pop(0)
    assert [photo[row].path() for row in range(2)] == ["grey.png", ""]


def test_one_sample_of_many_files(ds: lakebed.Dataset, folder: Path) -> None:
    """A grid of links is one image, of which only the touched files are opened; plain links may follow."""
    photo = images(ds)
    photo.append(lakebed.link_tiled([["t0.png", "t1.png"], ["t2.png", "t0.png"]]))
    photo.append(lakebed.link("grey.png"))
    whole = np.concatenate(
        [np.concatenate([picture(0), picture(1)], axis=1), np.concatenate([picture(2), picture(0)], axis=1)]
    )
    tensor = again(ds)
    assert tensor[0].shape == (40, 60, 3)
    assert np.array_equal(tensor[0].numpy(), whole)
    assert tensor[0].path().reshape(-1).tolist() == ["t0.png", "t1.png", "t2.png", "t0.png"]
    (folder / "t2.png").unlink()
    assert np.array_equal(tensor[0][:15, 25:40].numpy(), whole[:15, 25:40])
    with pytest.raises(GetDataFromLinkError):
        tensor[0][15:25].numpy()
    assert tensor[1].numpy().shape == (9, 8, 1)
    with pytest.raises(SampleAppendError, match="agree"):
        photo.append(lakebed.link_tiled([["t0.png", "grey.png"]]))


def test_sequences_of_links(ds: lakebed.Dataset) -> None:
    """Both ways of writing the htype."""
    for name, htype in (("a", "sequence[link[image]]"), ("b", "link[sequence[image]]")):
        pages = ds.create_tensor(name, htype=htype, sample_compression="png")
        pages.append([lakebed.link("t0.png"), lakebed.link("grey.png")])
        pages.append([])
        pages.append([lakebed.link("t1.png")])
        assert [value.shape for value in pages[0].numpy(aslist=True)] == [(20, 30, 3), (9, 8, 1)]
        assert len(pages[1].numpy(aslist=True)) == 0
        assert np.array_equal(pages[2].numpy()[0], picture(1))


def test_links_to_a_web_server(ds: lakebed.Dataset, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many files are fetched at the same time, each once."""
    monkeypatch.setattr(config, "LINK_THREADS", 8)
    photo = images(ds)
    with serving({f"/t{n}.png": (folder / f"t{n}.png").read_bytes() for n in range(3)}) as web:
        photo.extend([lakebed.link(f"{web.url}/slow/t{n % 3}.png") for n in range(24)])
        tensor = again(ds)
        before = len(web.requests)
        web.most_at_once = 0
        found = tensor.numpy()
        assert len(web.requests) - before == 24
        assert 1 < web.most_at_once <= 8
    assert np.array_equal(found, np.stack([picture(n % 3) for n in range(24)]))


def test_secrets_stay_out_of_messages(ds: lakebed.Dataset, folder: Path) -> None:
    """A link may hold a signature: errors do not show it."""
    photo = images(ds)
    with serving({"/t0.png": (folder / "t0.png").read_bytes()}) as web:
        photo.append(lakebed.link(f"{web.url}/t0.png?signature=hush"))
        web.files.clear()
        with pytest.raises(GetDataFromLinkError) as caught:
            photo[0].numpy()
    error: BaseException | None = caught.value
    while error is not None:
        assert "hush" not in str(error)
        error = error.__cause__


def test_links_of_a_dataset_lead_where_the_policy_allows(
    ds: lakebed.Dataset, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads says which folders, unless he has linked the file himself."""
    photo = images(ds)
    photo.append(lakebed.link("t0.png"))
    tensor = again(ds)
    assert tensor[0].numpy().shape == (20, 30, 3)
    monkeypatch.setattr(policy, "_MEMORY", policy._Memory())  # as another process has it
    for roots in ((), (str(folder / "elsewhere"),)):
        monkeypatch.setattr(config, "LINK_ROOTS", roots)
        with pytest.raises(LinkForbiddenError, match="allow_links") as caught:
            tensor[0].numpy()
        assert isinstance(caught.value.__cause__, UnsafePathError)
    monkeypatch.setattr(config, "LINK_ROOTS", ())
    lakebed.allow_links(folder)
    assert tensor[0].numpy().shape == (20, 30, 3)


def test_what_is_allowed_travels(ds: lakebed.Dataset, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that gets a dataset by pickle may follow its links as the sender may."""
    images(ds).append(lakebed.link("t0.png"))
    monkeypatch.setattr(config, "LINK_ROOTS", (str(folder),))
    monkeypatch.setattr(config, "LINK_HOSTS", ("nas",))
    sent = pickle.dumps(ds)
    monkeypatch.setattr(policy, "_MEMORY", policy._Memory())  # as another process has it
    monkeypatch.setattr(config, "LINK_ROOTS", ())
    monkeypatch.setattr(config, "LINK_HOSTS", ())
    assert pickle.loads(sent).photo[0].numpy().shape == (20, 30, 3)
    assert config.LINK_HOSTS == ("nas",)
