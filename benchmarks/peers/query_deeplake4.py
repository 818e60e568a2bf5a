"""Deep Lake 4: the same questions in its own query language."""

from __future__ import annotations

import deeplake
import numpy as np
from deeplake import types

from benchmarks.asking import LABEL, Answer, Question, main


def write(question: Question) -> None:
    """Write labels in two orders."""
    for name in ("labels", "sorted"):
        ds = deeplake.create(str(question.store / name))
        ds.add_column("labels", types.UInt32())
        ds.append({"labels": np.load(question.data / f"{name}.npy")})
        ds.commit()


def labels(question: Question) -> Answer:
    """Count the rows of a label."""
    ds = deeplake.open_read_only(
        str(question.store / ("sorted" if question.work == "sorted labels" else "labels"))
    )
    return lambda: len(ds.query(f"SELECT * WHERE labels == {LABEL}"))


if __name__ == "__main__":
    main({"labels": labels, "sorted labels": labels}, write)
