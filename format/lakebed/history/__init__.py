"""The past of a dataset, and ways back: log, diff, tags, reset, squash.

Commits and branches are made in `lakebed.session`.
"""
