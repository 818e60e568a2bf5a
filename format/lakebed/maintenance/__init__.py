"""Datasets that crashes, damage or stale writers left broken: finding it, saving what can be saved.

Opening and writing sound datasets needs nothing from here.
"""
