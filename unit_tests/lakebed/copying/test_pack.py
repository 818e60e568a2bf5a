"""`pack` and `unpack`: a dataset with its history in one file, and back."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main
from lakebed.copying import deepcopy as copying
from lakebed.errors import (
    ChecksumError,
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    PathNotEmptyException,
    StorageReadOnlyError,
)
from unit_tests.lakebed.datasets import content


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two commits, a branch with a slash in its name, a tag, a head that nobody has committed."""
    rng = np.random.default_rng(0)
    ds = lakebed.empty(tmp_path / "d")
    ds.create_tensor("x", dtype="uint8")
    ds.create_tensor("g/t", htype="text")
    for row in range(30):
        ds.append({"x": rng.integers(0, 255, (60, 60 + row), np.uint8), "g/t": f"row {row}"})
    ds.commit("first")
    ds.create_tag("v1")
    ds.checkout("side/a", create=True)
    ds.append({"x": np.ones((2, 2), np.uint8), "g/t": "side"})
    ds.commit("second")
    ds.checkout("main")
    ds.x[0] = np.zeros((4, 4), np.uint8)
    ds.info["of"] = "a test"
    ds.close()
    return tmp_path / "d"


def everything(path: object) -> dict[str, object]:
    """Return what all branches and the tag of a dataset hold."""
    found: dict[str, object] = {}
    for ref in ("main", "side/a", "v1"):
        ds = lakebed.load(f"{path}@{ref}", read_only=True)
        found[ref] = (content(ds), [(c["commit"], c["message"]) for c in ds.commits], dict(ds.info))
    return found


def test_there_and_back(folder: Path, tmp_path: Path) -> None:
    """All versions are the same in the file, and in the folder that is made of it, which can be written."""
    packed = lakebed.pack(folder, tmp_path / "new" / "train.lake", progressbar=False)
    assert packed.read_only
    assert packed["g/t"][3].text() == "row 3"
    assert everything(tmp_path / "new" / "train.lake") == everything(folder)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["train.lake"]
    assert not lakebed.verify(tmp_path / "new" / "train.lake", deep=True).damage
    assert lakebed.exists(tmp_path / "new" / "train.lake")
    made = lakebed.unpack(tmp_path / "new" / "train.lake", tmp_path / "e", progressbar=False)
    assert everything(tmp_path / "e") == everything(folder)
    made.append({"x": np.ones((2, 2), np.uint8), "g/t": "more"})
    assert len(made) == 31


def test_ways_to_read_it(folder: Path, tmp_path: Path) -> None:
    """Batches, pickles, views and copies of a packed dataset are those of the folder."""
    packed = lakebed.load(folder).pack(tmp_path / "a.lake", progressbar=False)
    again = pickle.loads(pickle.dumps(packed))
    assert content(again) == content(packed)
    batches = [batch["g/t"] for batch in lakebed.Loader(packed, 7, tensors=["g/t", "x"])]
    assert [text for batch in batches for text in batch] == [f"row {row}" for row in range(30)]
    part = packed[5:9].copy(tmp_path / "part", progressbar=False)
    assert [sample.text() for sample in part["g/t"]] == [f"row {row}" for row in range(5, 9)]


@pytest.mark.parametrize(
    "change",
    [
        lambda ds: ds.append({"x": np.ones((2, 2), np.uint8), "g/t": "more"}),
        lambda ds: ds.x.__setitem__(0, np.ones((2, 2), np.uint8)),
        lambda ds: ds.pop(0),
        lambda ds: ds.info.update(a=1),
        lambda ds: ds.create_tensor("new"),
        lambda ds: ds.delete_tensor("x"),
        lambda ds: ds.commit("no", allow_empty=True),
        lambda ds: ds.checkout("new", create=True),
        lambda ds: ds.create_tag("new"),
        lambda ds: ds.merge("side/a"),
    ],
)
def test_changes_are_refused(
    folder: Path, tmp_path: Path, change: Callable[[lakebed.Dataset], object]
) -> None:
    """Each says what to do instead, and the file stays what it is."""
    lakebed.pack(folder, tmp_path / "a.lake", progressbar=False)
    before = (tmp_path / "a.lake").read_bytes()
    with pytest.raises(StorageReadOnlyError, match="unpack"):
        change(lakebed.load(tmp_path / "a.lake"))
    with pytest.raises(StorageReadOnlyError, match="unpack"):
        lakebed.load(tmp_path / "a.lake", read_only=False)
    assert (tmp_path / "a.lake").read_bytes() == before


