"""Importers of other formats: one module for each format, which recognises, plans, reads and describes sources.

`lakebed.transforms` makes the rows in parallel and publishes them; `lakebed.exporters` writes other formats.
"""
