"""Versions of an open dataset: commits, branches, tags, diffs, merges, going back.

What is stored, and how it becomes visible, is decided in `lakebed.versions`.
"""
