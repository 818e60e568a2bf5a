"""A folder of pictures is cleaned, corrected, split and versioned.

Broken files stay out by themselves and are named; copies are dropped, a
wrong label is corrected on a branch, and the split is kept with the data.
"""

import hashlib

import made

import lakebed

root = made.folder_of_classes("lake/folder")  # or the folder that you have
report = lakebed.import_from(
    "folder", root, "lake/clean", overwrite=True, progressbar=False
)
print(f"{report.written} files came in, {report.skipped} could not be read")
ds = report.dataset
first = ds.commits[0]["commit"]  # as it came

# Copies, by the bytes of the files
sums = [hashlib.sha256(one.tobytes()).hexdigest() for one in ds.images]
ds["sum"] = sums
kept = ds.drop_duplicates("sum").sample_indices
ds.remove([row for row in range(len(ds)) if row not in set(kept)])
ds.commit(f"{len(sums) - len(ds)} copies removed")

# Labels, by what the pictures show
ds.checkout("labels", create=True)
names = ds.labels.info.class_names
for row, photo in enumerate(ds.images):
    red, _, blue = photo.numpy().mean(axis=(0, 1))
    right = names.index("red" if red > blue else "blue")
    if ds.labels[row].numpy()[0] != right:
        ds.labels[row] = right
ds.commit("labels by colour")
ds.checkout("main")
ds.merge("labels")

train, test = ds.train_test_split(0.25, seed=1, stratify="labels")
ds.save_split("train", train)
ds.save_split("test", test)
ds.create_tag("v1", ds.commit("split"))

test.plot(rows=4).save("lake/clean.png")
before, after = (
    lakebed.load(f"lake/clean@{first}"),
    lakebed.load("lake/clean@v1"),
)
print(
    before["labels"].value_counts(), "became", after["labels"].value_counts()
)
