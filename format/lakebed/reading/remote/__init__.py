"""Reading over a network: which ranges to ask for, many at the same time, and ahead of need.

Without a network between, `lakebed.reading.local_ranges` serves.
"""
