"""Data sets of other formats become datasets: a module for each format, which recognises, plans, reads and describes.

Not here: how rows are made in parallel and published (transforms), and the way back (exporters).
"""
