"""`check`: a probe that really writes, and sentences that say what to change."""

import errno
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake import probe
from destination_deeplake.config import DestinationConfig, Place
from lakebed.errors import StorageReadOnlyError
from lakebed.runtime import clock
from lakebed.testing.clock import VirtualClock


def test_a_folder_that_works_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("x", encoding="utf-8")
    assert probe.problem_with(DestinationConfig(Place(str(tmp_path)))) is None
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]


def test_folders_that_were_missing_are_missing_again(tmp_path: Path) -> None:
    assert probe.problem_with(DestinationConfig(Place(str(tmp_path / "a" / "b@c" / "d")))) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(errno.EACCES, "no", "/lake"), "permission denied; let the user"),
        (OSError(errno.ENOSPC, "full", "/lake"), "no space left; free some"),
        (OSError(errno.EIO, "broken", "/lake"), "cannot be used"),
        (StorageReadOnlyError("can not write /lake", errno=errno.EROFS), "mount it writable"),
    ],
)
def test_a_folder_that_does_not_work_is_told_with_a_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, words: str
) -> None:
    def fail(_path: str, creds: object) -> None:
        raise error

    monkeypatch.setattr(lakebed, "empty", fail)
    problem = probe.problem_with(DestinationConfig(Place(str(tmp_path))))
    assert problem is not None
    assert problem.startswith(f"destination_path {tmp_path}")
    assert words in problem


def test_a_server_that_is_not_there_is_told_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are repeated for seconds, one after the other until the first error; a sync is more patient."""
    patience = []
    make, remove = lakebed.empty, lakebed.delete

    def noted(act: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            patience.append(lakebed.config.RETRY_SECONDS)
            return act(*arguments, **options)

        return call

    monkeypatch.setattr(lakebed, "empty", noted(make))
    monkeypatch.setattr(lakebed, "delete", noted(remove))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    before = lakebed.config.RETRY_SECONDS
    configured = DestinationConfig.from_mapping(
        {
            "destination_path": "s3://lake/folder",
            "endpoint_url": f"http://127.0.0.1:{port}",
            "region": "eu-west-1",
            "credentials": {
                "method": "aws_keys",
                "aws_access_key_id": "key",
                "aws_secret_access_key": "secret",
            },
        }
    )
    with clock.replaced(time := VirtualClock()):
        began = time.monotonic()
        problem = probe.problem_with(configured)
        assert time.monotonic() - began < 8, "seconds that it paused"
    assert problem is not None
    assert "Connection refused; check the network and the address" in problem
    assert patience == [4.0], "it was asked once, and not for longer"
    assert before == lakebed.config.RETRY_SECONDS


def test_a_bug_is_not_blamed_on_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lakebed, "empty", lambda _path, creds: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        probe.problem_with(DestinationConfig(Place(str(tmp_path))))
