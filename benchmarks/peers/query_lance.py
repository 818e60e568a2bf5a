"""Lance: the same questions as filters of its scanner, without indexes."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa

from benchmarks.asking import LABEL, WORD, Answer, Question, main


def write(question: Question) -> None:
    """Write labels in two orders, and titles."""
    for name in ("labels", "sorted"):
        lance.write_dataset(
            pa.table({"labels": np.load(question.data / f"{name}.npy")}), str(question.store / name)
        )
    with pa.memory_map(str(question.data / "titles.arrow")) as file:
        lance.write_dataset(pa.ipc.open_file(file).read_all(), str(question.store / "titles"))


def labels(question: Question) -> Answer:
    """Find the rows of a label."""
    ds = lance.dataset(str(question.store / ("sorted" if question.work == "sorted labels" else "labels")))
    return lambda: ds.to_table(columns=[], filter=f"labels = {LABEL}", with_row_id=True).num_rows


def titles(question: Question) -> Answer:
    """Find the rows of a word."""
    ds = lance.dataset(str(question.store / "titles"))
    return lambda: ds.to_table(columns=[], filter=f"contains(title, '{WORD}')", with_row_id=True).num_rows


if __name__ == "__main__":
    main({"labels": labels, "sorted labels": labels, "titles": titles}, write)
