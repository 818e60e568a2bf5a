"""What an ordinary sync must leave behind and say, in plain Python: tables are lists, rules are those of the platform.

table      rows that were appended, or the newest for each key; the rows of a replacement only if its stream is
           complete, else those of before, and what a numbered refresh had staged waits for the next sync
states     each one that came, in its order, as soon as all records before it are stored; never one that is not
           true: not for rows that were thrown away or have no place
end        0; config_error if records have no place; transient_error if a stream is not complete; system_error
           for half a line
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from integration_tests.everyday import Sync
from integration_tests.messages import Message, StreamName, name_of

Row = tuple[int, int, int]
"""id, at, n. Of rows with the same id the one with the greatest (at, n) is the newest."""


@dataclass
class Table:
    """One stream at the destination."""

    rows: list[Row] = field(default_factory=list)
    generation: int | None = None
    """That of the oldest rows, once there were any that readers could see."""
    was_shown: bool = False
    staged: list[Row] = field(default_factory=list)
    staged_generation: int | None = None
    """Generation of an interrupted refresh; None if there is none that can be gone on with."""


@dataclass(frozen=True)
class Ending:
    """What is expected of a sync."""

    failure: str | None
    states: list[tuple[int, int]]
    """Id and count of each state that goes out."""


class Lake:
    """Tables of all streams, and the syncs that change them."""

    def __init__(self) -> None:
        self.tables: dict[StreamName, Table] = {}

    def sync(self, run: Sync) -> Ending:
        """Do what a sync must do."""
        plans = {name_of(entry["stream"], "name"): entry for entry in run.catalog["streams"]}
        heard = _Heard(run, set(plans))
        complete, unstored = True, set(heard.strangers)
        for key, plan in plans.items():
            done, kept = self._stream(key, plan, heard, run)
            complete &= done
            if not kept:
                unstored.add(key)
        failure = None
        if run.torn:
            failure = "system_error"
        elif heard.strangers:
            failure = "config_error"
        elif not complete:
            failure = "transient_error"
        return Ending(failure, heard.released(unstored))

    def _stream(self, key: StreamName, plan: Message, heard: _Heard, run: Sync) -> tuple[bool, bool]:
        """Bring one stream up to date; tell whether it was complete, and whether its rows can be promised."""
        mode, generation = plan["destination_sync_mode"], plan.get("generation_id")
        dedup, overwrites = mode == "append_dedup", mode == "overwrite"
        numbered = bool(generation) and plan["minimum_generation_id"] == generation
        table = self.tables.get(key)
        replaces = overwrites or (numbered and table is not None and table.generation != generation)
        if table is None:
            table = self.tables[key] = Table()
        came = heard.rows[key]
        if not replaces:
            table.generation = table.generation if table.was_shown else generation
            table.was_shown = True
            minimum = generation if numbered else 0
            waiting = table.staged_generation
            if waiting is not None and waiting >= (minimum or 0):
                came = table.staged + came
            table.rows = _stored(table.rows, came, dedup=dedup)
            table.staged, table.staged_generation = [], None
        elif overwrites or table.staged_generation != generation:
            table.staged = _stored([], came, dedup=dedup)
            table.staged_generation = None if overwrites else generation
        else:
            table.staged = _stored(table.staged, came, dedup=dedup)
        done = heard.is_complete(key, overwrites=overwrites, replaces=replaces, run=run)
        if replaces and done:
            table.rows, table.generation, table.was_shown = table.staged, generation, True
            table.staged, table.staged_generation = [], None
        return done, done or not overwrites


class _Heard:
    """What the messages of a sync say, each at its place."""

    def __init__(self, run: Sync, known: set[StreamName]) -> None:
        self.rows: dict[StreamName, list[Row]] = {key: [] for key in known}
        self.strangers: set[StreamName] = set()
        self.status: dict[StreamName, str] = {}
        self.source_failed = False
        self._ends_with_state: dict[StreamName, bool] = dict.fromkeys(known, False)
        self._states: list[tuple[int, StreamName | None, set[StreamName], int]] = []
        self._counted: Counter[StreamName] = Counter()
        self._total: Counter[StreamName] = Counter()
        for message in run.messages:
            self._hear(message, known)

    def _hear(self, message: Message, known: set[StreamName]) -> None:
        if message["type"] == "RECORD":
            key, data = name_of(message["record"]), message["record"]["data"]
            self._total[key] += 1
            if key in known:
                self.rows[key].append((data["id"], data["at"], data["n"]))
                self._ends_with_state[key] = False
            else:
                self.strangers.add(key)
        elif message["type"] == "STATE":
            self._state(message["state"], known)
        elif message["type"] == "TRACE" and message["trace"]["type"] == "STREAM_STATUS":
            spoken = message["trace"]["stream_status"]
            self.status[name_of(spoken["stream_descriptor"], "name")] = spoken["status"]
        elif message["type"] == "TRACE":
            self.source_failed = True

    def _state(self, state: Message, known: set[StreamName]) -> None:
        kind = state.get("type", "LEGACY")
        scope = name_of(state["stream"]["stream_descriptor"], "name") if kind == "STREAM" else None
        speaks_for = {key for key, total in self._total.items() if total and scope in (None, key)}
        counts = {"STREAM": speaks_for, "GLOBAL": speaks_for, "LEGACY": set()}[kind]
        count = sum(self._total[key] - self._counted[key] for key in counts)
        self._counted.update({key: self._total[key] - self._counted[key] for key in counts})
        self._states.append((state["id"], scope, speaks_for, count))
        for key in known if scope is None else known & {scope}:
            self._ends_with_state[key] = True

    def released(self, unstored: set[StreamName]) -> list[tuple[int, int]]:
        """Return the states that go out, by id."""
        return [(number, count) for number, _, of, count in self._states if not of & unstored]

    def is_complete(self, key: StreamName, *, overwrites: bool, replaces: bool, run: Sync) -> bool:
        """Tell whether the source was done with a stream, as far as anybody can know."""
        if run.torn or self.status:
            done = self.status.get(key) == "COMPLETE"
        elif not replaces:
            return True
        elif not overwrites or self.source_failed or not (self._total or self._states):
            done = False
        else:
            by_rule = {"never": False, "with_state": self._ends_with_state[key], "always": True}
            done = by_rule[run.rule]
        return done and not (replaces and self.strangers)


def _stored(rows: list[Row], came: list[Row], *, dedup: bool) -> list[Row]:
    if not dedup:
        return rows + came
    newest: dict[int, Row] = {}
    for row in rows + came:
        if row[0] not in newest or row[1:] >= newest[row[0]][1:]:
            newest[row[0]] = row
    return list(newest.values())
