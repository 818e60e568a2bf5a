"""Merges of two lines of history: what changes, where both disagree, and carrying it out as one atomic step.

What a version holds and how it is published is decided below.
"""
