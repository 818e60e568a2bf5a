"""lakebed.read: lazy files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from lakebed.errors import (
    InvalidInputError,
    SampleDecompressionError,
    SampleReadError,
    UnableToReadFromUrlError,
    UnsupportedCompressionError,
)
from lakebed.links.read import read
from lakebed.storage.memory import MemoryStorage
from unit_tests.lakebed.links.server import Web, serving

PICTURE = np.arange(11 * 7 * 3, dtype=np.uint8).reshape(11, 7, 3)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    PIL.Image.fromarray(PICTURE).save(path)
    return path


@pytest.fixture
def web(photo: Path) -> Iterator[Web]:
    with serving({"/photo.png": photo.read_bytes()}) as found:
        yield found


@pytest.mark.parametrize("kind", ["path", "pathlib", "file", "bytes", "view", "storage", "web"])
def test_where_files_can_be(kind: str, photo: Path, web: Web) -> None:
    """Paths, addresses, content, and keys of a storage give the same sample."""
    storage = MemoryStorage("read-test")
    storage.put("a/photo.png", photo.read_bytes())
    sources = {
        "path": str(photo), "pathlib": photo, "file": photo.as_uri(), "bytes": photo.read_bytes(),
        "view": memoryview(photo.read_bytes()), "storage": "a/photo.png", "web": f"{web.url}/photo.png",
    }  # fmt: skip
    sample = read(sources[kind], storage=storage if kind == "storage" else None)  # type: ignore[arg-type]
    assert sample.is_lazy
    assert (sample.shape, sample.dtype, sample.compression) == ((11, 7, 3), "uint8", "png")
    assert bytes(sample.buffer) == photo.read_bytes()
    assert np.array_equal(sample.array, PICTURE)
    assert np.array_equal(np.array(sample), PICTURE)
    assert sample.path == (None if kind in ("bytes", "view") else str(sources[kind]))


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path, web: Web) -> None:
    """A file on this machine that is not there is an error at once, one elsewhere, or gone since, when it is used."""
    for path in (tmp_path / "none.png", str(tmp_path / "none.png"), f"file://{tmp_path}/none.png"):
        with pytest.raises(SampleReadError, match=r"none\.png: the file does not exist") as caught:
            read(path)
        assert isinstance(caught.value.__cause__, FileNotFoundError)
    (tmp_path / "none.png").write_bytes(b"")
    sample = read(str(tmp_path / "none.png"))
    (tmp_path / "none.png").unlink()
    for look in ("shape", "dtype", "compression", "buffer", "array"):
        with pytest.raises(SampleReadError, match=r"none\.png") as caught:
            getattr(sample, look)
        assert isinstance(caught.value.__cause__, FileNotFoundError)
    with pytest.raises(SampleReadError):
        read(str(tmp_path / "none.png"), verify=True)
    with pytest.raises(SampleReadError):
        _ = read(tmp_path).array
    with pytest.raises(SampleReadError, match="404") as caught:
        _ = read(f"{web.url}/none.png").shape
    assert isinstance(caught.value.__cause__, UnableToReadFromUrlError)
    assert not web.requests[:-1]


def test_content_that_is_no_known_file(tmp_path: Path) -> None:
    """It says so, and what to do."""
    (tmp_path / "text").write_text("no picture")
    sample = read(tmp_path / "text")
    for look in ("shape", "compression", "array"):
        with pytest.raises(SampleDecompressionError, match="not a known kind"):
            getattr(sample, look)
    with pytest.raises(SampleDecompressionError):
        read(tmp_path / "text", verify=True)


def test_compression_may_be_named(photo: Path) -> None:
    """Names of the format and their aliases; a wrong one shows when the file is decoded."""
    assert read(photo, compression="png").shape == (11, 7, 3)
    with pytest.raises(UnsupportedCompressionError):
        read(photo, compression="xyz")
    with pytest.raises(SampleDecompressionError):
        _ = read(photo, compression="bmp").array


@pytest.mark.parametrize("thing", [5, None, ["a"], object()])
def test_what_is_no_file(thing: object) -> None:
    """Other things are refused at once."""
    with pytest.raises(InvalidInputError, match="read takes"):
        read(thing)  # type: ignore[arg-type]


def test_reading_costs_microseconds(photo: Path) -> None:
    """No file is opened: thousands of samples are made in no time."""
    best = float("inf")
    for _round in range(5):
        started = time.process_time()
        for _ in range(1000):
            read(str(photo))
        best = min(best, time.process_time() - started)
    assert best < 0.02
