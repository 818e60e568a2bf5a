"""Files that the user has linked stay readable in later processes, to the dataset that they are linked in, no other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import lakebed
from lakebed import config
from lakebed.cli import main
from lakebed.errors import InvalidInputError, LinkForbiddenError
from lakebed.links import kept
from lakebed.links import policy as policies

pytestmark = pytest.mark.usefixtures("nothing_allowed")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration of the test's own, which is followed."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(config, "REMEMBER_LINKS", True)
    return tmp_path / "config" / "lakebed"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder with three pictures."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(3):
        Image.fromarray(np.full((4, 6, 3), number, np.uint8)).save(folder / f"{number}.png")
    return folder


def restart() -> None:
    """Forget what only this process knows."""
    policies._MEMORY = policies._Memory()


def linking(place: str | Path, *links: object, **options: object) -> lakebed.Dataset:
    """A dataset of links, which the user of this process has made."""
    ds = lakebed.empty(place)
    ds.create_tensor("photo", htype="link[image]", sample_compression="png", **options)
    ds.photo.extend([lakebed.link(link) for link in links])
    ds.commit("linked")
    restart()
    return ds


def is_read(place: str | Path, row: int = 0) -> bool:
    """Whether the link of a row is followed when the dataset is opened anew."""
    try:
        return bool(lakebed.load(place, read_only=True).photo[row].numpy().shape == (4, 6, 3))
    except LinkForbiddenError:
        return False


@pytest.mark.parametrize("verify", [True, False])
def test_own_links_are_read_by_a_new_process(tmp_path: Path, photos: Path, verify: bool) -> None:
    linking(tmp_path / "ds", *(str(photos / f"{n}.png") for n in range(3)), verify=verify)
    code = f"import lakebed; print(lakebed.load({str(tmp_path / 'ds')!r}).photo.numpy().shape)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LAKEBED_REMEMBER_LINKS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "(3, 4, 6, 3)\n"


@pytest.mark.parametrize(
    "way", ["append", "assign", "row", "update", "relative", "file", "part", "tiled", "sequence"]
)
def test_links_are_remembered_whatever_way_they_are_made(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ds = lakebed.empty(tmp_path / "ds")
    inner = "sequence[link[image]]" if way == "sequence" else "link[image]"
    ds.create_tensor("photo", htype=inner, sample_compression="png")
    path = photos / "1.png"
    if way == "append":
        ds.photo.append(lakebed.link(path))
    elif way == "assign":
        ds.photo.append(None)
        ds.photo[0] = lakebed.link(path)
    elif way == "row":
        ds.append({"photo": lakebed.link(path)})
    elif way == "update":
        ds.photo.append(None)
        ds[0].update({"photo": lakebed.link(path)})
    elif way == "relative":
        ds.photo.append(lakebed.link("photos/1.png"))
    elif way == "file":
        ds.photo.append(lakebed.link(f"file://{path}"))
    elif way == "part":
        ds.photo.append(lakebed.link(f"{path}#bytes=0-{path.stat().st_size - 1}"))
    elif way == "tiled":
        ds.photo.append(lakebed.link_tiled([[str(path)]]))
    else:
        ds.photo.append([lakebed.link(path)])
    ds.commit()
    restart()

    loaded = lakebed.load(tmp_path / "ds", read_only=True)
    assert np.asarray(loaded.photo[0].numpy()).size == 4 * 6 * 3


def test_links_are_the_users_in_a_dataset_that_is_opened_again(tmp_path: Path, photos: Path) -> None:
    linking(tmp_path / "ds", photos / "0.png")
    ds = lakebed.load(tmp_path / "ds")
    ds.photo.append(lakebed.link(photos / "1.png"))
    ds.commit()
    restart()

    assert is_read(tmp_path / "ds", 0)
    assert is_read(tmp_path / "ds", 1)


# -- who may not -------------------------------------------------------------------------------------------------


def test_another_dataset_reads_nothing_of_what_is_linked_here(tmp_path: Path, photos: Path) -> None:
    linking(tmp_path / "mine", photos / "0.png")
    shutil.copytree(tmp_path / "mine", tmp_path / "theirs")

    assert is_read(tmp_path / "mine")
    assert not is_read(tmp_path / "theirs")


def hostile(tmp_path: Path, *links: object) -> Path:
    """A dataset that somebody else has made on another machine."""
    config.REMEMBER_LINKS = False
    linking(tmp_path / "elsewhere", *links)
    config.REMEMBER_LINKS = True
    return tmp_path / "elsewhere"


def test_a_hostile_dataset_in_the_place_of_ones_own_reads_no_neighbour(tmp_path: Path, photos: Path) -> None:
    linking(tmp_path / "ds", photos / "0.png")
    theirs = hostile(tmp_path, photos / "1.png", photos / "0.png")
    shutil.rmtree(tmp_path / "ds")
    theirs.rename(tmp_path / "ds")

    assert not is_read(tmp_path / "ds", 0)  # beside the file that the user had linked in this place


def test_links_of_others_that_come_in_are_not_the_users(tmp_path: Path, photos: Path) -> None:
    """By whatever way: as a tensor, as one sample, as a copy, by a merge of forms, as an Arrow table."""
    import pyarrow as pa

    theirs = lakebed.load(hostile(tmp_path, photos / "1.png"))
    mine = linking(tmp_path / "mine", photos / "0.png", verify=False)
    mine.photo.extend(theirs.photo)
    mine.photo.append(theirs.photo[0])
    mine.photo.extend(pa.array([str(photos / "1.png")]))
    mine.extend({"photo": theirs.photo})
    mine.commit()
    restart()
    lakebed.copy(theirs, tmp_path / "copied", progressbar=False)
    lakebed.deepcopy(theirs, tmp_path / "whole", progressbar=False)
    restart()

    assert is_read(tmp_path / "mine", 0)
    assert [row for row in range(1, len(mine)) if is_read(tmp_path / "mine", row)] == []
    assert not is_read(tmp_path / "copied")
    assert not is_read(tmp_path / "whole")


def test_functions_of_transforms_and_imports_make_nobody_the_owner(
    tmp_path: Path, photos: Path, home: Path
) -> None:
    """What they link is often named by files of others: annotations, tables."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("photo", htype="link[image]", sample_compression="png")

    @lakebed.compute
    def linked(path: str, out: object) -> None:
        out.append({"photo": lakebed.link(path)})  # type: ignore[attr-defined]

    linked().eval([str(photos / "0.png")], ds, num_workers=0, progressbar=False)
    restart()

    assert list(kept.datasets()) == []
    with pytest.raises(LinkForbiddenError, match="or by a transform or an import"):
        lakebed.load(tmp_path / "ds").photo[0].numpy()


