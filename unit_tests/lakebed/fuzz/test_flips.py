"""One byte changed in any file of a dataset of ours: what is read is an error, or the same as before.

The suite tries some bytes of some files of thirty datasets; `make soak` every byte of small files, and 40 of others.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.documents.version_tree import FIRST
from lakebed.errors import LakebedError
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from unit_tests.effort import EFFORT
from unit_tests.lakebed.fuzz.datasets import GOLDEN, KINDS, everything, files, replace, write

NAMES = [*KINDS, *GOLDEN]
SMALL = 400


@pytest.fixture(scope="module", params=NAMES)
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, golden: Path) -> Path:
    """One dataset of each kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(golden)  # links are relative
        return write(request.param, tmp_path_factory.mktemp("flips") / "ds", golden)


def attempt(path: Path, file: Path, at: int, change: int, before: object) -> str:
    """Change one byte, read everything, put the byte back; say what came of it."""
    data = file.read_bytes()
    replace(file, data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])
    try:
        same = everything(path) == before
    except LakebedError:
        return "reported"
    finally:
        replace(file, data)
    assert same, (
        f"byte {at} of {file.relative_to(path)} changed by {change:#x} changes what is read, without an error"
    )
    return "harmless"


def places(
    path: Path, rng: random.Random, *, all_of_small: bool, others: int
) -> Iterator[tuple[Path, int, int]]:
    """Choose (file, offset, bits to change); headers are more likely than what follows."""
    for file in files(path):
        size = file.stat().st_size
        if all_of_small and size <= SMALL:
            offsets = list(range(size))
        else:
            offsets = [rng.randrange(min(size, 64) if rng.random() < 0.3 else size) for _ in range(others)]
        for at in offsets:
            yield file, at, 1 << rng.randrange(8) if rng.random() < 0.7 else rng.randrange(1, 256)


def test_a_flipped_byte_is_reported_or_harmless(dataset: Path, request: pytest.FixtureRequest) -> None:
    """A sample of all files; each kind of file of lakebed's own has its turn in the tests below."""
    before = everything(dataset)
    rng = random.Random(request.node.callspec.params["dataset"])
    chosen = list(places(dataset, rng, all_of_small=False, others=1))
    for file, at, change in rng.sample(chosen, min(len(chosen), 4)):
        attempt(dataset, file, at, change, before)


def test_flips_of_what_every_reader_needs(dataset: Path, request: pytest.FixtureRequest) -> None:
    """The version file and the manifests; damage to the first is always noticed, even where JSON stays JSON."""
    before = everything(dataset)
    rng = random.Random(request.node.callspec.params["dataset"])
    tree = dataset / "version_control_info.json"
    for _ in range(6):
        attempt(dataset, tree, rng.randrange(tree.stat().st_size), 1 << rng.randrange(8), before)
    for file in sorted((dataset / ".lakebed").glob("manifest-*"))[:3]:
        attempt(dataset, file, rng.randrange(file.stat().st_size), 1 << rng.randrange(8), before)


def test_flips_of_the_head_are_no_change_by_another_writer(dataset: Path) -> None:
    """3.9.52 changes a head in place: its metadata counts if it did, and not if one file alone has one other byte."""
    before = everything(dataset)
    heads = json.loads((dataset / "version_control_info.json").read_bytes())["branches"].values()
    names = ("dataset_info.json", "dataset_meta.json", "tensor_meta.json", "tensor_info.json", "unsharded")
    for head in heads:
        folder = dataset / "versions" / str(head) if head != FIRST else dataset
        for name in names:
            for file in sorted(
                file for file in folder.rglob(name) if head != FIRST or "versions" not in file.parts
            )[:2]:
                if size := file.stat().st_size:
                    attempt(dataset, file, size // 2, 1, before)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_every_flip_is_reported_or_harmless(dataset: Path, request: pytest.FixtureRequest) -> None:
    """Every byte of small files, and many of larger ones."""
    before = everything(dataset)
    rng = random.Random(request.node.callspec.params["dataset"])
    for file, at, change in places(dataset, rng, all_of_small=True, others=40):
        attempt(dataset, file, at, change, before)


@pytest.mark.parametrize("name", ["history", "documents"])
def test_verify_names_every_changed_file(name: str, tmp_path: Path, golden: Path) -> None:
    """What readers can do without (copies that 3.9.52 reads, commit_info.json) is checked by `verify` too."""
    path = write(name, tmp_path / "ds", golden)
    assert verify(LocalStorage(path), deep=True).is_sound
    rng = random.Random(name)
    garbage = {note.key for note in verify(LocalStorage(path)).notes}
    for file in files(path):
        key = str(file.relative_to(path))
        if key.startswith(".lakebed/writer") or any(str(g) in key for g in garbage):
            continue  # nobody reads these
        if key.startswith(".lakebed/manifest-") and any(
            str(g).removeprefix("versions/") in key for g in garbage
        ):
            continue
        data = file.read_bytes()
        at = rng.randrange(len(data))
        replace(file, data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
        findings = verify(LocalStorage(path))
        named = [found.key for found in (*findings.damage, *findings.notes)]
        assert key in named, (key, at)
        assert findings.damage or key.endswith("commit_info.json"), (key, at)
        replace(file, data)
    assert verify(LocalStorage(path), deep=True).is_sound


def test_verify_names_every_changed_byte_of_the_history(tmp_path: Path, golden: Path) -> None:
    """Bytes of every `commit_info.json`, that of the first version too, which is no commit but has children.

    In a soak every byte of that.
    """
    path = write("history", tmp_path / "ds", golden)
    storage = LocalStorage(path)
    rng = random.Random(0)
    heads = json.loads((path / "version_control_info.json").read_bytes())["branches"].values()
    checked = [file for file in sorted(path.rglob("commit_info.json")) if file.parent.name not in heads]
    assert path / "commit_info.json" in checked
    for file in checked:
        key, data = str(file.relative_to(path)), file.read_bytes()
        count = EFFORT.flipped_bytes * (4 if file.parent == path else 1)
        for at in rng.sample(range(len(data)), min(count, len(data))):
            replace(file, data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
            findings = verify(storage)
            assert key in [found.key for found in (*findings.damage, *findings.notes)], (key, at)
        replace(file, data)
    assert verify(storage, deep=True).is_sound
