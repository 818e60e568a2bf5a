"""Merges of two lines of history: compare them, settle conflicts, and publish the result in one atomic step.

The rooms below decide what a version holds and how it is published.
"""
