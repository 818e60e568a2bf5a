"""The versions that left the tree lately, and when, so that a collector keeps them long enough. Pure.

The version tree carries, among what lakebed adds, ``"retired": {"ids": [[first 12 digits, POSIX seconds], ...],
"since": s, "left": n, "sweep": s}``. Unlisted versions left at ``since`` or before; ``left`` counts the versions that
left since the last full sweep, and ``sweep`` is the latest time of the next one. 3.9.52 drops this record; then the
times of files decide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakebed import config
from lakebed.documents.commits import Commits
from lakebed.documents.version_tree import VersionTree

YOUNG_SECONDS = 2.0
"""Longest time in seconds between reading the tree and a version's metadata, by readers without a lease."""

MOST = 256
"""Maximum number of versions in the list."""

# Seconds between full sweeps, which find garbage of crashed writers that no list names.
_SWEEP_EVERY = 86_400.0
DIGITS = 12
"""Number of digits of an id that identify a version in the list."""


@dataclass(frozen=True, slots=True)
class Tombstones:
    """The tree's record of versions that left it.

    Parameters
    ----------
    times
        Time at which each version left the tree, in POSIX seconds, by the first digits of its id, oldest first.
    since
        Time by which all unlisted versions had left; None if unknown.
    left
        Number of versions that left since the last full sweep.
    sweep
        Time at which the next full sweep is due.
    """

    times: Mapping[str, float] = field(default_factory=dict)
    since: float | None = None
    left: int = 0
    sweep: float = 0.0

    @classmethod
    def of(cls, tree: VersionTree) -> Tombstones:
        """Read the record from a tree; unexpected content counts as missing."""
        doc = tree.own("retired")
        if not isinstance(doc, dict) or not _are_numbers(doc.get(k) for k in ("since", "left", "sweep")):
            return cls()
        ids = doc.get("ids")
        pairs = [e for e in ids if isinstance(e, list) and len(e) == 2] if isinstance(ids, list) else []
        times = {
            id_: float(time) for id_, time in pairs if isinstance(id_, str) and isinstance(time, int | float)
        }
        return cls(times, float(doc["since"]), int(doc["left"]), float(doc["sweep"]))

    def into(self, tree: VersionTree) -> VersionTree:
        """Return the tree with this record."""
        doc = {
            "ids": [[id_, round(time, 3)] for id_, time in self.times.items()],
            "since": round(self.since or 0.0, 3),
            "left": self.left,
            "sweep": round(self.sweep),
        }
        return tree.with_own("retired", doc)

    def left_at(self, version: str) -> float | None:
        """Return the latest time at which a version that is not in the tree left it; None if unknown."""
        return self.times.get(version[:DIGITS], self.since)

    def lists(self, version: str) -> bool:
        """Return whether a version is listed, and so is known to have left."""
        return version[:DIGITS] in self.times

    def rank(self, version: str) -> int | None:
        """Return the number of versions that left after a listed version; None if the version is not listed."""
        if version[:DIGITS] not in self.times:
            return None
        return len(self.times) - 1 - list(self.times).index(version[:DIGITS])


def _are_numbers(values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _gone(before: VersionTree, after: VersionTree) -> Collection[str]:
    """Return the versions that are only in the first tree; fast if only heads were swapped."""
    if len(after.commits) < len(before.commits) or before.branches.keys() - after.branches.keys():
        return sorted(before.commits.keys() - after.commits.keys())
    heads = [id_ for name, id_ in before.branches.items() if after.branches[name] != id_]
    at_hand = Commits.of(after.commits).hot  # includes a head that was committed just now
    return [id_ for id_ in heads if id_ not in at_hand]


def with_tombstones(before: VersionTree, after: VersionTree, now: float) -> VersionTree:
    """Return a new tree with a record of the versions that left the previous tree, at POSIX time ``now``."""
    gone = _gone(before, after)
    known = Tombstones.of(after)
    if not gone and known.since is not None:
        return after
    times = {**known.times, **dict.fromkeys((id_[:DIGITS] for id_ in gone), now)}
    surplus = len(times) - MOST
    since = now if known.since is None else known.since
    for id_ in list(times)[: max(0, surplus)]:
        since = max(since, times.pop(id_))
    # If the last tree has no tombstones, 3.9.52 or an earlier release wrote it, and the garbage of that writer is
    # unknown.
    sweep = known.sweep if known.since is not None else now + _SWEEP_EVERY
    # A whole branch or history was removed: only a full sweep finds the chunks that no other version had.
    if len(gone) > 1:
        sweep = min(sweep, now + config.GRACE_SECONDS)
    return Tombstones(times, since, known.left + len(gone), sweep).into(after)


def without_tombstones(tree: VersionTree, versions: Collection[str], *, swept: float | None) -> VersionTree:
    """Drop removed versions from the list; ``swept`` is the time of a full sweep, if one was done."""
    known = Tombstones.of(tree)
    if known.since is None or not (versions or swept):
        return tree
    short = {id_[:DIGITS] for id_ in versions}
    times = {id_: time for id_, time in known.times.items() if id_ not in short}
    left = 0 if swept else max(0, known.left - len(short))
    sweep = swept + _SWEEP_EVERY if swept else known.sweep
    return Tombstones(times, known.since, left, sweep).into(tree)


def with_sweep_by(tree: VersionTree, due: float) -> VersionTree:
    """Return the tree with the next full sweep at ``due`` or before, as after the crash of a writer."""
    known = Tombstones.of(tree)
    if known.since is None or known.sweep <= due:
        return tree
    return replace(known, sweep=due).into(tree)
