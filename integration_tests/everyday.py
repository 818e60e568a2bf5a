"""Ordinary syncs: what a source sends through an ordinary runner, now and then dying on the way.

A runner is who carries the messages of a source to a destination:

    platform    forwards records and states, numbers generations, asks for replacements by them, and says COMPLETE of
                every stream if the source succeeded
    by hand     the same platform towards a connector that was added by hand: it asks for an overwrite, says nothing of
                streams, and a newer one adds a state for streams without one if the source succeeded
    pipe        forwards everything, statuses of the source included, and counts no generations
    pyairbyte   forwards everything, numbers every sync 1, and says COMPLETE of every stream if the source succeeded
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from integration_tests.messages import Message, completed, record, state, status, stream

RUNNERS = ("platform", "by hand", "pipe", "pyairbyte")
STATES = ("none", "stream", "stream", "stream", "global", "legacy")
INTEGERS = {name: {"type": "integer"} for name in ("id", "at", "n")}
_SHORTEST = 6
"""Messages of a sync of which every beginning is tried."""
LOG: Message = {"type": "LOG", "log": {"level": "INFO", "message": "reading"}}
FAILED: Message = {
    "type": "TRACE",
    "trace": {"type": "ERROR", "emitted_at": 1.0, "error": {"message": "gone"}},
}


@dataclass(frozen=True)
class Sync:
    """One sync: what it is asked for, what reaches the destination, and how it is configured."""

    catalog: Message
    messages: list[Message]
    torn: bytes = b""
    """Part of a line, after which the source was no more."""
    rule: str = "with_state"
    at_once: bool = False
    """Whether each message is published as it comes, instead of all at the end."""
    name: str = ""
    """What it is called in a failing test."""


@dataclass
class Wish:
    """What the user wants of a stream, and which generation of it the platform is at."""

    name: str
    dedup: bool = False
    replaces: bool = False
    generation: int = 0
    failed: bool = False


@dataclass
class User:
    """Somebody with a connection, who changes it from time to time; `syncs` of one seed are always the same."""

    source: random.Random
    runner: str
    namespace: str | None
    wishes: list[Wish]
    number: int = 0
    """Records that the source ever sent: no two are alike, and each is newer than those before."""
    rule: str = "with_state"

    def sync(self, *, may_die: bool = True) -> Sync:
        """Choose what is wanted, read the source, and have its messages carried over."""
        source = self.source
        for wish in self.wishes:
            self._choose(wish)
        catalog = self._catalog()
        read, statuses = self._read()
        dies = may_die and source.random() < 0.45
        if dies:
            read = read[: source.randrange(len(read) + 1)]
            read += [FAILED] * (source.random() < 0.3)
        carried = self._carried(catalog, read, statuses=statuses, dies=dies)
        torn = b""
        if dies and self.runner == "pipe" and source.random() < 0.15:
            torn = b'{"type": "RECORD", "record": {"stream": "users", "da'
        for wish in self.wishes:
            wish.failed = dies
        at_once = source.random() < 0.2
        return Sync(catalog, carried, torn, self.rule, at_once, f"{self.runner}, dies: {dies}")

    def _choose(self, wish: Wish) -> None:
        source = self.source
        retries = wish.failed and source.random() < 0.7
        if not retries:
            if source.random() < 0.4:
                wish.dedup = source.random() < 0.5
                wish.replaces = source.random() < 0.5
            wish.generation += wish.replaces or source.random() < 0.1

    def _catalog(self) -> Message:
        streams = []
        for wish in self.wishes:
            numbers: dict[str, int | None] = {}
            mode = "append_dedup" if wish.dedup else "append"
            if self.runner != "platform" and wish.replaces:
                mode = "overwrite"
            if self.runner in ("platform", "by hand"):
                minimum = wish.generation if wish.replaces else 0
                numbers = {"generation_id": wish.generation, "minimum_generation_id": minimum, "sync_id": 7}
            elif self.runner == "pyairbyte":
                numbers = {"generation_id": 1, "minimum_generation_id": 1, "sync_id": 1}
            of = {**stream(wish.name, self.namespace, **INTEGERS), "supported_sync_modes": ["full_refresh"]}
            entry = {"stream": of, "sync_mode": "full_refresh" if wish.replaces else "incremental"}
            keys = {"primary_key": [["id"]], "cursor_field": ["at"]} if wish.dedup else {}
            streams.append({**entry, "destination_sync_mode": mode, **numbers, **keys})
        return {"streams": streams}

    def _read(self) -> tuple[list[Message], bool]:
        """Return everything that the source would send, and whether it speaks of its streams."""
        source = self.source
        kind, statuses, every = source.choice(STATES), source.random() < 0.5, source.choice((1, 2, 3, 100))
        namespace = self.namespace
        if source.random() < 0.08:  # somebody has changed a namespace, on one side
            namespace = None if namespace else "other"
        parts = [self._stream(wish.name, namespace, kind, every, statuses=statuses) for wish in self.wishes]
        if source.random() < 0.06:
            parts.append(self._stream("unselected", namespace, kind, every, statuses=False))
        if source.random() < 0.5:
            read = [message for part in parts for message in part]
        else:
            read = []
            while parts := [part for part in parts if part]:
                read.append(source.choice(parts).pop(0))
        if kind in ("global", "legacy"):
            read.append(self._state(kind))
        for _ in range(source.randrange(2)):
            read.insert(source.randrange(len(read) + 1), LOG)
        return read, statuses

    def _stream(
        self, name: str, namespace: str | None, kind: str, every: int, *, statuses: bool
    ) -> list[Message]:
        source, sent = self.source, []
        rows = source.choice((0, 0, 1, 2, 3, 5))
        for number in range(rows):
            self.number += 1
            row = {"id": source.randrange(6), "at": source.randrange(4), "n": self.number}
            sent.append(record(name, row, namespace, emitted_at=self.number))
            if number % every == every - 1 and number < rows - 1 and kind != "none":
                sent.append(self._state(kind, name, namespace))
        if kind == "stream":
            sent.append(self._state(kind, name, namespace))
        if statuses:
            sent = [status(name, "STARTED", namespace), *sent, status(name, "COMPLETE", namespace)]
        return sent

    def _state(self, kind: str, name: str = "", namespace: str | None = None) -> Message:
        if kind == "stream":
            return state(name, {"n": self.number}, namespace)
        if kind == "legacy":
            return {"type": "STATE", "state": {"data": {"n": self.number}}}
        return {"type": "STATE", "state": {"type": "GLOBAL", "global": {"stream_states": []}}}

    def _carried(self, catalog: Message, read: list[Message], *, statuses: bool, dies: bool) -> list[Message]:
        source = self.source
        if self.runner in ("platform", "by hand"):
            read = [message for message in read if message["type"] in ("RECORD", "STATE")]
        elif self.runner == "pipe" and statuses and dies and source.random() < 0.5:
            read = [*read, *(status(wish.name, "INCOMPLETE", self.namespace) for wish in self.wishes)]
        if dies:
            return read
        if self.runner in ("platform", "pyairbyte"):
            return [*read, *completed(catalog)]
        if self.runner == "by hand" and source.random() < 0.5:
            return [*read, *self._missing_states(read)]
        return read

    def _missing_states(self, read: list[Message]) -> list[Message]:
        states = [message["state"] for message in read if message["type"] == "STATE"]
        if any(each.get("type") != "STREAM" for each in states):
            return []
        seen = {each["stream"]["stream_descriptor"]["name"] for each in states}
        silent = [wish.name for wish in self.wishes if wish.replaces and wish.name not in seen]
        return [state(name, {}, self.namespace) for name in silent]


def _user(seed: int) -> User:
    source = random.Random(seed)
    names = source.sample(["users", "orders", "a/b"], source.choice((1, 1, 2)))
    return User(
        source,
        source.choice(RUNNERS),
        source.choice((None, None, "", "public")),
        [Wish(name, source.random() < 0.4, source.random() < 0.6) for name in names],
        rule=source.choice(("with_state", "with_state", "with_state", "never", "always")),
    )


def syncs(seed: int) -> list[Sync]:
    """Return a short history of one connection, or of one that another one has taken over."""
    user, found = _user(seed), []
    for _ in range(user.source.choice((2, 3, 4))):
        if user.source.random() < 0.1:
            user.runner = user.source.choice(RUNNERS)
        found.append(user.sync())
    return found


def from_platform(seed: int) -> list[Sync]:
    """Return a short history of a connection of a platform."""
    user = _user(seed)
    user.runner = "platform"
    return [user.sync() for _ in range(3)]


def deaths(seed: int) -> Iterator[list[Sync]]:
    """Yield, for each message of a sync, a history in which the source dies behind it and is then read once more."""
    user = _user(seed)
    user.runner = RUNNERS[seed % len(RUNNERS)]
    before, whole = user.sync(may_die=False), user.sync(may_die=False)
    while len(whole.messages) < _SHORTEST:
        whole = user.sync(may_die=False)
    last = len(whole.messages)
    while last and whole.messages[last - 1]["type"] == "TRACE":
        last -= 1  # what a runner says of a source that has succeeded
    for cut in range(last):
        failed = [FAILED] * (user.runner in ("pipe", "pyairbyte") and user.source.random() < 0.3)
        messages = [*whole.messages[:cut], *failed]
        yield [before, replace(whole, messages=messages, name=f"{whole.name}, after {cut}"), whole]
