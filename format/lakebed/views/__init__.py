"""Saved views: rows of a commit, stored beside the dataset as in Deep Lake 3.x (format.md 12).

Views are tables here; the package `dataset` makes datasets from these tables. Nothing here writes rows of the dataset.
"""
