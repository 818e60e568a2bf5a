"""Credentials under names: where they are kept and how they are found; one module for each provider.

What a provider finds leaves it as a dictionary whose secrets are covered; no plain text of theirs stays in a frame that
raises.
"""