def test_what_is_in_the_way(folder: Path, tmp_path: Path) -> None:
    """A file is replaced only on demand, a folder never; names that do not end in .lake are refused."""
    lakebed.pack(folder, tmp_path / "a.lake", progressbar=False)
    with pytest.raises(DatasetExistsError, match="overwrite"):
        lakebed.pack(folder, tmp_path / "a.lake", progressbar=False)
    assert (
        len(lakebed.pack(folder, tmp_path / "a.lake", ["x"], overwrite=True, progressbar=False).tensors) == 1
    )
    with pytest.raises(DatasetExistsError, match="into itself"):
        lakebed.pack(tmp_path / "a.lake", tmp_path / "a.lake", overwrite=True, progressbar=False)
    (tmp_path / "b.lake").mkdir()
    with pytest.raises(PathNotEmptyException):
        lakebed.pack(folder, tmp_path / "b.lake", overwrite=True, progressbar=False)
    for name in ("a.zip", "lake"):
        with pytest.raises(InvalidInputError, match=r"\.lake"):
            lakebed.pack(folder, tmp_path / name, progressbar=False)
    with pytest.raises(InvalidInputError, match="address of a version"):
        lakebed.pack(folder, tmp_path / "c.lake@v1", progressbar=False)
    with pytest.raises(TypeError, match="view"):
        lakebed.load(folder)[3:].pack(tmp_path / "c.lake")
    with pytest.raises(DatasetNotFoundError):
        lakebed.pack(tmp_path / "none", tmp_path / "c.lake", progressbar=False)
    with pytest.raises(InvalidInputError, match="not a packed dataset"):
        lakebed.unpack(folder, tmp_path / "f", progressbar=False)
    with pytest.raises(DatasetExistsError):
        lakebed.unpack(tmp_path / "a.lake", folder, progressbar=False)


def test_damage_makes_no_file(folder: Path, tmp_path: Path) -> None:
    """A dataset with a damaged chunk is not packed; a packed one with one does not unpack without a word."""
    lakebed.pack(folder, tmp_path / "a.lake", progressbar=False)
    chunk = next(path for path in folder.rglob("chunks/*") if path.stat().st_size > 10_000)
    good = chunk.read_bytes()
    chunk.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(ChecksumError):
        lakebed.pack(folder, tmp_path / "b.lake", progressbar=False)
    assert {path.name for path in tmp_path.iterdir()} == {"d", "a.lake"}
    data = (tmp_path / "a.lake").read_bytes()
    at = data.index(good) + len(good) - 1
    (tmp_path / "a.lake").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(ChecksumError):
        lakebed.unpack(tmp_path / "a.lake", tmp_path / "e", progressbar=False)
    with pytest.raises(ChecksumError):
        everything(tmp_path / "a.lake")


def test_an_error_on_the_way_leaves_the_old_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is replaced is replaced as a whole, and nothing else is left behind."""
    lakebed.pack(folder, tmp_path / "a.lake", ["x"], progressbar=False)
    before = (tmp_path / "a.lake").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copying, "add_digests", full)
    with pytest.raises(lakebed.errors.StorageError, match="No space left"):
        lakebed.pack(folder, tmp_path / "a.lake", overwrite=True, progressbar=False)
    assert (tmp_path / "a.lake").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"d", "a.lake"}


def test_from_a_shell(folder: Path, tmp_path: Path) -> None:
    """The two commands, and those that look at what they make."""

    def run(*arguments: object) -> str:
        done = CliRunner().invoke(main, [*map(str, arguments)])
        assert done.exit_code == 0, done.output
        return done.output

    assert "2 tensors, 30 rows" in run("pack", folder, tmp_path / "a.lake")
    assert '"commits": ' in run("unpack", tmp_path / "a.lake", tmp_path / "e", "--json")
    for command in ("info", "log", "verify", "doctor"):
        run(command, tmp_path / "a.lake")
    assert everything(tmp_path / "e") == everything(folder)
    failed = CliRunner().invoke(main, ["pack", str(folder), str(tmp_path / "a.lake")])
    assert (failed.exit_code, "overwrite" in failed.output) == (1, True)
