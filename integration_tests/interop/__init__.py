"""Deep Lake 3.9.52, in an environment of its own, on datasets of ours; `make interop` runs it."""
