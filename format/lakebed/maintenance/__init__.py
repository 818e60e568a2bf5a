"""Finding and repairing damage of datasets, such as that of crashes and stale writers.

Not needed to open and write sound datasets.
"""
