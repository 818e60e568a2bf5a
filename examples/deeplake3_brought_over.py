"""A dataset of Deep Lake 3 is opened, checked, and goes on here.

Nothing is converted: the format is the same, and 3.9.52 opens what is written
here. Scripts change one line, `import lakebed as deeplake`.
"""

import made

import lakebed as deeplake

old = made.deeplake3("lake/old")  # or a folder or bucket that 3.x wrote
ds = deeplake.load(old)
ds.summary()
for commit in ds.commits:
    print(commit["commit"][:8], commit["message"])
findings = deeplake.verify(old, deep=True)
assert findings.is_sound, findings

# A copy with all of its history: 3.x may go on writing to the old place.
ds = deeplake.deepcopy(old, "lake/new", overwrite=True, progressbar=False)
before = ds.max_len
for tensor in ds.tensors.values():
    tensor.append(tensor[0])
ds.commit("the first commit here")

# Checksums, which 3.x does not have, are there from the first write on.
assert deeplake.verify("lake/new", deep=True).is_sound
print(f"{before} rows came, {ds.max_len} are there now")
