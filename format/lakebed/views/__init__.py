"""Saved views: which rows of which commit, stored beside the dataset as Deep Lake 3.x stores them (FORMAT.md 12).

A view comes as a table and leaves as one. What users are given of it is the facade's; nothing here writes the dataset.
"""
