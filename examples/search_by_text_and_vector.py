"""Texts and pictures are found by words, by vectors, and by both.

The vectors are histograms of colours here; those of a model go the same way.
Needs the extra `search` for the index of vectors.
"""

import json
from pathlib import Path

import numpy as np

import lakebed

folder = Path(__file__).resolve().parent.parent / "demo" / "photos"
rows = json.loads((folder / "photos.json").read_text(encoding="utf-8"))


def vector(pixels):
    """Return the histogram of the colours of a picture."""
    flat = pixels.reshape(-1, 3)
    counts, _ = np.histogramdd(flat, bins=(4, 4, 4), range=[(0, 256)] * 3)
    return (counts / np.linalg.norm(counts)).ravel().astype("float32")


ds = lakebed.empty("lake/searched", overwrite=True)
ds.create_tensor("photo", htype="image", sample_compression="jpeg")
ds.create_tensor("what", htype="text")
ds.create_tensor("colours", htype="embedding")
with ds:
    for row in rows:
        photo = lakebed.read(folder / row["file"])
        words = f"{row['kind']}: {', '.join(row['objects'])}"
        colours = vector(photo.array)
        ds.append({"photo": photo, "what": words, "colours": colours})
ds.commit("photos with words and vectors")
ds.create_index("what", "bm25", progressbar=False)
ds.create_index("colours", "hnsw", progressbar=False)

like_the_first = ds.colours[0].numpy()
found = ds.query(
    """
    SELECT * ORDER BY RRF(
        BM25_SIMILARITY(what, 'dog on a couch'),
        COSINE_SIMILARITY(colours, ?)
    ) DESC LIMIT 3
    """,
    parameters=[like_the_first],
)
for text in found.what.text():
    print(text)
found.plot().save("lake/found.png")
print("rows", list(found.sample_indices), "are drawn in lake/found.png")
