"""`make check` finds the tests of what was changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import check

THERE = {
    "unit_tests",
    "unit_tests/lakebed",
    "unit_tests/lakebed/chunks",
    "unit_tests/lakebed/chunks/test_pack.py",
    "unit_tests/lakebed/native",
    "unit_tests/destination_deeplake",
    "unit_tests/destination_deeplake/test_sync.py",
    "unit_tests/scripts/test_check.py",
    "integration_tests/test_evolution.py",
}


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("format/lakebed/chunks/pack.py", "unit_tests/lakebed/chunks/test_pack.py"),
        ("format/lakebed/chunks/_pack.py", "unit_tests/lakebed/chunks/test_pack.py"),
        ("format/lakebed/chunks/__init__.py", "unit_tests/lakebed/chunks"),
        ("format/lakebed/chunks/tiling.py", "unit_tests/lakebed/chunks"),
        ("format/lakebed/new/room.py", "unit_tests/lakebed"),
        ("format/ext/lakebed/native/merge.pyx", "unit_tests/lakebed/native"),
        ("destination_deeplake/sync.py", "unit_tests/destination_deeplake/test_sync.py"),
        ("destination_deeplake/spec.json", "unit_tests/destination_deeplake"),
        ("scripts/check.py", "unit_tests/scripts/test_check.py"),
        ("unit_tests/lakebed/chunks/test_pack.py", "unit_tests/lakebed/chunks/test_pack.py"),
        ("unit_tests/lakebed/chunks/test_removed.py", None),
        ("unit_tests/lakebed/chunks/blocks.py", "unit_tests/lakebed/chunks"),
        ("integration_tests/test_evolution.py", "integration_tests/test_evolution.py"),
        ("integration_tests/messages.py", None),
        ("README.md", None),
    ],
)
def test_a_file_has_its_tests_at_the_same_path(changed: str, tests: str | None) -> None:
    assert check.mirror(changed, THERE.__contains__) == tests


def test_the_core_is_there() -> None:
    """Each name is a file or folder with tests, and the files of the core are in no second time."""
    assert all((check.ROOT / name).exists() for name in check.CORE)
    core = "unit_tests/lakebed/dataset/test_tensor.py"
    assert core in check.CORE
    assert check.plan(["format/lakebed/dataset/tensor.py"], check.ROOT) == [
        core,
        *(name for name in check.CORE if name != core),
    ]


def test_a_folder_means_its_own_tests(tmp_path: Path) -> None:
    """Not those of the folders below it."""
    for name in ("room/test_b.py", "room/test_a.py", "room/helper.py", "room/inner/test_c.py"):
        (tmp_path / "unit_tests/lakebed" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "unit_tests/lakebed" / name).touch()
    planned = check.plan(["format/lakebed/room/other.py"], tmp_path)
    found = ["unit_tests/lakebed/room/test_a.py", "unit_tests/lakebed/room/test_b.py"]
    assert planned == [*found, *check.CORE]


def test_too_many_tests_are_refused(tmp_path: Path) -> None:
    changed = [f"unit_tests/test_{number}.py" for number in range(check.MOST + 1)]
    (tmp_path / "unit_tests").mkdir()
    for name in changed:
        (tmp_path / name).touch()
    assert len(check.plan(changed[1:], tmp_path)) == check.MOST + len(check.CORE)
    with pytest.raises(ValueError, match="41 test files"):
        check.plan(changed, tmp_path)


def test_changed_is_what_differs_from_main(tmp_path: Path) -> None:
    """Commits of the branch, the work tree, new files; not what main has got since, and not what was removed."""

    def git(*arguments: str) -> None:
        own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *own, *arguments], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)

    def write(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)

    git("init", "-q")
    assert check.changed_files(tmp_path) == []
    for name in ("kept", "committed", "edited", "removed", ".gitignore"):
        write(name, "before")
    write(".gitignore", "ignored")
    git("add", "-A")
    git("commit", "-qm", "main")
    assert check.changed_files(tmp_path) == []
    git("checkout", "-qb", "branch")
    write("committed", "after")
    git("commit", "-qam", "branch")
    write("edited", "after")
    write("new", "")
    write("ignored", "")
    (tmp_path / "removed").unlink()
    git("branch", "other", "main")
    assert check.changed_files(tmp_path) == ["committed", "edited", "new"]
