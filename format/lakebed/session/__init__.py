"""One open dataset: what it reads, the draft that it writes, its lock, and the changes that users make.

Features that compare, copy, merge or repair datasets live above.
"""
