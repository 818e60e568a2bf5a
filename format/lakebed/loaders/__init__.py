"""Streaming rows into training: the order of samples, reading ahead, batches; `frameworks` has the thin adapters.

Nothing here writes.
"""
