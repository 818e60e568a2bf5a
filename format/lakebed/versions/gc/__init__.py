"""Find and remove garbage: data that no branch, tag, commit, saved view or open reader needs.

Data that was in use within the grace period is never removed.
"""
