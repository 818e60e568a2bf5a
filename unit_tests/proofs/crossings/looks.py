"""What programs of crossings read, against plain values: the ways out that everyday programs do not take."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from unit_tests.proofs.everyday.kinds import Kind
from unit_tests.proofs.everyday.looking import Look, _arrow_agrees, _numbers_of
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
    """Ways out of a dataset whose tensor `name` must hold `rows`; methods take what a way gave."""

    def __init__(
        self, dataset: Any, name: str, kind: Kind, rows: list[Any], *, padded: bool = False, seed: int = 0
    ) -> None:
        column = Column(kind, padded=padded)
        column.extend(rows)
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
            if 'stored in tiles and is no one file; pass files="arrays"' not in str(error):
                raise
            look("arrays")

    def values(self, values: Iterable[Any]) -> None:
        """Compare the values of a column of a table, or of a document, as Python has them."""
        found = [_plain(self.kind, value) for value in values]
        if self.kind.labels:
            names = list(self.tensor.info.class_names or ())
            found = [_numbers_of(value, names) for value in found]
        if len(found) != len(self.rows):
            raise Disagreement(f"{len(found)} rows, not {len(self.rows)}")
        for number, (row, value) in enumerate(zip(self.rows, found, strict=True)):
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

    def view(self, found: Any, keep: Callable[[int], bool] = lambda _: True) -> None:
        """A view of the rows whose number fulfils a condition."""
        chosen = [number for number in range(len(self.rows)) if keep(number)]
        check(list(found.sample_indices), chosen, "rows of the view")
        self._check([self.rows[number] for number in chosen], found[self.name].numpy(aslist=True))

    def nulls(self, found: Any) -> None:
        """`WHERE x IS NULL`; sequences have no nulls."""
        seen = set(map(int, found.sample_indices))
        if self.kind.is_sequence:
            check(seen, set(), "null sequences")
            return
        for number, row in enumerate(self.rows):
            if row is None or not may_be_null(row):
                check(number in seen, row is None, f"row {number} is null")
        check(np.flatnonzero(self.tensor.null_mask()).tolist(), sorted(seen), "null_mask")

    def texts(self, empty: Any, some: Any) -> None:
        """`WHERE x = ''` and `WHERE x LIKE '*'`."""
        check(list(empty.sample_indices), [i for i, row in enumerate(self.rows) if row == ""], "= ''")
        check(
            list(some.sample_indices), [i for i, row in enumerate(self.rows) if row is not None], "LIKE '*'"
        )

    def groups(self, ids: list[int], found: Any) -> None:
        """The extremes and the mean of groups of one row, by id."""
        values = {
            number: None if row is None else row.item() for number, row in zip(ids, self.rows, strict=True)
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

    # -- loaders -------------------------------------------------------------------------------------------------

    def loader(self, *loaders: Iterable[Any]) -> None:
        """One epoch of one loader, or of those of all ranks: every row once."""
        found: dict[int, Any] = {}
        count = 0
        for loader in loaders:
            for batch in loader:
                if len(batch[self.name]) != len(batch.rows):
                    raise Disagreement(f"{len(batch[self.name])} samples of {len(batch.rows)} rows")
                found |= dict(zip(map(int, batch.rows), batch[self.name], strict=True))
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
        return json.dumps(value.tolist() if isinstance(value, np.ndarray) else value)
    return _lists(value)


def _lists(value: Any) -> Any:
    """Arrays as lists, also those inside of arrays of objects."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return [_lists(part) for part in value] if isinstance(value, list) else value


def _parsed(kind: Kind, text: str) -> Any:
    if kind.form in ("json", "list", "tag") and not kind.is_sequence:
        return text
    if kind.labels and not text.startswith("["):
        return text
    return json.loads(text.lower() if kind.dtype == "bool" else text)
