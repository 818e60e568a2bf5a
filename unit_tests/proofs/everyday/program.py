"""One ordinary program by seed: rows go in, are changed, published, committed, reopened, and read in every way.

A program draws each step from its seed and from what the model holds, does it to the dataset and to the model, and
looks. Both libraries can run it: what only this one has is left out for Deep Lake 3.9.52, without another draw.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from unit_tests.proofs.everyday import doors
from unit_tests.proofs.everyday.kinds import Kind, kind_of, sample, shapes
from unit_tests.proofs.everyday.looking import look
from unit_tests.proofs.everyday.model import Column, State


@dataclass(frozen=True)
class Size:
    """How much a program handles."""

    counts: tuple[int, ...]
    elements: int
    """Numbers in one sample at most, for samples of one axis."""
    letters: int
    budget: int = 400_000
    """Bytes that one step adds at most."""
    steps: int = 9


SMALL = Size((0, 1, 2, 3, 5, 8, 13, 20, 40), 80, 20, steps=7)
MEDIUM = Size((1, 7, 40, 150, 300, 1_100, 2_600), 3_000, 300, 3_000_000, 6)
LARGE = Size((1, 3, 300, 1_500, 6_000), 1_500_000, 20_000, 40_000_000, 4)


class Failure(AssertionError):
    """A step failed, or a look at the dataset showed something else; names both."""

    def __init__(self, program: Program, step: str, error: BaseException) -> None:
        self.step = step
        self.error = error
        self.program = program
        family = program.family
        self.signature = f"{step} | {family} | {type(error).__name__}: {str(error)[:200]}"
        steps = "\n    ".join(program.log)
        super().__init__(f"seed {program.seed}: {type(error).__name__}: {error}\n    {steps}\n  in: {step}")


class Program:
    """The program of one seed.

    Parameters
    ----------
    library
        The module: `lakebed`, or Deep Lake 3.9.52.
    place
        Address of the dataset, where none is yet.
    ways
        In how many ways each tensor is read at the end; None takes all.
    """

    def __init__(
        self, library: Any, place: str, seed: int, size: Size = SMALL, ways: int | None = None
    ) -> None:
        self.library, self.place, self.seed, self.size, self.ways = library, place, seed, size, ways
        self.ours = library.__name__ == "lakebed"
        self.random = np.random.default_rng(seed)
        self.eyes = np.random.default_rng((seed, 1))
        self.lines: dict[str, State] = {"main": State()}
        self.branch = "main"
        self.commits: dict[str, State] = {}
        self.log: list[str] = []
        self.family = ""
        self.dataset: Any = None

    @property
    def state(self) -> State:
        """What the branch must hold."""
        return self.lines[self.branch]

    def run(self) -> None:
        """Run it to the end.

        Raises
        ------
        Failure
            If a step fails or anything reads back as something else.
        """
        self._do("open", self._open)
        for _ in range(int(self.random.integers(1, 4))):
            self._do("create", self._create)
        names = list(STEPS)
        weights = np.array([STEPS[name] for name in names], float)
        for _ in range(int(self.random.integers(3, self.size.steps + 1))):
            name = str(self.random.choice(names, p=weights / weights.sum()))
            self._do(name, getattr(self, f"_{name}"))
            if self.random.random() < 0.25:
                self._look(2)
        self._finish()

    # -- the frame ---------------------------------------------------------------------------------------------

    def _do(self, step: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Failure:
            raise
        except Exception as error:
            raise Failure(self, step, error) from error

    def _note(self, text: str, *names: str) -> None:
        """Write down what is about to be done."""
        self.log.append(text)
        self.family = ", ".join(sorted({self.state.columns[name].kind.family for name in names}))

    def _look(self, count: int | None, dataset: Any = None, state: State | None = None) -> None:
        found = self.dataset if dataset is None else dataset
        state = self.state if state is None else state
        for name, way, see in look(found, state, self.eyes, ours=self.ours, count=count):
            self.family = state.columns[name].kind.family
            self._do(f"look {way}", see)

    def _open(self) -> None:
        self.dataset = self.library.empty(self.place, **({} if self.ours else {"verbose": False}))

    def _load(self, address: str, *, read_only: bool = False) -> Any:
        return self.library.load(address, read_only=read_only, **({} if self.ours else {"verbose": False}))

    def _finish(self) -> None:
        """Publish, and read all with new eyes: this object, a reader, each branch, each commit."""
        self._look(self.ways)
        self._do("flush", self.dataset.flush)
        self._look(2)
        self.dataset = None
        for branch, state in self.lines.items():
            self._do("open a branch", lambda at=f"{self.place}@{branch}": self._reader(at))  # type: ignore[misc]
            self._look(self.ways if branch == self.branch else 2, self._seen, state)
        for commit, state in self.commits.items():
            self._do("open a commit", lambda at=f"{self.place}@{commit}": self._reader(at))  # type: ignore[misc]
            self._look(1, self._seen, state)

    def _reader(self, address: str) -> None:
        self._seen = self._load(address, read_only=True)

    # -- what steps are made of --------------------------------------------------------------------------------

    def _draw(self, *items: Any) -> Any:
        return items[int(self.random.integers(0, len(items)))]

    def _any_tensor(self, fits: Callable[[Column], object] = lambda _: True) -> str | None:
        names = [name for name, column in self.state.columns.items() if fits(column)]
        return self._draw(*names) if names else None

    def _values(self, kind: Kind, count: int, *, nones: bool = True) -> list[Any]:
        """Rows of a kind, some of them None."""
        share = float(self.random.choice([0, 0, 0, 0.1, 0.6])) if nones else 0.0
        longest = self.size.letters if self.random.random() < 0.9 else 30 * self.size.letters
        if not kind.is_sequence:
            return self._items(kind, count, share, longest)
        lengths = self.random.integers(0, 5, count).tolist()
        items = iter(self._items(kind, sum(lengths), share / 4, longest))
        rows: list[Any] = [[next(items) for _ in range(length)] for length in lengths]
        return [None if self.random.random() < share else row for row in rows]

    def _items(self, kind: Kind, count: int, share: float, longest: int) -> list[Any]:
        room = min(self.size.elements, max(1, self.size.budget // max(count, 1) // 8))
        free = sum(axis is None for axis in kind.axes)
        fixed = int(np.prod([axis for axis in kind.axes if axis is not None], dtype=int))
        largest = max(1, int((room / fixed) ** (1 / free))) if free else 1
        longest = max(1, min(longest, self.size.budget // max(count, 1)))
        found = [
            sample(kind, self.random, shape, longest) for shape in shapes(kind, self.random, count, largest)
        ]
        return [None if share and self.random.random() < share else value for value in found]

    def _count(self, kinds: list[Kind]) -> int:
        """How many rows: fewer where each takes long."""
        count = int(self._draw(*self.size.counts))
        slow = any(
            kind.smooth or kind.is_sequence or kind.form in ("json", "polygon", "list") for kind in kinds
        )
        return min(count, 60) if slow else count

    def _block(self) -> Any:
        """Now and then a `with` block."""
        return self.dataset if self.random.random() < 0.3 else nullcontext()

    def _parts(self, values: list[Any]) -> list[list[Any]]:
        """Rows in one go, or in a few."""
        if len(values) < 2 or self.random.random() < 0.6:
            return [values]
        cuts = sorted(self.random.integers(0, len(values) + 1, 2).tolist())
        return [values[: cuts[0]], values[cuts[0] : cuts[1]], values[cuts[1] :]]

    # -- rows go in --------------------------------------------------------------------------------------------

    def _create(self) -> None:
        kind = kind_of(self.random)
        number = len(self.log)
        name = self._draw(f"x{number}", f"group/x{number}")
        self.log.append(f"create {name}: {kind}")
        self.family = kind.family
        self.dataset.create_tensor(name, **kind.options)
        self.state.columns[name] = Column(kind)

    def _append_one_by_one(self) -> None:
        """`for ...: ds.x.append(...)`."""
        name = self._any_tensor()
        if name is None:
            return
        column = self.state.columns[name]
        values = self._values(column.kind, min(self._count([column.kind]), 400))
        style = str(self.random.choice(doors.SPELLINGS))
        self._note(f"append {len(values)} to {name} one by one, as {style}", name)
        with self._block():
            for given, value in zip(doors.respelled(column.kind, values, style), values, strict=True):
                self.dataset[name].append(given)
                column.extend([value])

    def _extend(self) -> None:
        """`ds.x.extend(...)`, through any door, in parts."""
        name = self._any_tensor()
        if name is None:
            return
        column = self.state.columns[name]
        values = self._values(column.kind, self._count([column.kind]))
        with self._block():
            for part in self._parts(values):
                door, given = doors.through(column.kind, part, self.random, ours=self.ours)
                self._note(f"extend {name} with {len(part)} as {door}", name)
                self.dataset[name].extend(given)
                column.extend(part)

    def _append_rows(self) -> None:
        """`for ...: ds.append({...})`."""
        columns = self.state.columns
        if not columns or not self.state.is_in_step:
            return self._extend()
        count = min(self._count([column.kind for column in columns.values()]), 300)
        values = {name: self._values(column.kind, count) for name, column in columns.items()}
        style = str(self.random.choice(doors.SPELLINGS))
        self._note(f"append {count} rows one by one, as {style}", *columns)
        given = {name: doors.respelled(columns[name].kind, rows, style) for name, rows in values.items()}
        with self._block():
            for row in range(count):
                self.dataset.append({name: rows[row] for name, rows in given.items()})
                for name, rows in values.items():
                    columns[name].extend([rows[row]])
        return None

    def _extend_rows(self) -> None:
        """`ds.extend({...})`."""
        columns = self.state.columns
        if not columns or not self.state.is_in_step:
            return self._extend()
        count = self._count([column.kind for column in columns.values()])
        values = {name: self._values(column.kind, count) for name, column in columns.items()}
        through = {
            name: doors.through(columns[name].kind, rows, self.random, ours=self.ours)
            for name, rows in values.items()
        }
        self._note(
            f"extend {count} rows as { {name: door for name, (door, _) in through.items()} }", *columns
        )
        with self._block():
            self.dataset.extend({name: given for name, (_, given) in through.items()})
        for name, rows in values.items():
            columns[name].extend(rows)
        return None

    def _catch_up(self) -> None:
        """Fill the shorter tensors, so that rows are whole again."""
        longest = max((len(column.rows) for column in self.state.columns.values()), default=0)
        for name, column in self.state.columns.items():
            values = self._values(column.kind, longest - len(column.rows))
            if values:
                self._note(f"catch up {name} with {len(values)}", name)
                self.dataset[name].extend(values)
                column.extend(values)

    # -- changes -----------------------------------------------------------------------------------------------

    def _update(self) -> None:
        """`ds.x[3] = ...`."""
        name = self._any_tensor(lambda column: column.rows)
        if name is None:
            return
        column = self.state.columns[name]
        values = self._values(column.kind, int(self.random.integers(1, 4)))
        rows = self.random.integers(0, len(column.rows), len(values)).tolist()
        with self._block():
            for row, value in zip(rows, values, strict=True):
                self._note(f"{name}[{row}] = {_told(value)}", name)
                self.dataset[name][row] = value
                column.replace(row, value)

    def _update_several(self) -> None:
        """`ds.x[2:5] = [...]`."""
        name = self._any_tensor(lambda column: column.rows)
        if name is None:
            return
        column = self.state.columns[name]
        start, stop = sorted(self.random.integers(0, len(column.rows) + 1, 2).tolist())
        values = self._values(column.kind, stop - start)
        if not values:
            return
        self._note(f"{name}[{start}:{stop}] = ...", name)
        self.dataset[name][start:stop] = values
        for number, value in enumerate(values):
            column.replace(start + number, value)

    def _update_row(self) -> None:
        """`ds[3].update({...})`."""
        if not self.state.length:
            return
        row = int(self.random.integers(0, self.state.length))
        values = {name: self._values(column.kind, 1)[0] for name, column in self.state.columns.items()}
        self._note(f"ds[{row}].update(...)", *values)
        self.dataset[row].update(values)
        for name, value in values.items():
            self.state.columns[name].replace(row, value)

    def _update_rows(self) -> None:
        """Many rows at once."""
        if not self.ours or not self.state.length:
            return
        share = float(self._draw(0.1, 0.5, 1.0))
        rows = np.flatnonzero(self.random.random(self.state.length) < share)
        values = {
            name: self._values(column.kind, len(rows))
            for name, column in self.state.columns.items()
            if not column.kind.is_sequence and "tiling_threshold" not in column.kind.options
        }
        self._note(f"update {len(rows)} rows of {sorted(values)}", *values)
        self.dataset.update_rows(rows, values)
        for name, given in values.items():
            for row, value in zip(rows.tolist(), given, strict=True):
                self.state.columns[name].replace(row, value)

    def _update_part(self) -> None:
        """`ds.x[3][0:2] = ...`."""
        name = self._any_tensor(_has_parts)
        if name is None:
            return
        column = self.state.columns[name]
        found = [row for row, value in enumerate(column.rows) if value is not None and value.size]
        if not found:
            return
        row = int(self._draw(*found))
        value = column.rows[row]
        box = tuple(slice(*sorted(self.random.integers(0, n + 1, 2).tolist())) for n in value.shape)
        change = sample(column.kind, self.random, value[box].shape, 1) if value[box].size else value[box]
        self._note(f"{name}[{row}][{box}] = ...", name)
        if self.random.random() < 0.5:
            self.dataset[name][(row, *box)] = change
        else:
            self.dataset[name][row][box] = change
        changed = value.copy()
        changed[box] = change
        column.replace(row, changed)

    def _put_behind(self) -> None:
        """`ds.x[len(ds.x) + 2] = ...`."""
        name = self._any_tensor(lambda column: not column.kind.is_sequence)
        if name is None:
            return
        column = self.state.columns[name]
        row = len(column.rows) + int(self.random.integers(0, 4))
        value = self._values(column.kind, 1, nones=False)[0]
        self._note(f"{name}[{row}] = {_told(value)}, behind the end", name)
        self.dataset[name][row] = value
        column.replace(row, value)

    def _add(self) -> None:
        """`ds.x += 1`."""
        name = self._any_tensor(_can_be_added_to)
        if name is None:
            return
        column = self.state.columns[name]
        self._note(f"{name} += 1", name)
        tensor = self.dataset[name]
        tensor += 1
        column.rows = [(row + row.dtype.type(1)).astype(row.dtype) for row in column.rows]

    def _pop(self) -> None:
        """`ds.x.pop(3)`, `.pop()`, `.pop([1, 2])`."""
        name = self._any_tensor(lambda column: column.rows)
        if name is None:
            return
        column = self.state.columns[name]
        last = len(column.rows) - 1
        rows = sorted(set(self.random.integers(0, last + 1, int(self._draw(1, 1, 3))).tolist()))
        given = self._draw(None, rows if len(rows) > 1 else rows[0])
        self._note(f"{name}.pop({given})", name)
        self.dataset[name].pop(given)
        column.remove([last] if given is None else rows)

    def _pop_rows(self) -> None:
        """`ds.pop(3)`, and many at once."""
        longest = max((len(column.rows) for column in self.state.columns.values()), default=0)
        if not longest:
            return
        rows = [int(self.random.integers(0, longest))]
        if self.random.random() < 0.4:
            rows = np.flatnonzero(self.random.random(longest) < float(self._draw(0.05, 0.5))).tolist() or rows
        self._note(f"pop rows {rows[:20]}", *self.state.columns)
        if self.ours and len(rows) > 1:
            self.dataset.pop_rows(rows)
        else:
            for row in reversed(rows):
                self.dataset.pop(row)
        for column in self.state.columns.values():
            column.remove([row for row in rows if row < len(column.rows)])

    def _clear(self) -> None:
        name = self._any_tensor()
        if name is None:
            return
        self._note(f"{name}.clear()", name)
        self.dataset[name].clear()
        self.state.columns[name] = Column(self.state.columns[name].kind)

    def _rename(self) -> None:
        name = self._any_tensor()
        if name is None:
            return
        new = f"{name}_renamed"
        self._note(f"rename {name} to {new}", name)
        self.dataset.rename_tensor(name, new)
        columns = self.state.columns
        self.state.columns = {new if key == name else key: column for key, column in columns.items()}

    def _delete(self) -> None:
        name = self._any_tensor()
        if name is None or len(self.state.columns) < 2:
            return
        self._note(f"delete {name}", name)
        self.dataset.delete_tensor(name)
        del self.state.columns[name]

    def _set_info(self) -> None:
        key, value = self._draw("a", "b"), int(self.random.integers(0, 100))
        self._note(f"info[{key!r}] = {value}")
        self.dataset.info[key] = value
        self.state.info[key] = value

    # -- versions ----------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Publish; a reader sees it."""
        self._note("flush")
        self.dataset.flush()
        if self.random.random() < 0.5:
            self._reader(f"{self.place}@{self.branch}")
            self._look(2, self._seen)

    def _commit(self) -> None:
        self._note("commit")
        commit = self.dataset.commit("some", allow_empty=True)
        self.commits[commit] = self.state.copy()

    def _reopen(self) -> None:
        self._note("reopen")
        self.dataset.flush()
        self.dataset = None
        self.dataset = self._load(f"{self.place}@{self.branch}")

    def _go_elsewhere(self) -> None:
        """Start a branch, or go to one."""
        others = [branch for branch in self.lines if branch != self.branch]
        if others and self.random.random() < 0.6:
            self.branch = self._draw(*others)
            self._note(f"checkout {self.branch}")
            self.dataset.checkout(self.branch)
            return
        name = f"branch{len(self.lines)}"
        self._note(f"checkout {name}, create")
        self.lines[name] = self.state.copy()
        self.dataset.checkout(name, create=True)
        self.branch = name

    def _rechunk(self) -> None:
        self._note("rechunk", *self.state.columns)
        self.dataset.rechunk(**({} if self.ours else {"progressbar": False, "scheduler": "serial"}))


