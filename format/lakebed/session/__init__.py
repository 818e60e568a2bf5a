"""One open dataset: what it reads, the draft that it writes, its lock, and the changes that users make.

Packages above this one (`merging`, `history`, `copying` and others) compare, copy, merge and repair datasets.
"""
