"""Garbage: what no branch, tag, commit, saved view or open reader needs, found and removed.

Nothing here removes what was in use within the grace period.
"""
