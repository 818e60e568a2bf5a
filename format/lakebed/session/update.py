"""Many rows replaced at once, given as columns: all of them, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import InvalidInputError, LakebedError, SampleAppendError, SampleUpdateError
from lakebed.session.columns import ascending
from lakebed.session.inputs import encode_samples, of_one_length
from lakebed.session.new_classes import NewClasses
from lakebed.session.session import Session
from lakebed.session.table import Table
from lakebed.versions.state import TensorState
from lakebed.writing.encode.encoded import Column


def update_rows(table: Table, rows: Any, columns: Mapping[str, Any]) -> None:
    """Replace rows of several columns of a table; see ``Dataset.update_rows``."""
    session = table.session
    wanted = ascending(rows)
    for name, values in columns.items():
        if len(values) != len(wanted):
            raise InvalidInputError(f"there are {len(wanted)} rows, but {len(values)} values for {name!r}")
    with session.mutex, NewClasses(session) as new, session.writing() as draft:
        states = table.states()
        encoded: dict[str, Column] = {}
        for name, values in columns.items():
            state = states[name]
            new.of([state])
            _check_inside(wanted, state)
            encoded[state.key] = _encoded(session, values, state, wanted)
        if len(wanted):
            for key, column in encoded.items():
                draft.rows.update(key, wanted, column)


def _check_inside(rows: NDArray[np.int64], state: TensorState) -> None:
    if len(rows) and (rows[0] < 0 or rows[-1] >= state.length):
        row = int(rows[0] if rows[0] < 0 else rows[-1])
        raise IndexError(f"row {row} is out of range: tensor {state.meta.name!r} has {state.length} rows")


def _encoded(session: Session, values: Any, state: TensorState, rows: NDArray[np.int64]) -> Column:
    # An ordinary sample stays one, however large its successor is (FORMAT.md 6.2).
    if state.sequence is None and not session.draft().tensors[state.key].has_tiled(rows):
        state = replace(state, meta=state.meta.with_(tiling_threshold=-1))
    try:
        return of_one_length(encode_samples(values, state, session.linking), state, is_new=False)
    except SampleAppendError as error:
        cause = error.__cause__ or error
        raise SampleUpdateError(f"Unable to update samples in tensor {state.meta.name}: {cause}") from cause
    except (LakebedError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise SampleUpdateError(f"Unable to update samples in tensor {state.meta.name}: {error}") from error
