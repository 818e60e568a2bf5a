"""Datasets become data sets of other formats: a module for each, which plans, writes and finishes.

Not here: the way in (importers), and copies in the own format (copying).
"""
