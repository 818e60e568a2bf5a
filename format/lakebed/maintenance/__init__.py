"""Detection and repair of damage to datasets, caused for example by crashes and stale writers.

Programs that only open and write sound datasets do not need this package.
"""
