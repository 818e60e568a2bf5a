"""Lists of steps for a dataset, taken by the two libraries in turn, and what must come of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from integration_tests.interop.datasets.kinds import NONE, Kind, Random, Sample
from integration_tests.interop.datasets.model import Model
from integration_tests.interop.datasets.perform import Json, pack

LIBRARIES = ("deeplake", "lakebed")


@dataclass
class Stretch:
    """What one library does in one go."""

    library: str
    steps: list[Json] = field(default_factory=list)


class Program:
    """Writes steps down, and does them to the model at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stretches: list[Stretch] = []
        self.model = Model()
        self.kinds: dict[str, Kind] = {}
        self.renamed: set[str] = set()
        self._block: list[Json] | None = None

    def __repr__(self) -> str:
        return self.name

    @property
    def library(self) -> str:
        """Who takes the steps now."""
        return self.stretches[-1].library

    @property
    def lossy(self) -> frozenset[str]:
        """Kinds of which pixels change a little."""
        return frozenset(kind.name for kind in self.kinds.values() if kind.lossy)

    def turn(self, library: str) -> None:
        """Hand the dataset over; whoever opens it is on branch main."""
        self.stretches.append(Stretch(library))
        self.model.branch = "main"

    def _do(self, op: str, **given: Any) -> None:
        step = {"op": op, **given}
        (self.stretches[-1].steps if self._block is None else self._block).append(step)

    def together(self, steps: Callable[[], None]) -> None:
        """Take the steps that the function takes inside one `with` block."""
        block: list[Json] = []
        self._block = block
        steps()
        self._block = None
        self._do("together", steps=block)

    def create(self, t: str, kind: Kind) -> None:
        """Make a tensor."""
        self.kinds[t] = kind
        self._do("create", t=t, options=kind.options)
        self.model.create(t, kind.name, kind.info)

    def extend(self, t: str, samples: list[Sample]) -> None:
        """Add samples at the end, or one."""
        if len(samples) == 1:
            self._do("append", t=t, value=samples[0].given)
        else:
            self._do("extend", t=t, values=[sample.given for sample in samples])
        self.model.extend(t, [sample.expected for sample in samples])

    def stack(self, t: str, values: Any) -> None:
        """Add the samples of an array."""
        self._do("stack", t=t, value=pack(values))
        self.model.extend(t, list(values))

    def rows(self, rows: dict[str, list[Sample]]) -> None:
        """Add rows of several tensors."""
        for t, samples in rows.items():
            self.model.extend(t, [sample.expected for sample in samples])
        if {len(samples) for samples in rows.values()} == {1}:
            self._do("row", row={t: samples[0].given for t, samples in rows.items()})
        else:
            self._do("rows", rows={t: [sample.given for sample in samples] for t, samples in rows.items()})

    def update(self, t: str, at: int, sample: Sample) -> None:
        """Replace a sample, or put one beyond the end."""
        self._do("update", t=t, at=at, value=sample.given)
        self.model.update(t, at, sample.expected)

    def update_many(self, t: str, start: int, samples: list[Sample]) -> None:
        """Replace neighbours."""
        self._do("update_many", t=t, start=start, values=[sample.given for sample in samples])
        for number, sample in enumerate(samples):
            self.model.update(t, start + number, sample.expected)

    def item(self, t: str, at: int, item: int, sample: Sample) -> None:
        """Replace an item of a sequence."""
        self._do("item", t=t, at=at, item=item, value=sample.given)
        self.model.item(t, at, item, sample.expected)

    def part(self, t: str, at: int, box: list[list[int]], value: Any) -> None:
        """Assign a part of a sample."""
        self._do("part", t=t, at=at, box=box, value=pack(value))
        self.model.part(t, at, box, value)

    def add(self, t: str, value: int) -> None:
        """Add a number to everything."""
        self._do("add", t=t, value=value)
        self.model.add(t, value)

    def poppable(self, t: str, at: list[int]) -> bool:
        """Whether the rows can be removed.

        3.9.52 does not remove a sequence without items, and counts below 0 when most have none.
        """
        rows = self.model.tensor(t).rows
        if self.library == "lakebed" or not self.kinds[t].sequence:
            return True
        return all(rows[index] for index in at) and sum(len(row or ()) for row in rows) >= len(rows)

    def pop(self, t: str, at: list[int]) -> None:
        """Remove samples."""
        self._do("pop", t=t, at=at[0] if len(at) == 1 else at)
        self.model.pop(t, at)

    def pop_row(self, at: int) -> None:
        """Remove a row of all tensors."""
        self._do("pop_row", at=at)
        for t in self.model.head.tensors:
            self.model.pop(t, [at])

    def clear(self, t: str) -> None:
        """Remove all samples."""
        self._do("clear", t=t)
        self.model.clear(t)

    def tensor_info(self, t: str, key: str, value: Json) -> None:
        """Write into the info of a tensor."""
        self._do("tensor_info", t=t, key=key, value=value)
        self.model.note(t, key, value)

    def info(self, key: str, value: Json) -> None:
        """Write into the info of the dataset."""
        self._do("info", key=key, value=value)
        self.model.head.info[key] = value

    def group(self, name: str) -> None:
        """Make a group."""
        self._do("group", name=name)
        self.model.head.groups.add(name)

    def rename(self, t: str, name: str) -> None:
        """Give a tensor another name."""
        self._do("rename", t=t, name=name)
        self.model.rename(t, name)
        self.kinds[name] = self.kinds[t]
        self.renamed.add(name)

    def delete(self, t: str) -> None:
        """Remove a tensor."""
        self._do("delete", t=t)
        self.model.delete(t)

    def commit(self, label: str) -> None:
        """Seal the version."""
        self._do("commit", label=label)
        self.model.commit(label)

    def checkout(self, branch: str, *, create: bool = False) -> None:
        """Go to a branch."""
        self._do("checkout", branch=branch, create=create)
        self.model.checkout(branch, create)

    def reopen(self) -> None:
        """Open the dataset anew; it is on branch main then."""
        self._do("reopen")
        self.model.branch = "main"


