"""What happened to a dataset, and going back: log, diff, tags, reset, squash.

Commits and branches are made in `lakebed.session`.
"""
