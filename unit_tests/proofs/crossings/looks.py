"""What programs of crossings read, against plain values: the ways out that everyday programs do not take."""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from unit_tests.proofs.everyday.kinds import Kind
from unit_tests.proofs.everyday.looking import Look, _arrow_agrees, _flat, _numbers_of
from unit_tests.proofs.everyday.model import Column, Disagreement, check_rows, may_be_null


def lower(values: dict[str, Any]) -> None:
    """Set constants, in all modules that have them: `package.module.NAME` -> value."""
    for path, value in values.items():
        module, name = path.rsplit(".", 1)
        setattr(import_module(module), name, value)


def check(found: Any, expected: Any, what: str) -> None:
    """Raise if two plain values differ."""
    if found != expected:
        raise Disagreement(f"{what}: {str(found)[:300]}, not {str(expected)[:300]}")


class Out(Look):
    """Ways out of a dataset whose tensor `name` must hold `rows`, and `id` the `ids`; methods take what a way gave."""

    def __init__(
        self, dataset: Any, name: str, kind: Kind, rows: list[Any], ids: list[int], *, seed: int = 0
    ) -> None:
        column = Column(kind)
        column.extend(rows)
        self.ids = ids
        super().__init__(dataset, name, column, len(dataset), np.random.default_rng(seed), ours=True)

    # -- whole tables --------------------------------------------------------------------------------------------

    def refused(self, read: Callable[[], Any]) -> None:
        """Rows must not be hidden by another tensor that has none: an error names it."""
        try:
            found = read()
        except Exception as error:
            if "blank" not in str(error):
                raise
        else:
            raise Disagreement(f"the empty tensor `blank` was passed over: {str(found)[:300]}")

    def tiled(self, look: Callable[[str], None]) -> None:
        """Samples in tiles are no files: the error says how they can be read, which is done then."""
        try:
            look("bytes")
        except Exception as error:
            if 'stored in tiles, not in one file; pass files="arrays"' not in str(error):
                raise
            look("arrays")

    def values(self, values: Iterable[Any], rows: Iterable[int] | None = None) -> None:
        """Compare the values of a column of a table, or of a document, as Python has them; of all rows, or of some."""
        expected = self.rows if rows is None else [self.rows[row] for row in rows]
        found = [_plain(self.kind, value) for value in values]
        if self.kind.labels:
            names = list(self.tensor.info.class_names or ())
            found = [_numbers_of(value, names) for value in found]
        if len(found) != len(expected):
            raise Disagreement(f"{len(found)} rows, not {len(expected)}")
        for number, (row, value) in enumerate(zip(expected, found, strict=True)):
            is_missing = row is None and isinstance(value, float) and np.isnan(value)
            if not is_missing and not _arrow_agrees(self.column, row, value):
                raise Disagreement(f"row {number}: {str(value)[:200]}, not {str(row)[:200]}")

    def fields(self, found: Iterable[dict[str, Any]]) -> None:
        """Compare rows that are dictionaries."""
        self.values(row[self.name] for row in found)

    def arrow_table(self, found: Any) -> None:
        found.validate(full=True)
        self.values(found[self.name].to_pylist())

    def frame(self, found: Any) -> None:
        """A data frame of pandas or polars."""
        values = found[self.name]
        self.values(values.to_list())

    def duckdb(self, found: Any) -> None:
        named = f'select "{self.name}" from given'
        self.values(row[0] for row in found.query("given", named).fetchall())

    def json_lines(self, text: str) -> None:
        self.fields(json.loads(line) for line in text.splitlines())

    def document(self, text: str) -> None:
        """What `lakebed head --json` prints."""
        self.fields(json.loads(text))

    def parquet(self, folder: str) -> None:
        import pyarrow.parquet as pq

        (path,) = Path(folder).rglob("*.parquet")
        self.arrow_table(pq.read_table(path))

    def csv(self, folder: str) -> None:
        """Nulls are empty fields, empty texts are quoted, arrays and documents are JSON."""
        import pyarrow as pa
        from pyarrow import csv

        (path,) = Path(folder).rglob("*.csv")
        names = [self.name, "id"]
        options = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        parse = csv.ParseOptions(newlines_in_values=True)
        read = csv.ReadOptions(block_size=1 << 26)  # a cell is no longer than a block
        found = csv.read_csv(path, read, parse, options)[self.name].to_pylist()
        is_text = self.kind.form == "text" and not self.kind.is_sequence
        self.values(value if is_text or value is None else _parsed(self.kind, value) for value in found)

    # -- views ---------------------------------------------------------------------------------------------------

    def _numbers(self, found: Any) -> list[int]:
        """Return which of the rows a view has, by their ids."""
        return list(map(self.ids.index, found.id.numpy().ravel().tolist()))

    def view(self, found: Any, keep: Callable[[int], bool] = lambda _: True) -> None:
        """A view of the rows whose number fulfils a condition."""
        chosen = [number for number in range(len(self.rows)) if keep(number)]
        check(self._numbers(found), chosen, "rows of the view")
        self._check([self.rows[number] for number in chosen], found[self.name].numpy(aslist=True))

    def nulls(self, found: Any) -> None:
        """`WHERE x IS NULL`; sequences have no nulls."""
        seen = set(self._numbers(found))
        if self.kind.is_sequence:
            check(seen, set(), "null sequences")
            return
        for number, row in enumerate(self.rows):
            if row is None or not may_be_null(row):
                check(number in seen, row is None, f"row {number} is null")
        check(np.flatnonzero(self.tensor.null_mask()).tolist(), sorted(seen), "null_mask")

    def texts(self, empty: Any, some: Any) -> None:
        """`WHERE x = ''` and `WHERE x LIKE '*'`."""
        check(self._numbers(empty), [i for i, row in enumerate(self.rows) if row == ""], "= ''")
        check(self._numbers(some), [i for i, row in enumerate(self.rows) if row is not None], "LIKE '*'")

    def groups(self, found: Any) -> None:
        """The extremes and the mean of groups of one row, by id."""
        values = {
            number: None if row is None else row.item()
            for number, row in zip(self.ids, self.rows, strict=True)
        }
        seen = {int(np.ravel(row["id"])[0]): row for row in found.rows()}
        check(sorted(seen), sorted(values), "groups")
        for number, value in values.items():
            extremes = (seen[number]["high"], seen[number]["low"], seen[number]["mean"])
            check(
                extremes,
                (value, value, None if value is None else float(value)),
                f"MAX, MIN, AVG of {number}",
            )

    def truths(self, found: Any, compare: Callable[[Any], Any]) -> None:
        """`SELECT all(x > 7) AS y`."""
        check([row["y"] for row in found.rows()], [bool(np.all(compare(row))) for row in self.rows], "all()")

    # -- verbs ---------------------------------------------------------------------------------------------------

    def _plainly(self, row: Any) -> list[Any]:
        """Return the values in a row, as Python has them: numbers, texts, names of classes."""
        if row is None or self.kind.form == "text":
            return [] if row is None else _leaves(row)
        values = _leaves(_lists(row))
        return [self.kind.options["class_names"][value] for value in values] if self.kind.labels else values

    def chosen(self, rows: Any) -> None:
        """Conditions, and the verbs that leave rows out."""
        column, every = rows[self.name], range(len(self.rows))
        self.nulls(missing := rows[column.isna()])
        there = sorted({*every} - {*self._numbers(missing)})
        for some in (rows[column.notna()], rows[~column.isna()], rows.dropna(self.name)):
            check(self._numbers(some), there, "rows that are not missing")
        if self.kind.dtype.startswith("complex"):
            return
        firsts: dict[Any, int] = {}
        for number, row in enumerate(self.rows):
            is_none = may_be_null(row) or (self.kind.is_sequence and not row)
            firsts.setdefault(None if is_none else json.dumps(_lists(row)), number)
        found = rows[[*every, 0]].drop_duplicates(self.name)
        check(self._numbers(found), list(firsts.values()), "drop_duplicates")
        plain = [self._plainly(row) for row in self.rows]
        if self.kind.form in ("array", "text") and not self.kind.is_sequence and not self.kind.lossy:
            pivot = next((values[0] for values in reversed(plain) if values), None)
            if pivot is not None:
                self._compared(rows, column, plain, pivot)

    def _compared(self, rows: Any, column: Any, plain: list[list[Any]], pivot: Any) -> None:
        """Conditions that compare: those on arrays are true where they hold for each value, and there is one."""
        asked = [
            (column == pivot, lambda value: value == pivot),
            (column != pivot, lambda value: value != pivot),
        ]
        if self.kind.dtype != "bool" and not self.kind.labels:
            asked += [
                (column > pivot, lambda value: value > pivot),
                (column <= pivot, lambda value: value <= pivot),
                (column.between(pivot, pivot), lambda value: value == pivot),
            ]
        for condition, holds in asked:
            true = [number for number, values in enumerate(plain) if values and all(map(holds, values))]
            check(self._numbers(rows[condition]), true, str(condition))
            check(np.flatnonzero(condition.numpy()).tolist(), true, f"numpy() of {condition}")
            false = sorted({*range(len(plain))} - {*true})
            check(self._numbers(rows.filter(~condition)), false, f"NOT {condition}")
        if self.kind.is_scalar or self.kind.form == "text":
            some = [number for number, values in enumerate(plain) if not values or values == [pivot]]
            check(self._numbers(rows[column.isin([pivot, None])]), some, "isin")

    def handed_out(self, rows: Any) -> None:
        """Rows and columns as Python and NumPy have them, and as the loader of PyTorch asks for them."""
        self.fields(rows.to_list())
        self.values(rows.to_dict()[self.name])
        self.fields(rows.__getitems__(range(len(self.rows))))
        if not self.kind.dtype.startswith("complex"):
            self.values(rows[self.name].tolist())
        found = [self._of_batch(value) for value in rows.to_numpy()[self.name]]
        check_rows(self.column, self.rows, found, nulls=True)

    def counted(self, rows: Any) -> None:
        """How often each value is there, and the extremes."""
        counts = Counter(value for row in self.rows for value in self._plainly(row))
        column = rows[self.name]
        check(column.value_counts(), dict(counts), "value_counts")
        check([*column.value_counts().values()], sorted(counts.values(), reverse=True), "counts")
        check((column.unique(), column.nunique()), ([*counts], len(counts)), "unique")
        if not self.kind.labels:
            extremes = (min(counts, default=None), max(counts, default=None))
            check((column.min(), column.max()), extremes, "min, max")
        if self.kind.form == "array" and not self.kind.labels and counts:
            total = sum(value * count for value, count in counts.items())
            is_exact = self.kind.dtype == "bool" or "int" in self.kind.dtype
            found = column.sum()
            check(
                found == total if is_exact else math.isclose(found, total), True, f"sum {found}, not {total}"
            )
            mean = total / counts.total()
            check(math.isclose(column.mean(), mean), True, f"mean {column.mean()}, not {mean}")

    def joined(self, rows: Any) -> None:
        """Rows beside those of another dataset, which has every second one."""
        import lakebed

        half = self.ids[::2]
        other = lakebed.from_rows([{"id": number, "twice": 2 * number} for number in reversed(half)])
        for how, ids in (("inner", half), ("left", self.ids)):
            found = {row["id"]: row for row in rows.join(other, on="id", how=how).to_list()}
            check(sorted(found), sorted(ids), f"ids of {how}")
            twice = [2 * number if number in half else None for number in ids]
            check([found[number]["twice"] for number in ids], twice, f"what {how} adds")
            self.values([found[number][self.name] for number in ids], map(self.ids.index, ids))

    def grouped(self, rows: Any) -> None:
        """Groups of one row, by id."""
        groups = rows.groupby("id")
        if self.kind.form == "array" and self.kind.dtype not in ("bool", "float16"):
            reductions = {"high": "max", "low": "min", "mean": "mean"}
            self.groups(groups.agg(**{short: (self.name, how) for short, how in reductions.items()}))
        hows = ("first", "last", "count", "nunique")
        found = groups.agg(rows="size", **{how: (self.name, how) for how in hows}).to_list()
        place = {number: row for row, number in enumerate(self.ids)}
        check([row["id"] for row in found], sorted(self.ids), "keys")
        order = [place[row["id"]] for row in found]
        self.values((row["first"] for row in found), order)
        self.values((row["last"] for row in found), order)
        counts = [(int(self.rows[row] is not None),) * 2 + (1,) for row in order]
        check([(row["count"], row["nunique"], row["rows"]) for row in found], counts, "counts")

    # -- the viewer ----------------------------------------------------------------------------------------------

    def viewer(self, address: str, stored: str) -> None:
        """All rows as the page is told them, of the dataset, of a query, or, of a view, as `visualize` shows them.

        Parameters
        ----------
        address
            Of the dataset, with its branch; what is shown is published before.
        stored
            The name of the tensor there.
        """
        from unit_tests.lakebed.viewer.contract import Types
        from unit_tests.lakebed.viewer.inside import Inside

        self.dataset._session.flush()
        inside, types, rows = Inside(address), Types(), list(self.dataset.sample_indices)
        asked: dict[str, Any] = {}
        if self.dataset.is_view:
            inside.lake.rows["view"] = rows
            text = "rows:view"
        else:
            rows = list(range(self.dataset.max_len))
            some = f'SELECT "{stored}" AS shown, id'
            parts = f"{some} WHERE id >= 0 UNION ALL {some} WHERE id < 0"  # as what is computed
            text = ("", "SELECT *", some, parts)[int(self.random.integers(4))]
        shown = "shown" if "AS shown" in text else stored
        numbers = [-1] * len(rows) if "UNION" in text else rows
        if text:
            answer = inside.ask("0/query", {"at": "", "text": text})
            check((types.faults(answer, "Answer"), answer["rows"]), ([], len(rows)), f"answer of {text}")
            asked["q"] = answer["q"]
        cells: dict[str, list[Any]] = {shown: [], "id": []}
        for start in range(0, len(rows), 300):
            found = inside.ask("0/rows", start=start, count=300, tensors=f"id,{shown}", **asked)
            check(types.faults(found, "Rows"), [], "faults of rows")
            check(found["ids"], numbers[start : start + 300], "rows of the version")
            for name in cells:
                cells[name] += found["cells"][name]
        check([cell and cell["v"] for cell in cells["id"]], self.ids, "ids")
        for number, (row, cell) in enumerate(zip(self.rows, cells[shown], strict=True)):
            if not self._is_told(row, cell):
                raise Disagreement(f"row {number}: {str(cell)[:200]}, not {str(row)[:200]}")
        stats = inside.ask(f"0/stats/{shown}", **asked)
        check((types.faults(stats, "Stats"), stats["rows"]), ([], len(rows)), "statistics")
        if self.column.tells_nulls:
            check(stats["nulls"], sum(row is None for row in self.rows), "nulls")

    def _is_told(self, row: Any, cell: Any) -> bool:
        """Whether a cell tells a row: its value, a large one's beginning, or the shape of pictures and sequences."""
        kind = self.kind
        if cell is None:
            return may_be_null(row) or (kind.is_sequence and not row)
        if row is None:
            return not self.column.tells_nulls and cell.get("v") in ([], "", {}, [None])
        if "s" in cell:
            shapes = [np.shape(item) for item in (row if kind.is_sequence else [row])]
            told = {
                "s": np.max(shapes, axis=0).tolist(),
                **({"frames": len(row)} if kind.is_sequence else {}),
            }
            is_large = kind.smooth or kind.is_sequence or max(map(np.size, self.rows)) > 64
            return bool(is_large and cell == told)
        if "error" in cell:
            return False
        value = _numbers(kind, cell["v"]) if kind.form == "array" else cell["v"]
        if cell.get("cut"):
            return _begins(_lists(row), value)
        if kind.form == "array":
            return _flat(kind, value).tobytes() == _flat(kind, row).tobytes()
        return bool(value == _lists(row))

    # -- loaders -------------------------------------------------------------------------------------------------

    def loader(self, *loaders: Iterable[Any]) -> None:
        """One epoch of one loader, or of those of all ranks: every row once."""
        found: dict[int, Any] = {}
        count = 0
        stored = list(self.dataset[[self.name, "id"]].sample_indices)
        for loader in loaders:
            for batch in loader:
                if len(batch[self.name]) != len(batch.rows):
                    raise Disagreement(f"{len(batch[self.name])} samples of {len(batch.rows)} rows")
                numbers = list(map(self.ids.index, np.ravel(batch["id"]).tolist()))
                check(batch.rows.tolist(), [stored[number] for number in numbers], "rows of a batch")
                found |= dict(zip(numbers, batch[self.name], strict=True))
                count += len(batch.rows)
        check((sorted(found), count), (list(range(len(self.rows))), len(self.rows)), "rows of an epoch")
        self._loaded([found[row] for row in range(len(self.rows))])

    def _loaded(self, found: list[Any]) -> None:
        """Batches have the empty sample for a null."""
        if self.kind.form == "array" and not self.kind.is_sequence:
            found = [np.atleast_1d(np.asarray(value)) for value in found]
        check_rows(self.column, self.rows, found)

    def resumed(self, loader: Any, again: Any) -> None:
        """A loader goes on where another one was, after a batch of its next epoch."""
        first = [next(iter(loader))]
        again.load_state_dict(loader.state_dict())
        self.loader(first, again)


