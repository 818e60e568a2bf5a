"""Detection and repair of damage to datasets, caused for example by crashes and stale writers.

Not needed to open and write sound datasets.
"""
