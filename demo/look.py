"""Look at photos, look.py DATASET PICTURE: draw some with their boxes into one file, and find those of like colours."""

from __future__ import annotations

import sys

import numpy as np

import lakebed


def main(address: str, picture: str) -> None:
    """Draw, fetch one by its link, search."""
    ds = lakebed.load(address, read_only=True)
    drawn = ds.plot("photo", ["boxes"], rows=12)
    drawn.save(picture)
    print(f"{picture}: {len(ds)} photos with their boxes, {drawn.width} x {drawn.height}")

    here, there = ds.photo[0].numpy(), ds.linked[0].numpy()
    print(f"photo 0 as stored, {here.shape}, and as fetched by its link: equal {np.array_equal(here, there)}")

    vectors = ds.colours.numpy()  # of length 1, so that products are cosines
    likeness = vectors @ vectors[0]
    kinds = [name for (name,) in ds.kind.data()["text"]]
    for row in np.argsort(-likeness)[1:4]:
        print(
            f"colours like those of photo 0 ({kinds[0]}): photo {row} ({kinds[row]}), cosine {likeness[row]:.3f}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
