"""Repair of datasets that crashes, damage or stale writers left broken: finding damage, saving the rest.

Opening and writing sound datasets needs nothing from here.
"""