def command(*arguments: str) -> str:
    """What a command prints.

    Raises
    ------
    Disagreement
        If it fails, with what it said.
    """
    from click.testing import CliRunner

    from lakebed.cli import main

    ended = CliRunner().invoke(main, list(arguments))
    if ended.exit_code:
        raise Disagreement(f"lakebed {' '.join(arguments)}: {ended.output}") from ended.exception
    return ended.stdout


def export(dataset: Any, name: str, base: str) -> str:
    """Export all rows; return the folder."""
    import lakebed

    report = lakebed.export_to(name, dataset, f"{base}/out", progressbar=False)
    check((report.written, report.skipped), (len(dataset), 0), "rows written and skipped")
    return f"{base}/out"


def _plain(kind: Kind, value: Any) -> Any:
    """A value of a table as Arrow would give it: lists, JSON as text, arrays for pictures, None for what is missing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if kind.smooth and isinstance(value, dict):
        value = value["bytes"]
    if isinstance(value, bytes):
        from PIL import Image

        return np.asarray(Image.open(io.BytesIO(value)))
    if kind.form in ("json", "list", "tag") and not kind.is_sequence and not isinstance(value, str):
        if isinstance(value, float) and math.isnan(value):
            return None  # pandas 3 has it in columns of texts
        return json.dumps(value.tolist() if isinstance(value, np.ndarray) else value)
    return _lists(value)


_PLAIN = {int, float, complex, bool, str, bytes, type(None)}


def _lists(value: Any) -> Any:
    """Arrays as lists, also those inside of arrays of objects."""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype != object:
            return value.tolist()
        value = value.tolist()
    if not isinstance(value, list) or _PLAIN.issuperset(map(type, value)):
        return value
    return [_lists(part) for part in value]


def _leaves(value: Any) -> list[Any]:
    """Return what is in nested lists."""
    if isinstance(value, list) and _PLAIN.issuperset(map(type, value)):
        return value
    return [leaf for part in value for leaf in _leaves(part)] if isinstance(value, list) else [value]


def _numbers(kind: Kind, value: Any) -> Any:
    """Return the numbers of a cell, of which some are texts."""
    if isinstance(value, list):
        return [_numbers(kind, one) for one in value]
    if isinstance(value, str):
        return complex(value) if kind.dtype.startswith("complex") else int(value)
    return value


def _begins(whole: Any, part: Any) -> bool:
    """Whether a value is that of a row, with texts and lists that end sooner."""
    if isinstance(whole, str):
        return whole.startswith(part)
    if isinstance(whole, list):
        return len(part) <= len(whole) and all(map(_begins, whole, part))
    if isinstance(whole, dict):
        return all(_begins(whole[name], one) for name, one in part.items())
    return bool(whole == part)


def _parsed(kind: Kind, text: str) -> Any:
    if kind.form in ("json", "list", "tag") and not kind.is_sequence:
        return text
    if kind.labels and not text.startswith("["):
        return text
    return json.loads(text.lower() if kind.dtype == "bool" else text)
