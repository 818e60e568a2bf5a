"""Values -> files of a new version: encode, collect in a draft, pack into chunks, rewrite what changes.

How a version becomes visible is decided in `lakebed.versions`.
"""
