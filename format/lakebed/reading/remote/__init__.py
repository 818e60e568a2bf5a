"""Reading over a network: choose ranges, request many at the same time, and read ahead.

For files on this machine, `lakebed.reading.local_ranges` takes its place.
"""
