"""Links: what they are, the bytes that stand for them (format.md 5.3), and looking behind them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed import config, limits
from lakebed.errors import (
    BadLinkError,
    FormatError,
    GetDataFromLinkError,
    InvalidInputError,
    LimitError,
    MissingCredsError,
    SampleDecompressionError,
    SampleReadError,
)
from lakebed.links.link import (
    LinkedSample,
    decode_link,
    decode_tiled,
    encode_link,
    encode_tiled,
    grid_shape,
    link,
    link_tiled,
)
from lakebed.links.verify import inspect, inspect_all, inspect_tiled
from unit_tests.lakebed.links.server import serving


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for number in range(3):
        picture = np.full((20, 30, 3), number, dtype=np.uint8)
        PIL.Image.fromarray(picture).save(tmp_path / f"t{number}.png")
    PIL.Image.fromarray(np.zeros((9, 8), dtype=np.uint8)).save(tmp_path / "grey.png")
    PIL.Image.fromarray(np.zeros((11, 7, 3), dtype=np.uint8)).save(tmp_path / "photo.jpg")
    (tmp_path / "text.txt").write_text("no picture")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- what links are ----------------------------------------------------------------------------------------------------


def test_links() -> None:
    """A path and the name of its credentials."""
    found = link("a/b.png", creds_key="K")
    assert (found.path, found.creds_key, found.dtype) == ("a/b.png", "K", "<U1")
    assert link(Path("a/b.png")) == LinkedSample("a/b.png")
    for wrong in (5, None, b"a"):
        with pytest.raises(InvalidInputError):
            link(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        link("a", creds_key=5)  # type: ignore[arg-type]


def test_grids_of_links() -> None:
    """Arrays and nested lists of paths; the shape of the whole is known once the files were looked at."""
    grid = link_tiled(np.array([["a", "b"], ["c", "d"]]), creds_key="K")
    assert (grid.path_array.shape, grid.creds_key) == ((2, 2), "K")
    assert (grid.shape, grid.tile_shape, grid.sample_shape) == (None, None, None)
    grid.measured((20, 30, 3))
    assert (grid.shape, grid.tile_shape, grid.sample_shape) == ((40, 60, 3), (20, 30, 3), (40, 60, 3))
    assert link_tiled([[Path("a"), Path("b")]]).path_array.tolist() == [["a", "b"]]
    for wrong in ([["a", "b"], ["c"]], [], "a", [[1, 2]], [["a", ""]], [["a\0b"]]):
        with pytest.raises(InvalidInputError):
            link_tiled(wrong)


# -- their bytes -------------------------------------------------------------------------------------------------------


def test_bytes_of_3_9_52() -> None:
    """A grid of two links, as 3.9.52 wrote it."""
    stored = (
        bytes.fromhex("06332e392e3532 03 01000000 02000000 01000000".replace(" ", ""))
        + b"_files/t0.png\0_files/t1.png\0"
    )
    paths = np.array([["_files/t0.png", "_files/t1.png"]])
    assert encode_tiled(paths, 3) == stored
    assert decode_tiled(stored).tolist() == [[["_files/t0.png"], ["_files/t1.png"]]]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50))
def test_paths_survive(path: str) -> None:
    """Any text is a path."""
    assert decode_link(encode_link(LinkedSample(path))) == path


def test_no_link() -> None:
    """None has no bytes; bytes that are no text are damage."""
    assert encode_link(None) == b""
    assert decode_link(b"") == ""
    with pytest.raises(FormatError):
        decode_link(b"\xff\xfe")


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3).flatmap(
        lambda shape: st.tuples(
            st.just(shape),
            st.lists(
                st.text("abc/._:", min_size=1, max_size=20),
                min_size=int(np.prod(shape)), max_size=int(np.prod(shape)),
            ),
        )
    )
)  # fmt: skip
def test_grids_survive(grid: tuple[list[int], list[str]]) -> None:
    """Any grid of paths comes back, with one tile on the axes that it does not have."""
    shape, paths = grid
    array = np.array(paths).reshape(shape)
    assert np.array_equal(decode_tiled(encode_tiled(array, 3)), array.reshape(grid_shape(array.shape, 3)))


def test_grids_that_cannot_be_stored() -> None:
    """The format holds ASCII, and as many axes as the images have."""
    with pytest.raises(InvalidInputError, match="ASCII"):
        encode_tiled(np.array([["ä"]]), 3)
    with pytest.raises(InvalidInputError, match="axes"):
        encode_tiled(np.array([[["a"]]]), 2)


def test_damaged_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cut and every changed count is a format error or another grid, never anything else."""
    stored = encode_tiled(np.array([["ab", "c"], ["d", "e"]]), 3)
    for end in range(len(stored)):
        with pytest.raises(FormatError):
            decode_tiled(stored[:end])
    for at in range(len(stored)):
        for value in (0, 1, 255):
            try:
                found = decode_tiled(stored[:at] + bytes([value]) + stored[at + 1 :])
            except (FormatError, LimitError):
                continue
            assert found.size == 4
    monkeypatch.setattr(limits, "MAX_TILES", 3)
    with pytest.raises(LimitError):
        decode_tiled(stored)


