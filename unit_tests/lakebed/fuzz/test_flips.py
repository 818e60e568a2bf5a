"""One byte changed in any file of a dataset of ours: what is read is an error, or the same as before.

The suite tries some bytes of some files of thirty datasets; `make soak` every byte of small files, and 40 of others.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Dataset:
    """A dataset, what is read from it, and a generator of random numbers."""

    path: Path
    content: object
    draw: random.Random

    def attempt(self, file: Path, at: int, change: int) -> None:
        """Change one byte, read everything, put the byte back."""
        data = file.read_bytes()
        replace(file, data[:at] + bytes([data[at] ^ change]) + data[at + 1 :])
        try:
            same = everything(self.path) == self.content
        except LakebedError:
            return
        finally:
            replace(file, data)
        place = f"byte {at} of {file.relative_to(self.path)} changed by {change:#x}"
        assert same, f"{place} changes what is read, without an error"

    def attempt_anywhere(self, file: Path) -> None:
        """Change one random bit of a file."""
        self.attempt(file, self.draw.randrange(file.stat().st_size), 1 << self.draw.randrange(8))


@pytest.fixture(params=NAMES)
def dataset(request: pytest.FixtureRequest, tmp_path: Path, golden: Path) -> Dataset:
    """One dataset of each kind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(golden)  # links are relative
        path = write(request.param, tmp_path / "ds", golden)
    return Dataset(path, everything(path), random.Random(request.param))


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


def test_a_flipped_byte_is_reported_or_harmless(dataset: Dataset) -> None:
    """A sample of all files, the version file, the manifests, and the metadata of heads.

    3.9.52 changes a head in place: its metadata counts if it did, and not if one file alone has one other byte.
    """
    path, draw = dataset.path, dataset.draw
    chosen = list(places(path, draw, all_of_small=False, others=1))
    for place in draw.sample(chosen, min(len(chosen), 4)):
        dataset.attempt(*place)
    tree = path / "version_control_info.json"
    for file in [tree] * 5 + sorted((path / ".lakebed").glob("manifest-*"))[:2]:
        dataset.attempt_anywhere(file)
    names = ("dataset_info.json", "dataset_meta.json", "tensor_meta.json", "tensor_info.json", "unsharded")
    for head in json.loads(tree.read_bytes())["branches"].values():
        folder = path / "versions" / str(head) if head != FIRST else path
        for name in names:
            found = (file for file in folder.rglob(name) if head != FIRST or "versions" not in file.parts)
            file = min((file for file in found if file.stat().st_size), default=tree)
            dataset.attempt(file, file.stat().st_size // 2, 1)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_every_flip_is_reported_or_harmless(dataset: Dataset) -> None:
    """Every byte of small files, and many of larger ones."""
    for place in places(dataset.path, dataset.draw, all_of_small=True, others=40):
        dataset.attempt(*place)


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