STEPS: dict[str, float] = {
    "append_one_by_one": 3,
    "extend": 4,
    "append_rows": 3,
    "extend_rows": 4,
    "catch_up": 1.5,
    "create": 0.4,
    "update": 1.5,
    "update_several": 1,
    "update_row": 1,
    "update_rows": 1,
    "update_part": 1,
    "put_behind": 0.5,
    "add": 0.3,
    "pop": 1,
    "pop_rows": 0.8,
    "clear": 0.15,
    "rename": 0.2,
    "delete": 0.1,
    "set_info": 0.2,
    "flush": 2,
    "commit": 1.2,
    "reopen": 1.2,
    "go_elsewhere": 0.6,
    "rechunk": 0.3,
}
"""The steps, and how often they are taken."""


def _told(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    text = repr(value)
    return text if len(text) < 60 else f"{text[:60]}..."


def _has_parts(column: Column) -> bool:
    kind = column.kind
    return kind.form == "array" and not (kind.is_sequence or kind.lossy or kind.labels) and bool(kind.axes)


def _can_be_added_to(column: Column) -> bool:
    kind = column.kind
    floats = kind.form == "array" and kind.dtype in ("float32", "float64") and not kind.is_sequence
    return floats and bool(column.rows) and column.is_even and all(row is not None for row in column.rows)
