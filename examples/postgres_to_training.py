"""A table of PostgreSQL becomes a training set; each run adds what is new.

python examples/postgres_to_training.py postgresql://me@db/shop visits

The table has a key `id`, a moment `updated_at`, numbers, and `bought`, which
a small model learns to predict. Needs the extra `postgresql`.
"""

import sys

import numpy as np

import lakebed

address, table = sys.argv[1:]
for run in ("first", "second"):  # every hour, in the life of a program
    report = lakebed.import_from(
        "sql",
        address,
        "lake/visits",
        table=table,
        cursor="updated_at",  # reads what is newer than the last run
        key=["id"],  # a changed row takes the place of the old one
        append=run == "second" or lakebed.exists("lake/visits"),
        progressbar=False,
    )
    print(f"{run} run: {report.written} rows")

ds = lakebed.load("lake/visits")
features = ["minutes", "pages"]
train, test = ds.train_test_split(0.25, seed=1)

weights = np.zeros(len(features) + 1)
for _epoch in range(20):
    for batch in lakebed.Loader(
        train, 64, shuffle=True, seed=1, tensors=[*features, "bought"]
    ):
        x = np.hstack([batch[name] for name in features])
        x = np.hstack([x, np.ones((len(x), 1))])
        error = 1 / (1 + np.exp(-x @ weights)) - batch["bought"].ravel()
        weights -= 0.1 * x.T @ error / len(x)

x = np.stack([test[name].numpy().ravel() for name in features], axis=1)
guessed = np.hstack([x, np.ones((len(x), 1))]) @ weights > 0
right = (guessed == test["bought"].numpy().ravel()).mean()
print(f"{len(ds)} rows, {right:.0%} of the {len(test)} unseen ones right")
