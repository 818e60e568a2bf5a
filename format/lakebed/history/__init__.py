"""The history of a dataset: log, diff, tags, reset and squash.

Commits and branches are created by `lakebed.session`.
"""
