"""Datasets become data sets of other formats: a module for each, which plans, writes and finishes.

Imports are in `importers`, copies in lakebed's own format in `copying`.
"""
