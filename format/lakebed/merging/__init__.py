"""Merges of two versions: compare both, resolve conflicts, and publish the result in one atomic step.

Packages below this one define what a version contains and how it is published.
"""
