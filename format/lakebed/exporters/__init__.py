"""Export of datasets to other formats: each format is a module that plans, writes and finishes an export.

Imports are in `importers`, copies in lakebed's own format in `copying`.
"""
