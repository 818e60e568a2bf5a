"""The owner's file: who may read it, what it may hold, and changes by several at once."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from lakebed.credentials.base import plain
from lakebed.credentials.file import OwnersFile, path
from lakebed.errors import InvalidInputError, StoragePermissionError
from lakebed.storage.secret import Secret

CANARY = "c4n4ry"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file goes."""
    found = tmp_path / "deep" / "credentials.toml"
    monkeypatch.setenv("LAKEBED_CREDS_FILE", str(found))
    return found


def write(place: Path, text: str, mode: int = 0o600) -> None:
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    place.chmod(mode)


def test_an_entry_is_found_with_its_secrets_covered(place: Path) -> None:
    write(place, f'[lab]\naws_secret_access_key = "{CANARY}"\naws_region = "x"\n')
    found = OwnersFile().find("lab")
    assert found is not None
    assert plain(found) == {"aws_secret_access_key": CANARY, "aws_region": "x"}
    assert CANARY not in repr(found)
    assert OwnersFile().find("other") is None
    assert OwnersFile().names() == ["lab"]


def test_no_file_knows_nothing(place: Path) -> None:
    assert OwnersFile().find("lab") is None
    assert OwnersFile().names() == []


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o601, 0o660])
def test_a_file_that_others_reach_is_refused(place: Path, mode: int) -> None:
    write(place, "[lab]\na = 'b'\n", mode)
    with pytest.raises(StoragePermissionError, match=r"can be read or written by others.*chmod 600"):
        OwnersFile().find("lab")
    with pytest.raises(StoragePermissionError):
        OwnersFile().change("lab", lambda found: {"a": "c"})
    assert place.read_text() == "[lab]\na = 'b'\n"


def test_what_is_no_file_is_refused(place: Path) -> None:
    place.parent.mkdir()
    os.mkfifo(place, 0o600)
    with pytest.raises(StoragePermissionError, match="is not a file"):
        OwnersFile().find("lab")


@pytest.mark.parametrize(
    "text",
    [
        f'[lab]\nkey = "{CANARY}\n',
        f"[lab]\nkey = {CANARY}\n",
        f"{CANARY}",
        f'[lab]\nkey = "a"\nkey = "{CANARY}"\n',
        f"lab = '{CANARY}'\n",
        f"[lab]\nkey = [['{CANARY}']]\n",
        "[lab]\n",
    ],
)
def test_damage_is_told_without_showing_what_is_in_it(place: Path, text: str) -> None:
    write(place, text)
    with pytest.raises(InvalidInputError) as caught:
        OwnersFile().find("lab")
    assert CANARY not in str(caught.value)
    assert str(place) in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_changes_keep_the_mode_and_all_else(place: Path) -> None:
    OwnersFile().change("lab", lambda found: {"key": Secret(CANARY)})
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    OwnersFile().change("b", lambda found: {"key": "2"})
    OwnersFile().change("lab", lambda found: None if found is None else {**found, "more": "3"})
    assert place.read_text() == f'[lab]\nkey = "{CANARY}"\nmore = "3"\n\n[b]\nkey = "2"\n'
    OwnersFile().change("lab", lambda found: None)
    assert OwnersFile().names() == ["b"]
    assert sorted(p.name for p in place.parent.iterdir()) == ["credentials.toml", "credentials.toml.lock"]


def test_changes_at_the_same_time_all_survive(place: Path) -> None:
    def change(number: int) -> None:
        for i in range(5):
            OwnersFile().change(f"k{number}-{i}", lambda found: {"n": number})

    threads = [threading.Thread(target=change, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(OwnersFile().names()) == 30


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAKEBED_CREDS_FILE", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert path() == tmp_path / ".config/lakebed/credentials.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "x"))
    assert path() == tmp_path / "x/lakebed/credentials.toml"
    monkeypatch.setenv("LAKEBED_CREDS_FILE", "~/c.toml")
    assert path() == tmp_path / "c.toml"
