"""Writers and readers at the same time: every publish is there once and in order, and no reader ever fails."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakebed
from integration_tests.versions import race
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from unit_tests.effort import EFFORT

WRITERS, READERS = 8, 4
ROOT = Path(__file__).resolve().parent.parent.parent
Line = dict[str, Any]
Record = Callable[[str, object], None]


def compete(folder: Path, seconds: float) -> dict[str, list[Line]]:
    """Let all processes run; return what each of them logged."""
    path = folder / "dataset"
    race.create(path)
    roles = [("write", n) for n in range(WRITERS)] + [("read", n) for n in range(READERS)]
    roles += [("branch", 0), ("collect", 0)]
    command = [sys.executable, "-m", "integration_tests.versions.race", str(path), str(seconds)]
    subprocess.run([*command, *(str(part) for role in roles for part in role)], cwd=ROOT, check=False)
    return logs_of({f"{role}{number}": folder / f"{role}{number}" for role, number in roles})


def logs_of(logs: dict[str, Path]) -> dict[str, list[Line]]:
    """Read the logs of processes that have ended; none may have failed."""
    found = {name: [json.loads(line) for line in log.read_text().splitlines()] for name, log in logs.items()}
    for name, lines in found.items():
        assert lines, f"{name} did nothing"
        assert lines[-1]["what"] == "done", f"{name}: {lines[-1].get('trace', lines[-1])}"
    return found


@dataclass(frozen=True)
class Publish:
    """One acknowledged publish."""

    writer: int
    batch: int
    size: int
    branch: str
    is_commit: bool
    began: float
    ended: float


def published(logs: dict[str, list[Line]]) -> dict[tuple[int, int], Publish]:
    """What was acknowledged, by writer and batch."""
    found = {}
    for name in (name for name in logs if name.startswith("write")):
        writer = int(name.removeprefix("write"))
        for line in logs[name]:
            if line["what"] == "published":
                batch, when = line["batch"], (line["began"], line["ended"])
                found[writer, batch] = Publish(
                    writer, batch, line["size"], line["branch"], line["commit"], *when
                )
    return found


def check_branches(path: Path, acknowledged: dict[tuple[int, int], Publish]) -> None:
    """Each branch holds what was acknowledged there, once, in an order that fits the times."""
    for branch in race.BRANCHES:
        ds = lakebed.load(f"{path}@{branch}", read_only=True)
        there = [(writer, batch) for writer, batch, _ in race.batches_of(ds)]
        assert len(there) == len(set(there)), f"{branch}: a publish is there twice"
        wanted = {key for key, publish in acknowledged.items() if publish.branch == branch}
        assert set(there) == wanted, f"{branch}: {sorted(set(there) ^ wanted)}"
        sizes = {(writer, batch): size for writer, batch, size in race.batches_of(ds)}
        assert all(acknowledged[key].size == size for key, size in sizes.items())
        latest = 0.0
        for key in there:
            assert acknowledged[key].ended >= latest, (
                f"{branch}: {key} comes after one that began after its end"
            )
            latest = max(latest, acknowledged[key].began)
        messages = [entry["message"] for entry in ds.commits]
        messages = [text for text in messages if not text.startswith("Auto commit before merging into tmp")]
        commits = [f"{w}/{b}" for w, b in there if acknowledged[w, b].is_commit]
        assert messages == [*reversed(commits), "base"], branch


def check_readers(logs: dict[str, list[Line]], acknowledged: dict[tuple[int, int], Publish]) -> int:
    """Every look at a branch shows all that was acknowledged before it, and nothing that began after it."""
    looks = [line for n in range(READERS) for line in logs[f"read{n}"] if line["what"] == "read"]
    for branch in race.BRANCHES:
        here = [publish for publish in acknowledged.values() if publish.branch == branch]
        for look in (look for look in looks if look["branch"] == branch):
            seen = {int(writer): count for writer, count in look["batches"].items()}
            for publish in here:
                is_seen = publish.batch < seen.get(publish.writer, 0)
                if publish.ended < look["began"]:
                    assert is_seen, f"{publish} was acknowledged, but is missing in {look}"
                if publish.began > look["opened"]:
                    assert not is_seen, f"{publish} is in {look}, which was opened before"
    return len(looks)


def overlapping(acknowledged: Sequence[Publish]) -> int:
    """Count the pairs of publishes on different branches that were under way at the same time."""
    ordered = sorted(acknowledged, key=lambda publish: publish.began)
    return sum(a.ended > b.began and a.branch != b.branch for a, b in itertools.pairwise(ordered))


def run(folder: Path, seconds: float, record: Record) -> None:
    """Compete, then check everything."""
    logs = compete(folder, seconds)
    acknowledged = published(logs)
    check_branches(folder / "dataset", acknowledged)
    looks = check_readers(logs, acknowledged)
    found = verify(LocalStorage(folder / "dataset"), deep=True)
    assert found.is_sound, found.damage[:5]
    counts = Counter(line["what"] for lines in logs.values() for line in lines)
    record("proof", f"concurrency: {WRITERS} writers, {READERS} readers, {seconds:.0f} s, {dict(counts)}")
    assert counts["unknown"] == 0
    # The test is worth something only if they were in each other's way.
    assert counts["locked"] > 0
    assert overlapping([*acknowledged.values()]) > 0
    assert looks > seconds
    # On a busy machine some are over before others have started.
    assert len({publish.writer for publish in acknowledged.values()}) > WRITERS / 2


def test_eight_writers_and_four_readers(tmp_path: Path, record_property: Record) -> None:
    """For seconds; for minutes in a soak."""
    run(tmp_path, EFFORT.race_seconds, record_property)