# -- looking behind them -----------------------------------------------------------------------------------------------


def test_looking_behind_a_link(folder: Path) -> None:
    """Shape and dtype as decoded, the record of `_info` with the path as given."""
    found = inspect(link("t0.png"))
    assert (found.shape, found.dtype) == ((20, 30, 3), "uint8")
    assert found.info["filename"] == "t0.png"
    assert (found.info["format"], tuple(found.info["shape"]), found.info["modified"]) == (
        "png",
        (20, 30, 3),
        False,
    )
    assert inspect(link(str(folder / "grey.png"))).shape == (9, 8)


@pytest.mark.parametrize(
    ("path", "cause"),
    [("none.png", SampleReadError), ("text.txt", SampleDecompressionError), (".", SampleReadError)],
)
def test_bad_links(folder: Path, path: str, cause: type[Exception]) -> None:
    """BadLinkError, caused by GetDataFromLinkError, caused by what is wrong."""
    with pytest.raises(BadLinkError, match=path) as caught:
        inspect(link(path))
    middle = caught.value.__cause__
    assert isinstance(middle, GetDataFromLinkError)
    assert middle.url == path
    assert isinstance(middle.__cause__, cause)


def test_a_link_to_nothing(folder: Path) -> None:
    """An empty path is no link; None is."""
    with pytest.raises(BadLinkError):
        inspect(link(""))


def test_many_links_in_order(folder: Path) -> None:
    """Each with its own answer or error; None stays None."""
    found = list(inspect_all([link("t0.png"), None, link("none.png"), link("photo.jpg")]))
    shapes = [getattr(item, "shape", item) for item in found]
    assert shapes[:2] == [(20, 30, 3), None]
    assert isinstance(shapes[2], BadLinkError)
    assert shapes[3] == (11, 7, 3)
    assert list(inspect_all([])) == []


def test_many_links_at_the_same_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for a server is shared, by no more threads than configured."""
    monkeypatch.setattr(config, "LINK_THREADS", 8)
    with serving({"/t0.png": (folder / "t0.png").read_bytes()}) as web:
        found = list(inspect_all([link(f"{web.url}/slow/t0.png")] * 24))
        assert 1 < web.most_at_once <= 8
    assert all(getattr(item, "shape", None) == (20, 30, 3) for item in found)


def test_looking_behind_a_grid(folder: Path) -> None:
    """The shape of the whole; files of other shapes do not fit."""
    grid = link_tiled([["t0.png", "t1.png"], ["t1.png", "t2.png"]])
    found = inspect_tiled(grid)
    assert (found.shape, found.dtype, found.info) == ((40, 60, 3), "uint8", {})
    assert grid.tile_shape == (20, 30, 3)
    with pytest.raises(InvalidInputError, match=r"photo\.jpg"):
        inspect_tiled(link_tiled([["t0.png", "photo.jpg"]]))
    with pytest.raises(InvalidInputError, match="axes"):
        inspect_tiled(link_tiled(np.full((1, 1, 1, 2), "t0.png")))
    with pytest.raises(BadLinkError):
        inspect_tiled(link_tiled([["t0.png", "none.png"]]))


def test_credentials_are_asked_for(folder: Path) -> None:
    """By key; one that nobody knows is an error of its own."""
    asked: list[str | None] = []

    def credentials(key: str | None, url: str) -> Mapping[str, Any] | None:
        asked.append(key)
        if key == "unknown":
            raise MissingCredsError("Creds key unknown does not exist")
        return None

    inspect(link("t0.png", creds_key="K"), credentials)
    assert asked == ["K"]
    with pytest.raises(MissingCredsError):
        list(inspect_all([link("t0.png"), link("t1.png", creds_key="unknown")], credentials))
    with pytest.raises(MissingCredsError):
        inspect_tiled(link_tiled([["t0.png"]], creds_key="unknown"), credentials)


def test_relative_links_count_from_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in 3.9.52: whoever reads decides."""
    (folder / "deeper").mkdir()
    assert inspect(link("t0.png")).shape == (20, 30, 3)
    monkeypatch.chdir(folder / "deeper")
    with pytest.raises(BadLinkError):
        inspect(link("t0.png"))
    assert inspect(link("../t0.png")).shape == (20, 30, 3)