def samples(kind: Kind, random: Random, count: int, *, nones: float = 0.1) -> list[Sample]:
    """Samples of a kind, some of them None."""
    made = [kind.make(random) for _ in range(count)]
    return [NONE if kind.nones and random.random() < nones else sample for sample in made]


def box(shape: tuple[int, ...], random: Random) -> list[list[int]]:
    """A part of a sample: ranges of its first axes."""
    ranges = []
    for size in shape[: int(random.integers(1, len(shape) + 1))]:
        start = int(random.integers(0, size))
        ranges.append([start, int(random.integers(start + 1, size + 1))])
    return ranges


FRAGILE = (
    *("tiled", "tag", "polygon", "json s-lz4", "list s-lz4", "text s-lz4"),
    *("class_label", "segment_mask png", "binary_mask png", "c-lz4"),
)


def fragile(program: Program, kind: Kind) -> bool:
    """Whether 3.9.52 would damage the tensor by an update or a pop.

    Tiles: FORMAT 15.6. The others: when it merges small chunks afterwards, it writes their samples wrong.
    """
    return program.library == "deeplake" and any(name in kind.name for name in FRAGILE)


class Wanderer:
    """Adds random steps to a program."""

    def __init__(self, program: Program, kinds: list[Kind], random: Random) -> None:
        self.program = program
        self.kinds = kinds
        self.random = random
        self._number = 0
        self._inside = False
        self._choices: list[tuple[int, Callable[[], None]]] = [
            (10, self._extend),
            (8, self._rows),
            (8, self._update),
            (5, self._update_many),
            (6, self._part),
            (5, self._pop),
            (2, self._pop_row),
            (1, self._clear),
            (1, self._add),
            (2, self._info),
            (2, self._create),
            (1, self._rename),
            (1, self._delete),
            (4, self._commit),
            (3, self._branch),
            (2, self._reopen),
            (3, self._together),
        ]
        weights = np.array([weight for weight, _ in self._choices], float)
        self._weights = weights / weights.sum()

    def stretch(self, library: str, steps: int) -> None:
        """Let a library take some steps."""
        self.program.turn(library)
        while len(self.program.model.head.tensors) < 2:
            self._create()
        for _ in range(steps):
            self._choices[int(self.random.choice(len(self._choices), p=self._weights))][1]()

    def _new_name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def _pick(self, fits: Callable[[str, Kind], bool] = lambda t, kind: True) -> str | None:
        names = [t for t in self.program.model.head.tensors if fits(t, self.program.kinds[t])]
        return names[int(self.random.integers(0, len(names)))] if names else None

    def _rows_of(self, t: str) -> list[Any]:
        return self.program.model.tensor(t).rows

    def _create(self) -> None:
        prefix = ["x", "group/x", "group/deep/x", "ü x"][int(self.random.choice(4, p=[0.7, 0.1, 0.1, 0.1]))]
        kind = self.kinds[int(self.random.integers(0, len(self.kinds)))]
        name = self._new_name(prefix)
        self.program.create(name, kind)
        if self.random.random() < 0.8:
            self.program.extend(name, samples(kind, self.random, int(self.random.integers(1, 7))))

    def _extend(self) -> None:
        t = self._pick()
        if t is not None:
            kind = self.program.kinds[t]
            self.program.extend(t, samples(kind, self.random, int(self.random.choice([1, 1, 2, 5, 12]))))

    def _rows(self) -> None:
        t = self._pick()
        if t is not None:
            length = len(self._rows_of(t))
            names = [name for name in self.program.model.head.tensors if len(self._rows_of(name)) == length]
            count = int(self.random.choice([1, 1, 3]))
            self.program.rows({name: samples(self.program.kinds[name], self.random, count) for name in names})

    def _update(self) -> None:
        t = self._pick(
            lambda t, kind: kind.updates and bool(self._rows_of(t)) and not fragile(self.program, kind)
        )
        if t is None:
            return
        kind = self.program.kinds[t]
        rows = self._rows_of(t)
        if kind.sequence:
            full = [at for at, row in enumerate(rows) if row]
            if full:
                at = full[int(self.random.integers(0, len(full)))]
                made = next(made for made in iter(lambda: kind.make(self.random), None) if made.expected)
                one = Sample(made.given["items"][0], made.expected[0])
                self.program.item(t, at, int(self.random.integers(0, len(rows[at]))), one)
            return
        beyond = 2 if kind.nones and self.random.random() < 0.15 else 0
        at = (
            int(self.random.integers(0, len(rows)))
            if not beyond
            else len(rows) + int(self.random.integers(0, 3))
        )
        self.program.update(t, at, samples(kind, self.random, 1)[0])

    def _update_many(self) -> None:
        t = self._pick(
            lambda t, kind: (
                kind.updates
                and not kind.sequence
                and len(self._rows_of(t)) > 1
                and not fragile(self.program, kind)
            )
        )
        if t is not None:
            rows = self._rows_of(t)
            start = int(self.random.integers(0, len(rows) - 1))
            count = int(self.random.integers(2, len(rows) - start + 1))
            self.program.update_many(t, start, samples(self.program.kinds[t], self.random, count))

    def _part(self) -> None:
        def fits(t: str, kind: Kind) -> bool:
            return (
                kind.parts
                and not kind.sequence
                and not fragile(self.program, kind)
                and bool(self._partial(t))
            )

        t = self._pick(fits)
        if t is not None:
            places = self._partial(t)
            at = places[int(self.random.integers(0, len(places)))]
            row = self._rows_of(t)[at]
            ranges = box(row.shape, self.random)
            target = row[tuple(slice(*pair) for pair in ranges)]
            value = self.random.integers(0, 2, target.shape).astype(row.dtype)
            self.program.part(t, at, ranges, value)

    def _partial(self, t: str) -> list[int]:
        rows = self._rows_of(t)
        return [at for at, row in enumerate(rows) if isinstance(row, np.ndarray) and row.ndim and row.size]

    def _pop(self) -> None:
        t = self._pick(lambda t, kind: bool(self._rows_of(t)) and not fragile(self.program, kind))
        if t is not None:
            length = len(self._rows_of(t))
            count = min(length, int(self.random.choice([1, 1, 1, 3])))
            places = [int(at) for at in self.random.permutation(length)[:count]]
            if self.program.poppable(t, places):
                self.program.pop(t, places)

    def _pop_row(self) -> None:
        lengths = {len(tensor.rows) for tensor in self.program.model.head.tensors.values()}
        steady = not any(
            fragile(self.program, self.program.kinds[t]) for t in self.program.model.head.tensors
        )
        if len(lengths) == 1 and lengths != {0} and steady:
            at = int(self.random.integers(0, lengths.pop()))
            if all(self.program.poppable(t, [at]) for t in self.program.model.head.tensors):
                self.program.pop_row(at)

    def _clear(self) -> None:
        # 3.9.52 cannot clear a tensor that was renamed.
        t = self._pick(lambda t, kind: kind.clears and t not in self.program.renamed)
        if t is not None:
            self.program.clear(t)

    def _add(self) -> None:
        def fits(t: str, kind: Kind) -> bool:
            rows = self._rows_of(t)
            plain = kind.name.startswith("generic") and "fixed" in kind.name and "bool" not in kind.name
            return plain and bool(rows) and all(row is not None for row in rows)

        t = self._pick(fits)
        if t is not None:
            self.program.add(t, 1)

    def _info(self) -> None:
        value = {"n": int(self.random.integers(0, 9)), "list": [1.5, None, "é"]}
        t = self._pick()
        if t is not None and self.random.random() < 0.5:
            self.program.tensor_info(t, self._new_name("key"), value)
        else:
            self.program.info(self._new_name("key"), value)

    def _rename(self) -> None:
        t = self._pick()
        if t is not None:
            self.program.rename(t, self._new_name(t.rsplit("x", 1)[0] + "x"))

    def _delete(self) -> None:
        t = self._pick()
        if t is not None and len(self.program.model.head.tensors) > 2:
            self.program.delete(t)

    def _commit(self) -> None:
        if not self._inside:
            self.program.commit(self._new_name("commit "))

    def _branch(self) -> None:
        if self._inside:
            return
        others = sorted(set(self.program.model.branches) - {self.program.model.branch})
        if others and self.random.random() < 0.6:
            self.program.checkout(others[int(self.random.integers(0, len(others)))])
        elif len(others) < 3:
            self.program.checkout(self._new_name("branch"), create=True)

    def _reopen(self) -> None:
        if not self._inside:
            self.program.reopen()

    def _together(self) -> None:
        if self._inside:
            return
        self._inside = True
        choices = [self._extend, self._update, self._part, self._pop, self._rows]
        order = [choices[int(n)] for n in self.random.integers(0, len(choices), 4)]

        def steps() -> None:
            for step in order:
                step()

        self.program.together(steps)
        self._inside = False


