"""Two models write their predictions beside the data; their errors compare.

Each model has a branch, so that the data stays as it is; a query finds the
rows that one got right and the other wrong. `lakebed view` draws them.
"""

import numpy as np

import lakebed

rng = np.random.default_rng(0)
truth = rng.integers(0, 3, 2_000)
ds = lakebed.empty("lake/compared", overwrite=True)
ds.create_tensor("x", dtype="float32")
ds.create_tensor("kind", htype="class_label", class_names=["a", "b", "c"])
noise = rng.normal(0, 0.6, (2_000, 3))
x = np.eye(3, dtype="float32")[truth] + noise.astype("float32")
ds.extend({"x": x, "kind": truth.astype("uint32")})
ds.commit("data")

models = {
    "raw": np.argmax,
    "first two": lambda x, axis: x[:, :2].argmax(axis),
}
for name, model in models.items():
    ds.checkout(name, create=True)
    ds.create_tensor_like("guess", ds.kind)
    with ds:
        for batch in lakebed.Loader(ds, 256, tensors=["x"]):
            ds.guess.extend(model(batch["x"], axis=1).astype("uint32"))
    ds.commit(f"predictions of {name}")
    ds.checkout("main")

for name in models:
    guessed = lakebed.load(f"lake/compared@{name}")
    right = guessed.query("SELECT * WHERE guess = kind")
    print(f"{name}: {len(right) / len(guessed):.1%} right")
one, other = (lakebed.load(f"lake/compared@{name}") for name in models)
one = one.guess.numpy() == one.kind.numpy()
other = other.guess.numpy() == other.kind.numpy()
print(f"the first alone is right {(one & ~other).sum()} times")
