"""`lakebed verify`: each kind of damage is found and named; sound datasets, also those of 3.9.52, are not blamed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import lakebed
from lakebed.cli import main

WORDS = [f"word {i}" for i in range(20)]


def run(*arguments: Any) -> Result:
    """Run the command in this process."""
    result = CliRunner().invoke(main, ["verify", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def found(*arguments: Any) -> dict[str, Any]:
    """What the command says to programs."""
    result = run(*arguments, "--json")
    report: dict[str, Any] = json.loads(result.output)
    assert result.exit_code == (0 if report["sound"] else 1)
    return report


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two commits, a branch, several tensors."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("g/words", htype="text")
    ds.create_tensor("boxes", htype="sequence[bbox]")
    ds.extend({"x": np.arange(20), "g/words": WORDS, "boxes": [[np.ones((1, 4), "f4")] * 2] * 20})
    ds.commit("first")
    ds.x[3] = 33
    ds.commit("second")
    ds.checkout("side", create=True)
    ds.x.append(7)
    ds.flush()
    return tmp_path / "ds"


def bare(path: Path) -> Path:
    """Take manifest and checksums away, as from a dataset that 3.9.52 wrote."""
    shutil.rmtree(path / ".lakebed")
    tree = json.loads((path / "version_control_info.json").read_bytes())
    del tree["lakebed"]
    (path / "version_control_info.json").write_text(json.dumps(tree))
    return path


def file_of(path: Path, pattern: str) -> Path:
    """The largest file that a pattern matches in a version that is needed."""
    tree = json.loads((path / "version_control_info.json").read_bytes())
    needed = [file for file in path.glob(pattern) if any(version in str(file) for version in tree["commits"])]
    return max(needed, key=lambda file: file.stat().st_size)


def flip(file: Path, at: int = -1) -> None:
    """Change one byte."""
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def test_a_sound_dataset(path: Path) -> None:
    """Nothing is wrong, at any depth, for all versions or one."""
    result = run(path)
    assert result.exit_code == 0
    assert f"{path}: no damage in 5 versions" in result.output
    report = found(path, "--deep")
    assert report["sound"]
    assert report["damage"] == []
    assert report["samples"] >= 20 + 20 + 40
    assert found(f"{path}@side")["versions"] == 1


def test_golden_datasets_are_sound(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What 3.9.52 wrote is read to the last sample; the head that a reset left over is noted."""
    monkeypatch.chdir(golden)
    for expected in sorted(golden.glob("*.expected.json")):
        report = found(str(expected).removesuffix(".expected.json"), "--deep")
        assert report["sound"], (expected.name, report["damage"])
        left_over = [note for note in report["notes"] if "unused" in note["message"]]
        assert len(left_over) == (1 if expected.name.startswith("f19") else 0)


def test_a_damaged_chunk_is_named(path: Path) -> None:
    """With dataset, version, tensor, rows and key, in every version that shares it."""
    file = file_of(path, "versions/*/g/words/chunks/*")
    flip(file)
    report = found(path)
    key = str(file.relative_to(path))
    assert {d["key"] for d in report["damage"]} == {key}
    assert {d["tensor"] for d in report["damage"]} == {"g/words"}
    assert all(d["rows"] == [0, 19] and d["version"] and "checksum" in d["message"] for d in report["damage"])
    assert len({d["version"] for d in report["damage"]}) >= 2
    lines = run(path).output
    assert f"tensor 'g/words', rows 0 to 19, {key}" in lines
    assert "DAMAGED: version" in lines


def test_damage_without_checksums_is_found_by_decoding(path: Path) -> None:
    """Bytes that are no UTF-8 show only when samples are decoded, and only their row is named."""
    file = file_of(bare(path), "versions/*/g/words/chunks/*")
    data = file.read_bytes()
    file.write_bytes(data.replace(b"word 5", b"wor\xff 5"))
    assert found(path)["sound"]
    report = found(path, "--deep")
    assert {tuple(d["rows"]) for d in report["damage"]} == {(5, 5)}
    assert {d["tensor"] for d in report["damage"]} == {"g/words"}