def random_program(seed: int, kinds: list[Kind], first: str) -> Program:
    """A dataset that both libraries write in turn."""
    random = np.random.default_rng(seed)
    program = Program(f"seed {seed}, {first} first")
    wanderer = Wanderer(program, kinds, random)
    second = LIBRARIES[1 - LIBRARIES.index(first)]
    wanderer.stretch(first, int(random.integers(4, 16)))
    wanderer.stretch(second, int(random.integers(2, 8)))
    return program


def covering_programs(kinds: list[Kind], first: str, size: int = 12) -> Iterator[Program]:
    """Datasets that hold every kind; each library writes, updates, pops and commits in turn, `first` begins."""
    random = np.random.default_rng(0)
    other = LIBRARIES[1 - LIBRARIES.index(first)]
    for start in range(0, len(kinds), size):
        program = Program(f"kinds {start} to {start + size}, {first} first")
        program.turn(first)
        for column, kind in enumerate(kinds[start : start + size]):
            program.create(f"t{start + column}", kind)
        for turn, library in enumerate((first, other, first)):
            if turn:
                program.turn(library)
            for t in program.model.head.tensors:
                _exercise(program, t, random)
            program.commit(f"commit {turn}")
            for t in program.model.head.tensors:
                program.extend(t, [program.kinds[t].make(random)])
        yield program


def _exercise(program: Program, t: str, random: Random) -> None:
    """Append, extend, update, assign a part of and pop samples."""
    kind = program.kinds[t]
    program.extend(t, samples(kind, random, 5, nones=0.2))
    program.extend(t, [kind.make(random)])
    last = len(program.model.tensor(t).rows) - 1
    if not kind.sequence and kind.updates and not fragile(program, kind):
        program.update(t, last - 1, kind.make(random))
        row = program.model.tensor(t).rows[last]
        if kind.parts and isinstance(row, np.ndarray) and row.ndim and row.size:
            ranges = box(row.shape, random)
            target = row[tuple(slice(*pair) for pair in ranges)]
            program.part(t, last, ranges, np.zeros(target.shape, row.dtype))
    if not fragile(program, kind) and program.poppable(t, [last - 2]):
        program.pop(t, [last - 2])
