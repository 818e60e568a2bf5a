"""COCO becomes a dataset with boxes and masks, from which a detector learns.

Written as for Deep Lake 3: a function for each picture, in parallel, with
checkpoints; a run that was cut off goes on by the same call. For a folder as
it is, `lakebed import coco FOLDER LAKE` does this. Needs pycocotools.
"""

import made
import numpy as np
from pycocotools.coco import COCO

import lakebed as deeplake

root = made.coco("lake/coco")  # or the folder that you have
coco = COCO(root / "annotations/instances_train2017.json")
names = [one["name"] for one in coco.loadCats(coco.getCatIds())]
ids = coco.getCatIds()

ds = deeplake.empty("lake/balls", overwrite=True)
ds.create_tensor("images", htype="image", sample_compression="jpg")
ds.create_tensor("categories", htype="class_label", class_names=names)
coords = {"type": "pixel", "mode": "LTWH"}
ds.create_tensor("boxes", htype="bbox", coords=coords)
ds.create_tensor("masks", htype="binary_mask", sample_compression="lz4")


@deeplake.compute
def coco_2_deeplake(image_id, sample_out):
    """Write one picture with its objects."""
    objects = coco.loadAnns(coco.getAnnIds(image_id))
    (image,) = coco.loadImgs(image_id)
    masks = [coco.annToMask(one).astype(bool) for one in objects]
    sample_out.append(
        {
            "images": deeplake.read(root / "train2017" / image["file_name"]),
            "categories": [ids.index(one["category_id"]) for one in objects],
            "boxes": np.array([one["bbox"] for one in objects], "float32"),
            "masks": np.stack(masks, axis=-1),
        }
    )


coco_2_deeplake().eval(
    coco.getImgIds(), ds, checkpoint_interval=12, scheduler="threaded",
    num_workers=2, progressbar=False,
)  # fmt: skip
ds.commit("COCO")

train, test = ds.random_split([0.75, 0.25], seed=1)
weights = np.zeros(4)  # of red, green, blue and 1: is a pixel an object's?
for batch in deeplake.Loader(train, 6, shuffle=True, seed=1):
    x = batch["images"].reshape(-1, 3) / 255 - 0.5
    x = np.hstack([x, np.ones((len(x), 1))])
    for _step in range(60):
        error = 1 / (1 + np.exp(-x @ weights)) - batch["masks"].ravel()
        weights -= 2 * x.T @ error / len(x)

overlaps = []
for row in test:
    pixels = row.images.numpy() / 255 - 0.5
    ys, xs = np.nonzero(pixels @ weights[:3] + weights[3] > 0)
    first, last = np.percentile([xs, ys], [2, 98], axis=1)
    corner, size = np.split(row.boxes.numpy()[0], 2)
    shared = np.minimum(last, corner + size) - np.maximum(first, corner)
    shared = shared.clip(0).prod()
    overlaps.append(shared / ((last - first).prod() + size.prod() - shared))
test.plot(rows=4).save("lake/balls.png")
print(f"{len(test)} boxes are found, and overlap by {np.mean(overlaps):.0%}")
