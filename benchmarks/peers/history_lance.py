"""Lance: every write is a version; it does not wait for the disk."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa

from benchmarks.history import Story, main


def tell(story: Story) -> None:
    """Take a table through its history."""
    path = str(story.out / "wide")
    table = pa.table({name: np.arange(story.rows) for name in story.names})
    ds = lance.write_dataset(table, path)
    one = table.slice(0, 1)

    def change(_: int) -> None:
        ds.update({story.names[0]: "-1"}, where=f"{story.names[0]} = 1")
        ds.update({story.names[0]: "1"}, where=f"{story.names[0]} = -1")

    story.step("commit", lambda _: lance.write_dataset(one, path, mode="append"))
    ds = lance.dataset(path)
    story.step("change one sample, commit", change, times=3)
    story.found["change one sample, commit"] = {
        name: value / 2 for name, value in story.found["change one sample, commit"].items()
    }
    story.step("branch", lambda i: ds.create_branch(f"side{i}"))
    story.step("checkout", lambda i: lance.dataset(path, version=1 if i % 2 else None))
    _many(story)


def _many(story: Story) -> None:
    path = str(story.out / "long")
    one = pa.table({"n": np.arange(1)})
    lance.write_dataset(one, path)
    done = 0
    for target in story.commits:
        while done < target:
            lance.write_dataset(one, path, mode="append")
            done += 1
        story.step(f"commit at {target}", lambda _: lance.write_dataset(one, path, mode="append"), times=5)
        done += 5
        story.step(f"open at {target}", lambda _: lance.dataset(path), times=20)
        story.step(f"log at {target}", lambda _: lance.dataset(path).versions(), times=3)


if __name__ == "__main__":
    main(tell)