def test_datasets_that_are_nowhere_on_this_machine_are_not_remembered(photos: Path) -> None:
    ds = linking("mem://kept", photos / "0.png")

    assert list(kept.datasets()) == []
    del ds


def test_a_removed_or_overwritten_dataset_takes_its_links_along(tmp_path: Path, photos: Path) -> None:
    linking(tmp_path / "ds", photos / "0.png")
    lakebed.empty(tmp_path / "ds", overwrite=True)
    assert list(kept.datasets()) == []

    linking(tmp_path / "other", photos / "0.png")
    lakebed.delete(tmp_path / "other")
    assert list(kept.datasets()) == []


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_configuration_that_others_may_write_counts_for_nothing(
    tmp_path: Path, photos: Path, home: Path, mode: int
) -> None:
    linking(tmp_path / "ds", photos / "0.png")
    (file,) = (home / "links").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(mode)

    with pytest.warns(UserWarning, match="nobody else may write"):
        assert not is_read(tmp_path / "ds")


def test_a_configuration_of_another_dataset_in_the_place_counts_for_nothing(
    tmp_path: Path, photos: Path, home: Path
) -> None:
    linking(tmp_path / "ds", photos / "0.png")
    (file,) = (home / "links").iterdir()
    file.write_bytes(file.read_bytes().replace(b"/ds\n", b"/xx\n"))

    assert not is_read(tmp_path / "ds")


