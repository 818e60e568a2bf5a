"""Functions over the items of an input, whose rows go into a dataset: on threads, processes or a cluster, resumable.

Rows become chunks in `writing`, parts are adopted in `session`, and `dataset` has the facade that functions see.
"""
