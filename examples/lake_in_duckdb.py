"""DuckDB joins two datasets of a lake with a file, and a view comes back.

Only the columns and chunks that a statement needs are read. Needs duckdb.
"""

import csv
from pathlib import Path

import numpy as np

import lakebed

birds = lakebed.empty("lake/birds", overwrite=True)
birds.create_tensor("ring", dtype="int64")
birds.create_tensor("kind", htype="class_label", class_names=["wren", "kite"])
birds.create_tensor("photo", htype="image", sample_compression="png")
rows = np.arange(200)
birds.extend(
    {
        "ring": rows,
        "kind": rows % 2,
        "photo": [np.full((8, 8, 3), row, np.uint8) for row in rows],
    }
)
seen = lakebed.empty("lake/seen", overwrite=True)
seen.create_tensor("ring", dtype="int64")
seen.create_tensor("wingspan", dtype="float64")
seen.extend({"ring": rows[::3], "wingspan": 0.2 + rows[::3] / 100})
with Path("lake/places.csv").open("w", newline="") as file:
    csv.writer(file).writerows([["ring", "place"], [3, "pier"], [9, "mill"]])

best = lakebed.sql(
    """
    SELECT kind, count(*) AS birds, round(avg(wingspan), 2) AS metres
    FROM lake('lake/birds') JOIN lake('lake/seen') USING (ring)
    LEFT JOIN 'lake/places.csv' USING (ring)
    GROUP BY kind ORDER BY kind
    """
)
print(best)

# Rows by SQL, as a view of the dataset: pictures and all
table = birds.to_duckdb(row_ids=True)
chosen = table.query("birds", "SELECT row_id FROM birds WHERE ring % 50 = 7")
view = birds.view_of(chosen)
view.plot().save("lake/birds.png")
print(f"{len(view)} birds are drawn in lake/birds.png")