def test_rows_of_sequences_are_those_that_users_count(path: Path) -> None:
    """A damaged chunk of forty items is twenty rows."""
    flip(file_of(path, "versions/*/boxes/chunks/*"))
    assert {tuple(d["rows"]) for d in found(path)["damage"]} == {(0, 19)}


CHANGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing chunk": (lambda path: file_of(path, "versions/*/x/chunks/*").unlink(), "is missing"),
    "truncated chunk": (
        lambda path: file_of(path, "versions/*/x/chunks/*").write_bytes(b"\x063.9.52"),
        "bytes",
    ),
    "missing metadata": (lambda path: file_of(path, "versions/*/x/tensor_meta.json").unlink(), "is missing"),
    "damaged metadata": (lambda path: flip(file_of(path, "versions/*/x/tensor_meta.json"), 2), ""),
    "missing dataset_meta": (
        lambda path: file_of(path, "versions/*/dataset_meta.json").unlink(),
        "is missing",
    ),
    "damaged index": (lambda path: flip(file_of(path, "versions/*/x/chunks_index/unsharded")), ""),
    "damaged history": (lambda path: flip(path / "version_control_info.json", 40), "version_control_info"),
    "damaged commit_info": (
        lambda path: file_of(path, "versions/*/commit_info.json").write_text("{}"),
        "has no branch",
    ),
}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("checksums", [True, False])
def test_every_kind_of_damage_is_found(path: Path, how: str, checksums: bool) -> None:
    """With manifests and without; the exit status is 1."""
    change, words = CHANGES[how]
    if not checksums:
        bare(path)
    change(path)
    result = run(path)
    assert result.exit_code == 1
    assert "DAMAGED" in result.output
    if not checksums or how.startswith("missing"):
        assert words in result.output


def test_a_manifest_that_is_gone_or_damaged(path: Path) -> None:
    """Readers go on without it, and verify says that it is needed again."""
    file = file_of(path, ".lakebed/manifest-*")
    flip(file)
    report = found(path)
    assert {d["key"] for d in report["damage"]} == {f".lakebed/{file.name}"}
    file.unlink()
    (damage,) = found(path)["damage"]
    assert "missing" in damage["message"]


def test_lengths_that_disagree(path: Path) -> None:
    """Metadata, index and hidden tensors count the same samples."""
    file = max(bare(path).glob("versions/*/x/tensor_meta.json"), key=lambda file: file.stat().st_mtime)
    meta = json.loads(file.read_bytes())
    file.write_text(json.dumps({**meta, "length": meta["length"] + 1}))
    messages = [d["message"] for d in found(path)["damage"]]
    assert any("the chunk index has" in message for message in messages)
    assert any("hidden tensor" in message for message in messages)


def test_dangling_versions_are_noted(path: Path) -> None:
    """A head that no branch names harms nobody."""
    tree = json.loads((bare(path) / "version_control_info.json").read_bytes())
    lost = "ab" * 20
    parent = tree["commits"][tree["branches"]["main"]]["parent"]
    tree["commits"][parent]["children"].append(lost)
    tree["commits"][lost] = {**tree["commits"][tree["branches"]["main"]], "children": []}
    (path / "version_control_info.json").write_text(json.dumps(tree))
    (path / "versions" / ("cd" * 20)).mkdir()
    (path / "versions" / ("cd" * 20) / "dataset_meta.json").write_text("{}")
    report = found(path)
    assert report["sound"]
    notes = {str(note["version"] or note["key"]): note["message"] for note in report["notes"]}
    assert "unused" in notes[lost]
    assert "lakebed gc" in notes["versions/" + "cd" * 20]


def test_folders_that_commits_leave_are_one_line(tmp_path: Path) -> None:
    """The note says where they come from; an ordinary commit is not taken for damage."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    for count in ("1 folder is", "2 folders are"):
        ds.x.append(1)
        ds.commit()
        assert f"note: {count} not part of the history: commits leave them" in run(tmp_path / "ds").output


def test_no_dataset_is_an_error(tmp_path: Path) -> None:
    """As for every other command."""
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "does not exist" in result.output