@pytest.mark.parametrize("torn", [1, 3])
def test_a_line_that_a_kill_has_torn_is_none(tmp_path: Path, photos: Path, home: Path, torn: int) -> None:
    linking(tmp_path / "ds", photos / "0.png")
    (file,) = (home / "links").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-torn])
    assert not is_read(tmp_path / "ds")

    kept.remember(str(tmp_path / "ds"), [str(photos / "1.png")])
    assert kept.is_kept(str(tmp_path / "ds"), str(photos / "1.png"))
    assert not kept.is_kept(str(tmp_path / "ds"), str(photos / "0.png"))
    assert not any(kept.is_kept(str(tmp_path / "ds"), str(photos / "0.png")[:-n]) for n in range(1, 6))


def test_names_with_line_breaks_are_left_out(tmp_path: Path) -> None:
    kept.remember(
        str(tmp_path / "ds"), ["/a/b\n/etc/\npasswd", "https://x/y", "s3://b/k", "file://host/x", ""]
    )

    assert not kept.is_kept(str(tmp_path / "ds"), "/etc/passwd")
    assert list(kept.datasets()) == []


def test_what_cannot_be_written_is_a_warning(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))

    with pytest.warns(UserWarning, match="lakebed allow"):
        linking(tmp_path / "ds", photos / "0.png")
    assert not is_read(tmp_path / "ds")


def test_nothing_below_the_working_directory_is_the_users(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder called ``~``, or one that the environment names by half, may come with a dataset."""
    ds = hostile(tmp_path, photos / "0.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", "planted")
    (tmp_path / "planted" / "lakebed").mkdir(parents=True)
    (tmp_path / "planted" / "lakebed" / "allowed-links").write_text("/\n")

    assert not is_read(ds)


def test_there_is_an_end_to_what_is_remembered(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", 10)

    with pytest.warns(UserWarning, match="as many links"):
        linking(tmp_path / "ds", photos / "0.png")
    assert not is_read(tmp_path / "ds")


def test_switched_off_nothing_is_written_or_followed(
    tmp_path: Path, photos: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.allow(str(photos))
    monkeypatch.setattr(config, "REMEMBER_LINKS", False)
    linking(tmp_path / "ds", photos / "0.png")

    assert not (home / "links").exists()
    assert not is_read(tmp_path / "ds")


# -- the command -------------------------------------------------------------------------------------------------


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["allow", *words])
    return done.exit_code, done.output


def test_a_folder_is_allowed_listed_and_taken_back(tmp_path: Path, photos: Path) -> None:
    ds = hostile(tmp_path, photos / "0.png")
    assert not is_read(ds)

    assert run(str(photos)) == (0, f"links may lead into {photos}\n")
    run(str(photos))
    assert is_read(ds)
    assert run("--list") == (0, f"{photos}\n")
    assert run("--remove", str(photos))[0] == 0
    assert not is_read(ds)
    assert run("--remove", str(photos))[0] == 1
    assert run("--list") == (0, "nothing is allowed\n")


def test_what_is_remembered_of_a_dataset_is_listed_and_taken_back(tmp_path: Path, photos: Path) -> None:
    linking(tmp_path / "ds", photos / "0.png", photos / "1.png")

    assert run("--list") == (0, f"2 files that you have linked in {tmp_path / 'ds'}\n")
    assert run("--remove", str(tmp_path / "ds"))[0] == 0
    assert not is_read(tmp_path / "ds")


def test_what_is_no_folder_cannot_be_allowed(tmp_path: Path, photos: Path) -> None:
    for place in (str(tmp_path / "nowhere"), str(photos / "0.png")):
        with pytest.raises(InvalidInputError, match="not a folder"):
            kept.allow(place)
    assert run() != (0, "")


def test_the_head_of_a_dataset_shows_links_that_are_not_followed(tmp_path: Path, photos: Path) -> None:
    ds = hostile(tmp_path, photos / "0.png")
    done = CliRunner().invoke(main, ["head", str(ds), "--jsonl"])

    assert done.exit_code == 0
    assert done.output == f'{{"photo": "{photos}/0.png"}}\n'
    assert "photo" in repr(lakebed.load(ds))
    assert "png" in repr(lakebed.load(ds).photo[0])
